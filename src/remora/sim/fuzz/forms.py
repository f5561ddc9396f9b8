"""In which form does a listed world show its list and its details? Drawn from the seed, and declared as an owner would."""

from enum import StrEnum
from random import Random
from typing import Any, Final

import msgspec

from remora.core.item import Order
from remora.core.units import DAY_NS
from remora.sim.listed import Archive
from remora.sources.detail_settings import DetailSettings
from remora.sources.list_scope import SinceSettings, WindowSettings
from remora.sources.list_settings import PLACEHOLDERS, ListSettings, Paging
from remora.sources.parts import PartSettings
from remora.sources.request_body import Method

PAGE_SIZE: Final = 10
_PATHS: Final = {
    Paging.OFFSET: "/list",
    Paging.PAGE: "/pages",
    Paging.CURSOR: "/cursor",
    Paging.LINK: "/links",
    Paging.NEXT: "/next",
    Paging.LAST: "/last",
}
CHANNELS: Final = "channels"
CHANNELS_LIST: Final = ListSettings(path="/channels/list", paging=Paging.OFFSET, page_size=4)
CHANNELS_DETAIL: Final = DetailSettings(path="/channels/detail/{key}", key="id", updated="update_time")
_BEGIN: Final = "2025-12-20"  # before the oldest conversation of a world


class Details(StrEnum):
    """How the document of an entry is fetched."""

    PLAIN = "plain"
    INLINE = "inline"  # the list holds it
    PARTS = "parts"  # a head, and its messages page by page
    BATCH = "batch"  # several in one request
    POST = "post"  # the key is in the body of the request


class Scope(StrEnum):
    """Which part of the list a walk asks for."""

    WHOLE = "whole"
    SINCE = "since"  # what changed since the watermark
    WINDOW = "window"  # one window of time after the other


class Turning(StrEnum):
    """How a list with cursors names its next page, if not by a field of the body."""

    AS_DRAWN = ""
    HEADER = "header"
    NEXT = "next"
    LAST = "last"


class ListForm(msgspec.Struct, frozen=True):
    """The form of a listed source."""

    details: Details = Details.PLAIN
    scope: Scope = Scope.WHOLE
    order: Order = Order.UPDATED
    turning: Turning = Turning.AS_DRAWN
    posts: bool = False  # pages are asked for with POST
    channels: int = 0  # how many there are at the start, each with a list of its own; 0: one list

    @property
    def is_by_creation(self) -> bool:
        """Whether the list is sorted by the creation of its entries."""
        return self.order is Order.CREATED


PLAIN: Final = ListForm()
_CHANNELS_SHARE: Final = 0.2
_ORDERS: Final = {
    Scope.WHOLE: [Order.UPDATED, Order.UPDATED, Order.CREATED, Order.OLDEST],
    Scope.SINCE: [Order.UPDATED, Order.OLDEST],
    Scope.WINDOW: [Order.OLDEST],
}


def draw_form(seed: int, paging: Paging | None) -> ListForm:
    """With chances of their own: everything else in the world of this seed stays as it was."""
    chance, form = Random(f"each/{seed}"), _draw_form(seed, paging)
    if paging is None or chance.random() >= _CHANNELS_SHARE:
        return form
    return msgspec.structs.replace(form, channels=chance.randint(2, 5))


def _draw_form(seed: int, paging: Paging | None) -> ListForm:
    chance = Random(f"form/{seed}")
    if paging is None or chance.random() < 0.3:
        return PLAIN
    turning = chance.choice(list(Turning)) if paging is Paging.CURSOR else Turning.AS_DRAWN
    details, posts = chance.choice(list(Details)), chance.random() < 0.25
    if turning is Turning.LAST:
        # A list that leads on by its last key is sorted by what never changes, or it could not be walked.
        return ListForm(details, Scope.WHOLE, Order.CREATED, turning, posts)
    scope = chance.choices(list(Scope), weights=(4, 3, 2))[0]
    return ListForm(details, scope, chance.choice(_ORDERS[scope]), turning, posts)


def list_settings(form: ListForm, paging: Paging) -> ListSettings:
    """How an owner declares the list of this form."""
    header = "x-next-cursor" if form.turning is Turning.HEADER else None
    if form.turning in {Turning.NEXT, Turning.LAST}:
        paging = Paging(form.turning.value)
    path = _place(form) + ("/header" if header else _PATHS[paging])
    fixed = {"order": form.order.value} if form.order is not Order.UPDATED else {}
    fixed |= {"whole": "1"} if form.details is Details.INLINE else {}
    query = "&".join(f"{name}={value}" for name, value in fixed.items())
    settings = ListSettings(
        path=f"{path}?{query}" if query else path,
        paging=paging,
        page_size=PAGE_SIZE,
        order=form.order,
        created="create_time" if form.is_by_creation else None,
        cursor_header=header,
        more="has_more" if paging is Paging.LAST else None,
        since=SinceSettings() if form.scope is Scope.SINCE else None,
        window=WindowSettings(_BEGIN, length_ns=3 * DAY_NS) if form.scope is Scope.WINDOW else None,
    )
    return msgspec.structs.replace(settings, method=Method.POST, body=_body(settings)) if form.posts else settings


def _body(settings: ListSettings) -> dict[str, Any]:
    """What a POST for a page sends: the same that a query would."""
    names = {"limit": "{size}"}
    if (placeholder := PLACEHOLDERS.get(settings.paging)) is not None:
        names["starting_after" if placeholder == "last" else placeholder] = f"{{{placeholder}}}"
    if settings.since is not None:
        names["since"] = "{since}"
    if settings.window is not None:
        names |= {"from": "{from}", "until": "{until}"}
    return dict(names)


def _place(form: ListForm) -> str:
    """Where the lists and details of a channel are."""
    return "/in/{entry}" if form.channels else ""


def detail_settings(form: ListForm) -> DetailSettings:
    """How an owner declares the details of this form."""
    place = _place(form)
    match form.details:
        case Details.PLAIN:
            return DetailSettings(path=f"{place}/detail/{{key}}", key="id", updated="update_time")
        case Details.INLINE:
            return DetailSettings(inline=True)
        case Details.PARTS:
            messages = PartSettings(
                name="messages", path=f"{place}/messages/{{key}}", page_size=2, key="id", updated=""
            )
            return DetailSettings(path=f"{place}/head/{{key}}", key="id", updated="update_time", parts=(messages,))
        case Details.BATCH:
            return DetailSettings(path=f"{place}/batch?ids={{keys}}", key="id", updated="update_time", batch=7)
        case Details.POST:
            body = {"id": "{key}"}
            return DetailSettings(
                path=f"{place}/detail", key="id", updated="update_time", method=Method.POST, body=body
            )


def truth(form: ListForm, archive: Archive, now_ns: int) -> dict[str, bytes]:
    """What a mirror of this form can fetch now, by key."""
    match form.details:
        case Details.PLAIN | Details.POST | Details.BATCH:
            return archive.readable(now_ns)
        case Details.INLINE:
            keys = [line.key for line in archive.listing(now_ns)]
            return {key: body for key in keys if (body := archive.detail(key, now_ns)) is not None}
        case Details.PARTS:
            keys = [line.key for line in archive.listing(now_ns)]
            return {key: body for key in keys if (body := archive.joined(key, now_ns)) is not None}
