"""What do other numbered sources look like? A site of links, and notes on a map; each with its own way to say "none"."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from remora.core.units import HOUR_NS, SECOND_NS
from remora.sim.replies import NOT_FOUND, Answer, Response, ok
from remora.sim.streams import EventStream

FIRST = 200  # numbers that were there when the world began

LINKS = """
[sources.links]
kind = "numbered"
url = "http://sim"
item = { path = "/s/{id}.json", id = "id", title = "title", time = "created_at", by = "submitter_user", url = "url" }
newest = { path = "/newest.json", at = "0.id" }
absent = { status = [400], at = "error" }
poll_every = "1m"
"""

NOTES = """
[sources.notes]
kind = "numbered"
url = "http://sim"
item = { path = "/api/0.6/notes/{id}.json", id = "properties.id", time = "properties.date_created", type = "properties.status" }
newest = { path = "/api/0.6/notes/search.json?sort=created_at&limit=1&closed=-1", at = "features.0.properties.id" }
updates = { path = "/api/0.6/notes/search.json?sort=updated_at&limit=20", entries = "features", items = "properties.id", updated = "properties.date_updated" }
poll_every = "1m"
"""


class NumberedWorld:
    """A provider with one item per hour. A world says what an item looks like, and what is not there."""

    newest_path: str

    def __init__(self, now: Callable[[], int], ticks: Callable[[], int], *, every_ns: int = HOUR_NS) -> None:
        self._now = now
        self._ticks = ticks
        self._every_ns = every_ns
        self._began_ns = now()
        self.arrivals_ns: list[int] = []

    def respond(self, target: str, headers: Mapping[str, str] | None = None, _body: bytes | None = None) -> Response:
        self.arrivals_ns.append(self._ticks())
        if target == self.newest_path:
            return ok(self.newest_body())
        return self.item(self.number_in(target))

    def open_stream(self, target: str) -> EventStream | None:
        raise AssertionError(f"no stream is declared: {target}")

    def newest_id(self) -> int:
        return FIRST + (self._now() - self._began_ns) // self._every_ns

    def created(self, number: int) -> datetime:
        created_ns = self._began_ns + (number - FIRST) * self._every_ns
        return datetime.fromtimestamp(created_ns // SECOND_NS, UTC)

    def truth(self) -> list[tuple[int, bytes]]:
        """Everything it has, by number."""
        answers = ((number, self.item(number)) for number in range(1, self.newest_id() + 1))
        return [
            (number, answer.body)
            for number, answer in answers
            if isinstance(answer, Answer) and answer.status == 200 and b'"error"' not in answer.body
        ]

    def number_in(self, target: str) -> int:
        return int(target.rpartition("/")[2].removesuffix(".json"))

    def newest_body(self) -> bytes:
        raise NotImplementedError

    def item(self, number: int) -> Response:
        raise NotImplementedError


class Links(NumberedWorld):
    """Like a site of links: the newest ones as a list; a removed story is an error inside a 200, an unknown one a 400."""

    newest_path = "/newest.json"

    def newest_body(self) -> bytes:
        return json.dumps(
            [self._story(number) for number in range(self.newest_id(), self.newest_id() - 25, -1)]
        ).encode()

    def item(self, number: int) -> Response:
        if not 0 < number <= self.newest_id():
            return Answer(400, b"Not found")
        if number % 11 == 0:
            return ok(b'{"error": "story was removed"}')
        return ok(json.dumps(self._story(number)).encode())

    def _story(self, number: int) -> dict[str, object]:
        return {
            "id": number,
            "title": f"Story {number}",
            "url": f"https://example.org/{number}",
            "submitter_user": "somebody",
            "created_at": self.created(number).isoformat(),
            "tags": ["practices"],
        }


class Notes(NumberedWorld):
    """Like notes on a map: GeoJSON, hidden ones are 410, dates with a zone in letters."""

    newest_path = "/api/0.6/notes/search.json?sort=created_at&limit=1&closed=-1"
    listed = 20

    def comment(self, *numbers: int) -> None:
        """Somebody comments on notes, however old they are."""
        for number in numbers:
            self._comments[number] = [*self._comments.get(number, []), self._now() // SECOND_NS]

    def __init__(self, now: Callable[[], int], ticks: Callable[[], int], *, every_ns: int = HOUR_NS) -> None:
        super().__init__(now, ticks, every_ns=every_ns)
        self._comments: dict[int, list[int]] = {}
        self.log: tuple[tuple[int, int], ...] = ()  # given: the list of changes shows these ids and marks

    def newest_body(self) -> bytes:
        return json.dumps({"type": "FeatureCollection", "features": [self._note(self.newest_id())]}).encode()

    def respond(self, target: str, headers: Mapping[str, str] | None = None, _body: bytes | None = None) -> Response:
        if "sort=updated_at" not in target:
            return super().respond(target, headers, _body)
        self.arrivals_ns.append(self._ticks())
        if self.log:
            logged = [{"properties": {"id": number, "date_updated": mark}} for number, mark in self.log]
            return ok(json.dumps({"features": logged}).encode())
        latest = sorted(range(1, self.newest_id() + 1), key=self._updated, reverse=True)[: self.listed]
        return ok(json.dumps({"features": [self._note(number) for number in latest]}).encode())

    def _updated(self, number: int) -> int:
        return self._comments.get(number, [int(self.created(number).timestamp())])[-1]

    def item(self, number: int) -> Response:
        if not 0 < number <= self.newest_id():
            return NOT_FOUND
        if number % 13 == 0 and number < FIRST - 60:
            return Answer(410, b"")
        return ok(json.dumps(self._note(number)).encode())

    def _note(self, number: int) -> dict[str, object]:
        created = self.created(number).strftime("%Y-%m-%d %H:%M:%S UTC")
        properties = {
            "id": number,
            "date_created": created,
            "status": "open",
            "date_updated": self._updated(number),
            "comments": self._comments.get(number, []),
        }
        return {"type": "Feature", "geometry": {"type": "Point", "coordinates": [1, 2]}, "properties": properties}
