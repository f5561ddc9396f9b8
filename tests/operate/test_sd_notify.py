"""Does systemd hear the three words, and are its units sound?"""

import asyncio
import socket
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import pytest

from remora.operate.observe.sd_notify import READY, STOPPING, WATCHDOG, notify, told_to_systemd, watchdog_every_s

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The other end of the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(5)
        yield listening


def heard(manager: socket.socket) -> list[str]:
    manager.setblocking(False)
    words = []
    while True:
        try:
            words.append(manager.recv(100).decode())
        except BlockingIOError:
            return words


async def test_systemd_hears_ready_alive_and_stopping_in_this_order(manager: socket.socket) -> None:
    environment = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "40000"}
    words: list[str] = []
    async with told_to_systemd(environment=environment), asyncio.timeout(120):
        while words.count(WATCHDOG) < 2:
            await asyncio.sleep(0.01)
            words += heard(manager)
    words += heard(manager)
    assert (words[0], words[-1]) == (READY, STOPPING)
    assert set(words[1:-1]) == {WATCHDOG}


async def test_without_a_watchdog_nothing_beats(manager: socket.socket) -> None:
    async with told_to_systemd(environment={"NOTIFY_SOCKET": manager.getsockname()}):
        await asyncio.sleep(0.05)
    assert heard(manager) == [READY, STOPPING]


def test_without_systemd_nothing_happens(tmp_path: Path) -> None:
    assert notify(READY, environment={}) is False
    assert notify(READY, environment={"NOTIFY_SOCKET": str(tmp_path / "nobody")}) is False


@pytest.mark.parametrize(
    "environment, expected",
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 30.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "7"}, 30.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_is_fed_twice_in_its_time_and_only_if_it_is_ours(
    environment: dict[str, str], expected: float | None
) -> None:
    assert watchdog_every_s(environment=environment, pid=7) == expected


def unit(name: str) -> ConfigParser:
    parser = ConfigParser(strict=False, interpolation=None, comment_prefixes=("#",), delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((UNITS / name).read_text())
    return parser


def test_the_service_is_restarted_on_failure_but_not_after_a_mistake_in_its_configuration() -> None:
    service = unit("remora.service")["Service"]
    assert (service["Restart"], service["RestartPreventExitStatus"], service["Type"]) == ("on-failure", "2", "notify")
    assert service["ExecStart"].split()[1:3] == ["up", "--config"]


@pytest.mark.parametrize("name", ["remora.service", "remora-catchup.service"])
def test_a_unit_may_write_its_own_state_and_nothing_else(name: str) -> None:
    service = unit(name)["Service"]
    assert service["ProtectSystem"] == "strict"
    assert service["StateDirectory"] == "remora"
    assert service["CapabilityBoundingSet"] == ""
    for guard in ("NoNewPrivileges", "DynamicUser", "ProtectHome", "PrivateTmp", "PrivateDevices"):
        assert service[guard] == "yes"


def test_the_backfill_is_a_job_that_goes_on_after_its_budget() -> None:
    service = unit("remora-catchup.service")["Service"]
    assert (service["Type"], service["SuccessExitStatus"]) == ("oneshot", "75")
    assert unit("remora-catchup.timer")["Timer"]["Persistent"] == "true"
