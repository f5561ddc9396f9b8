"""How do ChatGPT, Claude and Slack show what was said? Lists of conversations or messages, and a detail for each."""

from collections.abc import Mapping
from typing import Any

from remora.testing import TOKEN, Answer, Fake, Request, Thing, answer_json, iso, not_found

REPLIES_SHOWN = 3  # fewer than asked for, as Slack may


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


class Slack(Fake):
    """Messages by cursor; a thread begins with its first message; errors come with status 200."""

    limit = (35, 60)

    def answer(self, request: Request) -> Answer:
        if len(self.requests) % 17 == 0:
            return self.too_many_inside()
        if request.path == "/conversations.history":
            below = request.query.get("cursor") or "9"
            things = [thing for thing in self.world.newest_first() if self._ts(thing) < below]
            size = request.number("limit", 100)
            messages = [self._message(thing) for thing in things[:size]]
            return answer_json(self._page(messages, is_last=len(things) <= size))
        for thing in self.world.things():
            if request.path == "/conversations.replies" and request.query["ts"] == self._ts(thing):
                thread = [message for message in self._thread(thing) if message["ts"] > request.query.get("cursor", "")]
                return answer_json(self._page(thread[:REPLIES_SHOWN], is_last=len(thread) <= REPLIES_SHOWN))
        return answer_json({"ok": False, "error": "thread_not_found"})

    def _page(self, messages: list[dict[str, Any]], *, is_last: bool) -> object:
        cursor = "" if is_last else messages[-1]["ts"]
        told = {"ok": True, "messages": messages, "has_more": not is_last}
        return {**told, "response_metadata": {"next_cursor": cursor}}

    def too_many_inside(self) -> Answer:
        self.refusals += 1
        return answer_json({"ok": False, "error": "ratelimited"}, {"retry-after": str(self.pause_s)})

    def truth(self) -> Mapping[str, object]:
        return {self._ts(thing): self._document(self._thread(thing)) for thing in self.world.things()}

    def _document(self, thread: list[dict[str, Any]]) -> object:
        first = self._page(thread[:REPLIES_SHOWN], is_last=len(thread) <= REPLIES_SHOWN)
        return {"detail": first, "messages": thread}

    def _ts(self, thing: Thing) -> str:
        return f"{thing.created_s}.{thing.number:06d}"

    def _message(self, thing: Thing) -> dict[str, Any]:
        message: dict[str, Any] = {"ts": self._ts(thing), "text": thing.text}
        if thing.revision:
            message |= {"edited": {"ts": f"{thing.updated_s}.000000"}}
        return message | ({"thread_ts": self._ts(thing)} if thing.parts else {})

    def _thread(self, thing: Thing) -> list[dict[str, Any]]:
        replies = [
            {"ts": f"{thing.created_s + part + 1}.{thing.number:06d}", "text": f"reply {part}"}
            for part in range(thing.parts)
        ]
        return [self._message(thing), *replies]


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
