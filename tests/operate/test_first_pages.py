"""Do the commands of the first pages work on a mirror of the simulated Hacker News?"""

import shlex
from pathlib import Path

import pytest

from remora.sim.world import World, WorldSettings
from tests.docs_reader import ROOT, Page
from tests.operate.command_line import command_line_in

WORLD = WorldSettings(items=3_000)  # as `remora simulate --items 3000`
# What fills the mirror or needs a provider; here a dump of the same world does it.
ELSEWHERE = frozenset({"simulate", "up", "init", "check"})


def commands(name: str) -> list[list[str]]:
    """The words after `remora` of each line that reads the mirror."""
    page = Page(ROOT / name, (ROOT / name).read_text("utf-8"))
    lines = [line for block in page.blocks("console") for line in block.splitlines() if line.startswith("$ remora ")]
    words = [shlex.split(line.removeprefix("$ remora ")) for line in lines]
    return [one for one in words if one[0] not in ELSEWHERE]


def test_every_command_that_reads_the_mirror_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remora = command_line_in(tmp_path, monkeypatch)
    with (tmp_path / "dump.ndjson").open("wb") as dump:
        dump.writelines(body.replace(b"\n", b" ") + b"\n" for _, body in World(WORLD).dump(WORLD.start_ns))
    assert remora("import", "dump.ndjson", "--source", "hackernews").exit_code == 0
    told = {}
    for words in (*commands("docs/mirror-hacker-news.md"), *commands("docs/use-the-copy.md")):
        result = remora(*words)
        assert result.exit_code == 0, (words, result.output)
        told[words[0]] = result.stdout
    assert {"status", "search", "show", "query", "changes", "export"} == set(told)
    assert "Kernel" in told["search"]
    assert told["show"].startswith("hackernews 1561  story")
    assert "comment" in told["query"]
    assert len((tmp_path / "all.ndjson").read_bytes().splitlines()) > 2_900
