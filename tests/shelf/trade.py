"""How do Stripe, Shopify, Zendesk and Django REST APIs list what they hold? By key, by link, by time and by offset."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from remora.testing import TOKEN, Answer, Fake, Request, Thing, World, answer_json, iso, not_found


class Stripe(Fake):
    """Newest first, by the last entry's key. A charge changes where it is."""

    limit = (40, 10)

    def answer(self, request: Request) -> Answer:
        if request.path != "/charges":
            return not_found()
        last = request.query.get("starting_after")
        things = [thing for thing in self.world.newest_first() if last is None or self._key(thing) < last]
        page = things[: request.number("limit", 10)]
        told = {"object": "list", "data": [self._charge(thing) for thing in page], "has_more": len(things) > len(page)}
        return answer_json(told)

    def too_many(self, wait_s: int) -> Answer:
        told = {"error": {"code": "rate_limit", "type": "invalid_request_error", "message": "Request rate limit"}}
        return answer_json(told, {"stripe-should-retry": "true"}, status=429)

    def truth(self) -> Mapping[str, object]:
        return {self._key(thing): self._charge(thing) for thing in self.world.things()}

    def _key(self, thing: Thing) -> str:
        return f"ch_{thing.number:06d}"

    def _charge(self, thing: Thing) -> object:
        return {"id": self._key(thing), "created": thing.created_s, "amount_refunded": thing.revision}


class Shopify(Fake):
    """A leaky bucket that is told with every answer; links that allow no other parameter."""

    limit = (38, 20)

    def is_signed(self, request: Request) -> bool:
        return request.headers.get("x-shopify-access-token") == TOKEN

    def answer(self, request: Request) -> Answer:
        info = request.query.get("page_info")
        if info is not None and request.query.keys() > {"limit", "page_info"}:
            return answer_json({"errors": {"status": "cannot be passed when page_info is present"}}, status=400)
        size, start = request.number("limit", 50), info or "9"
        things = [thing for thing in self.world.newest_change_first() if self._place(thing) < start]
        page = things[:size]
        orders = answer_json({"orders": [self._order(thing) for thing in page]})
        if len(things) <= size:
            return orders
        address = f"{self.origin}{self.base}/orders.json?limit={size}&page_info={quote(self._place(page[-1]))}"
        return Answer(200, orders.body, {"link": f'<{address}>; rel="next"'})

    def too_many(self, wait_s: int) -> Answer:
        words = {"errors": "Exceeded 2 calls per second for api client. Reduce request rates to resume."}
        return answer_json(words, {"retry-after": "2.0", **self.quota_headers()}, status=429)

    def quota_headers(self) -> Mapping[str, str]:
        return {"x-shopify-shop-api-call-limit": f"{self.window.used}/{self.window.count}"}

    def truth(self) -> Mapping[str, object]:
        return {str(thing.number): self._order(thing) for thing in self.world.things()}

    def _place(self, thing: Thing) -> str:
        """A place in the list that stays valid when orders come and go."""
        return f"{thing.updated_s}-{10**6 - thing.number}"

    def _order(self, thing: Thing) -> object:
        return {"id": thing.number, "note": thing.text, "updated_at": iso(thing.updated_s)}


