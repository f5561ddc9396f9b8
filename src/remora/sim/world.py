"""What does the simulated Hacker News contain at any moment? Every body is a function of the seed, the id and the time.

Only small caches are stored, so a world of a million items costs nothing until items are read. At `start_ns`, `items`
ids exist as history; from then on new ids are assigned at a steady rate.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd
from typing import Final, NamedTuple

from remora.core.units import DAY_NS, SECOND_NS
from remora.sim import cast as draws
from remora.sim.bodies import Fields, ids, made_odd, render
from remora.sim.cast import BLOCK_IDS, DRAW_MAX, Cast, Draws, Role, moves
from remora.sim.clock import START_WALL_NS
from remora.sim.lives import NEVER_NS, Chances, Life, Lives
from remora.sim.prose import Prose, name_of, number_of
from remora.sim.threads import Thread, build_thread

_THREADS_KEPT: Final = 4_096
_SUBMISSIONS_SHOWN: Final = 100
_ITEMS_PER_PERSON: Final = 20
_PEOPLE_MIN: Final = 10
_PEOPLE_MAX: Final = 100_000
_STRIDE: Final = 7_919  # the step between authors of neighbouring ids, so that they differ
_DAY_S: Final = 86_400
_PLACEHOLDERS: Final = (b'"[dead]"', b'"[flagged]"')


@dataclass(frozen=True, slots=True)
class WorldSettings:
    """What the world is like; the same settings give the same world."""

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


class Look(NamedTuple):
    """One item at one moment."""

    item_id: int
    role: Role
    own: Draws
    life: Life
    now_ns: int

    def edited(self) -> bool:
        return self.life.edited_ns <= self.now_ns

    def time(self) -> bytes:
        return b"%d" % (self.life.assigned_ns // SECOND_NS)


class World:
    """The true content of the simulated Hacker News."""

    def __init__(self, settings: WorldSettings) -> None:
        self.settings = settings
        self._spacing_ns = max(1, int(DAY_NS / settings.new_per_day))
        self._cast = Cast(settings.seed, absent_share=settings.absent_share)
        self._lives = Lives(settings.chances)
        self._prose = Prose(settings.seed)
        self._odd_below = int(settings.odd_share * DRAW_MAX)
        self.thread = lru_cache(maxsize=_THREADS_KEPT)(self._make_thread)
        self._name = lru_cache(maxsize=_PEOPLE_MAX)(_quoted_name)
        people = min(max(settings.items // _ITEMS_PER_PERSON, _PEOPLE_MIN), _PEOPLE_MAX)
        self._people = people if gcd(people, _STRIDE) == 1 else people + 1

    def max_id(self, now_ns: int) -> int:
        """The newest id that has been assigned; its item may not be readable yet."""
        return max(0, self.settings.items + (now_ns - self.settings.start_ns) // self._spacing_ns)

    def moment_of(self, newest_id: int) -> int:
        """When this id became the newest; for an id of the history, the world's start."""
        return max(self.settings.start_ns, self._assigned_ns(newest_id))

    def is_absent(self, item_id: int) -> bool:
        """Whether this id is null for ever."""
        return self._cast.is_absent(item_id)

    def role(self, item_id: int) -> Role:
        """What this id is, or will be."""
        return self._cast.role(item_id)

    def life(self, item_id: int) -> Life:
        """What happens to this item, past and future."""
        block = self._cast.block(item_id // BLOCK_IDS)
        return self._life(item_id, block.role(item_id), block.own(item_id))

    def body(self, item_id: int, now_ns: int) -> bytes | None:
        """The item as it is now; None if the provider answers `null`."""
        return self.render(item_id, now_ns)[0]

    def render(self, item_id: int, now_ns: int) -> tuple[bytes | None, int]:
        """The body, and until when it stays exactly the same."""
        if item_id < 1:
            return None, NEVER_NS
        block = self._cast.block(item_id // BLOCK_IDS)
        role = block.role(item_id)
        if role is Role.ABSENT:
            return None, NEVER_NS
        own = block.own(item_id)
        odd = own[draws.ODD] < self._odd_below
        if role is Role.COMMENT and not odd and self._lives.is_uneventful(own):
            return self._uneventful_comment(item_id, own, now_ns)
        life = self._life(item_id, role, own)
        if now_ns < life.visible_ns:
            return None, life.visible_ns
        fields, others_ns = self._fields(Look(item_id, role, own, life, now_ns))
        if odd:
            fields = made_odd(fields, own[draws.ODD_KIND])
        return render(fields), min(life.next_change_ns(now_ns), others_ns)

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
        """A profile; None if the provider answers `null`."""
        number = number_of(name)
        if number is None or number >= self._people:
            return None
        submitted = self._submitted(number, now_ns)
        fields: Fields = {
            "about": self._prose.text(number * _STRIDE % DRAW_MAX, 0),
            "created": b"%d" % (self.settings.start_ns // SECOND_NS - _DAY_S * (1_000 + number % 3_000)),
            "id": b'"%b"' % name.encode(),
            "karma": b"%d" % (1 + 3 * len(submitted) + number % 1_000),
            # A list with one element sometimes comes without brackets.
            "submitted": b"%d" % submitted[0] if len(submitted) == 1 else ids(submitted),
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

    def _life(self, item_id: int, role: Role, own: Draws) -> Life:
        moves_away = (
            role is Role.COMMENT
            and moves(own[draws.FATE])
            and item_id in self._cast.replies(item_id // BLOCK_IDS).moves_to
        )
        return self._lives.life(role, own, self._assigned_ns(item_id), moves_away=moves_away)

    def _make_thread(self, story: int) -> Thread:
        return build_thread(self._cast, self._lives, story, self._assigned_ns)

    def _submitted(self, number: int, now_ns: int) -> list[int]:
        """The newest items of this person: the inverse of `author`."""
        newest = self.max_id(now_ns)
        first = number * pow(_STRIDE, -1, self._people) % self._people
        latest = newest - (newest - first) % self._people
        written = range(latest, 0, -self._people)[:_SUBMISSIONS_SHOWN]
        return [item_id for item_id in written if self._is_readable(item_id, now_ns)]

    def _is_readable(self, item_id: int, now_ns: int) -> bool:
        """Whether it has a body now; costs far less than the body."""
        visible_ns = self._lives.visible_ns(self._cast.own(item_id), self._assigned_ns(item_id))
        return visible_ns <= now_ns and not self._cast.is_absent(item_id)

    def _fields(self, look: Look) -> tuple[Fields, int]:
        """The fields of a body in alphabetical order, and until when the parts from other items stay the same."""
        match look.role:
            case Role.COMMENT:
                return self._comment(look)
            case Role.STORY | Role.POLL:
                return self._story(look)
            case Role.JOB:
                return self._job(look), NEVER_NS
            case Role.POLLOPT:
                return self._option(look), NEVER_NS
            case Role.STUB:
                return {"id": b"%d" % look.item_id, "type": b'"story"'}, NEVER_NS
            case Role.ABSENT:
                raise AssertionError(f"{look.item_id} is absent and has no body")

    def _opening(self, look: Look) -> Fields:
        """The fields that come first in alphabetical order."""
        fields: Fields = {}
        if look.life.deleted_ns > look.now_ns:
            fields["by"] = self._name(look.item_id * _STRIDE % self._people)
            if look.life.is_dead(look.now_ns):
                fields["dead"] = b"true"
            return fields
        if look.life.is_dead(look.now_ns):
            fields["dead"] = b"true"
        fields["deleted"] = b"true"
        return fields

    def _uneventful_comment(self, item_id: int, own: Draws, now_ns: int) -> tuple[bytes | None, int]:
        """The same as `_comment` if only replies can change the body: three of four items, at a third of the cost."""
        assigned_ns = self._assigned_ns(item_id)
        if now_ns < assigned_ns:
            return None, assigned_ns
        thread = self.thread(self._cast.replies(item_id // BLOCK_IDS).story_of[item_id])
        kids = thread.kids(item_id, now_ns)
        body = b'{"by":%b,"id":%d,%b"parent":%d,"text":%b,"time":%d,"type":"comment"}' % (
            self._name(item_id * _STRIDE % self._people),
            item_id,
            b'"kids":%b,' % ids(kids) if kids else b"",
            thread.parents[item_id],
            self._prose.text(own[draws.TEXT], own[draws.LENGTH]),
            assigned_ns // SECOND_NS,
        )
        return body, thread.next_change_ns(now_ns)

    def _comment(self, look: Look) -> tuple[Fields, int]:
        replies = self._cast.replies(look.item_id // BLOCK_IDS)
        # The replies of a comment are in the thread in which it was written: only comments without replies are moved.
        thread = self.thread(replies.story_of[look.item_id])
        moved = look.life.moved_ns <= look.now_ns
        parent = replies.moves_to[look.item_id] if moved else thread.parents[look.item_id]
        fields = self._opening(look)
        fields["id"] = b"%d" % look.item_id
        if "deleted" in fields:
            fields["parent"] = b"%d" % parent
        else:
            if kids := thread.kids(look.item_id, look.now_ns):
                fields["kids"] = ids(kids)
            fields["parent"] = b"%d" % parent
            fields["text"] = self._comment_text(look)
        fields["time"] = look.time()
        fields["type"] = b'"comment"'
        return fields, thread.next_change_ns(look.now_ns)

    def _comment_text(self, look: Look) -> bytes:
        if look.life.is_dead(look.now_ns):
            return _PLACEHOLDERS[look.item_id % 2]
        if look.now_ns < look.life.undelayed_ns:
            return b'"[delayed]"'
        return self._prose.text(look.own[draws.TEXT], look.own[draws.LENGTH], edited=look.edited())

    def _story(self, look: Look) -> tuple[Fields, int]:
        thread = self.thread(look.item_id)
        fields = self._opening(look)
        if "deleted" not in fields:
            dead = "dead" in fields
            if not dead:
                fields["descendants"] = b"%d" % thread.size(look.now_ns)
            fields["id"] = b"%d" % look.item_id
            if kids := thread.kids(look.item_id, look.now_ns):
                fields["kids"] = ids(kids)
            if look.role is Role.POLL:
                fields["parts"] = ids(self._cast.block(look.item_id // BLOCK_IDS).options[look.item_id])
            fields["score"] = b"%d" % look.life.score(look.now_ns)
            fields |= {} if dead else self._story_content(look)
        fields.setdefault("id", b"%d" % look.item_id)
        fields["time"] = look.time()
        fields["type"] = b'"poll"' if look.role is Role.POLL else b'"story"'
        return dict(sorted(fields.items())), thread.next_change_ns(look.now_ns)

    def _story_content(self, look: Look) -> Fields:
        """Most stories have a link, some a text, some both or neither."""
        shape = look.own[draws.LENGTH] % 20
        content: Fields = {"title": self._prose.title(look.own[draws.TITLE], edited=look.edited())}
        if look.role is Role.POLL or shape < 4:
            content["text"] = self._prose.text(look.own[draws.TEXT], look.own[draws.LENGTH], edited=look.edited())
        if look.role is Role.STORY and shape > 2:
            content["url"] = self._prose.url(look.own[draws.TITLE])
        return content

    def _job(self, look: Look) -> Fields:
        fields = self._opening(look) | {"id": b"%d" % look.item_id, "time": look.time(), "type": b'"job"'}
        if "deleted" not in fields:
            fields["score"] = b"1"
            if "dead" not in fields:
                fields["title"] = self._prose.title(look.own[draws.TITLE], edited=look.edited())
                fields["url"] = self._prose.url(look.own[draws.TITLE])
        return dict(sorted(fields.items()))

    def _option(self, look: Look) -> Fields:
        fields = self._opening(look) | {"id": b"%d" % look.item_id, "time": look.time(), "type": b'"pollopt"'}
        fields["poll"] = b"%d" % self._cast.poll_of(look.item_id)
        if "deleted" not in fields:
            fields["score"] = b"%d" % look.life.score(look.now_ns)
            fields["text"] = self._prose.title(look.own[draws.TITLE])
        return dict(sorted(fields.items()))


def _quoted_name(number: int) -> bytes:
    return b'"%b"' % name_of(number).encode()
