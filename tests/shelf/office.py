"""How do Gmail, Notion and Microsoft Graph list mail and pages? By token, by a cursor in a POST, and by $skip."""

from collections.abc import Mapping

from remora.testing import Answer, Fake, Request, Thing, answer_json, iso, not_found


class Gmail(Fake):
    """A list of ids without marks; the 403 of Google; an empty page has no key. Messages do not change."""

    limit = (100, 60)

    def answer(self, request: Request) -> Answer:
        if request.path != "/messages":
            found = [thing for thing in self.world.things() if request.path == f"/messages/{self._key(thing)}"]
            return answer_json(self._message(found[0])) if found else not_found()
        below, size = request.number("pageToken", 10**9), request.number("maxResults", 100)
        things = [thing for thing in self.world.newest_first() if thing.number < below]
        page = things[:size]
        told: dict[str, object] = {"resultSizeEstimate": len(things)}
        if page:
            told["messages"] = [{"id": self._key(thing), "threadId": "t"} for thing in page]
        if len(things) > size:
            told["nextPageToken"] = str(page[-1].number)
        return answer_json(told)

    def too_many(self, wait_s: int) -> Answer:
        errors = [{"domain": "usageLimits", "reason": "userRateLimitExceeded"}]
        return answer_json({"error": {"code": 403, "errors": errors}}, status=403)

    def truth(self) -> Mapping[str, object]:
        return {self._key(thing): self._message(thing) for thing in self.world.things()}

    def _key(self, thing: Thing) -> str:
        return f"{thing.number:016x}"

    def _message(self, thing: Thing) -> object:
        return {"id": self._key(thing), "internalDate": str(thing.created_s * 1000), "snippet": f"mail {thing.number}"}


class Notion(Fake):
    """A search by POST, the last edited first; cursors are ids."""

    limit = (90, 60)

    def answer(self, request: Request) -> Answer:
        asked = request.json
        if "notion-version" not in request.headers:
            return answer_json({"object": "error", "code": "missing_version"}, status=400)
        if request.method == "GET":
            return self._whole_or_blocks(request)
        if asked["filter"]["value"] != "page" or asked["sort"] != {
            "direction": "descending",
            "timestamp": "last_edited_time",
        }:
            return answer_json({"object": "error", "code": "validation_error"}, status=400)
        start, size = asked.get("start_cursor", "9"), asked["page_size"]
        things = [thing for thing in self.world.newest_change_first() if self._place(thing) < start]
        page, has_more = things[:size], len(things) > size
        following = self._place(page[-1]) if has_more else None
        results = [self._page(thing) for thing in page]
        return answer_json({"object": "list", "results": results, "has_more": has_more, "next_cursor": following})

    def _whole_or_blocks(self, request: Request) -> Answer:
        for thing in self.world.things():
            if request.path == f"/pages/p-{thing.number}":
                return answer_json(self._page(thing))
            if request.path == f"/blocks/p-{thing.number}/children":
                start, size = request.number("start_cursor", 0), 4  # smaller than asked for, as servers do
                blocks = self._blocks(thing)
                has_more = start + size < len(blocks)
                page, following = blocks[start : start + size], str(start + size) if has_more else None
                return answer_json({"results": page, "has_more": has_more, "next_cursor": following})
        return not_found()

    def too_many(self, wait_s: int) -> Answer:
        told = {"object": "error", "status": 429, "code": "rate_limited", "message": "Rate limited"}
        return answer_json(told, {"retry-after": str(wait_s)}, status=429)

    def truth(self) -> Mapping[str, object]:
        return {
            f"p-{thing.number}": {"detail": self._page(thing), "blocks": self._blocks(thing)}
            for thing in self.world.things()
        }

    def _blocks(self, thing: Thing) -> list[dict[str, object]]:
        return [{"id": f"b-{thing.number}-{part}", "text": f"{thing.text} {part}"} for part in range(3 * thing.parts)]

    def _place(self, thing: Thing) -> str:
        return f"{thing.updated_s}-{10**6 - thing.number}"

    def _page(self, thing: Thing) -> object:
        edited = f"{iso(thing.updated_s)[:-1]}.000Z"
        return {
            "object": "page",
            "id": f"p-{thing.number}",
            "last_edited_time": edited,
            "properties": {"t": thing.text},
        }


class Graph(Fake):
    """$top and $skip; the next link is there, too; throttled in the words of Graph."""

    limit = (60, 60)

    def answer(self, request: Request) -> Answer:
        if request.path != "/messages" or not request.query.get("$orderby", "").startswith("lastModifiedDateTime"):
            return not_found()
        things = self.world.newest_change_first()
        start, size = request.number("$skip", 0), request.number("$top", 10)
        told: dict[str, object] = {"value": [self._message(thing) for thing in things[start : start + size]]}
        if start + size < len(things):
            told["@odata.nextLink"] = f"{self.origin}{self.base}/messages?%24top={size}&%24skip={start + size}"
        return answer_json(told)

    def too_many(self, wait_s: int) -> Answer:
        words = {
            "error": {"code": "ApplicationThrottled", "message": "Application is over its MailboxConcurrency limit."}
        }
        return answer_json(words, {"retry-after": str(wait_s)}, status=429)

    def truth(self) -> Mapping[str, object]:
        return {f"AAMk{thing.number}": self._message(thing) for thing in self.world.things()}

    def _message(self, thing: Thing) -> object:
        return {"id": f"AAMk{thing.number}", "subject": thing.text, "lastModifiedDateTime": iso(thing.updated_s)}
