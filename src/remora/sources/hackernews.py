"""Where are Hacker News's items, users and streams, and what do their bodies mean? A preset of a numbered source."""

from typing import Any, Final

import msgspec

from remora.contracts import Announcement, Transport
from remora.core.item import Decoded, Newest, Nothing, Readable, Unreadable, User, WrongShape
from remora.sources import firebase
from remora.sources.declaration import Declaration
from remora.sources.event_stream import Event
from remora.sources.hackernews_item import decode_item, parse_json
from remora.sources.json_numbers import NUMBER_MAX
from remora.sources.numbered import Numbered

BASE_URL: Final = "https://hacker-news.firebaseio.com/v0"
# The provider moves streams between its own hosts; every one of them ends in this.
STREAM_HOSTS: Final = ("firebaseio.com",)
# In the shape of the file, so that readers can compare it with their own declaration.
DECLARED: Final[dict[str, Any]] = {
    "item": {
        "path": "/item/{id}.json",
        "id": "id",
        "time": "time",
        "type": "type",
        "by": "by",
        "parent": "parent",
        "title": "title",
        "url": "url",
    },
    "newest": {"path": "/maxitem.json", "stream": "/maxitem.json"},
    "updates": {"path": "/updates.json", "items": "items", "users": "profiles"},
    "user": {"path": "/user/{name}.json"},
    "public": True,
}
DECLARATION: Final = msgspec.convert(DECLARED, Declaration)


class _Profile(msgspec.Struct, gc=False):
    """All that is read from a profile. The rest stays in its body."""

    id: str


_profile: Final = msgspec.json.Decoder(_Profile)


class HackerNewsReading:
    """`Reading` of Hacker News: a fast path for usual bodies, a lenient one for odd bodies, and Firebase streams."""

    item = staticmethod(decode_item)

    def user(self, name: str, body: bytes) -> Decoded:
        """The profile of this name, or why the body is not it."""
        if body == b"null":
            return Nothing()
        try:
            body.decode()
            said = _profile.decode(body).id
        except (ValueError, RecursionError):
            return _decode_odd_user(name, body)
        return Readable(User(name, body)) if said == name else WrongShape("another user")

    def newest(self, body: bytes) -> Decoded:
        """The body is the number."""
        value = _patient_value(body)
        match value:
            case None:
                return Nothing()
            case Unreadable() | WrongShape():
                return value
            case int() if not isinstance(value, bool) and 0 < value <= NUMBER_MAX:
                return Readable(Newest(value))
            case _:
                return WrongShape("not an id")

    def change(self, event: Event) -> Announcement:
        """What changed."""
        return firebase.interpret(event)

    def newest_event(self, event: Event) -> Announcement:
        """The newest id."""
        return firebase.interpret(event)


class HackerNews(Numbered):
    """Hacker News, or anything with the same API."""

    def __init__(self, transport: Transport, base_url: str = BASE_URL, *, name: str = "hackernews") -> None:
        super().__init__(transport, base_url, DECLARATION, name=name, reading=HackerNewsReading())


def _decode_odd_user(name: str, body: bytes) -> Decoded:
    value = _patient_value(body)
    match value:
        case None:
            return Nothing()
        case Unreadable() | WrongShape():
            return value
        case {"id": str(said)} if said == name:
            return Readable(User(name, body))
        case _:
            return WrongShape("another user")


def _patient_value(body: bytes) -> object:
    """The JSON value, or why there is none."""
    try:
        return parse_json(body, lambda _oddity: None)
    except RecursionError:
        return WrongShape("nested too deep")
    except UnicodeDecodeError:
        return Unreadable("not UTF-8")
    except ValueError:
        return Unreadable("not JSON")
