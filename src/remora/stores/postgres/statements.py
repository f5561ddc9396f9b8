"""Where does the SQL come from? From `queries.sql` and `schema/`: statements with a name, and migrations with a number."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from remora.stores.statements import with_common

# Not the second colon of a cast, and not part of a text such as 12:30.
_PARAMETER: Final = re.compile(r"(?<![:\w]):([a-z]\w*)")
_NUMBERED: Final = re.compile(r"^(\d{4})_(\w+)\.sql$")


def parse(text: str) -> Mapping[str, bytes]:
    """The statements of one file and the common ones, in the driver's syntax."""
    return {name: _for_driver(body) for name, body in with_common(text).items()}


def _for_driver(statement: str) -> bytes:
    """The statement without its comment, and with `%(name)s` for the `:name` of common statements."""
    text = statement.partition("\n")[2].strip().removesuffix(";")
    return _PARAMETER.sub(r"%(\1)s", text).encode()


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    number: int
    name: str
    script: bytes


def load_migrations() -> tuple[Migration, ...]:
    """Every step, in order, with no number missing."""
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
