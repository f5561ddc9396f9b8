"""How are many small pieces of work run, each in a process of its own? Forked, some at a time, with a limit of processor time."""

import os
import resource
import signal
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

BYTES_MAX: Final = 4 << 30
DID_NOT_END: Final = 255
_REAL_TIMES_PROCESSOR: Final = 20


def forked(works: Sequence[Callable[[], int]], *, limit_s: float, workers: int) -> Iterator[tuple[int, int]]:
    """For each piece of work as it ends: its number and its exit code, `DID_NOT_END` if it was ended by the limit."""
    waiting, running = deque(enumerate(works)), dict[int, tuple[int, float]]()
    while waiting or running:
        while waiting and len(running) < workers:
            number, work = waiting.popleft()
            child = os.fork()
            if child == 0:
                _in_fork(work, limit_s)
            running[child] = (number, time.monotonic() + _REAL_TIMES_PROCESSOR * limit_s)
        time.sleep(0.01)
        for child, (number, until_s) in list(running.items()):
            if time.monotonic() > until_s:
                os.kill(child, signal.SIGKILL)
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                del running[child]
                yield number, DID_NOT_END if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _in_fork(work: Callable[[], int], limit_s: float) -> None:
    """Never returns: the rest of this program belongs to the parent."""
    code = 1
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        if not os.environ.get("REMORA_MUTATION_TELLS"):
            os.dup2(nothing, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s) + 1, int(limit_s) + 2))
        resource.setrlimit(resource.RLIMIT_AS, (BYTES_MAX, BYTES_MAX))
        code = work()
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(code)
