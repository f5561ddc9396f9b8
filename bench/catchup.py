"""What does one stored item cost? A catch-up into SQLite and PostgreSQL beside what a user would write and the limit.

`python -m bench.catchup` measures and writes `docs/performance.md`. All programs read the same ids from one
simulated provider on loopback, one after the other, several times; each runs as a process of its own. The cost is the
program's own processor time per item without its start-up, so it depends less on what else runs. Trust the ratios.
"""

import argparse
import asyncio
import json
import os
import platform
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

import trustme

from bench import shared_gate
from bench.other_results import OTHERS
from bench.postgres import new_server
from bench.quiet import QUIET_STOLEN, ROOT, stolen_s, stolen_share
from bench.rivals import IN_FLIGHT
from tests.postgres_server import PostgresServer
from tests.warm_start import warm_up

SOURCE: Final = "hackernews"
PAGE: Final = ROOT / "docs" / "performance.md"
CHART: Final = ROOT / "docs" / "performance.svg"
# High enough that the program itself is what limits it.
CEILING_PER_S: Final = 100_000
PEAK: Final = re.compile(r"VmHWM:\s+(\d+) kB")
PEAK_EVERY_S: Final = 0.05
CA_FILE: Final = "authority.pem"
PARTS: Final = ("aiohttp", "httptools", "msgspec", "uvloop")

TLS: Final = ", TLS"  # ends the name of a program that reads over TLS
LIMIT: Final = "bare httptools loop, stores nothing"
NAIVE: Final = "aiohttp + semaphore + sqlite3"
REMORA: Final = "Remora, SQLite"
POSTGRES: Final = "Remora, PostgreSQL"
WARM: Final = "--warm"  # the provider makes every body beforehand
SCRAPY: Final = "Scrapy + sqlite3"
DLT: Final = "dlt + DuckDB"
# Frameworks are no dependencies: each runs in an environment of its own, if this variable names its Python.
PYTHON_OF: Final = {SCRAPY: "SCRAPY_PYTHON", DLT: "DLT_PYTHON"}
# A run from which the host takes processors is done again, so many times at most.
TRIES: Final = 5
FRAMEWORK_ITEMS: Final = 10  # they read one item in this many: they cost that much more
# The words that start a program: for the provider's address, a folder of its own and so many items.
Command = Callable[[str, Path, int], Sequence[str]]


@dataclass
class Measured:
    """What the rounds of one program gave."""

    start_cpu_s: float = float("inf")  # of a run over one item
    start_s: float = float("inf")
    cpu_us: list[float] = field(default_factory=list)  # per item, without the start
    items_per_s: list[float] = field(default_factory=list)  # without the start
    peak_mb: float = 0.0

    @property
    def speed(self) -> float:
        """Items per second, the middle round."""
        return statistics.median(self.items_per_s)

    @property
    def cost_us(self) -> float:
        return statistics.median(self.cpu_us)


def authority(folder: Path) -> Path:
    """An authority of our own with a certificate for loopback; gives the file with the certificate and its key."""
    ours = trustme.CA()
    ours.cert_pem.write_to_path(str(folder / CA_FILE))
    ours.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
    return folder / "server.pem"


@contextmanager
def provider(items: int, *options: str) -> Iterator[str]:
    """A simulated provider whose world stands still; gives its address."""
    words = [
        sys.executable,
        "-m",
        "remora.sim.server",
        "--items",
        str(items),
        "--until-eof",
        "--speed",
        "0",
        *options,
    ]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:  # noqa: S603  our own module
        assert server.stdout is not None
        yield json.loads(server.stdout.readline())["url"] + "/"
        server.communicate()


