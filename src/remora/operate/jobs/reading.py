"""How is the mirror read out? One item with its history, or everything as lines of JSON; the source is never touched."""

import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from remora.contracts import Store, StoredItem
from remora.core.errors import ConfigurationError
from remora.core.status.readout import iso
from remora.operate.config.settings import Settings, known_source
from remora.operate.jobs.resources import opened_store

WRITE_BUFFER_BYTES: Final = 1 << 20


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """One thing as the mirror holds it."""

    source: str
    key: str
    body: msgspec.Raw | str
    fetched_at: str | None = None
    first_seen_at: str | None = None
    changed_at: str | None = None
    revision: int | None = None
    earlier: tuple["Held", ...] = ()

    def pretty(self) -> str:
        """The body alone, indented."""
        if isinstance(self.body, str):
            return self.body
        return json.dumps(json.loads(bytes(self.body)), indent=2, ensure_ascii=False)


async def read_one(settings: Settings, key: str, *, source: str | None) -> Held | None:
    """An item by id or a document by key; None when the mirror does not hold it."""
    name = one_source(settings, source)
    item_id = _item_id(key) if settings.sources[name].capabilities.newest_id else None
    async with opened_store(settings, read_only=True) as store:
        if item_id is not None:
            return await _read_item(store, name, item_id)
        return await _read_document(store, name, key)


async def export_ndjson(settings: Settings, *, source: str | None, out: str | None, ids: tuple[int, int | None]) -> int:
    """Write every raw body as one line; returns how many. A file appears under its name only when it is complete."""
    name = one_source(settings, source)
    if out is None:
        async with opened_store(settings, read_only=True) as store:
            return await _write_lines(_bodies(store, settings, name, ids), sys.stdout.buffer)
    path = Path(out)
    part = path.with_name(f"{path.name}.part")
    try:
        with _open_private(part) as file:
            async with opened_store(settings, read_only=True) as store:
                count = await _write_lines(_bodies(store, settings, name, ids), file)
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise ConfigurationError(
            f"{out} cannot be written ({error.strerror})", hint="write a path in an existing folder with free space"
        ) from None
    finally:
        part.unlink(missing_ok=True)
    return count


def _open_private(path: Path) -> BinaryIO:
    """A new file that only its owner may read: an export may hold private documents."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", WRITE_BUFFER_BYTES)


def one_source(settings: Settings, source: str | None) -> str:
    """The source a reading command means: the named one, or the only one."""
    if source is not None:
        return known_source(settings, source)
    if len(settings.sources) == 1:
        return next(iter(settings.sources))
    listed = ", ".join(sorted(settings.sources))
    raise ConfigurationError("there is more than one source", hint=f"name one with --source: {listed}")


async def _bodies(store: Store, settings: Settings, name: str, ids: tuple[int, int | None]) -> AsyncIterator[bytes]:
    if settings.sources[name].capabilities.newest_id:
        async for _, body in store.bodies(name, first_id=ids[0], last_id=ids[1]):
            yield body
        return
    async for document in store.documents(name):
        assert document.body is not None, "documents() gives only those with a body"
        yield document.body


async def _write_lines(bodies: AsyncIterator[bytes], file: BinaryIO) -> int:
    count = 0
    async for body in bodies:
        # A line break inside a JSON text is always escaped, so any that is left is only layout.
        file.write(body.strip().replace(b"\r", b" ").replace(b"\n", b" "))
        file.write(b"\n")
        count += 1
    file.flush()
    return count


async def _read_item(store: Store, name: str, item_id: int) -> Held | None:
    item = await store.item(name, item_id)
    if item is None:
        return None
    earlier = tuple(_held(name, revision) for revision in await store.revisions(name, item_id))
    return msgspec.structs.replace(_held(name, item), earlier=earlier)


async def _read_document(store: Store, name: str, key: str) -> Held | None:
    document = await store.document(name, key)
    if document is None or document.body is None:
        return None
    fetched_at = None if document.fetched_ns is None else iso(document.fetched_ns)
    return Held(source=name, key=key, body=_json_or_text(document.body), fetched_at=fetched_at)


def _held(name: str, item: StoredItem) -> Held:
    return Held(
        source=name,
        key=str(item.item_id),
        body=_json_or_text(item.body),
        fetched_at=iso(item.last_fetched_ns),
        first_seen_at=iso(item.first_seen_ns),
        changed_at=iso(item.changed_ns),
        revision=item.revision,
    )


def _json_or_text(body: bytes) -> msgspec.Raw | str:
    """The body as it came; what is no valid JSON is shown as text rather than hidden."""
    try:
        json.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace")
    return msgspec.Raw(body)


def _item_id(key: str) -> int:
    if key.isascii() and key.isdigit():
        return int(key)
    raise ConfigurationError(f'"{key}" is not an item id', hint="write the number of an item, as remora show 8863")
