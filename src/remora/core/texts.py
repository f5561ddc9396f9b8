"""Which text can every database, file and variable hold, and which can a terminal show?

What is stored has no NUL and no halves of surrogate pairs. What is shown has no characters that a terminal would act on.
"""

import re
from typing import Final, overload

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_NOT_STORABLE: Final = re.compile("[\0\ud800-\udfff]")
# Control characters can move the cursor or recolour a terminal, and direction marks can reorder a line. Line breaks and
# tabs stay. Halves of surrogate pairs and private characters have no meaning.
_HIDDEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ue000-\uf8ff]")


@overload
def storable(text: str) -> str: ...
@overload
def storable(text: str | None) -> str | None: ...
def storable(text: str | None) -> str | None:
    """The text as a column holds it: what cannot be held is a replacement character. Whoever looks for it asks so, too."""
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return _NOT_STORABLE.sub(REPLACEMENT, text)


def printable(text: str) -> str:
    """The text without what a terminal would act on. Line breaks and tabs stay."""
    return _HIDDEN.sub("", text)


def escaped(text: str) -> str:
    """The text with numbers for what a terminal would act on. Of JSON it means the same."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
