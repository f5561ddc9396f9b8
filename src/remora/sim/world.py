"""What is true in the simulated Hacker News, at any moment? Every body is a function of the seed, the id and the time.

Nothing is stored but small caches, so a world of a million items costs nothing until somebody looks. History ends and
the present begins at `start_ns`: then `items` ids exist, and new ones are assigned at a steady rate.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd
from typing import Final

from remora.core.units import DAY_NS, SECOND_NS
from remora.sim import cast as draws
from remora.sim.bodies import Fields, ids, made_odd, render
from remora.sim.cast import BLOCK_IDS, DRAW_MAX, Cast, Role
from remora.sim.clock import START_WALL_NS
from remora.sim.lives import NEVER_NS, Chances, Life, Lives
from remora.sim.prose import Prose, name_of, number_of
from remora.sim.threads import Thread, build_thread

_THREADS_KEPT: Final = 4_096
_SUBMISSIONS_SHOWN: Final = 100
_ITEMS_PER_PERSON: Final = 20
_PEOPLE_MIN: Final = 10
_PEOPLE_MAX: Final = 100_000
_STRIDE: Final = 7_919  # authors follow each other in steps of this, so that neighbours have different authors
_DAY_S: Final = 86_400
_PLACEHOLDERS: Final = (b'"[dead]"', b'"[flagged]"')


@dataclass(frozen=True, slots=True)
class WorldSettings:
    """What kind of world; the same settings give the same world."""

    seed: int = 1
    items: int = 20_000  # ids that exist when the world begins
    new_per_day: float = 12_000.0
    start_ns: int = START_WALL_NS
    absent_share: float = 0.002  # ids that are null for ever
    odd_share: float = 0.003  # bodies with an oddity
    chances: Chances = field(default_factory=Chances)

    def __post_init__(self) -> None:
        assert self.items >= 0, f"a world of {self.items} items"
        assert self.new_per_day > 0, f"{self.new_per_day} new items per day"


class World:
    """The truth."""

    def __init__(self, settings: WorldSettings) -> None:
        self.settings = settings
        self._spacing_ns = max(1, int(DAY_NS / settings.new_per_day))
        self._cast = Cast(settings.seed, absent_share=settings.absent_share)
        self._lives = Lives(settings.chances)
        self._prose = Prose(settings.seed)
        self._odd_below = int(settings.odd_share * DRAW_MAX)
        self.thread = lru_cache(maxsize=_THREADS_KEPT)(self._make_thread)
        people = min(max(settings.items // _ITEMS_PER_PERSON, _PEOPLE_MIN), _PEOPLE_MAX)
        self._people = people if gcd(people, _STRIDE) == 1 else people + 1

    def max_id(self, now_ns: int) -> int:
        """The newest id that has been assigned; its item may not be readable yet."""
        return max(0, self.settings.items + (now_ns - self.settings.start_ns) // self._spacing_ns)

    def is_absent(self, item_id: int) -> bool:
        """Whether this id is null for ever."""
        return item_id < 1 or self._cast.role(item_id) is Role.ABSENT

    def role(self, item_id: int) -> Role:
        """What this id is, or will be."""
        return self._cast.role(item_id)

    def life(self, item_id: int) -> Life:
        """What happens to this item, past and future."""
        block = self._cast.block(item_id // BLOCK_IDS)
        return self._lives.life(
            block, item_id, self._assigned_ns(item_id), moves_away=self._moves_to(item_id) is not None
        )

    def body(self, item_id: int, now_ns: int) -> bytes | None:
        """The item as it is now; None where the provider says `null`."""
        return self.render(item_id, now_ns)[0]

    def render(self, item_id: int, now_ns: int) -> tuple[bytes | None, int]:
        """The body, and the moment until which it stays exactly like this."""
        role = Role.ABSENT if item_id < 1 else self._cast.role(item_id)
        if role is Role.ABSENT:
            return None, NEVER_NS
        life = self.life(item_id)
        if now_ns < life.visible_ns:
            return None, life.visible_ns
        fields, until_ns = self._fields(item_id, role, life, now_ns)
        if self._cast.draw(item_id, draws.ODD) < self._odd_below:
            fields = made_odd(fields, self._cast.draw(item_id, draws.ODD_KIND))
        own_ns = next((moment for moment in life.moments() if moment > now_ns), NEVER_NS)
        return render(fields), min(own_ns, until_ns)

    def dump(self, now_ns: int, *, first_id: int = 1, last_id: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Every item that can be read now, by id."""
        last = self.max_id(now_ns) if last_id is None else min(last_id, self.max_id(now_ns))
        for item_id in range(first_id, last + 1):
            body = self.body(item_id, now_ns)
            if body is not None:
                yield item_id, body

    def author(self, item_id: int) -> str:
        """Who wrote it."""
        return name_of(item_id * _STRIDE % self._people)

    def user(self, name: str, now_ns: int) -> bytes | None:
        """A profile; None where the provider says `null`."""
        number = number_of(name)
        if number is None or number >= self._people:
            return None
        submitted = self._submitted(number, now_ns)
        fields: Fields = {
            "about": self._prose.text(number * _STRIDE % DRAW_MAX, 0),
            "created": b"%d" % (self.settings.start_ns // SECOND_NS - _DAY_S * (1_000 + number % 3_000)),
            "id": b'"%b"' % name.encode(),
            "karma": b"%d" % (1 + 3 * len(submitted) + number % 1_000),
            "submitted": ids(submitted),
        }
        return render(fields)

    def parent_and_story(self, item_id: int, now_ns: int) -> tuple[int, int]:
        """What a comment replies to now, and the story above it."""
        replies = self._cast.replies(item_id // BLOCK_IDS)
        target = replies.moves_to.get(item_id)
        if target is not None and self.life(item_id).moved_ns <= now_ns:
            return target, target
        story = replies.story_of[item_id]
        return self.thread(story).parents[item_id], story

    def _assigned_ns(self, item_id: int) -> int:
        return self.settings.start_ns + (item_id - self.settings.items) * self._spacing_ns

    def _visible_ns(self, item_id: int) -> int:
        block = self._cast.block(item_id // BLOCK_IDS)
        return self._lives.visible_ns(block, item_id, self._assigned_ns(item_id))

    def _moved_ns(self, item_id: int) -> int:
        block = self._cast.block(item_id // BLOCK_IDS)
        return self._lives.moved_ns(block, item_id, self._visible_ns(item_id))

    def _moves_to(self, item_id: int) -> int | None:
        if self._cast.role(item_id) is not Role.COMMENT:
            return None
        return self._cast.replies(item_id // BLOCK_IDS).moves_to.get(item_id)

    def _make_thread(self, story: int) -> Thread:
        return build_thread(self._cast, story, visible_ns=self._visible_ns, moved_ns=self._moved_ns)

    def _submitted(self, number: int, now_ns: int) -> list[int]:
        """The newest items of this person: the inverse of `author`."""
        newest = self.max_id(now_ns)
        first = number * pow(_STRIDE, -1, self._people) % self._people
        latest = newest - (newest - first) % self._people
        written = range(latest, 0, -self._people)[:_SUBMISSIONS_SHOWN]
        return [item_id for item_id in written if self.body(item_id, now_ns) is not None]

    def _fields(self, item_id: int, role: Role, life: Life, now_ns: int) -> tuple[Fields, int]:
        """The values of a body, and until when what others add to it stays the same."""
        match role:
            case Role.COMMENT:
                return self._comment(item_id, life, now_ns)
            case Role.STORY | Role.POLL:
                return self._story(item_id, role, life, now_ns)
            case Role.JOB:
                return self._job(item_id, life, now_ns), NEVER_NS
            case Role.POLLOPT:
                return self._option(item_id, life, now_ns), NEVER_NS
            case Role.STUB:
                return {"id": b"%d" % item_id, "type": b'"story"'}, NEVER_NS
            case Role.ABSENT:
                raise AssertionError(f"{item_id} is absent and has no body")

    def _common(self, item_id: int, life: Life, now_ns: int, type_name: bytes) -> tuple[Fields, Fields]:
        """The fields every kind has, those before and those after `id` in the alphabet."""
        deleted, dead = life.deleted_ns <= now_ns, life.is_dead(now_ns)
        before: Fields = {}
        if not deleted:
            before["by"] = b'"%b"' % self.author(item_id).encode()
        if dead:
            before["dead"] = b"true"
        if deleted:
            before["deleted"] = b"true"
        after: Fields = {"time": b"%d" % (life.assigned_ns // SECOND_NS), "type": b'"%b"' % type_name}
        return before, after

    def _comment(self, item_id: int, life: Life, now_ns: int) -> tuple[Fields, int]:
        parent, _story = self.parent_and_story(item_id, now_ns)
        fields, after = self._common(item_id, life, now_ns, b"comment")
        fields["id"] = b"%d" % item_id
        # A comment keeps its replies in the thread it was written in: only those without any are moved.
        thread = self.thread(self._cast.replies(item_id // BLOCK_IDS).story_of[item_id])
        if life.deleted_ns > now_ns:
            if kids := thread.kids(item_id, now_ns):
                fields["kids"] = ids(kids)
            fields["parent"] = b"%d" % parent
            fields["text"] = self._comment_text(item_id, life, now_ns)
        else:
            fields["parent"] = b"%d" % parent
        return fields | after, thread.next_change_ns(now_ns)

    def _comment_text(self, item_id: int, life: Life, now_ns: int) -> bytes:
        if life.is_dead(now_ns):
            return _PLACEHOLDERS[item_id % 2]
        if now_ns < life.undelayed_ns:
            return b'"[delayed]"'
        return self._text(item_id, edited=life.edited_ns <= now_ns)

    def _text(self, item_id: int, *, edited: bool) -> bytes:
        draw = self._cast.draw
        return self._prose.text(draw(item_id, draws.TEXT), draw(item_id, draws.LENGTH), edited=edited)

    def _story(self, item_id: int, role: Role, life: Life, now_ns: int) -> tuple[Fields, int]:
        thread = self.thread(item_id)
        until_ns = thread.next_change_ns(now_ns)
        fields, after = self._common(item_id, life, now_ns, b"poll" if role is Role.POLL else b"story")
        if "deleted" in fields:
            return fields | {"id": b"%d" % item_id} | after, until_ns
        if "dead" not in fields:
            fields["descendants"] = b"%d" % thread.size(now_ns)
        fields["id"] = b"%d" % item_id
        if kids := thread.kids(item_id, now_ns):
            fields["kids"] = ids(kids)
        if role is Role.POLL:
            fields["parts"] = ids(self._cast.block(item_id // BLOCK_IDS).options[item_id])
        fields["score"] = b"%d" % life.score(now_ns)
        edited = life.edited_ns <= now_ns
        if "dead" in fields:
            return fields | after, until_ns
        shape = self._cast.draw(item_id, draws.LENGTH) % 20  # most link somewhere, some have a text, both or neither
        if role is Role.POLL or shape < 4:
            fields["text"] = self._text(item_id, edited=edited)
        fields["time"] = after["time"]
        fields["title"] = self._prose.title(self._cast.draw(item_id, draws.TITLE), edited=edited)
        fields["type"] = after["type"]
        if role is Role.STORY and shape > 2:
            fields["url"] = self._prose.url(self._cast.draw(item_id, draws.TITLE))
        return fields, until_ns

    def _job(self, item_id: int, life: Life, now_ns: int) -> Fields:
        fields, after = self._common(item_id, life, now_ns, b"job")
        fields |= {"id": b"%d" % item_id}
        if "deleted" in fields:
            return fields | after
        fields["score"] = b"1"
        if "dead" in fields:
            return fields | after
        title = self._prose.title(self._cast.draw(item_id, draws.TITLE), edited=life.edited_ns <= now_ns)
        url = self._prose.url(self._cast.draw(item_id, draws.TITLE))
        return fields | {"time": after["time"], "title": title, "type": after["type"], "url": url}

    def _option(self, item_id: int, life: Life, now_ns: int) -> Fields:
        fields, after = self._common(item_id, life, now_ns, b"pollopt")
        fields |= {"id": b"%d" % item_id, "poll": b"%d" % self._cast.poll_of(item_id)}
        if "deleted" in fields:
            return fields | after
        fields["score"] = b"%d" % life.score(now_ns)
        text = self._prose.title(self._cast.draw(item_id, draws.TITLE))
        return fields | {"text": text} | after
