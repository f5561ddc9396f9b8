"""How may the details of a listed source be declared? Every setting, checked where it enters."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Annotated, Final

import msgspec

from remora.contracts import Capabilities
from remora.core.errors import ConfigurationError
from remora.sources.address import check_path
from remora.sources.fan_out import placeholders
from remora.sources.json_path import check_place, is_steps
from remora.sources.list_settings import ListSettings
from remora.sources.parts import PartSettings, check_parts
from remora.sources.request_body import JsonTable, Method, check_body, holds

KEY: Final = "{key}"
KEYS: Final = "{keys}"


class DetailSettings(msgspec.Struct, frozen=True):
    """Where one entry's detail is, and optionally where it has its key and its update mark."""

    path: str = "/detail/{key}"
    key: str | None = None  # when given, a detail that names another key is refused
    updated: str | None = None
    inline: bool = False  # the list already holds the whole entries
    method: Method = Method.GET
    body: JsonTable | None = None  # what a POST sends; "{key}" becomes the entry's key
    batch: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1  # how many documents one request asks for
    separator: str = ","  # between the keys of a batch
    entries: str = "items"  # where the documents of a batch are
    parts: tuple[PartSettings, ...] = ()  # what else belongs to the document, each with requests of its own

    def __post_init__(self) -> None:
        if self.inline and msgspec.structs.replace(self, inline=False) != DetailSettings():
            raise ConfigurationError(
                "detail is inline and has other settings, too",
                hint='write detail = "inline" alone, or leave inline out',
            )
        check_body(self.method, self.body, "detail", 'body = { id = "{key}" }')
        is_in_body = self.body is not None and holds(self.body, "key")
        if self.batch > 1:
            self._check_batch()
        else:
            check_path(self.path, "detail.path", mark=None if is_in_body else KEY, stands_for="the entry's key")
        check_place(self.key, "detail.key")
        check_place(self.updated, "detail.updated")
        check_parts(self.parts)

    def _check_batch(self) -> None:
        check_path(self.path, "detail.path", mark=KEYS, stands_for="the keys of a batch")
        if self.key is None:
            raise ConfigurationError(
                "detail.batch is given, but not detail.key", hint='write where a document names its key, as key = "id"'
            )
        if self.parts or self.body is not None or not is_steps(self.entries):
            raise ConfigurationError(
                "detail.batch is given beside parts, body or an expression in entries",
                hint="leave batch out, or the others; entries is a path to the documents",
            )


def capabilities_of(
    listed: ListSettings, detail: DetailSettings, each: str | None = None, *, url: str = "", ends: Sequence[str] = ()
) -> Capabilities:
    """What a source with this declaration can do."""
    documents = [detail.inline, detail.path, detail.method, detail.body, detail.parts]
    return Capabilities(
        list=True,
        inline_details=detail.inline,
        positions=True,
        joined_details=bool(detail.parts),
        details_per_request=detail.batch,
        each=each,
        list_at=_hash([url, each, _entries_by(listed), *ends]),
        marks_at=f"{listed.updated} {listed.mark_at}",
        details_at=_hash(documents),
    )


def _entries_by(listed: ListSettings) -> dict[str, object]:
    """What decides which entries a walk meets, and how far it goes: all but where their marks are, and how long a page is."""
    declared: dict[str, object] = msgspec.to_builtins(listed)
    return {name: value for name, value in declared.items() if name not in {"updated", "created", "page_size"}}


def _hash(declared: Sequence[object]) -> str:
    """Only a hash is told: there may be secrets in a body."""
    return blake2b(msgspec.json.encode(declared), digest_size=16).hexdigest()


def entry_fields(listed: ListSettings, detail: DetailSettings) -> tuple[str, ...]:
    """What the addresses need to know of another source's entry."""
    paths = [listed.path, listed.body, detail.path, detail.body, *(part.path for part in detail.parts)]
    return tuple(placeholders(*paths))
