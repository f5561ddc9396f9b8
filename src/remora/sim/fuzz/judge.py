"""What must hold after every step? Nothing is lost, no lease is held twice, no frontier goes back, no secret leaks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from remora.contracts import Observation, Outcome, Store
from remora.core.item import Item
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.discovery import Discovery, Kind, fingerprint
from remora.core.ledger.gap import GapState
from remora.core.ledger.segment import Segment, SegmentKind
from remora.core.verdict import Found
from remora.loops.listed.entry_marks import kept_mark
from remora.sim.fuzz.stage import Stage

NAME: Final = "fuzzed"
CANARY: Final = "canary-7f3a9c-never-shown"
GAPS_READ_MAX: Final = 1_000_000
VIOLATIONS_KEPT: Final = 20
ABSENT_AFTER_LOOKS: Final = 3
# The provider does not have the item, or no longer: nothing is owed.
AT_REST: Final = frozenset({GapState.ABSENT, GapState.GONE})
_KEPT: Final = {Outcome.NEW, Outcome.CHANGED}


class Judge:
    """Collects violations. The first one ends a world. None is raised inside production code, which might catch it."""

    def __init__(self, content_of: Callable[[int, bytes], bytes]) -> None:
        self.stage: Stage | None = None  # what the provider really said
        self.is_exact = True  # whether this judge sees every store call that had an effect
        self.content_of = content_of  # what counts as a new revision, as in the source's decoder
        self.violations: list[str] = []
        self.clock_stepped = False  # leases use the wall clock: after a step two may overlap
        self.is_lied_to = False  # about the newest id
        self.keeps_contents = True  # False: the owner deletes earlier contents
        self.looks = 0
        self.is_reading = True  # whether checks of the whole ledger may run now
        self._frontier = 0
        self._seen: set[str] = set()  # listed entries that were found in the store
        self._segment_leases: dict[int, tuple[int, str, int]] = {}  # fence, owner, until
        self._gap_leases: dict[tuple[Kind, str], tuple[str, int]] = {}  # owner, until
        self._announced: dict[tuple[Kind, str], int] = {}  # when, by the wall clock
        self._recorded: dict[tuple[Kind, str], int] = {}  # the latest recorded departure
        self._histories: dict[int, list[bytes]] = {}  # the contents that the store reported as kept, by item

    def fail(self, violation: str) -> None:
        """Note a violation: a promise is broken."""
        if len(self.violations) < VIOLATIONS_KEPT:
            self.violations.append(violation)

    def forget_leases(self) -> None:
        """The next writer opened the file: no other process can be alive, so the leases of dead ones have ended."""
        self._gap_leases.clear()
        self._segment_leases = {name: (fence, owner, 0) for name, (fence, owner, _) in self._segment_leases.items()}

    def told(self, text: str, *, where: str) -> None:
        """Check text that people can read for secrets."""
        if CANARY in text:
            self.fail(f"a secret is in {where}")

    # -- after every call of the store ---------------------------------------------------------------------------------

    def seen(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> None:
        """Check a call of the store that returned this. Another source of the same process has other leases and gaps."""
        if args and args[0] != NAME:
            return
        look = getattr(self, f"_saw_{name}", None)
        if look is not None:
            look(args, kwargs, result)

    def _saw_claim(self, _args: tuple[Any, ...], kwargs: Mapping[str, Any], segment: Segment | None) -> None:
        if segment is None:
            return
        now_ns, owner = self._now_ns(kwargs), str(kwargs["owner"])
        held = self._segment_leases.get(segment.segment_id)
        if held is not None and segment.fence <= held[0]:
            self.fail(f"segment {segment.segment_id} was claimed with fence {segment.fence} after {held[0]}")
        if held is not None and held[2] > now_ns and not self.clock_stepped:
            self.fail(f"two live leases: segment {segment.segment_id} of {held[1]} was given to {owner}")
        self._segment_leases[segment.segment_id] = (segment.fence, owner, now_ns + int(kwargs["lease_ns"]))

    def _saw_advance(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], was_taken: Any) -> None:
        segment: Segment = args[1]
        held = self._segment_leases.get(segment.segment_id)
        if was_taken and segment.kind is not SegmentKind.RESCAN:
            self._covered(segment.cursor + 1, int(args[2]))
        if not was_taken or held is None:
            return
        if segment.fence < held[0]:
            self.fail(f"segment {segment.segment_id} was advanced by an outdated fence")
        self._segment_leases[segment.segment_id] = (held[0], held[1], self._now_ns(kwargs) + int(kwargs["lease_ns"]))

    def _saw_release(self, args: tuple[Any, ...], _kwargs: Mapping[str, Any], was_taken: Any) -> None:
        segment: Segment = args[1]
        if was_taken and segment.segment_id in self._segment_leases:
            fence, owner, _until_ns = self._segment_leases[segment.segment_id]
            self._segment_leases[segment.segment_id] = (fence, owner, 0)

    def _saw_lease_gaps(self, _args: tuple[Any, ...], kwargs: Mapping[str, Any], gaps: Any) -> None:
        now_ns, owner = self._now_ns(kwargs), str(kwargs["owner"])
        for gap in gaps:
            held = self._gap_leases.get((gap.kind, gap.key))
            if held is not None and held[1] > now_ns and not self.clock_stepped:
                self.fail(f"two live leases: a gap of {held[0]} was given to {owner}")
            self._gap_leases[gap.kind, gap.key] = (owner, now_ns + int(kwargs["lease_ns"]))

    def _saw_release_gaps(self, _args: tuple[Any, ...], kwargs: Mapping[str, Any], _count: int) -> None:
        freed = [key for key, (owner, _) in self._gap_leases.items() if owner == kwargs["owner"]]
        for key in freed:
            del self._gap_leases[key]

    def _saw_replay_gaps(self, _args: tuple[Any, ...], _kwargs: Mapping[str, Any], _count: int) -> None:
        self._gap_leases.clear()

    def _now_ns(self, kwargs: Mapping[str, Any]) -> int:
        """The true time: a caller that passes a wrong one must not deceive its judge."""
        return int(kwargs["now_ns"]) if self.stage is None else self.stage.provider.ticks()

    def _saw_cover(self, args: tuple[Any, ...], _kwargs: Mapping[str, Any], _result: None) -> None:
        ids: IdRange = args[1]
        self._covered(ids.start, ids.end)

    async def compare(self, name: str, args: tuple[Any, ...], store: Store) -> None:
        """What is covered beside the ids of this call was recorded, too: a hole must not be closed with them."""
        if not self.is_exact or name != "cover" or args[0] != NAME:
            return
        ids, coverage = args[1], await store.coverage(NAME)
        for item_id in (ids.start - 1, ids.end + 1):
            if item_id in coverage:
                self._covered(item_id, item_id)

    def _covered(self, first_id: int, last_id: int) -> None:
        """Ids are covered only after their outcome was recorded."""
        for item_id in range(first_id, last_id + 1):
            if self.is_exact and (Kind.ITEM, str(item_id)) not in self._recorded:
                self.fail(f"item {item_id} is covered, and no outcome of it was recorded")

    def _saw_record_many(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], outcomes: Sequence[Outcome]) -> None:
        for seen, outcome in zip(args[1], outcomes, strict=True):
            self._saw_record((args[0], seen), kwargs, outcome)

    def _saw_record(self, args: tuple[Any, ...], _kwargs: Mapping[str, Any], outcome: Outcome) -> None:
        seen: Observation = args[1]
        key = (seen.discovery.kind, seen.discovery.key)
        self._gap_leases.pop(_gap_key(seen.discovery), None)
        self._recorded[key] = max(seen.started_at_ns, self._recorded.get(key, 0))
        if outcome is Outcome.ABSENT and seen.discovery.kind is Kind.ITEM and self.stage is not None:
            said = self.stage.absences[seen.discovery.item_id]
            if said < ABSENT_AFTER_LOOKS:
                self.fail(f"an item is called absent after the provider said so {said} times")
            if not self.clock_stepped and not self.is_lied_to and self.stage.is_young(seen.discovery.item_id):
                self.fail(f"the young item {seen.discovery.item_id} is called absent")
        match seen.verdict:
            case Found(Item() as item) if outcome in _KEPT:
                if self.stage is not None and item.body not in self.stage.honest.get(item.item_id, ()):
                    self.fail(f"item {item.item_id} was stored with a body that the provider never had")
                history = self._histories.setdefault(item.item_id, [])
                content = item.content_in(item.body)
                assert content is not None, "what was found has a content"
                if not history or history[-1] != content:
                    history.append(content)
            case _:
                pass

    def _saw_announce(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], _depth: int) -> None:
        for key in args[1]:
            self._announced[key] = int(kwargs["now_ns"])

    def was_fetched(self, key: tuple[Kind, str], *, since_ns: int) -> bool:
        """Whether the answer to a request that was sent since then is recorded."""
        return self._recorded.get(key, 0) >= since_ns

    # -- every few minutes ---------------------------------------------------------------------------------------------

    async def look(self, store: Store, *, is_numbered: bool) -> None:
        """Check everything that can be read from the ledger now."""
        self.looks += 1
        if is_numbered:
            await self._look_at_ids(store)
            await self._look_at_announced(store)
        else:
            await self._look_at_list(store)
        for gap in await store.gaps(NAME, state=GapState.DEAD, limit=GAPS_READ_MAX):
            if gap.reason.family != "item":
                self.fail(f"a gap is dead because of {gap.reason}, which is not the item's fault")

    async def _look_at_announced(self, store: Store) -> None:
        """An announced item is still waiting, or was fetched by a request that was sent later."""
        if not self.is_exact or self.clock_stepped:
            return
        waiting = {(entry.kind, entry.key) for entry in await store.waiting(NAME, limit=GAPS_READ_MAX)}
        for key, announced_ns in self._announced.items():
            if key not in waiting and self._recorded.get(key, 0) < announced_ns:
                self.fail(f"the announced {key[0]} {key[1]} neither waits nor was fetched since")
        self._announced = {key: at_ns for key, at_ns in self._announced.items() if key in waiting}

    async def _look_at_list(self, store: Store) -> None:
        """No watermark is beyond an entry of its list that was not seen. Numbered pages cannot promise that."""
        if self.stage is None or self.stage.archive_pages:
            return
        if any(gap.kind is Kind.UNREAD_PAGE for gap in await store.gaps(NAME, limit=GAPS_READ_MAX)):
            return  # what a page that could not be read shows is owed with that page
        lines, has_channels = self.stage.archive_lines(), bool(self.stage.form.channels)
        channels = {line.key.partition("/")[0] for line in lines} if has_channels else set()
        watermarks = {channel: await kept_mark(store, NAME, channel) for channel in sorted(channels)}
        whole = (await store.walk_state(NAME)).watermark
        for line in lines:
            watermark = watermarks[line.key.partition("/")[0]] if has_channels else whole
            mark = line.created if self.stage.form.is_by_creation else line.mark
            if watermark is None or mark >= watermark or line.key in self._seen:
                continue
            if await store.document(NAME, line.key) is None:
                self.fail(f"the watermark is beyond {line.key}, which was never seen")
            self._seen.add(line.key)  # that it stays is checked at the end: reading all at every look takes too long

    async def _look_at_ids(self, store: Store) -> None:
        coverage = await store.coverage(NAME)
        frontier = coverage.frontier(first_id=1)
        first = coverage.ranges[0] if coverage.ranges and coverage.ranges[0].start <= 1 else None
        if frontier != (0 if first is None else first.end):
            self.fail(f"the frontier is told as {frontier}, and the first covered ids are {first}")
        if frontier < self._frontier:
            self.fail(f"the frontier went back from {self._frontier} to {frontier}")
        self._frontier = max(frontier, self._frontier)
        held = {item_id async for item_id, _ in store.bodies(NAME)}
        gaps = {gap.key for gap in await store.gaps(NAME, limit=GAPS_READ_MAX) if gap.kind is Kind.ITEM}
        for ids in coverage.ranges:
            for item_id in range(ids.start, ids.end + 1):
                if item_id not in held and str(item_id) not in gaps:
                    self.fail(f"item {item_id} is covered, but neither held nor owed nor absent")

    # -- at the end ----------------------------------------------------------------------------------------------------

    async def look_at_histories(self, store: Store) -> None:
        """Every content that the store reported as kept is still there, in the order of arrival."""
        for item_id, kept in self._histories.items() if self.keeps_contents else ():
            current = await store.item(NAME, item_id)
            bodies = [revision.body for revision in await store.revisions(NAME, item_id)]
            bodies += [] if current is None else [current.body]
            have = [self.content_of(item_id, body) for body in bodies]
            if not _holds_in_order(have, kept):
                self.fail(f"item {item_id} had {len(kept)} contents; of those the store lost some, it has {len(have)}")

    async def look_for_owed(self, store: Store) -> None:
        """After the faults have stopped, nothing is owed except items that do not exist yet."""
        for gap in await store.gaps(NAME, limit=GAPS_READ_MAX):
            if gap.kind is Kind.ITEM and self.stage is not None and not self.stage.has(int(gap.key)):
                continue  # a young id is asked for again for an hour before it counts as absent
            if gap.state is GapState.DEAD or (gap.state not in AT_REST and gap.reason.family != "young"):
                self.fail(f"still {gap.state} after the faults have stopped: {gap.kind} because {gap.reason}")


def _gap_key(discovery: Discovery) -> tuple[Kind, str]:
    """The key of a gap. A document's own key may be personal: its gap has a fingerprint instead."""
    if discovery.kind is Kind.DOCUMENT:
        return discovery.kind, fingerprint(NAME, discovery.key)
    return discovery.kind, discovery.key


def _holds_in_order(have: list[bytes], kept: list[bytes]) -> bool:
    """Whether everything kept is there. A killed process may have stored one more content without reporting it."""
    rest = iter(have)
    return all(content in rest for content in kept)
