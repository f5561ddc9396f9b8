"""Where does the SQL come from? From `.sql` files: statements with a name, each with one line that says what it is for."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def named(text: str) -> Mapping[str, str]:
    """The statements of one file by name."""
    _, *parts = _NAME.split(text)
    statements: dict[str, str] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        assert name not in statements, f"two statements are named {name}"
        assert body.startswith("-- "), f"statement {name} does not say what it is for"
        statements[name] = body.strip()
    return statements


@cache
def common() -> Mapping[str, str]:
    """The statements that are the same in SQLite and in PostgreSQL."""
    return named(Path(__file__).with_name("common.sql").read_text("utf-8"))


def with_common(own: str) -> Mapping[str, str]:
    """A store's own statements and the common ones; no name is in both."""
    mine = named(own)
    assert not mine.keys() & common().keys(), "a statement is both common and a store's own"
    return {**common(), **mine}
