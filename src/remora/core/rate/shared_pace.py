"""How do processes share what they learned? The whole pace is stored, with ages instead of moments.

No two machines agree on the time, so a record holds how long ago each moment was. A process that finds a newer record
applies its own answers on top of it: the law then sees the answers of all processes, as if one process had got them.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeGuard

from remora.core.rate.constants import WAIT_MOST_NS
from remora.core.rate.law import Answer, Answered, Pace, after_many, cold_start
from remora.core.rate.pace_record import LARGEST, SLOWEST_PER_S, damage, in_bounds, to_record
from remora.core.units import HOUR_NS

# A process that cannot share keeps learning, but keeps only its latest answers for sharing later.
UNSHARED_MAX: Final = 4_096
# Latency differs from process to process, so these fields are not shared.
OWN: Final = frozenset(
    {
        "ceiling_interval_ns",
        "refusal_limit",
        "refused_ns",
        "quota_until_ns",
        "latency_ns",
        "baseline_ns",
        "slow",
        "slow_share",
        "answered_at_ns",
        "left_at_ns",
        "gap_ns",
        "queued",
        "queue_ns",
    }
)
MOMENTS: Final = frozenset({"learned_at_ns", "streak_began_at_ns", "last_refused_at_ns", "last_cut_at_ns"})
WAITS: Final = frozenset({"quiet_until_ns"})
NEVER_NEGATIVE: Final = (
    *("below_per_s", "best_per_s", "suspect_per_s", "asked_ns", "quota_interval_ns"),
    *("clean", "clean_before", "chain_good", "evidence", "trouble_evidence"),
)
# Moments further back do not matter any more.
AGE_MOST_NS: Final = 24 * HOUR_NS

# Their names in a record, beside what a single process stores.
COMMON: Final = "common"
CUTS: Final = "cuts"

Plain = bool | int | float | list[float]


@dataclass(frozen=True, slots=True)
class Common:
    """The pace of all processes, and how often it was cut: a process that counted fewer cuts learns of a new one."""

    pace: Pace
    cuts: int = 0


class UnsharedAnswers:
    """The latest answers that this process has not shared yet."""

    def __init__(self) -> None:
        self._answers: deque[Answered] = deque(maxlen=UNSHARED_MAX)

    def __len__(self) -> int:
        return len(self._answers)

    def __iter__(self) -> Iterator[Answered]:
        return iter(self._answers)

    def add(self, *answers: Answered) -> None:
        """Add these."""
        self._answers.extend(answers)

    def forget(self, told: Iterable[Answered]) -> None:
        """Remove answers that were shared."""
        shared = {id(answer) for answer in told}
        while self._answers and id(self._answers[0]) in shared:
            self._answers.popleft()

    def excuse(self) -> None:
        """Remove troubled answers: bad items caused them, so they are not shared."""
        kept = [answer for answer in self._answers if answer.answer is not Answer.TROUBLED]
        self._answers = deque(kept, maxlen=UNSHARED_MAX)


def to_common(common: Common, *, now_ns: int) -> dict[str, Plain]:
    """The pace in the form that all processes read."""
    told: dict[str, Plain] = {CUTS: common.cuts}
    for name in _names():
        value = getattr(common.pace, name)
        if name in MOMENTS:
            value = min(AGE_MOST_NS, max(0, now_ns - value))
        elif name in WAITS:
            value = (value - now_ns or -1) if value else 0  # 0: no wait
        elif isinstance(value, tuple):
            value = list(value)
        told[name] = value
    return told


def from_common(
    record: object, *, age_ns: int, quiet_in_ns: int, ceiling_interval_ns: int, now_ns: int
) -> Common | None:
    """The pace that a record holds, never above the ceiling; None when it cannot be read.

    `age_ns` is how long ago it was shared, `quiet_in_ns` what is left of its wait, if it has one.
    """
    data = record.get(COMMON) if isinstance(record, Mapping) else None
    if not isinstance(data, Mapping):
        return None
    cold = cold_start(ceiling_interval_ns=ceiling_interval_ns, now_ns=now_ns)
    known = {name: _like(getattr(cold, name), data.get(name)) for name in _names()}
    if None in known.values():
        return None
    for name in MOMENTS:
        known[name] = now_ns - min(AGE_MOST_NS, max(0, known[name])) - age_ns
    for name in WAITS:
        left_ns = quiet_in_ns if known[name] > 0 and quiet_in_ns else min(WAIT_MOST_NS, known[name] - age_ns)
        known[name] = now_ns + left_ns if known[name] else 0
    pace = replace(cold, **known)
    if not _is_possible(pace):
        return None
    cuts = _like(0, data.get(CUTS))
    return Common(in_bounds(pace), max(0, cuts or 0))


def heard_on_top(common: Pace, own: Pace, heard: Iterable[Answered]) -> Pace:
    """The common pace plus the answers that only this process got."""
    pace = replace(common, **{name: getattr(own, name) for name in OWN})
    return after_many(pace, list(heard))


def _is_possible(pace: Pace) -> bool:
    """Could the law have produced this? It divides by some of these numbers and takes the root of others."""
    if not pace.edges_per_s and (pace.streak or pace.below_per_s):
        return False
    if pace.octave_per_s < SLOWEST_PER_S:
        return False
    if min(getattr(pace, name) for name in NEVER_NEGATIVE) < 0:
        return False
    return damage(to_record(pace, now_ns=pace.learned_at_ns, now_wall_ns=0)) is None


def _names() -> list[str]:
    return [field.name for field in fields(Pace) if field.name not in OWN]


def _like(model: bool | float | tuple[float, ...], value: object) -> Any:  # noqa: FBT001 - a model, not a switch
    """The value if it is of the same kind as the model, else None."""
    match model:
        case bool():
            return value if isinstance(value, bool) else None
        case int():
            return value if isinstance(value, int) and _is_number(value) else None
        case float():
            return float(value) if _is_number(value) else None
        case tuple():
            return tuple(map(float, value)) if isinstance(value, list) and all(map(_is_number, value)) else None


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST
