"""Can a stranger's words act on the reader's terminal? No; and what is a file or a pipe stays byte for byte."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from remora.contracts import Observation
from remora.core.item import Item
from remora.core.lanes import Lane
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.discovery import Discovery
from remora.core.units import SECOND_NS
from remora.core.verdict import Found
from remora.operate.observe.terminal_guard import guarded
from remora.stores import open_store
from tests.processes import WAIT_S

# Colour, a title of the window, the same begun with one character (CSI), a line that runs backwards, a bell, a return.
ACTS = "\x1b[31m \x1b]0;title\x07 \x9b31m \u202e \x07 \r"
BODY = '{"by":"ann","id":1,"text":"' + ACTS.replace("\r", "") + '","title":"tide","type":"story"}'
HIDDEN = [character.encode() for character in "\x1b\x9b\u202e\x07"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A mirror of one item that was written by a stranger."""
    folder = tmp_path_factory.mktemp("mirror")

    async def make() -> None:
        store = open_store(f"sqlite:///{folder}/remora.db")
        await store.open()
        discovery, item = Discovery.item(1, via=Lane.LIVE), Item(1, BODY.encode(), type="story")
        await store.record("hackernews", Observation(discovery, Found(item), SECOND_NS, SECOND_NS))
        await store.cover("hackernews", IdRange(1, 1))
        await store.close()

    asyncio.run(make())
    return folder


def on_a_terminal(folder: Path, *words: str) -> bytes:
    """What a terminal is given."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "remora", *words], cwd=folder, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:
        pass  # nobody has the other end open any more
    finally:
        os.close(ours)
        process.wait(timeout=WAIT_S)
    return shown.replace(b"\r\n", b"\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("show", "1"),
        ("show", "1", "--html"),
        ("show", "1", "--json"),
        ("show", "1", "--body"),
        ("query", f"SELECT body AS '{ACTS}' FROM items"),
        ("query", "SELECT body FROM items", "--csv"),
        ("query", f"SELECT '{ACTS}' AS x", "--json"),
        ("export",),
        ("export", "--format", "csv"),
        ("export", "--format", "singer"),
        ("status", ACTS),
        ("show", ACTS),
        ("gaps", "--state", ACTS),
        ("export", "--since", ACTS),
        (ACTS,),
        ("status", "--config", ACTS),
        ("up", ACTS),
    ],
    ids=lambda words: " ".join(words).replace(ACTS, "ACTS"),
)
def test_nothing_that_a_stranger_wrote_acts_on_a_terminal(folder: Path, words: tuple[str, ...]) -> None:
    shown = on_a_terminal(folder, *words)
    assert shown
    assert [hidden for hidden in HIDDEN if hidden in shown] == []


@pytest.mark.slow
def test_a_pipe_gets_every_byte(folder: Path) -> None:
    words = [sys.executable, "-m", "remora", "export"]
    written = subprocess.run(words, cwd=folder, capture_output=True, timeout=WAIT_S, check=True).stdout
    assert written == BODY.encode() + b"\n"


@pytest.mark.slow
def test_the_watched_status_still_clears_the_screen(folder: Path) -> None:
    ours, theirs = os.openpty()
    words = [sys.executable, "-m", "remora", "status", "--watch"]
    with subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while shown.count(b"\x1b[2J\x1b[H") < 2:
            shown += os.read(ours, 65536)
        process.kill()
    os.close(ours)
    assert b"\\u001b" not in shown
    assert b"hackernews" in shown


def test_words_and_bytes_keep_their_order_and_characters_stay_whole_however_they_are_cut() -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as terminal:
        out = guarded(terminal)
        out.write("caf")
        out.flush()
        for byte in "é €\t".encode():
            out.buffer.write(bytes([byte]))
            out.buffer.flush()
        out.write("\x1b\n")
        out.flush()
        shown = b""
        while not shown.endswith(b"\n"):
            shown += os.read(ours, 100)
        assert shown.decode() == "café €\t\\u001b\r\n"
        out.detach()
    os.close(ours)
