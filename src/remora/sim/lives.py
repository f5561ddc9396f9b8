"""What happens to an item, and when? Its draws decide its whole life; the time says how much of it has happened."""

from dataclasses import dataclass
from math import log
from typing import Final, NamedTuple

from remora.core.units import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS
from remora.sim.cast import DRAW_MAX, FATE, FATE_AGE, LATENESS, REVIVAL, SCORE, VISIBILITY, Draws, Role, moves

NEVER_NS: Final = 1 << 62
_LATE_A_LITTLE: Final = 30 * SECOND_NS
_LATE_A_LOT: Final = 10 * MINUTE_NS
_DELAY_MAX_NS: Final = 10 * MINUTE_NS
_YOUNGEST_FATE_NS: Final = 30 * SECOND_NS
_OLDEST_FATE_NS: Final = 4 * DAY_NS
_SCORE_STEPS_MAX: Final = 10
_SCORE_TIME_NS: Final = 4 * HOUR_NS
_SCORE_MAX: Final = 4_000


@dataclass(frozen=True, slots=True)
class Chances:
    """How often things happen in a world, as shares of its items."""

    late: float = 0.03  # null at first, although the newest id is already higher
    delayed: float = 0.02  # comments that begin as `[delayed]`
    deleted: float = 0.025
    dead: float = 0.03
    dead_and_deleted: float = 0.002
    edited: float = 0.06


class Life(NamedTuple):
    """The moments of one item's life; `NEVER_NS` means that it never happens."""

    assigned_ns: int
    visible_ns: int
    undelayed_ns: int = 0  # until then its text is a placeholder
    edited_ns: int = NEVER_NS
    died_ns: int = NEVER_NS
    revived_ns: int = NEVER_NS
    deleted_ns: int = NEVER_NS
    moved_ns: int = NEVER_NS
    final_score: int = 1
    score_steps: int = 0

    def is_dead(self, now_ns: int) -> bool:
        return self.died_ns <= now_ns < self.revived_ns

    def score(self, now_ns: int) -> int:
        """The score now. It grows quickly, then slowly, then stops."""
        steps = self.score_steps
        if not steps or now_ns >= self._score_step_ns(steps):
            return self.final_score
        passed = sum(self._score_step_ns(step) <= now_ns for step in range(1, steps))
        return 1 + (self.final_score - 1) * passed // steps

    def _score_step_ns(self, step: int) -> int:
        steps = self.score_steps
        return self.visible_ns + int(_SCORE_TIME_NS * log((steps + 1) / (steps + 1 - step)))

    def next_change_ns(self, now_ns: int) -> int:
        """When the item itself changes next."""
        plain = (self.undelayed_ns, self.edited_ns, self.died_ns, self.revived_ns, self.deleted_ns, self.moved_ns)
        coming = min([moment for moment in plain if moment > now_ns])
        steps = self.score_steps
        if not steps or now_ns >= self._score_step_ns(steps):
            return coming
        return min(coming, *[moment for moment in map(self._score_step_ns, range(1, steps + 1)) if moment > now_ns])

    def moments(self) -> list[int]:
        """Every moment at which the item itself changes, ascending; the first is its appearance."""
        own = {
            self.visible_ns,
            self.undelayed_ns,
            self.edited_ns,
            self.died_ns,
            self.revived_ns,
            self.deleted_ns,
            self.moved_ns,
            *(self._score_step_ns(step) for step in range(1, self.score_steps + 1)),
        }
        return sorted(moment for moment in own if self.visible_ns <= moment < NEVER_NS)


class Lives:
    """The life of every item, from its draws."""

    def __init__(self, chances: Chances) -> None:
        self._chances = chances
        edges = (chances.deleted, chances.dead, chances.dead_and_deleted, chances.edited)
        total, self._edges = 0.0, []
        for share in edges:
            total += share
            self._edges.append(int(total * DRAW_MAX))
        assert total < 1, f"the chances add up to {total}"
        self._late_below = int(chances.late * DRAW_MAX)
        self._delayed_below = int((chances.late + chances.delayed) * DRAW_MAX)

    def is_uneventful(self, own: Draws) -> bool:
        """Whether a comment with these draws appears in time and then nothing ever happens to it."""
        fate = own[FATE]
        return own[VISIBILITY] >= self._delayed_below and fate >= self._edges[-1] and not moves(fate)

    def visible_ns(self, own: Draws, assigned_ns: int) -> int:
        """When the item with these draws can first be read."""
        if own[VISIBILITY] >= self._late_below:
            return assigned_ns
        lateness = own[LATENESS]
        longest_ns = _LATE_A_LOT if lateness & 7 == 0 else _LATE_A_LITTLE
        return assigned_ns + longest_ns * (lateness + 1) // DRAW_MAX

    def moved_ns(self, own: Draws, assigned_ns: int) -> int:
        """When a comment that moves is moved."""
        return self.visible_ns(own, assigned_ns) + _age_ns(own[FATE_AGE])

    def life(self, role: Role, own: Draws, assigned_ns: int, *, moves_away: bool) -> Life:
        """Everything that will happen to an item with these draws."""
        visible_ns = self.visible_ns(own, assigned_ns)
        undelayed_ns, final_score, steps = 0, 1, 0
        if role is not Role.COMMENT:
            final_score, steps = _score(role, own[SCORE])
        elif self._late_below <= own[VISIBILITY] < self._delayed_below:
            undelayed_ns = visible_ns + (_DELAY_MAX_NS * (own[LATENESS] + 1) // DRAW_MAX)
        edited_ns = died_ns = revived_ns = deleted_ns = NEVER_NS
        if own[FATE] < self._edges[-1]:
            edited_ns, died_ns, revived_ns, deleted_ns = self._fate(own, visible_ns)
        return Life(
            assigned_ns,
            visible_ns,
            undelayed_ns,
            edited_ns,
            died_ns,
            revived_ns,
            deleted_ns,
            self.moved_ns(own, assigned_ns) if moves_away else NEVER_NS,
            final_score,
            steps,
        )

    def _fate(self, own: Draws, visible_ns: int) -> tuple[int, int, int, int]:
        """When it is edited, dies, is revived and deleted."""
        fate = own[FATE]
        assert not moves(fate), "what moves has no other fate"
        then_ns = visible_ns + _age_ns(own[FATE_AGE])
        later_ns = then_ns + _age_ns(own[REVIVAL])
        if fate < self._edges[0]:
            return NEVER_NS, NEVER_NS, NEVER_NS, then_ns
        if fate < self._edges[1]:
            return NEVER_NS, then_ns, later_ns if own[REVIVAL] % 5 == 0 else NEVER_NS, NEVER_NS
        if fate < self._edges[2]:
            return NEVER_NS, then_ns, NEVER_NS, later_ns
        return then_ns, NEVER_NS, NEVER_NS, NEVER_NS


def _age_ns(draw: int) -> int:
    """Most things happen soon, some after days: uniform on a logarithmic scale."""
    return int(_YOUNGEST_FATE_NS * (_OLDEST_FATE_NS / _YOUNGEST_FATE_NS) ** (draw / DRAW_MAX))


def _score(role: Role, draw: int) -> tuple[int, int]:
    """The final score of an item, and in how many steps it gets there."""
    if role not in (Role.STORY, Role.POLL, Role.POLLOPT):
        return 1, 0
    final = min(_SCORE_MAX, int(1 / (1 - draw / DRAW_MAX) ** 1.2))
    return final, min(final - 1, _SCORE_STEPS_MAX)
