"""What does core/ decide? `python -m tools.decisions` records it for thousands of drawn inputs; a test compares.

A name and a number show one decision: `python -m tools.decisions "gap: after an answer" 17`. To see what it was before a change,
run that on the commit before.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from tests.core.decisions import law, ledger, lists, pacing, rate, status
from tests.core.decisions.drawing import Decision, Draw, digest, shown
from tests.core.decisions.values import RECORD as VALUES
from tests.core.decisions.values import values

RECORD: Final = Path("tests/core/decisions/recorded.json")
BLOCK: Final = 10  # cases that share a digest
PER_LINE: Final = 16  # digests, so that a change of a few is a short diff
DECISIONS: Final[Mapping[str, tuple[Decision, int]]] = {
    **law.DECISIONS,
    **pacing.DECISIONS,
    **rate.DECISIONS,
    **ledger.DECISIONS,
    **lists.DECISIONS,
    **status.DECISIONS,
}


def digests(name: str) -> Iterator[str]:
    """What a decision says now, as one digest for each block."""
    decide, cases = DECISIONS[name]
    for first in range(0, cases, BLOCK):
        said = [shown(decide(Draw(f"{name} {number}")).said) for number in range(first, first + BLOCK)]
        yield digest("\n".join(said))


def changed(name: str, recorded: Sequence[str]) -> str | None:
    """How a decision differs from what was recorded; None if it does not. It looks no further than the first difference."""
    before = [one for line in recorded for one in line.split()]
    if len(before) * BLOCK != DECISIONS[name][1]:
        return "the number of cases has changed"
    for block, (was, now) in enumerate(zip(before, digests(name), strict=True)):
        if was != now:
            return f'one of the cases {block * BLOCK} to {block * BLOCK + BLOCK - 1}: python -m tools.decisions "{name}" {block * BLOCK}'
    return None


def recorded() -> Mapping[str, Sequence[str]]:
    """What was recorded."""
    return msgspec.json.decode(RECORD.read_bytes(), type=dict[str, list[str]])


def record() -> None:
    """Write what is decided now."""
    lines = {}
    for name in DECISIONS:
        found = list(digests(name))
        lines[name] = [" ".join(found[at : at + PER_LINE]) for at in range(0, len(found), PER_LINE)]
    RECORD.write_bytes(msgspec.json.format(msgspec.json.encode(lines), indent=1) + b"\n")
    VALUES.write_text("".join(f"{line}\n" for line in values()))


def main(words: Sequence[str]) -> None:
    """Record all, or show one case."""
    if not words:
        record()
        print(f"decisions: {RECORD} and {VALUES.name} are written")
        return
    name, number = words[0], int(words[1])
    case = DECISIONS[name][0](Draw(f"{name} {number}"))
    print(f"given  {shown(case.given)}\nsaid   {shown(case.said)}")


if __name__ == "__main__":
    main(sys.argv[1:])
