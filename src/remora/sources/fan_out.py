"""How is one list walked for each entry of another source? Messages of each channel, comments of each topic.

`{entry}` in a path becomes the key of the other source's entry, `{entry.field}` a field of its document. A document's key
is the key of its entry, a slash, and its own key, because own keys need only be unique inside one entry.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from remora.core.errors import ConfigurationError
from remora.sources.address import quoted
from remora.sources.json_path import as_key, find, load

ENTRY: Final = re.compile(r"\{(entry(?:\.[A-Za-z0-9_@.-]+)?)\}")
_KEY_ONLY: Final = "entry"


class Parents:
    """The entries of the other source, and what paths need to know of each."""

    def __init__(self, names: Iterable[str]) -> None:
        """`names`: the placeholders in use, as "entry.id"."""
        self._names = sorted({_KEY_ONLY, *names})
        self._values: dict[str, dict[str, str]] = {}
        self._watermarks: dict[str, str] = {}
        self._walked: list[str] = []

    def take(self, documents: Iterable[tuple[str, bytes, bool]]) -> int:
        """Know these entries from now on: key, document, and whether it is still listed. How many lack a field."""
        lacking = 0
        for key, body, is_listed in documents:
            values = self._read(key, body)
            self._values[key] = values
            lacking += is_listed and len(values) < len(self._names)
            at = bisect_right(self._walked, key)
            is_known = at > 0 and self._walked[at - 1] == key
            is_walked = is_listed and len(values) == len(self._names)
            if is_walked and not is_known:
                self._walked.insert(at, key)
            elif is_known and not is_walked:
                del self._walked[at - 1]
        return lacking

    def take_watermark(self, key: str, watermark: str) -> None:
        """The list of this entry was read whole, up to this mark."""
        self._watermarks[key] = watermark

    def watermark(self, key: str) -> str | None:
        """Up to which mark the list of an entry was read; None if it never was read whole."""
        return self._watermarks.get(key)

    def first(self) -> str | None:
        """The entry whose list is walked first."""
        return self._walked[0] if self._walked else None

    def after(self, key: str) -> str | None:
        """The entry whose list is walked after this one's."""
        at = bisect_right(self._walked, key)
        return self._walked[at] if at < len(self._walked) else None

    def values(self, key: str) -> Mapping[str, str]:
        """What the placeholders become for an entry. An unknown entry has nothing but its key."""
        return self._values.get(key, {_KEY_ONLY: key})

    def path(self, path: str, key: str) -> str:
        """A path for one entry."""
        values = self.values(key)
        return ENTRY.sub(lambda found: quoted(values.get(found[1], "")), path)

    def _read(self, key: str, body: bytes) -> dict[str, str]:
        try:
            value = load(body)
        except (ValueError, RecursionError):
            value = None
        read = {name: key if name == _KEY_ONLY else as_key(find(value, name.partition(".")[2])) for name in self._names}
        return {name: text for name, text in read.items() if text is not None}


def compound(parent: str, key: str) -> str:
    """The key of a document that belongs to an entry of another source."""
    return f"{quote(parent, safe=' :@,;=+$!*()')}/{key}"


def split_key(key: str) -> tuple[str, str]:
    """The entry's key and the document's own."""
    parent, _, own = key.partition("/")
    return unquote(parent), own


def placeholders(*parts: Any) -> Iterator[str]:
    """The placeholders for another source's entry in paths and bodies."""
    for part in parts:
        match part:
            case str():
                yield from ENTRY.findall(part)
            case dict():
                yield from placeholders(*part.values())
            case list() | tuple():
                yield from placeholders(*part)
            case _:
                pass


def check_each(each: str | None, *, in_list: Iterable[str], elsewhere: Iterable[str]) -> None:
    """A list for each entry needs a placeholder, and a placeholder needs the source whose entries are meant."""
    named = [*in_list, *elsewhere]
    if each is None and named:
        raise ConfigurationError(
            f"a path holds {{{named[0]}}}, but there is no each",
            hint='write whose entries are meant, as each = "channels"',
        )
    if each is not None and not [*in_list]:
        raise ConfigurationError(
            f'each is "{each}", but list.path holds nothing of an entry',
            hint='write {entry} or {entry.field} where it belongs, as path = "/channels/{entry}/messages"',
        )


def check_parents(each: Mapping[str, str | None], listed: Collection[str]) -> None:
    """The source whose entries are meant is another listed one, and no chain of them leads back to itself."""
    for name, parent in each.items():
        seen = {name}
        while parent is not None:
            if parent not in listed or parent in seen:
                others = ", ".join(sorted(set(listed) - {name})) or "none"
                raise ConfigurationError(
                    f'sources.{name}.each leads to "{parent}", which is no other listed source',
                    hint=f"write the name of one of: {others}",
                )
            seen.add(parent)
            parent = each.get(parent)  # noqa: PLW2901 - the next one of the chain
