"""How is a provider's text shown on a terminal, or indexed? As plain text: without HTML and without control characters."""

import html
import re
from typing import Final

from remora.core.texts import REPLACEMENT, printable

_PARAGRAPH: Final = re.compile(r"<(?:p|br|/p|pre|/pre|li|/li|div|/div)\b[^>]*>", re.IGNORECASE)
_LINK: Final = re.compile(r"""<a\b[^>]*?\bhref=["']?([^"'\s>]*)[^>]*>(.*?)</a>""", re.IGNORECASE | re.DOTALL)
_TAG: Final = re.compile(r"</?[a-zA-Z][^<>]*>")
_LONG_NUMBER: Final = re.compile(r"&#([0-9]{8,});?")
_DIGITS_MAX: Final = 7  # of the highest number of a character


def plain(text: str) -> str:
    """HTML as plain text, with the addresses of its links. Blank lines separate paragraphs."""
    linked = _LINK.sub(_link, text)
    bare = _unescaped(_TAG.sub("", _PARAGRAPH.sub("\n\n", linked)))
    return re.sub(r"\n{3,}", "\n\n", printable(bare)).strip()


def one_line(text: str) -> str:
    """The text in one line, without what a terminal would act on."""
    return " ".join(printable(text).split())


def _link(found: re.Match[str]) -> str:
    address, words = found[1], found[2]
    shown = _unescaped(words).rstrip(".")  # Hacker News shortens what it shows
    return words if not address else address if _unescaped(address).startswith(shown) else f"{words} ({address})"


def _unescaped(text: str) -> str:
    return html.unescape(_LONG_NUMBER.sub(_short_number, text))


def _short_number(found: re.Match[str]) -> str:
    """A character's number without its zeros. Python refuses to read a number of thousands of digits."""
    number = found[1].lstrip("0")
    return REPLACEMENT if len(number) > _DIGITS_MAX else f"&#{number or 0};"
