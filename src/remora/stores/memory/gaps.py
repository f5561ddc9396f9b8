"""How does the memory store keep gaps, the inbox, the pace and notes?"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from remora.contracts import GapCount, InboxEntry, Json
from remora.core.ledger.discovery import Kind
from remora.core.ledger.gap import Gap, GapEvent, GapState, is_due, moved
from remora.core.reasons import GapReason
from remora.stores.decisions import HEARTBEAT_ALIVE_NS, alike, is_lease_over
from remora.stores.memory.state import GapRow, MemoryPart

_SERVED = frozenset({GapState.OWED, GapState.DEAD})
_REPLAYED = frozenset({GapState.OWED, GapState.DEAD, GapState.ABSENT, GapState.GONE})


class MemoryGaps(MemoryPart):
    """Gaps, inbox, pace and notes."""

    async def lease_gaps(
        self, source: str, *, owner: str, limit: int, lease_ns: int, now_ns: int, without: Sequence[GapReason] = ()
    ) -> Sequence[Gap]:
        """Due gaps; those that have waited longest since their last attempt come first."""
        due = [
            row
            for row in self._open_gaps(source)
            if row.gap.reason not in without and _is_servable(row, lease_ns=lease_ns, now_ns=now_ns)
        ]
        due.sort(key=lambda row: (row.served_turn, row.gap.first_seen_ns, row.gap.kind, row.gap.key))
        self._tables.turn += 1
        for row in due[:limit]:
            row.gap = moved(row.gap, GapEvent.LEASE)
            row.owner, row.lease_until_ns, row.served_turn = owner, now_ns + lease_ns, self._tables.turn
        return tuple(row.gap for row in due[:limit])

    async def release_gaps(self, source: str, *, owner: str) -> int:
        """Give back the leases that this owner still holds."""
        held = [row for row in self._open_gaps(source) if row.gap.state is GapState.LEASED and row.owner == owner]
        for row in held:
            row.gap, row.owner = moved(row.gap, GapEvent.RELEASE), None
        return len(held)

    async def gaps(
        self,
        source: str,
        *,
        kind: Kind | None = None,
        state: GapState | None = None,
        reason: GapReason | None = None,
        limit: int = 1_000,
    ) -> Sequence[Gap]:
        """Gaps, oldest first."""
        rows = self._tables.gaps if state is GapState.SETTLED else self._tables.open_gaps
        found = [
            row.gap
            for (named, _, _), row in rows.items()
            if named == source
            and kind in {None, row.gap.kind}
            and reason in {None, row.gap.reason}
            and state in {None, row.gap.state}
        ]
        return tuple(sorted(found, key=lambda gap: (gap.first_seen_ns, gap.kind, gap.key))[:limit])

    async def count_held_gaps(self, source: str) -> int:
        """How many items with an open gap are held."""
        keys = [row.gap.key for row in self._open_gaps(source) if row.gap.kind is Kind.ITEM]
        return sum(int(key) in self._tables.items[source] for key in keys)

    async def gap_counts(self, source: str) -> Sequence[GapCount]:
        """Counts of the gaps that are not settled."""
        groups: dict[tuple[Kind, GapState, GapReason], list[Gap]] = {}
        for row in self._open_gaps(source):
            groups.setdefault((row.gap.kind, row.gap.state, row.gap.reason), []).append(row.gap)
        return tuple(
            GapCount(
                *name,
                count=len(group),
                oldest_ns=min(gap.first_seen_ns for gap in group),
                next_ns=min(gap.not_before_ns for gap in group),
            )
            for name, group in sorted(groups.items())
        )

    async def replay_gaps(
        self, source: str, *, reason: GapReason | None = None, key: str | None = None, now_ns: int
    ) -> int:
        """Make dead and absent gaps owed again, and owed gaps due now."""
        replayed = [
            row
            for row in self._open_gaps(source)
            if row.gap.state in _REPLAYED and reason in {None, row.gap.reason} and key in {None, row.gap.key}
            if row.gap.kind is not Kind.PAGE  # the rest of a list is not an item: its cool-down stays
        ]
        for row in replayed:
            row.gap = replace(moved(row.gap, GapEvent.REPLAY), not_before_ns=now_ns)
        return len(replayed)

    def _open_gaps(self, source: str) -> Iterator[GapRow]:
        return (row for (named, _, _), row in self._tables.open_gaps.items() if named == source)

    async def announce(self, source: str, keys: Sequence[tuple[Kind, str]], *, now_ns: int) -> int:
        """Add keys. A key that is already waiting gets a new ticket and moves to the end."""
        for kind, key in keys:
            self._tables.inbox.pop((source, kind, key), None)
            self._tables.inbox[source, kind, key] = InboxEntry(kind, key, next(self._tables.tickets))
        return await self.inbox_depth(source)

    async def waiting(self, source: str, *, limit: int, after_ticket: int = 0) -> Sequence[InboxEntry]:
        """The oldest tickets after `after_ticket`."""
        mine = (entry for (named, _, _), entry in self._tables.inbox.items() if named == source)
        return tuple(entry for entry in mine if entry.ticket > after_ticket)[:limit]

    async def inbox_depth(self, source: str) -> int:
        """How many keys are waiting."""
        return sum(named == source for named, _, _ in self._tables.inbox)

    async def load_pace(self, source: str) -> Json:
        """The stored pace."""
        return _loaded(self._tables.pace.get(source))

    async def save_pace(self, source: str, record: Mapping[str, Json]) -> None:
        """Store it."""
        self._tables.pace[source] = json.dumps(record)

    async def note(self, source: str, name: str) -> Json:
        """The fact, or None."""
        return _loaded(self._tables.notes.get((source, name)))

    async def keep_note(self, source: str, name: str, value: Json) -> None:
        """Store it. None deletes it."""
        if value is None:
            self._tables.notes.pop((source, name), None)
        else:
            self._tables.notes[source, name] = json.dumps(value)

    async def swap_note(self, source: str, name: str, *, old: Json, new: Json) -> bool:
        """Store the new fact if the old one is still there."""
        if _loaded(self._tables.notes.get((source, name))) != old:
            return False
        self._tables.notes[source, name] = json.dumps(new)
        return True

    async def beat(self, runtime: str, snapshot: Mapping[str, Json], *, now_ns: int) -> None:
        """Store the heartbeat of a running process."""
        beats = self._tables.heartbeats
        beats[runtime] = (now_ns, json.dumps(snapshot))
        for first, end, kept in alike(runtime):
            latest = sorted((name for name in beats if first <= name < end), key=lambda name: -beats[name][0])
            for name in latest[kept:]:
                if beats[name][0] < now_ns - HEARTBEAT_ALIVE_NS:
                    del beats[name]

    async def heartbeats(self) -> Sequence[tuple[str, int, Json]]:
        """Newest first."""
        beats = [(name, beat_ns, _loaded(text)) for name, (beat_ns, text) in self._tables.heartbeats.items()]
        return tuple(sorted(beats, key=lambda beat: (-beat[1], beat[0])))


def _is_servable(row: GapRow, *, lease_ns: int, now_ns: int) -> bool:
    if row.gap.state is GapState.LEASED:
        return is_lease_over(row.lease_until_ns, lease_ns=lease_ns, now_ns=now_ns)
    return row.gap.state in _SERVED and is_due(row.gap, now_ns=now_ns)


def _loaded(text: str | None) -> Json:
    value: Json = None if text is None else json.loads(text)
    return value
