"""Which texts may an owner write? One line without control characters."""

import unicodedata
from typing import Final

from remora.core.errors import ConfigurationError

# Control characters, lone surrogates, line and paragraph separators.
CONTROL_CATEGORIES: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})


def one_line(text: str, where: str) -> str:
    """Refuse line breaks and other control characters: a text becomes part of a request, a log line or a path."""
    if any(unicodedata.category(character) in CONTROL_CATEGORIES for character in text):
        raise ConfigurationError(
            f"{where} contains a line break or another control character", hint="write one line of plain text"
        )
    return text
