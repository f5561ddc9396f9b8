"""Is a process judged by its own clock, which runs on when the system clock jumped ahead and was corrected?"""

from datetime import datetime

import msgspec

from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.status.model import SourceStatus, Unknown, YesNo
from remora.core.status.readout import is_alive, read_out
from remora.core.status.snapshot import Beat, LedgerFacts, LoopFacts, Role, Snapshot, SourceFacts
from remora.core.units import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS

NOW_NS = 1_800_000_000 * SECOND_NS
AHEAD_NS = 2 * HOUR_NS
NAME = "hackernews"
LEDGER = LedgerFacts(kind=NAME, coverage=Coverage((IdRange(1, 100),)), newest_id=100)


def at(time: str) -> int:
    """A moment of the day whose 8 o'clock is now."""
    return int(datetime.fromisoformat(f"2027-01-15T{time}+00:00").timestamp()) * SECOND_NS


def ahead(*, age_ns: int = 0, newest_age_ns: int = SECOND_NS) -> Beat:
    """A heartbeat of a process whose clock is two hours ahead."""
    theirs_ns = NOW_NS + AHEAD_NS
    facts = SourceFacts(newest_id=100, newest_id_at_ns=theirs_ns - newest_age_ns, loops={"live": LoopFacts(alive=True)})
    snapshot = Snapshot(
        role=Role.SERVICE, started_at_ns=theirs_ns - DAY_NS, clock_ahead_ns=AHEAD_NS, sources={NAME: facts}
    )
    return Beat(theirs_ns - age_ns, snapshot)


def told(beat: Beat, *, now_ns: int = NOW_NS) -> SourceStatus:
    return read_out([beat], {NAME: LEDGER}, now_ns=now_ns).sources[NAME]


def test_a_process_whose_clock_is_ahead_runs() -> None:
    assert is_alive(ahead(), now_ns=NOW_NS)
    assert told(ahead()).state == "running"
    (runtime,) = read_out([ahead()], {NAME: LEDGER}, now_ns=NOW_NS).runtimes
    assert runtime.alive


def test_it_also_runs_for_a_reader_with_the_same_clock() -> None:
    assert told(ahead(), now_ns=NOW_NS + AHEAD_NS).state == "running"


def test_an_old_answer_is_not_young_because_a_clock_is_ahead() -> None:
    assert told(ahead()).answers.fresh.answer is YesNo.YES
    old = told(ahead(newest_age_ns=30 * MINUTE_NS)).answers.fresh
    assert old.answer is YesNo.NO
    assert "30 min" in old.reason


def test_a_silent_process_whose_clock_was_ahead_is_told_with_the_time_of_this_clock() -> None:
    for since in ("07:59:00", "06:10:00"):
        status = told(ahead(age_ns=NOW_NS - at(since)))
        assert status.state == "silent"
        assert status.headline.text == f"Unknown: no heartbeat from the service since 2027-01-15T{since}.000Z"


def test_a_process_that_ended_while_its_clock_was_ahead_is_told_with_the_time_of_this_clock() -> None:
    beat = ahead(age_ns=MINUTE_NS)
    ended = msgspec.structs.replace(beat.snapshot, ended_at_ns=beat.at_ns, ended_because="on request")
    status = told(Beat(beat.at_ns, ended))
    assert status.state == "stopped"
    assert isinstance(status.rate, Unknown)
    assert status.rate.reason == "the service ended (on request) at 2027-01-15T07:59:00.000Z"


def test_a_heartbeat_of_an_earlier_version_has_a_clock_that_is_not_ahead() -> None:
    fields = msgspec.to_builtins(ahead().snapshot)
    del fields["clock_ahead_ns"]
    assert msgspec.convert(fields, Snapshot).clock_ahead_ns == 0
