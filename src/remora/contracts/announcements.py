"""What can an event stream announce? Changed keys, the newest id, a sign of life, or its end: one closed set of values.

A source reads the bytes of its stream and yields these. A loop never sees the bytes.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Announced:
    """These items and profiles changed. `dropped` counts what could not be a key."""

    item_ids: tuple[int, ...] = ()
    profiles: tuple[str, ...] = ()
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class NewestAnnounced:
    """The highest id the source has assigned."""

    item_id: int


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """The stream is alive and has nothing to announce."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The provider ends the stream: it may not be read any more."""


@dataclass(frozen=True, slots=True)
class AuthRevoked:
    """The provider ends the stream: our credentials have expired."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """Nothing that a mirror can use, with the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unread:
    """An event could not be read (too long, not JSON, no path), so the changes it announced are unknown."""

    reason: str = "too_long"


Announcement = Announced | NewestAnnounced | KeepAlive | Cancelled | AuthRevoked | Ignored | Unread


@dataclass(frozen=True, slots=True)
class StreamPart:
    """The content of one read from an open stream. Without announcements it still proves that the stream is alive."""

    announcements: tuple[Announcement, ...] = ()
    reconnect_after_ns: int = 0  # how long the provider asks to wait before the next connect
