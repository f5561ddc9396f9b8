"""What else is numbered? A series of standards: sparse ids answered 404, the newest one by path, no stream, late changes."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from remora.core.units import HOUR_NS, SECOND_NS
from remora.sim.replies import NOT_FOUND, Answer, Response, ok
from remora.sim.streams import EventStream

DECLARED = """
[sources.rfcs]
kind = "numbered"
url = "http://sim"
item = { path = "/rfc/{id}.json", id = "number", title = "title", time = "published" }
newest = { path = "/newest.json", at = "latest.number" }
poll_every = "1m"
"""
FIRST = 300  # numbers that were there when the world began


class Rfcs:
    """The provider. Every seventh number was never issued; every fifth is revised six hours after it was published."""

    def __init__(self, now: Callable[[], int], ticks: Callable[[], int], *, every_ns: int = HOUR_NS) -> None:
        self._now = now
        self._ticks = ticks
        self._every_ns = every_ns
        self._began_ns = now()
        self.arrivals_ns: list[int] = []
        self.paths: list[str] = []
        self.streams_opened = 0

    def respond(self, target: str, headers: Mapping[str, str] | None = None, _body: bytes | None = None) -> Response:
        self.arrivals_ns.append(self._ticks())
        self.paths.append(target)
        if target == "/newest.json":
            return ok(json.dumps({"latest": {"number": self.newest_id()}}).encode())
        number = target.removeprefix("/rfc/").removesuffix(".json")
        body = self.body(int(number)) if number.isdigit() else None
        return NOT_FOUND if body is None else Answer(200, body)

    def open_stream(self, target: str) -> EventStream | None:
        self.streams_opened += 1
        return None

    def newest_id(self) -> int:
        return FIRST + (self._now() - self._began_ns) // self._every_ns

    def body(self, number: int) -> bytes | None:
        """What the provider has under a number right now."""
        if not self.has(number):
            return None
        published_ns = self._began_ns + (number - FIRST) * self._every_ns
        is_revised = number % 5 == 0 and self._now() - published_ns >= 6 * HOUR_NS
        published = datetime.fromtimestamp(published_ns / SECOND_NS, UTC).isoformat()
        item = {"number": number, "title": f"Standard {number}", "published": published, "pages": [number % 40]}
        return json.dumps({**item, "status": "revised"} if is_revised else item).encode()

    def has(self, number: int) -> bool:
        return 0 < number <= self.newest_id() and number % 7 != 0

    def truth(self) -> list[tuple[int, bytes]]:
        """Everything it has, by number."""
        bodies = ((number, self.body(number)) for number in range(1, self.newest_id() + 1))
        return [(number, body) for number, body in bodies if body is not None]