def compiling() -> dict[str, str]:
    """The environment of a program as after an installation: modules are compiled once, whatever this shell says."""
    names = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {"PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / f"bench-compiled-{os.getuid()}"), **names}


def spent(command: Sequence[str], *, checkout: Path = ROOT) -> tuple[float, float, float]:
    """Processor seconds, wall seconds and peak megabytes of a command that must succeed."""
    environment = compiling()
    if checkout != ROOT:
        environment["PYTHONPATH"] = f"{checkout / 'src'}{os.pathsep}{checkout}"
    began_s = time.monotonic()
    with subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=checkout, env=environment
    ) as process:
        assert process.stderr is not None
        with ThreadPoolExecutor(1) as pool:
            peak = pool.submit(peak_mb, process.pid)
            told = process.stderr.read()
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{told.decode()[-2_000:]}")
    return used.ru_utime + used.ru_stime, time.monotonic() - began_s, peak.result()


def peak_mb(pid: int) -> float:
    """Watch a process until it ends. What the system adds up for a child begins with the memory of its parent."""
    peak = 0.0
    with suppress(OSError):  # it has ended, and nobody has waited for it or somebody has
        while found := PEAK.search(Path(f"/proc/{pid}/status").read_text()):
            peak = int(found[1]) / 1024
            time.sleep(PEAK_EVERY_S)
    return peak


def remora(url: str, folder: Path, items: int) -> Sequence[str]:
    """The command as a user types it, on a store that an earlier run left with a learned pace."""
    path = folder / "mirror.db"
    asyncio.run(warm_up(path, SOURCE, CEILING_PER_S))
    return catching_up(url, folder, items, f"sqlite:///{path}")


def into_postgres(server: PostgresServer) -> Command:
    """The same with a new database, the only one on this server: what is done in the background is done for it."""

    def command(url: str, folder: Path, items: int) -> Sequence[str]:
        server.drop_database(SOURCE)
        server.create_database(SOURCE)
        store = server.url(SOURCE)
        asyncio.run(shared_gate.prepare(store, CEILING_PER_S, SOURCE))
        return catching_up(url, folder, items, store)

    return command


def catching_up(url: str, folder: Path, items: int, store: str) -> Sequence[str]:
    """The command's words, with their settings in this folder."""
    settings = folder / "remora.toml"
    trusts = f'ca_file = "{folder.parent / CA_FILE}"' if url.startswith("https") else ""
    settings.write_text(f'[sources.{SOURCE}]\nurl = "{url}"\nceiling = "{CEILING_PER_S}/s"\n{trusts}\n')
    words = ["catchup", "--config", str(settings), "--store", store]
    program = Path(sys.executable).parent / "remora"
    return [str(program), *words, "--start-id", "1", "--limit", str(items), "--json"]


def rival(name: str) -> Command:
    """One of the programs in `bench/rivals.py`."""

    def command(url: str, folder: Path, items: int) -> Sequence[str]:
        return [sys.executable, "-m", "bench.rivals", name, url, str(folder / "rows.db"), "1", str(items)]

    return command


def framework(name: str) -> Command | None:
    """One of the programs in `bench/frameworks.py`; None if the framework cannot be run here."""
    python, module = os.environ.get(PYTHON_OF[name], ""), name.partition(" ")[0].lower()
    if not python or subprocess.run([python, "-c", f"import {module}"], check=False).returncode:  # noqa: S603  the owner's own
        print(f"not measured: {name}; {PYTHON_OF[name]} must name a Python that has it", file=sys.stderr)
        return None
    child = str(ROOT / "bench" / "frameworks.py")
    return lambda url, folder, items: [python, child, module, url, str(folder / "rows.db"), "1", str(items)]


@contextmanager
def database() -> Iterator[dict[str, Command]]:
    """The program that needs a PostgreSQL, while one runs; none if this machine has no programs for it."""
    server = new_server(fsync=True)
    if server is None:
        print(f"not measured: {POSTGRES}; `make test` fetches the programs of a PostgreSQL", file=sys.stderr)
        yield {}
        return
    with server:
        yield {POSTGRES: into_postgres(server)}


PROGRAMS: Final[Mapping[str, Command]] = {
    LIMIT: rival("limit"),
    NAIVE: rival("naive"),
    REMORA: remora,
}


