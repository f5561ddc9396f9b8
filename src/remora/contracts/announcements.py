"""What can an event stream announce? Changed keys, the newest id, a sign of life, or its end: one closed set of values.

A source reads the bytes of its stream and yields these. A loop never sees the bytes.
"""

import msgspec


class Announced(msgspec.Struct, frozen=True, gc=False):
    """These items and profiles changed. `dropped` counts what could not be a key."""

    item_ids: tuple[int, ...] = ()
    profiles: tuple[str, ...] = ()
    dropped: int = 0


class NewestAnnounced(msgspec.Struct, frozen=True, gc=False):
    """The highest id the source has assigned."""

    item_id: int


class KeepAlive(msgspec.Struct, frozen=True, gc=False):
    """The stream is alive and has nothing to announce."""


class Cancelled(msgspec.Struct, frozen=True, gc=False):
    """The provider ends the stream: it may not be read any more."""


class AuthRevoked(msgspec.Struct, frozen=True, gc=False):
    """The provider ends the stream: our credentials have expired."""


class Ignored(msgspec.Struct, frozen=True, gc=False):
    """Nothing that a mirror can use, with the reason."""

    reason: str


class Unread(msgspec.Struct, frozen=True, gc=False):
    """An event could not be read (too long, not JSON, no path), so the changes it announced are unknown."""

    reason: str = "too_long"


Announcement = Announced | NewestAnnounced | KeepAlive | Cancelled | AuthRevoked | Ignored | Unread


class StreamPart(msgspec.Struct, frozen=True, gc=False):
    """The content of one read from an open stream. Without announcements it still proves that the stream is alive."""

    announcements: tuple[Announcement, ...] = ()
    reconnect_after_ns: int = 0  # how long the provider asks to wait before the next connect
