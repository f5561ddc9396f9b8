"""What does the page about the shelf say? It is made from the declarations: `python -m tools.shelf_page` writes it.

What was measured comes from docs/shelf.json, which `python -m bench.shelf --record` writes. A test compares the page with both,
so that it cannot drift.
"""

import json
from pathlib import Path
from typing import Any

from remora.sources.shelf import ShelfEntry, shelf_entry, shelf_names

PAGE = Path(__file__).resolve().parent.parent / "docs" / "shelf.md"
MEASURED = PAGE.with_suffix(".json")
HEAD = """\
# The shelf

Ready declarations for APIs that people want to mirror. Each is one file that you own afterwards:

```console
$ remora init --list
$ remora init github-issues
$ remora check
```

Fill in what the comments name, and try it with `remora check` before the first run. Every line may be changed; what each
setting means is in [adding a source](adding-a-source.md).

## What was tried

None of these was tried against the real service: they follow the services' documentation, and ChatGPT and Claude have none. Each
was run against a fake that has the manners of its API: 30 things of which many are added,
changed and deleted while they are read, marks that tie, 4 % of requests that fail, a limit that another client uses up now and
then, refused in the API's own words. The process is killed three times in the middle of its work. Then runs follow until
nothing is owed, and a full walk eight days later. The mirror must equal the fake, entry by entry (`tests/shelf/test_shelf.py`).

The table is what `python -m bench.shelf --record` measured with real processes over loopback, a SQLite file and `kill -9`: 150
things that move for 25 seconds, 2 % of requests that fail, then runs until nothing is owed and a full walk. "Equal" means that the
mirror holds every thing of the fake in its last content, and calls nothing listed that was deleted.

| declaration | mirrors | expressible | lines of TOML | kills | runs to the end | requests | refused | things | equal |
|---|---|---|---|---|---|---|---|---|---|
"""
BELOW = """
What is missing in one, or has changed at its provider, shows at the first `remora check`: it asks for one page and one detail and
says what it understood.
"""


def page() -> str:
    """The whole page."""
    entries = [shelf_entry(name) for name in shelf_names()]
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    rows = [_row(one, measured.get(one.name, {})) for one in entries]
    return "".join([HEAD, *rows, BELOW, *(_section(one) for one in entries)])


def _row(one: ShelfEntry, measured: dict[str, Any]) -> str:
    """One declaration. What was not measured is shown as unknown."""
    counts = [measured.get(name, "unknown") for name in ("kills", "runs", "requests", "refusals", "things")]
    equal = {True: "yes", False: "no"}.get(measured.get("equal", ""), "unknown")
    cells = [f"[`{one.name}`](#{_anchor(one.title)})", one.title, "yes", one.lines, *counts, equal]
    return f"| {' | '.join(map(str, cells))} |\n"


def _section(one: ShelfEntry) -> str:
    notes = "".join(f"- **{label}:** {text}\n" for label, text in one.notes.items())
    return f"\n## {one.title}\n\n`remora init {one.name}`. {one.about}\n\n{notes}\n```toml\n{one.declaration}```\n"


def _anchor(title: str) -> str:
    return "".join(letter for letter in title.lower().replace(" ", "-") if letter.isalnum() or letter == "-")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