def measure(items: int, rounds: int) -> dict[str, Measured]:
    """All programs, plain and over TLS, interleaved: what else runs on the machine meets each of them."""
    found = {name: command for name in PYTHON_OF if (command := framework(name)) is not None}
    with (
        database() as shared,
        tempfile.TemporaryDirectory(prefix="bench-") as place,
        provider(items, WARM) as plain,
        provider(items, WARM, "--tls", str(authority(Path(place)))) as secure,
    ):
        programs = {**PROGRAMS, **shared, **found}
        results = {name: Measured() for name in (*programs, *(name + TLS for name in PROGRAMS))}
        for number in range(-1, rounds):  # the first round has one item: it gives the start-up, and compiles modules
            for name, result in results.items():
                url, make = (secure if name.endswith(TLS) else plain), programs[name.removesuffix(TLS)]
                count = max(1, items // FRAMEWORK_ITEMS) if name in found else items
                one_round(result, partial(make, url), count, number, Path(place))
                print(f"round {number + 1} of {rounds}: {name}", file=sys.stderr)
    return results


def one_round(
    result: Measured, command: Callable[[Path, int], Sequence[str]], items: int, number: int, place: Path
) -> None:
    """One run; round -1 measures the start-up alone, the better of two."""
    for _ in range(2 if number < 0 else 1):
        cpu_s, wall_s, peak_mb = undisturbed(command, 1 if number < 0 else items, place)
        if number < 0:
            result.start_cpu_s, result.start_s = min(result.start_cpu_s, cpu_s), min(result.start_s, wall_s)
        else:
            result.cpu_us.append((cpu_s - result.start_cpu_s) / items * 1e6)
            result.items_per_s.append(items / (wall_s - result.start_s))
            result.peak_mb = max(result.peak_mb, peak_mb)


def undisturbed(command: Callable[[Path, int], Sequence[str]], items: int, place: Path) -> tuple[float, float, float]:
    """What a run took from which the host took hardly anything; the last try if there is none."""
    tries = 0
    while True:
        tries += 1
        folder = Path(tempfile.mkdtemp(dir=place))
        try:
            words, before_s = command(folder, items), stolen_s()
            cpu_s, wall_s, peak_mb = spent(words)
        finally:
            shutil.rmtree(folder)
        stolen = stolen_share(stolen_s() - before_s, wall_s)
        if stolen <= QUIET_STOLEN or tries == TRIES:
            return cpu_s, wall_s, peak_mb
        print(f"the host took {stolen:.0%} of the processors; again", file=sys.stderr)


def by_round(over: Sequence[float], under: Sequence[float]) -> list[float]:
    """The ratio in each round: what ran one after the other is more alike than what ran at another time."""
    return [one / other for one, other in zip(over, under, strict=True)]


def table(results: Mapping[str, Measured]) -> str:
    """Ratios first, each to a program on the same kind of connection."""

    def to(other: str, name: str) -> str:
        beside = results.get(other + (TLS if name.endswith(TLS) else ""))
        return "–" if beside is None else f"{statistics.median(by_round(beside.cpu_us, results[name].cpu_us)):.2f}"

    lines = [
        "| | speed ÷ naive | ÷ limit | ÷ Scrapy | ÷ dlt | CPU-µs per item (spread) | items/s | start-up, CPU s | peak MB |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {name} | {to(NAIVE, name)} | {to(LIMIT, name)} | {to(SCRAPY, name)} | {to(DLT, name)} "
        f"| {one.cost_us:,.0f} ({min(one.cpu_us):,.0f} to {max(one.cpu_us):,.0f}) "
        f"| {one.speed:,.0f} | {one.start_cpu_s:.2f} | {one.peak_mb:,.0f} |"
        for name, one in results.items()
    ]
    return "\n".join(lines)


def chart(results: Mapping[str, Measured]) -> str:
    """CPU-µs per item as bars."""
    most = max(one.cost_us for one in results.values())
    rows = []
    for number, (name, one) in enumerate(results.items()):
        y, width = 30 + 34 * number, 380 * one.cost_us / most
        fill = "#2f6fde" if name.startswith((REMORA, POSTGRES)) else "#9aa4b2"
        rows.append(f'<text x="250" y="{y + 15}" text-anchor="end">{name}</text>')
        rows.append(f'<rect x="260" y="{y}" width="{width:.0f}" height="22" fill="{fill}"/>')
        rows.append(f'<text x="{266 + width:.0f}" y="{y + 15}">{one.cost_us:,.0f} µs</text>')
    height = 50 + 34 * len(results)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {height}" font-family="sans-serif" font-size="12">\n'
        '<rect width="100%" height="100%" fill="white"/>\n'
        '<text x="10" y="18" font-size="13">Processor time per stored item (less is better)</text>\n'
        + "\n".join(rows)
        + "\n</svg>\n"
    )


