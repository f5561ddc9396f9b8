"""How does a command of the owner end that takes too long? With every program that it has started.

Ended alone, a script that waits for a program would leave that one running, one more at every attempt.
"""

import os
import signal
import sys
from asyncio.subprocess import Process
from contextlib import suppress


def needs_terminal() -> bool:
    """Whether somebody may be asked something: a command in a session of its own could not reach the terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


async def end_with_children(process: Process) -> None:
    """End a command and what is left of its session, if it has one of its own."""
    with suppress(ProcessLookupError):
        if process.returncode is None and os.getpgid(process.pid) != process.pid:
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
