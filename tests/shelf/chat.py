"""How do ChatGPT and Claude show their conversations? A list by offset, the last changed first, and a detail for each."""

from collections.abc import Mapping

from remora.testing import TOKEN, Answer, Fake, Request, Thing, answer_json, iso, not_found


class ChatGpt(Fake):
    """Times with fractions; a 429 that says nothing."""

    limit = (15, 60)

    def answer(self, request: Request) -> Answer:
        things = self.world.newest_change_first()
        if request.path == "/conversations":
            start, size = request.number("offset", 0), request.number("limit", 28)
            items = [self._line(thing) for thing in things[start : start + size]]
            return answer_json({"items": items, "total": len(things), "limit": size, "offset": start})
        found = [thing for thing in things if request.path == f"/conversation/c-{thing.number}"]
        return answer_json(self._whole(found[0])) if found else not_found()

    def too_many(self, wait_s: int) -> Answer:
        return answer_json({"detail": "Too many requests"}, status=429)

    def truth(self) -> Mapping[str, object]:
        return {f"c-{thing.number}": self._whole(thing) for thing in self.world.things()}

    def _line(self, thing: Thing) -> object:
        updated = f"{iso(thing.updated_s).removesuffix('Z')}.000000Z"
        return {"id": f"c-{thing.number}", "title": thing.text, "update_time": updated}

    def _whole(self, thing: Thing) -> object:
        mapping = {f"m{part}": {"message": {"text": f"{thing.text} {part}"}} for part in range(thing.parts + 1)}
        return {"conversation_id": f"c-{thing.number}", "title": thing.text, "mapping": mapping}


class Claude(Fake):
    """A bare array; the session is a cookie."""

    limit = (15, 60)

    def is_signed(self, request: Request) -> bool:
        return request.headers.get("cookie") == f"sessionKey={TOKEN}"

    def answer(self, request: Request) -> Answer:
        things = self.world.newest_change_first()
        if request.path == "/chat_conversations":
            start, size = request.number("offset", 0), request.number("limit", 30)
            return answer_json([self._line(thing) for thing in things[start : start + size]])
        found = [thing for thing in things if request.path == f"/chat_conversations/u-{thing.number}"]
        return answer_json(self._whole(found[0])) if found else not_found()

    def truth(self) -> Mapping[str, object]:
        return {f"u-{thing.number}": self._whole(thing) for thing in self.world.things()}

    def _line(self, thing: Thing) -> dict[str, object]:
        return {"uuid": f"u-{thing.number}", "name": thing.text, "updated_at": iso(thing.updated_s)}

    def _whole(self, thing: Thing) -> object:
        messages = [{"text": f"{thing.text} {part}", "index": part} for part in range(thing.parts + 1)]
        return {**self._line(thing), "chat_messages": messages}
