"""How do GitHub, GitLab and Stack Exchange list issues and questions? By numbered pages, the last changed first."""

from collections.abc import Mapping, Sequence
from typing import Any

from remora.testing import TOKEN, Answer, Fake, Request, Thing, answer_json, iso, not_found

NOTES_SHOWN = 3  # fewer than asked for


def numbered_page(things: Sequence[Thing], request: Request, size_param: str) -> Sequence[Thing]:
    """The page that the request asks for."""
    size = min(request.number(size_param, 30), 100)
    start = (request.number("page", 1) - 1) * size
    return things[start : start + size]


class GitHub(Fake):
    """Issues and comments, each whole in its list. Two limits: one is told in headers, the other one in words."""

    limit = (40, 60)

    def answer(self, request: Request) -> Answer:
        things = self.world.newest_change_first()
        if len(self.requests) % 23 == 0:
            return self._secondary_limit()
        if request.path == "/issues":
            return answer_json([self._issue(thing) for thing in numbered_page(things, request, "per_page")])
        if request.path == "/issues/comments":
            comments = sorted(self._comments(), key=lambda comment: (comment["updated_at"], -comment["id"]))[::-1]
            size = min(request.number("per_page", 30), 100)
            start = (request.number("page", 1) - 1) * size
            return answer_json(comments[start : start + size])
        return not_found()

    def _secondary_limit(self) -> Answer:
        self.refusals += 1
        told = {"message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}
        return answer_json(told, {"retry-after": str(self.pause_s)}, status=403)

    def too_many(self, wait_s: int) -> Answer:
        headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(self.now_s + wait_s)}
        return answer_json({"message": "API rate limit exceeded for user ID 1."}, headers, status=403)

    def quota_headers(self) -> Mapping[str, str]:
        reset_s = self.now_s + self.window.resets_in_s(self.now_s)
        count, left = self.window.count, self.window.left
        names = {"limit": count, "remaining": left, "reset": reset_s, "used": count - left}
        return {f"x-ratelimit-{name}": str(value) for name, value in names.items()}

    def truth(self) -> Mapping[str, object]:
        issues = {f"issues/{thing.number}": self._issue(thing) for thing in self.world.things()}
        return {**issues, **{f"comments/{comment['id']}": comment for comment in self._comments()}}

    def _issue(self, thing: Thing) -> object:
        return {"number": thing.number, "title": thing.text, "updated_at": iso(thing.updated_s), "state": "open"}

    def _comments(self) -> list[dict[str, Any]]:
        """A comment is written when its issue changes; the first ones came with the issue."""
        return [
            {
                "id": thing.number * 100 + part,
                "issue_url": f"{self.origin}{self.base}/issues/{thing.number}",
                "body": f"comment {part}",
                "updated_at": iso(thing.updated_s if part == thing.parts - 1 else thing.created_s),
            }
            for thing in self.world.things()
            for part in range(thing.parts)
        ]


class GitLab(Fake):
    """Issues and, for each, its notes in pages. RateLimit headers with a moment, and a 429 in plain text."""

    limit = (30, 60)

    def is_signed(self, request: Request) -> bool:
        return request.headers.get("private-token") == TOKEN

    def answer(self, request: Request) -> Answer:
        things = self.world.newest_change_first()
        if request.path == "/issues":
            return answer_json([self._issue(thing) for thing in numbered_page(things, request, "per_page")])
        for thing in things:
            if request.path == f"/issues/{thing.number}":
                return answer_json(self._issue(thing))
            if request.path == f"/issues/{thing.number}/notes":
                notes = self._notes(thing)
                size = min(request.number("per_page", 20), NOTES_SHOWN)
                start = (request.number("page", 1) - 1) * size
                return answer_json(notes[start : start + size])
        return not_found()

    def too_many(self, wait_s: int) -> Answer:
        return Answer(429, b"Retry later\n", {"retry-after": str(wait_s), **self.quota_headers()})

    def quota_headers(self) -> Mapping[str, str]:
        reset_s = self.now_s + self.window.resets_in_s(self.now_s)
        names = {"limit": self.window.count, "remaining": self.window.left, "reset": reset_s}
        return {f"ratelimit-{name}": str(value) for name, value in names.items()}

    def truth(self) -> Mapping[str, object]:
        things = self.world.things()
        return {str(thing.number): {"detail": self._issue(thing), "notes": self._notes(thing)} for thing in things}

    def _notes(self, thing: Thing) -> list[dict[str, object]]:
        return [{"id": thing.number * 1000 + part, "body": f"{thing.text} {part}"} for part in range(2 * thing.parts)]

    def _issue(self, thing: Thing) -> object:
        updated = f"{iso(thing.updated_s).removesuffix('Z')}.000Z"
        return {"id": 9_000 + thing.number, "iid": thing.number, "title": thing.text, "updated_at": updated}


class StackExchange(Fake):
    """A wrapper with a quota, sometimes a backoff, and a 400 when it is too much."""

    limit = (20, 60)

    def is_signed(self, request: Request) -> bool:
        return request.query.get("key") == TOKEN

    def answer(self, request: Request) -> Answer:
        things = self.world.newest_change_first()
        page = numbered_page(things, request, "pagesize")
        told: dict[str, object] = {
            "items": [self._question(thing) for thing in page],
            "has_more": bool(page) and page[-1] is not things[-1],
            "quota_max": 10_000,
            "quota_remaining": 10_000 - len(self.requests),
        }
        return answer_json({**told, "backoff": self.pause_s} if len(self.requests) % 7 == 0 else told)

    def too_many(self, wait_s: int) -> Answer:
        words = f"too many requests from this IP, more requests available in {wait_s} seconds"
        return answer_json({"error_id": 502, "error_name": "throttle_violation", "error_message": words}, status=400)

    def truth(self) -> Mapping[str, object]:
        return {str(thing.number): self._question(thing) for thing in self.world.things()}

    def _question(self, thing: Thing) -> object:
        return {"question_id": thing.number, "title": thing.text, "last_activity_date": thing.updated_s}
