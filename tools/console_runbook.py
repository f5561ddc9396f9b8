"""Which page does an alarm link to? The alerts of `docs/operating.md`, as a page of the console.

Run it after the runbook has changed: `python -m tools.console_runbook`. A test compares the file with the page.
"""

import re
from pathlib import Path
from typing import Final

from tools.docs_site import rendered

FILE: Final = Path(__file__).parents[1] / "src" / "remora" / "operate" / "console" / "static" / "runbook.html"
BEGINS: Final = '<h2 id="alerts-that-page">'
HEAD: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Remora: what to do</title>
<link rel="stylesheet" href="console.css">
<script src="theme.js"></script>
</head>
<body class="runbook">
<header><h1>What to do</h1><p><a href="./">Back to the console</a></p><button type="button" id="theme" hidden>Theme: auto</button></header>
<main>
"""
FOOT: Final = """<p class="unseen" role="status" aria-live="polite"></p>
<footer><p>The same text is in docs/operating.md.</p></footer>
"""


def written() -> str:
    """The whole page."""
    _, body, _ = rendered("docs/operating.md")
    alerts = body[body.index(BEGINS) :]
    # Links to other pages of the docs do not exist here; their words stay.
    alerts = re.sub(r'<a href="[^"#]+(?:#[^"]*)?">(.*?)</a>', r"\1", alerts)
    return f"{HEAD}{alerts}</main>\n{FOOT}</body>\n</html>\n"


if __name__ == "__main__":
    FILE.write_text(written(), "utf-8")
