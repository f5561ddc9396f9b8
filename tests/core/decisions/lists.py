"""What is decided about lists and replies? Marks, pages, walks, verdicts and headers."""

from collections.abc import Mapping
from typing import Final

from remora.core.item import Decoded, Entry, Newest, Nothing, Order, Page, Readable, Unreadable, WrongShape
from remora.core.ledger import list_promises, list_walk, marks, unread_page
from remora.core.ledger.list_walk import WalkState
from remora.core.ledger.unread_page import UnreadPage
from remora.core.quota import Quota
from remora.core.quota_headers import parse_retry_after, parse_wait, read_quota, tightest, wait_of
from remora.core.translation import Means, Translation
from remora.core.units import DAY_NS, MINUTE_NS, SECOND_NS
from remora.core.verdict import (
    Fault,
    NoReply,
    Reply,
    can_mean_absent,
    classify,
    classify_connect,
    has_content,
    is_stream_elsewhere,
    is_stream_here,
    shown_location,
)
from tests.core.decisions.drawing import NOW_NS, Case, Decision, Draw

NUMBERS: Final = tuple(str(number) for number in range(8))
MARKS: Final = (
    *(
        "1",
        "2",
        "10",
        "-3",
        "1.5",
        "1e3",
        "",
        "a",
        "b",
        "2026-01-01",
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00.5+01:00",
    ),
    *(
        "2026-01-01T00:00:00.000000001Z",
        "2026-01-01 00:00:00",
        "20260101",
        "1767225600",
        "1767225600000",
        "1e11",
        "100000000001",
    ),
    *("9" * 400, "-" + "9" * 400, "2026-13-01", "2026-1-1", "1970-01-01T00:00:01,25"),
)


def drawn_page(draw: Draw) -> Page:
    """A page of a list: in order, out of order, or with entries without marks."""
    order = draw.one(*Order, None, Order.UPDATED, Order.OLDEST)
    numbers = sorted(
        (draw.random.randrange(8) for _ in range(draw.one(0, 1, 2, 4, 11, 21))), reverse=order is not Order.OLDEST
    )
    entries = [_entry(draw, str(number), at) for at, number in enumerate(numbers)]
    for _ in range(draw.one(0, 0, 0, 1, 3)):
        if len(entries) > 1:
            entries.append(entries.pop(draw.random.randrange(len(entries))))
    draw.texts = ("", *NUMBERS)
    return draw.of(Page, entries=tuple(entries), order=order, unreadable=draw.one(0, 0, 1), shared=draw.one(0, 0, 1))


def _entry(draw: Draw, number: str, at: int) -> Entry:
    key = str(at) if draw.chance(0.9) else draw.one("0", "1")
    mark = number if draw.chance(0.93) else None
    created = draw.one(None, None, None, number)
    return Entry(key, mark, created, draw.one(None, None, b"x", number.encode()))


def compared(draw: Draw) -> Case:
    """Which of two marks is newer."""
    left, right = draw.one(*MARKS), draw.one(*MARKS)
    said = (
        [
            marks.compare(left, right),
            marks.compare(right, left),
            marks.is_newer(left, right),
            marks.is_newer(left, None),
        ],
        [
            marks.is_newer(None, right),
            marks.is_newer(None, None),
            marks.newest(left, None, right),
            marks.newest(),
            marks.rank(left),
        ],
        [
            marks.rank(None),
            [marks.is_from(left, second) for second in (0, 1, 1_767_225_600, 1_767_225_601, 100_000_000)],
        ],
    )
    return Case((left, right), said)


def promised(draw: Draw) -> Case:
    """Whether a page keeps what its declaration promises."""
    page, before = drawn_page(draw), drawn_page(draw)
    if draw.chance(0.8):
        page = Page(page.entries, None, order=page.order, mark_at="at")
    said = (
        list_promises.contradiction(page, before.entries if draw.chance(0.7) else ()),
        list_promises.is_in_order(page),
    )
    long = Entry("k", "x" * draw.one(39, 40, 41))
    return Case((page, before), (said, list_promises.marks_in_words((*page.entries, long)), list_promises.repeated(3)))


def a_walk(draw: Draw) -> Case:
    """How far a walk over a list has got."""
    draw.texts = ("", *NUMBERS)
    state, page = draw.of(WalkState), drawn_page(draw)
    ended_ns = draw.one(None, NOW_NS - draw.near(DAY_NS, 7 * DAY_NS, -MINUTE_NS, 0))
    doubted_ns = None if ended_ns is None else ended_ns + draw.one(-1, 0, 1)
    keys = {entry.key for entry in drawn_page(draw).entries}
    said = (
        [state.is_under_way, list_walk.begun(state, is_full=draw.chance()), list_walk.fits_on(state, page)],
        [list_walk.full_walk_is_due(ended_ns, now_ns=NOW_NS, doubted_at_ns=at_ns) for at_ns in (None, doubted_ns)],
        [list_walk.joins(page, keys), list_walk.after_page(state, page, "here"), list_walk.is_at_end(state, page)],
        [list_walk.finished(state, is_end=draw.chance()), list_walk.restarted(state)],
    )
    return Case((state, page, ended_ns), said)


