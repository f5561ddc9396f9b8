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
    """Channels, messages by cursor, threads that begin with their first message; errors come with status 200."""

    limit = (35, 60)

    def answer(self, request: Request) -> Answer:
        if len(self.requests) % 17 == 0:
            return self._rate_limited_inside()
        cursor, channel = request.query.get("cursor", ""), request.query.get("channel", "")
        match request.path:
            case "/conversations.list":
                rest = [each for each in self._channels() if each["id"] > cursor]
                return answer_json(_page("channels", rest, request.number("limit", 100), "id"))
            case "/conversations.history":
                things = [thing for thing in self._in(channel)[::-1] if _ts(thing) < (cursor or "9")]
                return answer_json(
                    _page("messages", [_message(thing) for thing in things], request.number("limit", 100), "ts")
                )
            case "/conversations.replies":
                for thing in self._in(channel):
                    if request.query["ts"] == _ts(thing):
                        rest = [message for message in _thread(thing) if message["ts"] > cursor]
                        return answer_json(_page("messages", rest, REPLIES_SHOWN, "ts"))
            case _:
                pass
        return answer_json({"ok": False, "error": "thread_not_found"})

    def _rate_limited_inside(self) -> Answer:
        self.refusals += 1
        return answer_json({"ok": False, "error": "ratelimited"}, {"retry-after": str(self.pause_s)})

    def truth(self) -> Mapping[str, object]:
        channels = {f"channels/{channel['id']}": channel for channel in self._channels()}
        threads = {f"messages/{_channel(thing)}/{_ts(thing)}": _thread(thing) for thing in self.world.things()}
        pages = {key: _page("messages", thread, REPLIES_SHOWN, "ts") for key, thread in threads.items()}
        return {**channels, **{key: {"detail": pages[key], "messages": thread} for key, thread in threads.items()}}

    def _channels(self) -> list[dict[str, Any]]:
        """Three at first and an empty one; another one appears when things are added."""
        return [{"id": name, "name": name.lower()} for name in sorted({*map(_channel, self.world.everything()), "C9"})]

    def _in(self, channel: str) -> list[Thing]:
        return [thing for thing in self.world.things() if _channel(thing) == channel]


def _page(name: str, rest: list[dict[str, Any]], size: int, key: str) -> object:
    shown, is_last = rest[:size], len(rest) <= size
    cursor = "" if is_last else shown[-1][key]
    return {"ok": True, name: shown, "has_more": not is_last, "response_metadata": {"next_cursor": cursor}}


def _channel(thing: Thing) -> str:
    return f"C{thing.number % 3}" if thing.number <= 31 else "C4"


def _ts(thing: Thing) -> str:
    return f"{thing.created_s}.{thing.number:06d}"


def _message(thing: Thing) -> dict[str, Any]:
    message: dict[str, Any] = {"ts": _ts(thing), "text": thing.text}
    if thing.revision:
        message |= {"edited": {"ts": f"{thing.updated_s}.000000"}}
    return message | ({"thread_ts": _ts(thing)} if thing.parts else {})


def _thread(thing: Thing) -> list[dict[str, Any]]:
    replies = [
        {"ts": f"{thing.created_s + part + 1}.{thing.number:06d}", "text": f"reply {part}"}
        for part in range(thing.parts)
    ]
    return [_message(thing), *replies]


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
