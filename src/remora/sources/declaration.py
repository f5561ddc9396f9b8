"""How does an owner declare a numbered source? Where an item, the newest id, the changes and a user are, and what they hold.

A place in a JSON body is a dotted path; "." is the body itself. Every mistake that can be found without asking the
provider is refused here, with what to write instead.
"""

from typing import Final

import msgspec

from remora.contracts import Capabilities
from remora.core.errors import ConfigurationError
from remora.core.verdict import ABSENT_STATUSES, can_mean_absent
from remora.sources.address import check_fixed_path, check_path
from remora.sources.json_path import WHOLE_BODY, check_place

ID: Final = "{id}"
NAME: Final = "{name}"


class ItemSettings(msgspec.Struct, frozen=True):
    """Where one item is, and where it has the columns that queries need. Everything else stays in its body."""

    path: str
    id: str | None = None  # when given, an item that names another id is refused
    time: str | None = None  # when it was created: seconds, milliseconds or an ISO 8601 date
    type: str | None = None
    by: str | None = None
    parent: str | None = None
    title: str | None = None
    url: str | None = None

    def __post_init__(self) -> None:
        check_path(self.path, "item.path", mark=ID, stands_for="the item's id")
        for name in ("id", "time", "type", "by", "parent", "title", "url"):
            check_place(getattr(self, name), f"item.{name}")


class NewestSettings(msgspec.Struct, frozen=True):
    """Where the source gives its newest id, and optionally an event stream that announces it."""

    path: str
    at: str = WHOLE_BODY
    stream: str | None = None

    def __post_init__(self) -> None:
        check_fixed_path(self.path, "newest.path")
        check_place(self.at, "newest.at")
        if self.stream is not None:
            check_fixed_path(self.stream, "newest.stream")


class UpdatesSettings(msgspec.Struct, frozen=True):
    """A stream of changes, or a list of what changed lately: where it is, and where the changed ids are."""

    path: str
    items: str = WHOLE_BODY
    users: str | None = None
    entries: str | None = None  # given for a list: where its entries are
    updated: str | None = None  # where an entry has its update mark

    def __post_init__(self) -> None:
        check_fixed_path(self.path, "updates.path")
        for name in ("items", "users", "entries", "updated"):
            check_place(getattr(self, name), f"updates.{name}")
        if (self.entries is None) is not (self.updated is None):
            one, other = ("entries", "updated") if self.updated is None else ("updated", "entries")
            raise ConfigurationError(
                f"updates.{one} is given, but not updates.{other}",
                hint='write both for a list, as entries = "notes", items = "id", updated = "updated_at"; '
                "leave both out for a stream",
            )
        if self.entries is not None and self.users is not None:
            raise ConfigurationError("updates is a list and has users", hint="leave users out: a list names items")


class UserSettings(msgspec.Struct, frozen=True):
    """Where one profile is."""

    path: str

    def __post_init__(self) -> None:
        check_path(self.path, "user.path", mark=NAME, stands_for="the user's name")


class AbsentSettings(msgspec.Struct, frozen=True):
    """How the source says that it has no such item, besides a body of `null`."""

    status: tuple[int, ...] = tuple(sorted(ABSENT_STATUSES))
    at: str | None = None  # a place in the body of a successful reply
    equals: str | None = None  # the value there; without it, anything but null or false

    def __post_init__(self) -> None:
        for status in self.status:
            if not can_mean_absent(status):
                raise ConfigurationError(
                    f"absent.status holds {status}, which cannot mean that an item is absent",
                    hint="write statuses from 400 to 499 without 401, 407, 408 and 429, as status = [404, 410]",
                )
        check_place(self.at, "absent.at")
        if self.equals is not None and self.at is None:
            raise ConfigurationError(
                "absent has equals without at", hint='write where in the body it is, as at = "error"'
            )


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """One numbered source, without its address."""

    item: ItemSettings
    newest: NewestSettings
    updates: UpdatesSettings | None = None
    user: UserSettings | None = None
    absent: AbsentSettings = AbsentSettings()
    public: bool = False

    def __post_init__(self) -> None:
        if self.updates is not None and self.updates.users is not None and self.user is None:
            raise ConfigurationError(
                "updates.users is given, but nothing says where a user is",
                hint='write user = { path = "/user/{name}.json" }, or leave updates.users out',
            )

    @property
    def capabilities(self) -> Capabilities:
        """What a source with this declaration can do."""
        return Capabilities(
            newest_id=True,
            change_stream=self.updates is not None and self.updates.entries is None,
            change_list=self.updates is not None and self.updates.entries is not None,
            newest_stream=self.newest.stream is not None,
            item_times=self.item.time is not None,
            users=self.user is not None,
            public=self.public,
            absent_statuses=frozenset(self.absent.status),
        )
