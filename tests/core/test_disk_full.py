"""Is a full disk told as what it is, before everything that follows from it?"""

import msgspec
import pytest

from remora.core.status.alarms import Alarm, with_alarms
from remora.core.status.disk_full import full_disk, with_disk
from remora.core.status.health import Severity, severity
from remora.core.status.model import Attention, Disk, Standing, Status, Unknown, YesNo
from remora.core.status.readout import read_out
from remora.core.units import HOUR_NS
from tests.core.test_readout import NAME, NOW_NS, beat, ledger

FULL = Disk(size_bytes=233_000, free_bytes=14_400_000, kept_free_bytes=268_435_456)
ROOM = msgspec.structs.replace(FULL, free_bytes=10**9)


def status(*, silent: bool, ended: bool = False) -> Status:
    return read_out([beat(age_ns=HOUR_NS if silent else 0, ended=ended)], {NAME: ledger()}, now_ns=NOW_NS)


@pytest.mark.parametrize("silent", [True, False])
def test_a_full_disk_needs_a_person_and_says_what_to_do(silent: bool) -> None:
    told = with_alarms(with_disk(status(silent=silent), FULL))
    source = told.sources[NAME]
    assert source.headline.standing is Standing.ATTENTION
    assert source.headline.text == (
        "Needs attention: the disk is full: 14.4 MB free, and 268 MB are kept free; make room, and it goes on by itself"
    )
    assert (source.answers.working.answer, source.answers.working.attention) == (YesNo.NO, Attention.ACT)
    assert source.alarms == (Alarm.NOT_WORKING,)
    assert severity(told) is Severity.CRITICAL


def test_what_could_not_store_its_first_heartbeat_is_not_called_never_started() -> None:
    source = read_out([], {NAME: ledger()}, now_ns=NOW_NS, disk=FULL).sources[NAME]
    assert source.state == "silent"
    assert isinstance(source.rate, Unknown)
    for reason in (source.rate.reason, source.answers.fresh.reason, source.answers.polite.reason):
        assert reason == "no heartbeat can be stored while the disk is full"
    assert b"no process has worked" not in msgspec.json.encode(source)


def test_with_room_nothing_changes_but_the_room() -> None:
    before = status(silent=False)
    assert with_disk(before, ROOM) == msgspec.structs.replace(before, disk=ROOM)
    assert with_disk(before, None) == before


def test_what_was_stopped_is_not_called_broken_by_a_full_disk() -> None:
    assert (
        with_disk(status(silent=True, ended=True), FULL)
        .sources[NAME]
        .answers.working.reason.startswith("the service ended")
    )


@pytest.mark.parametrize("disk", [None, Disk(), Disk(free_bytes=1), ROOM])
def test_a_disk_that_nobody_measured_is_not_called_full(disk: Disk | None) -> None:
    assert full_disk(disk) is None
