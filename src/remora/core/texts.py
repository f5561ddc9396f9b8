"""Which text can every database, file and variable hold? One without NUL and without halves of surrogate pairs."""

import re
from typing import Final, overload

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_NOT_STORABLE: Final = re.compile("[\0\ud800-\udfff]")


@overload
def storable(text: str) -> str: ...
@overload
def storable(text: str | None) -> str | None: ...
def storable(text: str | None) -> str | None:
    """The text as a column holds it: what cannot be held is a replacement character. Whoever looks for it asks so, too."""
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return _NOT_STORABLE.sub(REPLACEMENT, text)
