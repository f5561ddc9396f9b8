"""How is Remora started? By its console script, or with `python -m remora`."""

import gc
import os
import signal
import sys
from types import FrameType
from typing import Final

# Their promise is to end with 0 on a signal. A half-read `export` must not.
FETCHING: Final = frozenset({"up", "worker", "catchup", "run", "verify"})


def main() -> None:
    """Run a command. While its modules are loaded nothing becomes garbage, so nothing looks for it until it runs."""
    if FETCHING.intersection(sys.argv[1:2]):
        _end_on_signals()
    gc.disable()
    try:
        from remora.operate.cli.main import main as run_command  # noqa: PLC0415

        run_command(prog_name="remora")
    except KeyboardInterrupt:  # Ctrl-C before click, which says the same, was there
        sys.exit("Aborted!")


def _end_on_signals() -> None:
    """Let a signal end a command that has not begun yet. The job handles signals itself as soon as it runs."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` ignores it on purpose
            signal.signal(number, _end_at_once)


def _end_at_once(_number: int, _frame: FrameType | None) -> None:
    """Nothing is open or in flight. An exception could come out of any half-loaded module, with its traceback."""
    os._exit(0)


if __name__ == "__main__":
    main()
