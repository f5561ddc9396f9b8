"""How is a provider's text shown on a terminal, or indexed? As plain text: without HTML and without control characters.

Texts are long and come from strangers, so everything here takes time that grows with the text, never with its square.
"""

import html
import re
from typing import Final

from remora.core.texts import REPLACEMENT, printable

# A link, its end, a paragraph, or any other tag. The first and the third may hold a `<` in an attribute; of other tags it
# could be the sign "less than".
_TAG: Final = re.compile(
    r"<(?:(?P<link>a)\b[^>]*|(?P<end>/a)\s*|(?P<paragraph>/?(?:p|br|pre|li|div))\b[^>]*|/?[a-z][^<>]*)>", re.IGNORECASE
)
_ADDRESS: Final = re.compile(r"""\bhref=["']?([^"'\s>]*)""", re.IGNORECASE)
_LONG_NUMBER: Final = re.compile(r"&#([0-9]{8,});?")
_DIGITS_MAX: Final = 7  # of the highest number of a character


def plain(text: str) -> str:
    """HTML as plain text, with the addresses of its links. Blank lines separate paragraphs."""
    bare = unescaped(_without_tags(text))
    return re.sub(r"\n{3,}", "\n\n", printable(bare)).strip()


def one_line(text: str) -> str:
    """The text in one line, without what a terminal would act on."""
    return " ".join(printable(text).split())


def _without_tags(text: str) -> str:
    """The text with line breaks for paragraphs and addresses for links. A link lasts until the first end of a link."""
    pieces: list[str] = []
    address, words_from, place = "", 0, 0
    # After the last `>` there is no tag. Looking for its end there again and again would take the square of the time.
    for found in _TAG.finditer(text, 0, text.rfind(">") + 1):
        pieces.append(text[place : found.start()])
        place = found.end()
        match found.lastgroup:
            case "paragraph":
                pieces.append("\n\n")
            case "link" if not address:
                address, words_from = _address(found[0]), len(pieces)
            case "end" if address:
                pieces[words_from:] = [_link(address, "".join(pieces[words_from:]))]
                address = ""
    return "".join((*pieces, text[place:]))


def _address(tag: str) -> str:
    found = _ADDRESS.search(tag)
    return "" if found is None else found[1]


def _link(address: str, words: str) -> str:
    shown = unescaped(words).rstrip(".")  # Hacker News shortens what it shows
    return address if unescaped(address).startswith(shown) else f"{words} ({address})"


def unescaped(text: str) -> str:
    """The text with the characters that its references stand for."""
    return html.unescape(_LONG_NUMBER.sub(_short_number, text))


def _short_number(found: re.Match[str]) -> str:
    """A character's number without its zeros. Python refuses to read a number of thousands of digits."""
    number = found[1].lstrip("0")
    return REPLACEMENT if len(number) > _DIGITS_MAX else f"&#{number or 0};"
