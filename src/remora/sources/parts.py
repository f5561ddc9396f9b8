"""Where are the parts of a document that takes several requests? Comments of an issue, replies of a thread, posts.

A part is a small list of its own. Its first page is the detail itself, or has an address of its own, or is asked for by
the ids that the detail names, some at a time.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec

from remora.core.errors import ConfigurationError
from remora.sources.address import check_path, quoted, with_query
from remora.sources.json_path import NOT_THERE, as_key, check_place, find, is_steps, raw_lines
from remora.sources.list_settings import ListSettings, OrNone
from remora.sources.paging import (
    FIRST,
    SHORTER,
    PageRead,
    Request,
    next_position,
    page_request,
    shared_with_last,
)
from remora.sources.request_body import Method

KEY: Final = "{key}"
IDS_MAX: Final = 100_000


class PartSettings(ListSettings, frozen=True, kw_only=True):
    """One part of a document. Its list is declared as any other."""

    name: str
    path: OrNone = ""  # empty: the detail itself is the first page
    ids: str | None = None  # where the detail names the ids of the part's lines
    ids_param: str = "ids"
    chunk: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 20

    def __post_init__(self) -> None:
        where = f"detail.parts ({self.name})"
        if self.path:
            check_path(self.path, f"{where}.path")
        if self.name == "detail" or not self.name.isidentifier():
            raise ConfigurationError(f'a part has the name "{self.name}"', hint='write a name, as name = "comments"')
        if not is_steps(self.entries):
            raise ConfigurationError(
                f"{where}.entries is the expression {self.entries}",
                hint='write a path to the lines, as entries = "comments": they are kept as they came',
            )
        if self.ids is not None and not self.path:
            raise ConfigurationError(f"{where} has ids, but no path", hint="write where the lines are asked for")
        if self.first_cursor is not None and not self.path:
            raise ConfigurationError(
                f"{where} has first_cursor, but its first page is the detail itself",
                hint="leave it out, or write the path of the part",
            )
        if self.since is not None or self.window is not None or self.method is Method.POST:
            raise ConfigurationError(
                f"{where} has since, window or method", hint="leave it out: a part is read whole, with GET"
            )
        check_place(self.ids, f"{where}.ids")
        self._check_paging()


class Step(msgspec.Struct, frozen=True):
    """Which page of which part is asked for. `ids` are those that were not asked for yet, by part."""

    part: int = 0
    page: str = FIRST
    ids: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)


class Lines(msgspec.Struct, frozen=True):
    """What one page of a part holds."""

    lines: tuple[bytes, ...]
    keys: tuple[str, ...]
    shared: int
    following: Step | None


def first_step(parts: Sequence[PartSettings], detail: object) -> Step | None:
    """What is asked for after the detail. Raises ValueError if the detail does not name the ids."""
    ids: dict[str, Sequence[str]] = {}
    for part in parts:
        if part.ids is not None:
            named = find(detail, part.ids)
            if not isinstance(named, list) or len(named) > IDS_MAX:
                raise ValueError(f'the detail has no list of ids at "{part.ids}"')
            ids[part.name] = [key for each in named if (key := as_key(each)) is not None]
    return _entered(parts, Step(ids=ids))


def request_of(parts: Sequence[PartSettings], step: Step, base_url: str, key: str, detail_path: str) -> Request:
    """The request for one page of a part."""
    part = parts[step.part]
    path = (part.path or detail_path).replace(KEY, quoted(key))
    if part.ids is None:
        return page_request(msgspec.structs.replace(part, path=path), base_url, step.page)
    asked = step.ids[part.name][: part.chunk]
    return Request(with_query(f"{base_url}{path}", *((part.ids_param, each) for each in asked)))


def lines_of(parts: Sequence[PartSettings], step: Step, body: bytes, page: PageRead) -> Lines | None:
    """The lines of one page, and what is asked for next; None if there are none at the declared place."""
    part = parts[step.part]
    found = find(page.value, part.entries)
    if found is NOT_THERE or not isinstance(found, list):
        return None
    raw = raw_lines(body, part.entries)
    if len(raw) != len(found):
        return None
    page_name = _page_name(part, step)
    keys = tuple(as_key(find(line, part.key)) or f"\0{at}\0{page_name}" for at, line in enumerate(found))
    if part.ids is not None:
        left = step.ids[part.name][part.chunk :]
        following = _entered(parts, Step(step.part, FIRST, {**step.ids, part.name: left}))
        return Lines(tuple(raw), keys, 0, following)
    behind = next_position(part, step.page, page._replace(lines=found))
    further = Step(step.part + 1, FIRST, step.ids) if behind is None else Step(step.part, behind, step.ids)
    return Lines(tuple(raw), keys, shared_with_last(part, step.page), _entered(parts, further))


def _page_name(part: PartSettings, step: Step) -> str:
    """What tells lines without a key apart that have the same place on different pages."""
    if part.ids is not None:
        return str(len(step.ids[part.name]))  # fewer are left for each page
    # The first page that is asked for again, one line shorter, shows the same lines at the same places.
    return FIRST if step.page == SHORTER else step.page


def check_parts(parts: Sequence[PartSettings]) -> None:
    """Refuse parts that do not fit together."""
    names = [part.name for part in parts]
    if len(set(names)) != len(names):
        raise ConfigurationError("two parts of the detail have one name", hint="give each part its own name")
    for part in parts[1:]:
        if not part.path:
            raise ConfigurationError(
                f"detail.parts ({part.name}) has no path", hint="write its path; only the first part may be the detail"
            )


def _entered(parts: Sequence[PartSettings], step: Step) -> Step | None:
    """The step itself or, where a part has no ids left, the first step of the next part; None after the last part."""
    while step.part < len(parts):
        part = parts[step.part]
        if part.ids is None or step.ids.get(part.name):
            return step
        step = Step(step.part + 1, FIRST, step.ids)
    return None


def as_text(step: Step | None) -> str | None:
    """A step as it is kept."""
    if step is None:
        return None
    return json.dumps([step.part, step.page, {name: list(ids) for name, ids in step.ids.items() if ids}])


def from_text(text: str) -> Step:
    """The step that was kept. Raises ValueError."""
    part, page, ids = msgspec.json.decode(text, type=tuple[int, str, dict[str, list[str]]])
    return Step(part, page, ids)
