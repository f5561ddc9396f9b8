"""Where does the SQL come from? From `queries.sql` and `schema/`: statements with a name, and migrations with a number."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

_NAME: Final = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_NUMBERED: Final = re.compile(r"^(\d{4})_(\w+)\.sql$")


def parse(text: str) -> Mapping[str, bytes]:
    """The statements of one file by name. Each is `-- name: x`, one comment line that says what it is for, and SQL."""
    _, *parts = _NAME.split(text)
    named: dict[str, bytes] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        assert name not in named, f"two statements are named {name}"
        assert body.startswith("-- "), f"statement {name} does not say what it is for"
        named[name] = body.partition("\n")[2].strip().removesuffix(";").encode()
    return named


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    number: int
    name: str
    script: bytes


def load_migrations() -> tuple[Migration, ...]:
    """Every step, in order, without a hole."""
    found = []
    for file in files(__package__).joinpath("schema").iterdir():
        match = _NUMBERED.match(file.name)
        if match:
            found.append(Migration(int(match[1]), match[2], file.read_text("utf-8").encode()))
    found.sort(key=lambda step: step.number)
    assert [step.number for step in found] == list(range(1, len(found) + 1)), "the migrations are not numbered in a row"
    return tuple(found)


SQL: Final = parse(files(__package__).joinpath("queries.sql").read_text("utf-8"))
MIGRATIONS: Final = load_migrations()
NEWEST_VERSION: Final = len(MIGRATIONS)
