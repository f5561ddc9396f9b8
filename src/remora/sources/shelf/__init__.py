"""Which declarations are ready to use? The shelf: one file for each, as `remora init NAME` writes it.

A file begins with comments that say what it mirrors, what to fill in, what was tried and what nobody could try. So its owner
reads them, and the page of the documentation is made from them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

SUFFIX: Final = ".toml"
LABELS: Final = ("Fill in", "Tried", "Not tried", "Documentation")


@dataclass(frozen=True, slots=True)
class ShelfEntry:
    """One ready declaration."""

    name: str
    title: str
    about: str
    notes: Mapping[str, str]  # by label
    text: str  # the whole file

    @property
    def lines(self) -> int:
        """How many lines of TOML it takes, without comments and empty lines."""
        return sum(1 for line in self.text.splitlines() if line.strip() and not line.startswith("#"))

    @property
    def declaration(self) -> str:
        """The file without the comments at its beginning."""
        return self.text[self.text.index("\n\n") + 2 :]


def shelf_names() -> tuple[str, ...]:
    """The names on the shelf, in order."""
    return tuple(sorted(_names()))


def shelf_entry(name: str) -> ShelfEntry:
    """One of them."""
    text = (files(__name__) / f"{name}{SUFFIX}").read_text("utf-8")
    title, _, *rest = (line.removeprefix("#").strip() for line in text[: text.index("\n\n")].splitlines())
    about: list[str] = []
    notes: dict[str, str] = {}
    label = ""
    for line in rest:
        found = next((each for each in LABELS if line.startswith(f"{each}: ")), None)
        if found is not None:
            label, notes[found] = found, line.removeprefix(f"{found}: ")
        elif label:
            notes[label] += f" {line}"
        else:
            about.append(line)
    return ShelfEntry(name, title, " ".join(about), notes, text)


def _names() -> Iterator[str]:
    for file in files(__name__).iterdir():
        if file.name.endswith(SUFFIX):
            yield file.name.removesuffix(SUFFIX)