class Zendesk(Fake):
    """The oldest change first. What changed in the last minute is not listed yet; a deleted ticket is listed as deleted.

    Events, with the comment that each adds, are a list of their own. They never change, and each page begins with the
    last second of the one before.
    """

    limit = (10, 60)

    def __init__(self, world: World, **kwargs: Any) -> None:
        super().__init__(world, **kwargs)
        self._events: dict[int, dict[str, Any]] = {}

    def is_signed(self, request: Request) -> bool:
        return request.headers.get("authorization", "").startswith("Basic ")

    def answer(self, request: Request) -> Answer:
        if request.path == "/ticket_events.json":
            return self._events_page(request)
        if request.path != "/tickets/cursor.json":
            return not_found()
        start = request.query.get("cursor") or request.query["start_time"]
        size = request.number("per_page", 1000)
        things = [thing for thing in self._listed() if self._place(thing) > start]
        page = things[:size]
        cursor = self._place(page[-1]) if page else start
        told = {
            "tickets": [self._ticket(thing) for thing in page],
            "after_url": f"{self.origin}{self.base}/tickets/cursor.json?per_page={size}&cursor={quote(cursor)}",
            "after_cursor": cursor,
            "end_of_stream": len(things) <= size,
        }
        return answer_json(told)

    def too_many(self, wait_s: int) -> Answer:
        words = {"error": "APIRateLimitExceeded", "description": "Number of allowed API requests per minute exceeded"}
        return answer_json(words, {"retry-after": str(wait_s)}, status=429)

    def truth(self) -> Mapping[str, object]:
        tickets = {f"zendesk-tickets/{thing.number}": self._ticket(thing) for thing in self._listed()}
        return {**tickets, **{f"zendesk-comments/{event['id']}": event for event in self._past_events()}}

    def _events_page(self, request: Request) -> Answer:
        since, size = request.number("start_time", 0), request.number("per_page", 1000)
        events = [event for event in self._past_events() if event["timestamp"] >= since]
        size += sum(event["timestamp"] == since for event in events)  # a second never fills a real page
        last_s = events[min(size, len(events)) - 1]["timestamp"] if events else since
        page = [event for event in events if event["timestamp"] <= last_s]
        told = {
            "ticket_events": page,
            "next_page": f"{self.origin}{self.base}{request.path}?include=comment_events&per_page={request.number('per_page', 1000)}&start_time={last_s}",
            "count": len(page),
            "end_of_stream": len(page) == len(events),
            "end_time": last_s,
        }
        return answer_json(told)

    def _past_events(self) -> list[dict[str, Any]]:
        for thing in self._listed():
            number = thing.number * 100 + thing.revision
            comment = {"event_type": "Comment", "body": thing.text, "public": True}
            event = {"id": number, "ticket_id": thing.number, "timestamp": thing.updated_s, "child_events": [comment]}
            self._events.setdefault(number, event)
        return sorted(self._events.values(), key=lambda event: (event["timestamp"], event["id"]))

    def _listed(self) -> list[Thing]:
        until_s = self.now_s - 60
        there = [thing for thing in self.world.everything() if thing.updated_s <= until_s]
        return sorted(there, key=self._place)

    def _place(self, thing: Thing) -> str:
        return f"{thing.updated_s}-{thing.number:06d}"

    def _ticket(self, thing: Thing) -> object:
        status = "deleted" if thing.is_removed else "open"
        return {"id": thing.number, "subject": thing.text, "status": status, "updated_at": iso(thing.updated_s)}


class DjangoRest(Fake):
    """LimitOffsetPagination, and the throttle of the framework."""

    limit = (30, 60)

    def is_signed(self, request: Request) -> bool:
        return request.headers.get("authorization") == TOKEN

    def answer(self, request: Request) -> Answer:
        if request.path != "/things/":
            return not_found()
        things = self.world.newest_change_first()
        start, size = request.number("offset", 0), request.number("limit", 100)
        following = f"{self.origin}/things/?limit={size}&offset={start + size}" if start + size < len(things) else None
        page = [self._thing(thing) for thing in things[start : start + size]]
        return answer_json({"count": len(things), "next": following, "previous": None, "results": page})

    def too_many(self, wait_s: int) -> Answer:
        words = f"Request was throttled. Expected available in {wait_s} seconds."
        return answer_json({"detail": words}, {"retry-after": str(wait_s)}, status=429)

    def truth(self) -> Mapping[str, object]:
        return {str(thing.number): self._thing(thing) for thing in self.world.things()}

    def _thing(self, thing: Thing) -> object:
        return {"id": thing.number, "name": thing.text, "updated_at": f"{iso(thing.updated_s)[:-1]}.000000Z"}