def machine() -> str:
    """What it ran on, and beside what."""
    parts = ", ".join(f"{name} {version(name)}" for name in PARTS)
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), load {load}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, {parts}"
    )


def beside_sqlite(results: Mapping[str, Measured]) -> str:
    """How near the PostgreSQL store comes to the SQLite store."""
    if POSTGRES not in results:
        return ""
    ours, other = results[POSTGRES], results[REMORA]
    stored = by_round(ours.items_per_s, other.items_per_s)
    cheaper = statistics.median(by_round(other.cpu_us, ours.cpu_us))
    return (
        f"\nInto PostgreSQL on the same machine a catch-up stores {statistics.median(stored):.2f} times as many items a second as into "
        f"SQLite\n({min(stored):.2f} to {max(stored):.2f}), with {cheaper:.2f} times the speed by Remora's own processor time. What the "
        "server's processes use comes on top of it.\n"
    )


def missing(results: Mapping[str, Measured]) -> str:
    """What could not be measured."""
    names = [name for name in (POSTGRES, *PYTHON_OF) if name not in results]
    return f" Not measured in this run: {' and '.join(names)}." if names else ""


def page(results: Mapping[str, Measured], items: int, rounds: int) -> str:
    """The page of the docs."""
    return f"""# Performance

What does one stored item cost? `make bench` measures it on your machine; `python -m bench.catchup` writes this page. All programs read the same {items:,} items of about half a kilobyte from a simulated provider on loopback, {IN_FLIGHT} or
more requests in flight, {rounds} rounds, interleaved. The naive program is what a user would write without Remora
(`bench/rivals.py`): it keeps no ledger, learns no pace, and loses its place in a crash. The limit parses the answers and
stores nothing.

{table(results)}

![Processor time per stored item](performance.svg)

Measured on {machine()}. A busy machine makes every number larger; the ratios, of
which the middle round is shown, are what to compare. Runs from which the host took more than {100 * QUIET_STOLEN:.0f} % of the processors' time are
done again. Start-up is measured with a run over one item and taken out of the cost per item and of the items per second.

Over TLS the provider has a certificate of an authority made for the run; Remora verifies it, the others do not. Remora may open up to
256 connections and the others 64, so in a short run its handshakes weigh more. All but the first of them resume the TLS session.
{beside_sqlite(results)}
Scrapy and dlt are no dependencies. They run in environments of their own, which `SCRAPY_PYTHON` and `DLT_PYTHON` name, and read one
item in {FRAMEWORK_ITEMS} (`bench/frameworks.py`).{missing(results)}
`python -m bench postgres` measures the PostgreSQL store, `python -m bench wire` the gate and the transport at several rates, `python -m bench store` the SQLite store alone.

{OTHERS}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--items", type=int, default=15_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only-print", action="store_true", help="leave docs/performance.md and its chart as they are")
    arguments = parser.parse_args()
    results = measure(arguments.items, arguments.rounds)
    print(f"{machine()}\n\n{table(results)}\n{missing(results)}")
    if not arguments.only_print:
        PAGE.write_text(page(results, arguments.items, arguments.rounds), encoding="utf-8")
        CHART.write_text(chart(results), encoding="utf-8")


if __name__ == "__main__":
    main()
