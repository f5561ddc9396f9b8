"""What do the events of a Firebase stream announce? They carry a path and the data that is now at it.

Pure: an event becomes one announcement of a closed set. An announcement is a hint about what to fetch, never the truth
about an item.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from remora.contracts import (
    Announced,
    Announcement,
    AuthRevoked,
    Cancelled,
    Ignored,
    KeepAlive,
    NewestAnnounced,
    Unread,
)
from remora.sources.event_stream import Event, is_id, is_profile
from remora.sources.json_numbers import bounded_int


def interpret(event: Event) -> Announcement:
    """What an event announces."""
    match event.name:
        case "put" | "patch":
            return _change(event.data)
        case "keep-alive":
            return KeepAlive()
        case "cancel":
            return Cancelled()
        case "auth_revoked":
            return AuthRevoked()
        case _:
            return Ignored("unknown_event")


def _change(data: str) -> Announcement:
    try:
        value = json.loads(data, parse_int=bounded_int)
    except (ValueError, RecursionError):
        return Unread("not_json")
    match value:
        case {"path": str(path), "data": content}:
            return _at(_steps(path), content)
        case _:
            return Unread("no_path")


def _at(steps: tuple[str, ...], content: object) -> Announcement:
    if content is None:
        return Ignored("removed")
    if not steps and not isinstance(content, dict):
        return NewestAnnounced(content) if is_id(content) else Ignored("not_an_id")
    harvest = _Harvest()
    if steps:
        harvest.place(steps, content)
    else:
        assert isinstance(content, dict), "everything else at the root was handled above"
        for path, value in content.items():
            harvest.place(_steps(path), value)
    return harvest.announced()


@dataclass(slots=True)
class _Harvest:
    """Keys found in one event, each once, in their order."""

    item_ids: dict[int, None] = field(default_factory=dict)
    profiles: dict[str, None] = field(default_factory=dict)
    dropped: int = 0

    def place(self, steps: tuple[str, ...], value: object) -> None:
        """Add what is at a path: a whole list, or one slot of it."""
        match steps:
            case ("items",):
                self._add_ids(_slots(value))
            case ("items", _):
                self._add_ids((value,))
            case ("profiles",):
                self._add_profiles(_slots(value))
            case ("profiles", _):
                self._add_profiles((value,))
            case _:
                self.dropped += 1

    def _add_ids(self, values: Iterable[object]) -> None:
        for value in values:
            if is_id(value):
                self.item_ids[value] = None
            elif value is not None:  # an emptied slot says nothing
                self.dropped += 1

    def _add_profiles(self, values: Iterable[object]) -> None:
        for value in values:
            if is_profile(value):
                self.profiles[value] = None
            elif value is not None:
                self.dropped += 1

    def announced(self) -> Announced | Ignored:
        """All of it, or that there was nothing."""
        if not (self.item_ids or self.profiles or self.dropped):
            return Ignored("empty")
        return Announced(tuple(self.item_ids), tuple(self.profiles), self.dropped)


def _slots(value: object) -> Iterable[object]:
    """The slots of a list; a sparse one comes as an object."""
    match value:
        case list():
            return value
        case dict():
            return value.values()
        case _:
            return (value,)


def _steps(path: str) -> tuple[str, ...]:
    return tuple(step for step in path.split("/") if step)