def not_read(draw: Draw) -> Case:
    """A page that could not be read, and the pages around it."""
    draw.texts = NUMBERS
    unread, page = draw.of(UnreadPage, position="there", words="page 3"), drawn_page(draw)
    first = draw.one("", "top")
    said = (
        unread_page.left_behind("there", "page 3", draw.one(None, page, page, page), first=first),
        unread_page.followed_by(unread, page, first=first),
        [unread_page.reaches_above(unread, page), unread_page.reaches_below(unread, page)],
        unread_page.advanced(unread, "next", "page 4", draw.one(None, page, page, page)),
    )
    return Case((unread, page), said)


def judged(draw: Draw) -> Case:
    """The verdict on a reply."""
    status = draw.one(
        200, 200, 200, 204, 301, 304, 307, 308, 399, 400, 401, 403, 404, 408, 410, 413, 418, 429, 499, 500, 503, 600
    )
    headers = draw.one(
        {},
        {},
        {"retry-after": "5"},
        {"location": "https://a:8/b"},
        {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "9"},
    )
    reply = Reply(status, b"", 0, 1, headers) if draw.chance(0.85) else NoReply(draw.one(*Fault), draw.one(None, 0), 1)
    bodies: tuple[Decoded, ...] = (Readable(Newest(3)), Nothing(), Unreadable("x"), WrongShape("y"))
    decoded = draw.one(*bodies)
    means = draw.one(None, None, *Means)
    said = Translation(means, draw.one(None, 0, SECOND_NS), None)
    verdict = classify(
        reply,
        decoded if has_content(reply) or draw.chance() else None,
        behind_newest=draw.one(None, -1_001, -1_000, -999, 0, 49, 50, 51, 10**6),
        now_wall_ns=NOW_NS,
        absent_statuses=draw.one((404, 410), (404, 410, 403), ()),
        said=said,
        is_page=draw.chance(),
        is_one_of_many=draw.chance(0.7),
    )
    places = ("", "/a", "https://u:p@h/b?q#f", "http://h:80", "//h", "h\n", "https://h:x/", "?q", "ftp:")
    moved_to = getattr(verdict, "moved_to", None)
    answers = (is_stream_here(status), is_stream_elsewhere(status), can_mean_absent(status), has_content(reply))
    told = (verdict, moved_to, classify_connect(reply, now_wall_ns=NOW_NS), shown_location(draw.one(*places)))
    return Case((reply, decoded, said), (told, answers))


WAITS: Final = (
    *("0", "5", "1.5", ".5", "-3", "+2", "1e3", "inf", " 7 ", "", "x", "2592000", "2592001", "999999999", "1000000000"),
    *("1700000009", "1700000009.5", "1700000009000", "999999999999", "1000000000000", "Tue, 14 Nov 2023 22:13:29 GMT"),
    *(
        "Tue, 14 Nov 2023 22:13:10 GMT",
        "2023-11-14T22:13:25Z",
        "2023-11-14T22:13:25",
        "5, 6",
        "5;w=1",
        "-1",
        "1700000000",
        "10;",
    ),
)
DATES: Final = ("Tue, 14 Nov 2023 22:13:19 GMT", "Tue, 14 Nov 2023 22:13:30 GMT", "x")
STANDARD: Final = (
    *(
        '"default";r=50;t=30',
        '"default";r=0;t=5, "b";r=9;t=1',
        '"b";r=3',
        "limit=100, remaining=50, reset=30",
        "remaining=5",
        "reset=5",
    ),
    *('"c,d";r=1;t=0', '"a";r=2;t=2592000', '"a";r=2;t=2592001', "r=1;t=1", ""),
)


def headers_read(draw: Draw) -> Case:
    """What headers say about waits and quotas."""
    headers: dict[str, str] = {}
    for prefix in ("ratelimit-", "x-ratelimit-", "x-rate-limit-"):
        for word in ("limit", "remaining", "used", "reset", "reset-after"):
            if draw.chance(0.35):
                headers[f"{prefix}{word}"] = (
                    draw.one(*WAITS) if "reset" in word else draw.one("0", "1", "60", "9999999999999", "x")
                )
    if draw.chance(0.3):
        headers["ratelimit"] = draw.one(*STANDARD)
        headers["ratelimit-policy"] = draw.one('"default";q=100;w=60', '"b";q=5;w=10', "")
    if draw.chance(0.2):
        headers["x-shopify-shop-api-call-limit"] = draw.one("32/40", "40/40", "41/40", "0/40", "1/0", "x")
    if draw.chance(0.4):
        headers["date"] = draw.one(*DATES)
    if draw.chance():
        headers["retry-after"] = draw.one(*WAITS)
    value: object = draw.one(*WAITS, 5, 0, -1, 1.5, float("inf"), 1_700_000_009, 1_700_000_009_000, True, None, [])
    few = iter([Quota(draw.one(0, 1, 5), None, draw.one(1, 9)) for _ in range(draw.one(0, 2, 3))])
    said = (
        [parse_retry_after(headers, now_wall_ns=NOW_NS), parse_wait(draw.one(*WAITS), headers, now_wall_ns=NOW_NS)],
        [wait_of(value, headers, now_wall_ns=NOW_NS), read_quota(headers, now_wall_ns=NOW_NS), tightest(few)],
    )
    return Case((headers, value), said)


DECISIONS: Final[Mapping[str, tuple[Decision, int]]] = {
    "list: marks": (compared, 500),
    "list: promises": (promised, 700),
    "list: a walk": (a_walk, 800),
    "list: a page not read": (not_read, 800),
    "text: verdicts": (judged, 1_200),
    "text: headers": (headers_read, 1_000),
}
