"""Do libraries fill the log? Each of their complaints is told once a minute, without a traceback or its arguments."""

import logging

import pytest
from structlog.testing import capture_logs

from remora.operate.observe.library_logs import COMPLAINTS_MAX, OTHERS, LibraryLogs, hear_libraries


class Minute:
    def __init__(self) -> None:
        self.now_s = 100.0
        self.handler = LibraryLogs(monotonic_s=lambda: self.now_s)

    def complain(self, text: str, *arguments: object, error: BaseException | None = None) -> None:
        info = None if error is None else (type(error), error, error.__traceback__)
        self.handler.handle(logging.LogRecord("aiohttp.server", logging.ERROR, "f.py", 1, text, arguments, info))


def raised() -> OSError:
    with pytest.raises(OSError, match="Bearer") as error:
        fail()
    return error.value


def fail() -> None:
    raise OSError("Authorization: Bearer s3cret")


def test_the_same_complaint_is_told_once_a_minute_and_counted() -> None:
    minute = Minute()
    with capture_logs() as logs:
        for _ in range(10_000):
            minute.complain("Error handling request from %s", "203.0.113.9")
        minute.now_s += 60
        minute.complain("Error handling request from %s", "203.0.113.9")
    assert [event["count"] for event in logs] == [1, 10_000]
    assert "203.0.113.9" not in str(logs)


def test_an_error_is_told_by_its_class_and_place() -> None:
    minute = Minute()
    with capture_logs() as logs:
        minute.complain("socket.accept() out of system resource\nsocket: 7", error=raised())
    assert logs[0]["what"] == "aiohttp.server: socket.accept() out of system resource"
    assert logs[0]["error"] == "OSError"
    assert logs[0]["at"].startswith("test_library_logs.py:")
    assert "s3cret" not in str(logs)


def test_complaints_of_many_kinds_are_told_as_one() -> None:
    minute = Minute()
    with capture_logs() as logs:
        for number in range(10 * COMPLAINTS_MAX):
            minute.complain(f"kind {number}")
    assert len(logs) == COMPLAINTS_MAX + 1
    assert logs[-1]["what"] == OTHERS


@pytest.mark.parametrize("name", ["aiohttp.server", "asyncio"])
def test_what_a_library_says_reaches_our_log_once_however_often_logs_are_set_up(name: str) -> None:
    hear_libraries()
    hear_libraries()
    with capture_logs() as logs:
        logging.getLogger(name).error("something %s", "odd")
    assert [event["what"] for event in logs] == [f"{name}: something %s"]


@pytest.mark.parametrize("library", ["aiohttp", "asyncio", "psycopg"])
def test_what_a_library_would_write_to_the_terminal_itself_is_told_without_its_arguments(
    library: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hear_libraries()
    with capture_logs() as logs:
        logging.getLogger(library).warning("error ignored terminating %r: %s", "host=db.internal", "an item's own text")
    assert [event["what"] for event in logs] == [f"{library}: error ignored terminating %r: %s"]
    assert "db.internal" not in f"{logs}{capsys.readouterr()}"
