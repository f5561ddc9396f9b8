"""Which world belongs to a seed? Its source, store, limits and incidents, as one value that can be shrunk."""

from enum import StrEnum
from random import Random
from typing import Final, Literal

import msgspec

from remora.sim.fuzz.credentials import draw_rotation
from remora.sim.fuzz.dialects import Dialect, draw_dialect
from remora.sim.fuzz.forms import PLAIN, ListForm, draw_form
from remora.sim.fuzz.uses import UNUSED, Uses, draw_uses
from remora.sim.limits import Limit
from remora.sources.paging import Paging

HOUR_S: Final = 3_600.0
_INCIDENTS_MAX: Final = 14
_BANNING_SHARE: Final = 0.15
_Kind = Literal["none", "token_bucket", "sliding_window", "fixed_window", "heat"]
_KINDS: Final[tuple[_Kind, ...]] = ("none", "token_bucket", "sliding_window", "fixed_window", "heat")


class SourceShape(StrEnum):
    """What kind of source the world has."""

    HACKERNEWS = "hackernews"  # the preset: streams, users, dense ids
    NUMBERED = "numbered"  # declared: sparse ids, no stream
    OFFSET = "offset"
    CURSOR = "cursor"
    PAGE = "page"
    LINK = "link"

    @property
    def paging(self) -> Paging | None:
        """How its list is paged; None for a numbered source."""
        return Paging(self.value) if self.value in set(Paging) else None


class Size(StrEnum):
    """How much happens in a world. Many small worlds find more mistakes than a few large ones; long ones live for days."""

    SMALL = "small"
    LARGE = "large"
    LONG = "long"


class IncidentKind(StrEnum):
    """One thing that goes wrong for a while, or once."""

    WEATHER = "weather"  # some kinds of bad answers, and stream faults
    OUTAGE = "outage"
    FLOOD = "flood"
    BAD_ITEMS = "bad_items"  # a run of neighbours that always fail in the same way
    BAN = "ban"  # everything is refused
    WRONG_HINT = "wrong_hint"  # refusals with a Retry-After that is wrong
    LIE = "lie"  # the reported newest id is too low or too high
    CRASH = "crash"
    RESTART = "restart"
    STALL = "stall"  # the machine is suspended: time passes and nothing runs
    SUSPEND = "suspend"  # one of several processes stands still; the others go on
    STEP = "step"  # the wall clock jumps
    STORE_DOWN = "store_down"
    DISK_FULL = "disk_full"  # the SQLite file cannot grow: some writes fail, some still fit


