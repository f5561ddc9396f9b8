"""Which words does the console use for reasons? Those of `core.status.words`, written into the console's `words.js`.

Run it after a word has changed: `python -m tools.console_words`. A test compares the file with the words.
"""

import json
from pathlib import Path
from typing import Final

from remora.core.status.words import CIRCUIT, GAP_REASONS, PHASES, QUESTIONS, STOPPED

FILE: Final = Path(__file__).parents[1] / "src" / "remora" / "operate" / "console" / "static" / "words.js"
BEGIN: Final = "// -- written by tools/console_words.py from core/status/words.py --\n"
END: Final = "// -- end of what is written --\n"


def written() -> str:
    """The part of the file that comes from Python."""
    tables = {
        "QUESTIONS": list(QUESTIONS),
        "STOPPED": STOPPED,
        "PHASES": PHASES,
        "GAP_REASONS": GAP_REASONS,
        "CIRCUIT": CIRCUIT,
    }
    lines = [f"export const {name} = {json.dumps(table, indent=2)};\n" for name, table in tables.items()]
    return f"{BEGIN}{''.join(lines)}{END}"


def brought_up_to_date(text: str) -> str:
    """The whole file with that part renewed."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{written()}{rest.partition(END)[2]}"


if __name__ == "__main__":
    FILE.write_text(brought_up_to_date(FILE.read_text()))
