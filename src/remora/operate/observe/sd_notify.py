"""How does systemd know our state? We send ready, alive and stopping to its socket, if there is one."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import structlog

log = structlog.get_logger()

READY: Final = "READY=1"
WATCHDOG: Final = "WATCHDOG=1"
STOPPING: Final = "STOPPING=1"
# systemd recommends reporting twice within the time it allows.
_REPORTS_PER_WATCHDOG: Final = 2
_MICROSECONDS: Final = 1_000_000


def notify(word: str, *, environment: Mapping[str, str] = os.environ) -> bool:
    """Send a message to systemd; False if nobody listens. A failed send is no reason to end."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]  # an abstract socket
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.sendto(word.encode(), address)
    except OSError as error:
        log.warning("systemd_not_told", word=word, error=type(error).__name__)
        return False
    return True


def watchdog_every_s(*, environment: Mapping[str, str] = os.environ, pid: int | None = None) -> float | None:
    """How often systemd wants a sign of life; None if it wants none."""
    wanted_from = environment.get("WATCHDOG_PID")
    if wanted_from is not None and wanted_from != str(os.getpid() if pid is None else pid):
        return None
    microseconds = environment.get("WATCHDOG_USEC", "")
    if not (microseconds.isascii() and microseconds.isdigit()) or int(microseconds) == 0:
        return None
    return int(microseconds) / _MICROSECONDS / _REPORTS_PER_WATCHDOG


@asynccontextmanager
async def told_to_systemd(*, environment: Mapping[str, str] = os.environ) -> AsyncIterator[None]:
    """Report ready at the beginning, alive while the event loop runs, stopping at the end."""
    notify(READY, environment=environment)
    every_s = watchdog_every_s(environment=environment)
    beating = None
    if every_s is not None:
        beating = asyncio.get_running_loop().create_task(_beat(every_s, environment), name="watchdog")
    try:
        yield
    finally:
        notify(STOPPING, environment=environment)
        if beating is not None:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)


async def _beat(every_s: float, environment: Mapping[str, str]) -> None:
    while True:
        notify(WATCHDOG, environment=environment)
        await asyncio.sleep(every_s)
