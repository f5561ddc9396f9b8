"""Does the walk in the docs lead from an empty folder to three equal charts?"""

import io
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from remora.sim.world import World, WorldSettings
from tests.docs_reader import ROOT, Page
from tests.operate.command_line import command_line_in

WALK = Page(ROOT / "docs/walk.md", (ROOT / "docs/walk.md").read_text("utf-8"))
# A month with some items each day; the world ends early in 2026.
WORLD = WorldSettings(items=1_500, new_per_day=40)
LINE = re.compile(r"^ *(2025-12-\d\d) +(\d+)", re.MULTILINE)


def counts(text: str) -> dict[str, int]:
    return {day: int(count) for day, count in LINE.findall(text)}


def said(snippet: str) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(snippet, "docs/walk.md", "exec"), {})
    return out.getvalue()


@pytest.mark.slow
def test_three_ways_draw_the_same_month(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remora = command_line_in(tmp_path, monkeypatch)
    world = World(WORLD)
    with (tmp_path / "dump.ndjson").open("wb") as dump:
        dump.writelines(body.replace(b"\n", b" ") + b"\n" for _, body in world.dump(WORLD.start_ns))
    told = []
    for block in WALK.blocks("console"):
        (line,) = block.splitlines()
        result = remora(*shlex.split(line.removeprefix("$ remora ")))
        assert result.exit_code == 0, result.output
        told.append(result.stdout)
    _, in_sql, _ = told
    in_python, in_duckdb = (said(snippet) for snippet in WALK.blocks("python"))
    assert len(counts(in_sql)) == 31
    assert counts(in_python) == counts(in_duckdb)
    # Items of an unknown type, which the simulated source has, too, are in no index by type.
    assert all(0 <= counts(in_python)[day] - count <= 3 for day, count in counts(in_sql).items())
    assert all("#" in chart for chart in (in_sql, in_python))