class Incident(msgspec.Struct, frozen=True):
    """One incident. What `amount` and `detail` mean depends on the kind."""

    kind: IncidentKind
    at_s: float
    for_s: float = 0.0
    amount: float = 0.0
    detail: str = ""
    seed: int = 0


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one world. The same value gives the same run."""

    seed: int
    shape: SourceShape
    store: str  # "memory" or "sqlite"
    processes: int
    size: Size = Size.SMALL
    hours: float
    items: int  # how many exist at the beginning
    new_per_day: float
    ceiling_per_s: float
    in_flight: int
    limit: Limit
    refusal_limit: int = 0  # what the owner allows within a minute, because one more would be a ban; 0: no such limit
    backstop: bool  # False: there is no rescan, so every announced change must arrive without one
    missed_share: float = 0.0  # changes that the stream never announces: only a rescan finds them
    every_s: float  # time between two runs over a list
    poll_every_s: float = 15.0  # of the newest id, while no stream reports it
    max_fetches: int | None  # of one run; None: unlimited
    form: ListForm = PLAIN  # of the list and its details
    rotates_every_s: float = 0.0  # when the credential of a list is replaced; 0: never
    dialect: Dialect = Dialect.STATUS  # how the provider says "too many"
    uses: Uses = UNUSED  # what is done with the mirror meanwhile
    incidents: tuple[Incident, ...]

    def without(self, index: int) -> "Scenario":
        """The same world without one incident."""
        return msgspec.structs.replace(self, incidents=self.incidents[:index] + self.incidents[index + 1 :])


def draw(seed: int) -> Scenario:
    """The world of a seed."""
    chance = Random(f"world/{seed}")
    shape = chance.choices(list(SourceShape), weights=(5, 3, 2, 2, 2, 2))[0]
    is_listed = shape.paging is not None
    processes = 1 if chance.random() < 0.7 else chance.choice([2, 3])
    backstop = is_listed or shape is SourceShape.NUMBERED or chance.random() < 0.6
    size = chance.choices(list(Size), weights=(60, 15, 25))[0]
    hours = chance.uniform(*_hours(size, is_listed=is_listed)) / (1 if size is not Size.LONG else processes)
    ceiling = chance.choice([0.5, 1.0, 5.0]) if is_listed else chance.choice([2.0, 10.0, 50.0, 250.0])
    kinds = _kinds(backstop=backstop, is_listed=is_listed, has_stream=shape is SourceShape.HACKERNEWS)
    incidents = [
        _incident(chance, chance.choice(kinds), _moment_s(chance, size, hours), backstop=backstop)
        for _ in range(chance.randint(1, _INCIDENTS_MAX))
    ]
    store = "memory" if processes > 1 or chance.random() < 0.6 else "sqlite"
    if store == "sqlite" and backstop:
        incidents += _full_disks(seed, size, hours)
    if processes > 1 and backstop:
        incidents += _suspensions(seed, size, hours)
    return Scenario(
        seed=seed,
        shape=shape,
        store=store,
        processes=processes,
        size=size,
        hours=round(hours, 3),
        items=chance.randint(20, 250 if size is Size.LARGE else 80),
        new_per_day=_new_per_day(chance, size) / (4 if is_listed else 1),
        ceiling_per_s=ceiling,
        in_flight=chance.choice([1, 4, 16, 32]),
        limit=_limit(chance, ceiling),
        refusal_limit=_refusal_limit(seed),
        backstop=backstop,
        missed_share=chance.choice([0.03, 0.4]) if backstop else 0.0,
        every_s=chance.choice([6, 12, 24] if size is Size.LONG else [0.5, 1, 3, 6]) * HOUR_S,
        poll_every_s=chance.choice([60.0, 900.0]) if size is Size.LONG else 15.0,
        max_fetches=chance.choice([None, None, 7, 60]),
        form=draw_form(seed, shape.paging),
        dialect=draw_dialect(seed),
        rotates_every_s=draw_rotation(seed) if is_listed else 0.0,
        uses=draw_uses(seed, store=store, hours=hours, is_rescanned=backstop and not is_listed, processes=processes),
        incidents=tuple(sorted(incidents, key=lambda incident: incident.at_s)),
    )


def _full_disks(seed: int, size: Size, hours: float) -> list[Incident]:
    """With a chance of its own: everything else in the world of this seed stays as it was."""
    chance = Random(f"disk/{seed}")
    return [
        Incident(IncidentKind.DISK_FULL, _moment_s(chance, size, hours), chance.choice([5.0, 120.0, 1_800.0]))
        for _ in range(chance.choice([0, 1, 2]))
    ]


def _suspensions(seed: int, size: Size, hours: float) -> list[Incident]:
    """One of several processes stands still for longer than a lease, or for a moment; with a chance of its own."""
    chance = Random(f"suspend/{seed}")
    return [
        Incident(
            IncidentKind.SUSPEND,
            _moment_s(chance, size, hours),
            chance.choice([3.0, 40.0, 200.0, 900.0]),
            seed=chance.randrange(1 << 30),
        )
        for _ in range(chance.choice([0, 1, 3, 6]))
    ]


def _refusal_limit(seed: int) -> int:
    """With a chance of its own: everything else in the world of this seed stays as it was."""
    chance = Random(f"refusals/{seed}")
    return chance.choice([2, 4, 10]) if chance.random() < _BANNING_SHARE else 0


def _hours(size: Size, *, is_listed: bool) -> tuple[float, float]:
    """The shortest and the longest life of a world of this size."""
    match size:
        case Size.SMALL:
            return (8, 30) if is_listed else (0.15, 0.6)
        case Size.LARGE:
            return (30, 120) if is_listed else (0.75, 3)
        case Size.LONG:
            return (10 * 24, 40 * 24) if is_listed else (12, 48)


def _new_per_day(chance: Random, size: Size) -> float:
    """A long world is quiet most of the time, so that its days are cheap."""
    return chance.choice([6.0, 24.0, 100.0] if size is Size.LONG else [24.0, 400.0, 1_500.0, 4_000.0])


def _moment_s(chance: Random, size: Size, hours: float) -> float:
    """When an incident begins. Most come early, while there is much to collect; in a long life they come at any time."""
    share = chance.random()
    return round((share if size is Size.LONG else share**3) * hours * HOUR_S, 3)


def _kinds(*, backstop: bool, is_listed: bool, has_stream: bool) -> list[IncidentKind]:
    """The possible kinds. Without a backstop, only those that lose no announcement."""
    if not backstop:
        return [IncidentKind.WEATHER, IncidentKind.CRASH, IncidentKind.RESTART, IncidentKind.BAD_ITEMS]
    drawn_apart = {IncidentKind.DISK_FULL, IncidentKind.SUSPEND}
    kinds: list[IncidentKind] = [kind for kind in IncidentKind if kind not in drawn_apart]
    if is_listed:
        kinds.remove(IncidentKind.LIE)
    if not has_stream:
        kinds.remove(IncidentKind.FLOOD)
    return kinds


def _incident(chance: Random, kind: IncidentKind, at_s: float, *, backstop: bool) -> Incident:
    seed = chance.randrange(1 << 30)
    lasts_s = round(min(chance.expovariate(1 / 900), 6 * HOUR_S), 3)
    match kind:
        case IncidentKind.CRASH:
            down_s = chance.choice([0.0, 20.0]) if not backstop else chance.choice([0.0, 30.0, 600.0, 7_200.0])
            detail = chance.choice(["before", "after", "at once"])
            return Incident(kind, at_s, down_s, amount=chance.randint(1, 30), detail=detail, seed=seed)
        case IncidentKind.RESTART:
            down_s = chance.choice([0.0, 30.0, 1_800.0]) if backstop else 5.0
            return Incident(kind, at_s, down_s, seed=seed)
        case IncidentKind.STEP:
            step_s = chance.choice([1, -1]) * chance.choice([1.5, 90.0, 3_700.0, 90_000.0])
            return Incident(kind, at_s, amount=step_s)
        case IncidentKind.OUTAGE:
            return Incident(kind, at_s, lasts_s, detail=chance.choice(["all", "stream", "requests"]))
        case IncidentKind.LIE:
            return Incident(kind, at_s, lasts_s, amount=chance.choice([-1_000, -5, 3, 40, 1_000_000, 4_000_000_000]))
        case IncidentKind.BAN:
            return Incident(kind, at_s, lasts_s, detail=chance.choice(["429", "403", "401", "503", "500"]))
        case IncidentKind.STORE_DOWN:
            return Incident(kind, at_s, min(lasts_s, 1_800.0), amount=chance.random(), seed=seed)
        case IncidentKind.STALL:
            return Incident(kind, at_s, chance.choice([2.0, 75.0, 4_000.0]))
        case _:
            return Incident(kind, at_s, lasts_s, amount=chance.random(), seed=seed)


def _limit(chance: Random, ceiling_per_s: float) -> Limit:
    """A hidden limit somewhere around the ceiling, or none."""
    kind: _Kind = chance.choice(_KINDS)
    per_s = ceiling_per_s * chance.uniform(0.2, 2.0)
    window_s = chance.choice([1.0, 10.0, 60.0])
    cools_s = chance.choice([60.0, 240.0])
    count = cools_s * per_s if kind == "heat" else window_s * per_s
    return Limit(
        kind=kind,
        per_second=per_s,
        burst=chance.choice([1, 5, 20]),
        window_s=window_s,
        count=max(2, round(count)),
        cools_in_s=cools_s,
        retry_after=chance.random() < 0.5,
    )
