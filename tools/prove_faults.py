"""Does a running `up` survive what a real machine does to it? `python -m tools.prove_faults --record`.

Each fault (tools/real_faults.py) is applied to a real process that mirrors a simulated provider on loopback, and taken away.
Then the process must complete the mirror and end on request. If it ended before, the next one must. Afterwards the store is
whole, equals the provider, nothing is in it twice, and no window of arrivals exceeds the ceiling.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from remora.core.errors import RemoraError
from remora.sim.checks import compare
from tests.processes import WAIT_S, kill, too_early_ns
from tools.faults_rig import Rig
from tools.prove_kills import commit
from tools.real_faults import CASES, Case, rigged

RECORD: Final = Path("docs/reliability-faults.json")
TOGETHER: Final = 3
BEFORE_S: Final = 8  # so many seconds of work are done when the fault begins
AFTER_S: Final = 15  # and so many are left when it ends, if the process works all the time
COMPLETE_S: Final = 400.0
UP: Final = ("up", "--listen", "127.0.0.1:0")


class Faulted(msgspec.Struct, frozen=True, kw_only=True):
    """What one fault did."""

    date: str
    commit: str
    fault: str
    store: str
    expected: str
    seconds: float
    observed: list[str]
    violations: list[str]


def main() -> int:
    """Exit code 1 where a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tools.prove_faults")
    parser.add_argument("--only", default="", help="faults with this in their name")
    parser.add_argument("--store", default="", help="faults on this store")
    parser.add_argument("--seconds", type=float, help="for each fault, instead of its own time")
    parser.add_argument("--together", type=int, default=TOGETHER, help=f"faults at a time (default {TOGETHER})")
    parser.add_argument("--record", action="store_true", help=f"write the results into {RECORD}")
    options = parser.parse_args()
    chosen = [case for case in CASES if options.only in case.name and options.store in case.store]
    done = suffer_all(chosen, seconds=options.seconds, together=options.together, record=options.record)
    return 1 if any(one.violations for one in done) else 0


def suffer_all(cases: Sequence[Case], *, seconds: float | None, together: int, record: bool) -> list[Faulted]:
    """Some at a time, because most of a fault is waiting. Each is recorded when it is done."""
    done, at = [], commit()  # once: the first record changes the working directory
    with ThreadPoolExecutor(together) as pool:
        running = {pool.submit(suffer, case, seconds=seconds or case.seconds, at=at): case for case in cases}
        for ended in as_completed(running):
            one = ended.result()
            done.append(one)
            print(
                f"faults: {one.fault} on {one.store}: {one.violations or 'well'}; {'; '.join(one.observed)}", flush=True
            )
            if record:
                keep(one)
    return done


def suffer(case: Case, *, seconds: float, at: str = "unknown") -> Faulted:
    """One fault, from an empty mirror to a complete one."""
    seen, violations = [], []
    try:
        work_s = BEFORE_S + AFTER_S + (seconds if case.works_on else 0)
        with rigged(case, items=round(case.per_s * work_s), seconds=seconds) as rig:
            seen, violations = rig.seen, rig.violations
            _suffer(case, rig)
    except (AssertionError, OSError, subprocess.SubprocessError, RuntimeError, RemoraError) as error:
        violations.append(f"{type(error).__name__}: {error}"[:300])
    return Faulted(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        commit=at,
        fault=case.name,
        store=case.store,
        expected=case.expected,
        seconds=seconds,
        observed=seen,
        violations=violations,
    )


def _suffer(case: Case, rig: Rig) -> None:
    processes = [rig.start(*UP)]
    try:
        if case.with_worker:
            processes.append(rig.start("worker"))
        before = BEFORE_S * case.per_s
        assert rig.until(lambda: rig.held() >= before, processes[-1], within_s=WAIT_S), "it did not begin"
        with case.fault(rig, processes[-1]):
            time.sleep(rig.seconds)
            rig.saw(f"status: {rig.headline()}")
        _complete(rig, processes)
    finally:
        for process in processes:
            if process.poll() is None:
                kill(process)
    rig.violations.extend([*rig.integrity(), *_different(rig), *_too_fast(rig)])


def _complete(rig: Rig, processes: "list[subprocess.Popen[bytes]]") -> None:
    """The first process must complete the mirror; where the fault ended it, the next one."""
    truth = len(rig.provider.dump())
    began_s = time.monotonic()
    if (
        not rig.until(lambda: rig.held() >= truth, processes[0], within_s=COMPLETE_S)
        and processes[0].poll() is not None
    ):
        code, words = rig.end(processes[0])
        rig.saw(f"ended with exit code {code}: {words}; another process was started")
        processes[0] = rig.start(*UP)
        rig.until(lambda: rig.held() >= truth, processes[0], within_s=COMPLETE_S)
    rig.saw(f"complete {time.monotonic() - began_s:.0f} s after the fault")
    for process in processes:
        code, words = rig.end(process)
        rig.saw(f"exit code {code}: {words}")
        if code != 0:
            rig.violate(f"a process that was asked to stop ended with exit code {code}: {words}")
    rig.violations.extend(rig.tracebacks())


def _different(rig: Rig) -> list[str]:
    different = compare(rig.remora.bodies(), rig.provider.dump())
    return [f"{len(different)} differences between mirror and provider, the first: {different[0]}"] if different else []


def _too_fast(rig: Rig) -> list[str]:
    early_ns = too_early_ns(rig.provider.arrivals()[0], 1_000_000_000 // rig.ceiling_per_s)
    return [f"the ceiling was exceeded by {early_ns / 1e6:.0f} ms"] if early_ns > 0 else []


def read() -> list[Faulted]:
    """The latest run of each fault."""
    return msgspec.json.decode(RECORD.read_bytes(), type=list[Faulted]) if RECORD.exists() else []


def keep(one: Faulted) -> None:
    """In the place of an earlier run of the same fault."""
    rows = {(row.fault, row.store): row for row in read()} | {(one.fault, one.store): one}
    order = [(case.name, case.store) for case in CASES]
    kept = [rows[key] for key in order if key in rows]
    RECORD.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")


if __name__ == "__main__":
    sys.exit(main())
