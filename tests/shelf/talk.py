"""How do Mastodon, Reddit, Discourse and Wikipedia list what people write? Newest first, each with a limit of its own kind."""

from collections.abc import Mapping

from remora.testing import TOKEN, Answer, Fake, Request, Thing, after, answer_json, iso, not_found


class Mastodon(Fake):
    """Statuses below `max_id`; a reset that is a date."""

    limit = (30, 60)

    def answer(self, request: Request) -> Answer:
        if not request.path.endswith("/statuses"):
            return not_found()
        below = request.number("max_id", 10**9)
        things = [thing for thing in self.world.newest_first() if thing.number < below]
        return answer_json([self._status(thing) for thing in things[: min(request.number("limit", 20), 40)]])

    def too_many(self, wait_s: int) -> Answer:
        return answer_json({"error": "Too many requests"}, self.quota_headers(), status=429)

    def quota_headers(self) -> Mapping[str, str]:
        reset = iso(self.now_s + self.window.resets_in_s(self.now_s)).replace("Z", ".000000Z")
        names = {"limit": str(self.window.count), "remaining": str(self.window.left), "reset": reset}
        return {f"x-ratelimit-{name}": value for name, value in names.items()}

    def truth(self) -> Mapping[str, object]:
        return {str(thing.number): self._status(thing) for thing in self.world.things()}

    def _status(self, thing: Thing) -> object:
        edited = iso(thing.updated_s) if thing.revision else None
        return {
            "id": str(thing.number),
            "created_at": iso(thing.created_s),
            "edited_at": edited,
            "content": thing.text,
        }


class Reddit(Fake):
    """Listings by cursor: the name of the last post. `edited` is false or a moment; the limit is told in seconds."""

    limit = (50, 60)

    def answer(self, request: Request) -> Answer:
        if not request.path.endswith("/new"):
            return not_found()
        last = request.query.get("after")
        page, has_more = after(self.world.newest_first(), lambda thing: self._name(thing) == last, 25)
        if last is not None and last not in self.truth():
            # The post behind which to go on was deleted: Reddit goes on behind the place where it was.
            number = int(last.removeprefix("t3_"))
            rest = [thing for thing in self.world.newest_first() if thing.number < number]
            page, has_more = rest[:25], len(rest) > 25
        cut = page[: request.number("limit", 25)]
        following = self._name(cut[-1]) if has_more or len(cut) < len(page) else None
        children = [self._post(thing) for thing in cut]
        return answer_json({"kind": "Listing", "data": {"after": following, "children": children}})

    def too_many(self, wait_s: int) -> Answer:
        return answer_json({"message": "Too Many Requests", "error": 429}, self.quota_headers(), status=429)

    def quota_headers(self) -> Mapping[str, str]:
        names = {"used": str(self.window.used), "remaining": f"{self.window.left}.0"}
        return {
            **{f"x-ratelimit-{name}": value for name, value in names.items()},
            "x-ratelimit-reset": str(self.window.resets_in_s(self.now_s)),
        }

    def truth(self) -> Mapping[str, object]:
        return {self._name(thing): self._post(thing) for thing in self.world.things()}

    def _name(self, thing: Thing) -> str:
        return f"t3_{thing.number:05d}"

    def _post(self, thing: Thing) -> object:
        edited = float(thing.updated_s) if thing.revision else False
        data = {"name": self._name(thing), "created_utc": float(thing.created_s), "edited": edited, "title": thing.text}
        return {"kind": "t3", "data": data}


class Discourse(Fake):
    """Pages of ten whose size cannot be chosen, from page 0; one pinned topic at the top of the first."""

    limit = (35, 60)

    def is_signed(self, request: Request) -> bool:
        return request.headers.get("api-key") == TOKEN and request.headers.get("api-username") == "system"

    def answer(self, request: Request) -> Answer:
        things = self.world.newest_change_first()
        if request.path == "/latest.json":
            start = request.number("page", 0) * 10
            page = [self._topic(thing) for thing in things[start : start + 10]]
            if start == 0 and things:
                pinned = min(things, key=lambda thing: thing.number)
                page = [self._topic(pinned), *(topic for topic in page if topic != self._topic(pinned))]
            return answer_json({"topic_list": {"per_page": 30, "topics": page}})
        for thing in things:
            if request.path == f"/t/{thing.number}.json":
                return answer_json(self._whole(thing))
            if request.path == f"/t/{thing.number}/posts.json":
                wanted = {int(each) for each in request.values("post_ids[]")}
                posts = [post for post in self._posts(thing) if post["id"] in wanted]
                return answer_json({"post_stream": {"posts": posts}})
        return not_found()

    def too_many(self, wait_s: int) -> Answer:
        words = {"errors": ["You’ve performed this action too many times"], "error_type": "rate_limit"}
        return answer_json({**words, "extras": {"wait_seconds": wait_s}}, {"retry-after": str(wait_s)}, status=429)

    def truth(self) -> Mapping[str, object]:
        return {
            str(thing.number): {"detail": self._whole(thing), "posts": self._posts(thing)}
            for thing in self.world.things()
        }

    def _topic(self, thing: Thing) -> dict[str, object]:
        return {"id": thing.number, "title": thing.text, "bumped_at": f"{iso(thing.updated_s)[:-1]}.000Z"}

    def _whole(self, thing: Thing) -> object:
        """The topic shows its first posts only, and the ids of all."""
        posts = self._posts(thing)
        stream = {"posts": posts[:20], "stream": [post["id"] for post in posts]}
        return {**self._topic(thing), "last_posted_at": iso(thing.updated_s), "post_stream": stream}

    def _posts(self, thing: Thing) -> list[dict[str, object]]:
        count = 1 + 9 * thing.parts
        return [{"id": thing.number * 1000 + part, "cooked": f"{thing.text} {part}"} for part in range(count)]


class Wikipedia(Fake):
    """Continues behind a moment and an id; says maxlag inside a 200."""

    limit = (40, 60)

    def is_signed(self, request: Request) -> bool:
        return True

    def answer(self, request: Request) -> Answer:
        if len(self.requests) % 11 == 0:
            return self._maxlag()
        start = request.query.get("rccontinue", "")
        things = [thing for thing in self.world.newest_first() if not start or self._place(thing) <= start]
        page, size = things[: request.number("rclimit", 10)], request.number("rclimit", 10)
        told: dict[str, object] = {"query": {"recentchanges": [self._change(thing) for thing in page]}}
        if len(things) > size:
            told = {**told, "continue": {"rccontinue": self._place(things[size]), "continue": "-||"}}
        return answer_json({"batchcomplete": True, **told})

    def _maxlag(self) -> Answer:
        self.refusals += 1
        words = {"error": {"code": "maxlag", "info": "Waiting for a database server: 7 seconds lagged.", "lag": 7}}
        return answer_json(words, {"retry-after": str(self.pause_s)})

    def truth(self) -> Mapping[str, object]:
        return {str(thing.number): self._change(thing) for thing in self.world.things()}

    def _place(self, thing: Thing) -> str:
        moment = iso(thing.created_s).translate(str.maketrans("", "", "-:TZ"))
        return f"{moment}|{thing.number:08d}"

    def _change(self, thing: Thing) -> object:
        return {
            "type": "edit",
            "rcid": thing.number,
            "timestamp": iso(thing.created_s),
            "comment": f"edit {thing.number}",
        }
