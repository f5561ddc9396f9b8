"""How does a person read an item, its thread or its history on a terminal? As indented plain text."""

import json
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any, Final

from remora.contracts.reader import MirroredItem, Revision
from remora.core.texts import escaped, printable
from remora.read.differences import fields_or_text
from remora.read.json_layout import indented
from remora.read.plain_text import one_line, plain
from remora.read.thread import ThreadNode

WIDTH: Final = 100
# Deeper replies are not indented further: the text must stay wide enough to read.
INDENT_MAX: Final = 20
MINUTE_FORMAT: Final = "%Y-%m-%d %H:%M"


def thread_text(thread: ThreadNode) -> str:
    """An item with all its replies and every break."""
    return "\n".join(line for depth, node in thread.walk() for line in _node_lines(depth, node))


def points(score: int) -> str:
    """A score in words."""
    return f"{score:,} point{'' if score == 1 else 's'}"


def pretty(body: bytes) -> str:
    """A body as indented JSON, or as it is if it is no JSON; every token as it was sent.

    A character that a terminal would act on is escaped, which means the same in JSON. Where there is no JSON, it is left out.
    """
    shown = indented(body)
    return printable(body.decode("utf-8", "replace")) if shown is None else escaped(shown.decode("utf-8"))


def history_text(history: Sequence[Revision]) -> str:
    """Every revision of an item: what was there first, then what changed each time."""
    lines: list[str] = []
    earlier: Mapping[str, Any] = {}
    for revision in history:
        lines.append(f"revision {revision.number}  {revision.changed_at:{MINUTE_FORMAT}}")
        fields = fields_or_text(revision)
        lines.extend(_differences(earlier, fields))
        earlier = fields
    return "\n".join(lines)


def _node_lines(depth: int, node: ThreadNode) -> Iterator[str]:
    indent = "  " * min(depth, INDENT_MAX)
    yield indent + _heading(node.item, with_source=depth == 0)
    inner = indent + ("" if depth == 0 else "  ")
    yield from ((inner + line).rstrip() for line in _content(node.item, WIDTH - len(inner)))
    yield ""
    for break_ in _breaks(node):
        yield f"{inner}! {break_}"


def _heading(item: MirroredItem, *, with_source: bool) -> str:
    created = item.created_at
    parts = (
        f"{item.source} {item.id}" if with_source else str(item.id),
        item.type if with_source else None,
        points(item.score) if item.score is not None and with_source else None,
        None if item.by is None else f"by {item.by}",
        None if created is None else f"{created:{MINUTE_FORMAT}}",
        f"revision {item.revision}" if item.revision > 1 else None,
        "dead" if item.dead else None,
        "deleted" if item.deleted else None,
    )
    return "  ".join(one_line(part) for part in parts if part)


def _content(item: MirroredItem, width: int) -> Iterator[str]:
    title, url, text = item.title, item.url, item.text
    if title is None and text is None and url is None:
        if not item.deleted:
            yield from pretty(item.body).split("\n")
        return
    if title is not None:
        yield one_line(plain(title))
    if url is not None:
        yield one_line(url)
    for paragraph in plain(text).splitlines() if text is not None else ():
        yield from wrap(paragraph, max(width, 20), break_on_hyphens=False) or [""]


def _breaks(node: ThreadNode) -> Iterator[str]:
    yield from (f"{missing} is a reply to {node.item.id}, but is not in the mirror" for missing in node.missing)
    yield from (f"{other} is named as a reply to {node.item.id}, but has another parent" for other in node.elsewhere)
    yield from (f"{cycle} is a reply to {node.item.id} and is also above it" for cycle in node.cycles)
    if node.is_cut:
        yield f"{node.item.id} may have more replies: the thread is longer than what is shown"


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(before.keys() | after.keys()):
        if name in before and name in after and before[name] == after[name]:
            continue
        if name in before:
            yield f"  - {one_line(name)}: {_value(before[name])}"
        if name in after:
            yield f"  + {one_line(name)}: {_value(after[name])}"


def _value(value: object) -> str:
    return one_line(plain(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
