"""How is a provider's HTML shown in a browser? Only with the few tags that texts need; everything else is removed."""

import html
from typing import Final

import nh3

from remora.core.texts import printable
from remora.read.plain_text import plain

# What Hacker News sends, and `b`, `em`, `strong`, `br` and lists, which similar sources send.
_TAGS: Final = {"a", "b", "blockquote", "br", "code", "em", "i", "li", "ol", "p", "pre", "strong", "ul"}
_ADDRESSES: Final = ("https://", "http://")
TEXT_MAX: Final = 200_000
# Tags inside each other take time that grows with their square: 25,000 lists took 16 seconds. No author writes so many.
TAGS_MAX: Final = 5_000


def safe_html(text: str) -> str:
    """The text with harmless tags only. Links lead to web addresses and tell them nothing about the reader."""
    beginning = text[:TEXT_MAX]
    if beginning.count("<") > TAGS_MAX:
        return html.escape(plain(beginning))
    return nh3.clean(
        printable(beginning),
        tags=_TAGS,
        attributes={"a": {"href"}},
        attribute_filter=_attribute,
        url_schemes={"http", "https"},
        link_rel="noopener noreferrer nofollow",
    )


def _attribute(tag: str, name: str, value: str) -> str | None:
    """Relative addresses would lead into the console, so they are removed. `rel` is our own."""
    return value if name == "rel" or value.lower().startswith(_ADDRESSES) else None
