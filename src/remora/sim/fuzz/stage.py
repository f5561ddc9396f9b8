"""What does a client see of the provider? Its answers, with bans, lies and wrong hints; every arrival is logged."""

import re
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from random import Random
from typing import Final

from remora.core.ledger.gap import YOUNG_FOR_NS
from remora.core.rate.pacing import burst_allowance
from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS
from remora.core.verdict import NEAR_NEWEST_IDS
from remora.sim import replies
from remora.sim.fanned import Fanned
from remora.sim.faults import FaultKind
from remora.sim.fuzz.credentials import Rotation
from remora.sim.fuzz.dialects import Dialect, said_in
from remora.sim.fuzz.forms import PLAIN
from remora.sim.fuzz.scenario import Incident, IncidentKind
from remora.sim.listed import PREFIX, Listed, is_detail
from remora.sim.provider import Provider
from remora.sim.replies import Answer, Hang, Reset, Response
from remora.sim.streams import EventStream

# What a provider may write into Retry-After, right or wrong.
HINTS: Final = ("0", "-5", "soon", "1", "120", "5400", "Wed, 21 Oct 2015 07:28:00 GMT", "")
_WRONG_HINT_SHARE: Final = 0.05
_BAD_PAGES: Final = (
    replies.SERVER_ERROR,
    replies.rate_limited(None),
    replies.rate_limited(5 * SECOND_NS),
    replies.unavailable(None),
    Reset(),
    Hang(),
    replies.ok(b'{"items":'),
    replies.ok(b"[1,2]"),
    replies.ok(b"\xff\xfe"),
    replies.ok(b"null"),
)
RECENT_NS: Final = 10 * SECOND_NS
# Within this time an answer has been received, stored and announced to all processes.
HEARD_WITHIN_NS: Final = 10 * SECOND_NS
HINT_MAX_S: Final = 86_400
LEARNING_NS: Final = 10 * MINUTE_NS
# The provider lists a change for five minutes. Who hears nothing for longer misses changes, and only a rescan finds them.
LISTED_FOR_NS: Final = 4 * MINUTE_NS
UPDATES: Final = "/v0/updates.json"
IDS, LISTS = "ids", "lists"
# The quickest schedule asks for one thing twelve times in its first hour, in each of up to three processes; canaries and
# announced changes come on top.
SAME_PER_HOUR_MAX: Final = 150
# What could not be stored is asked for again: by the update workers every ten seconds, and by the poll for new ids.
SAME_PER_HOUR_WITHOUT_STORE_MAX: Final = 1_000
_ITEM: Final = re.compile(r"/v0/item/([0-9]+)\.json")


class Ceiling:
    """Whether any window holds more arrivals than the ceiling allows, checked at each arrival.

    With g(k) = k·F − t(k), the window from i to k holds too many by (g(k) − g(i)) / F − burst + 1.
    """

    def __init__(self, interval_ns: int, burst: int) -> None:
        self._interval_ns = interval_ns
        self._burst = burst
        self._lowest: int | None = None
        self.count = 0

    def excess_ns(self, at_ns: int) -> int:
        """By how much the fullest window that ends now is too full; zero or less keeps the ceiling."""
        height = self.count * self._interval_ns - at_ns
        self.count += 1
        self._lowest = height if self._lowest is None else min(self._lowest, height)
        return height - self._lowest + (1 - self._burst) * self._interval_ns


class Stage:
    """`sim.transport.Answering` for every process of the world."""

    def __init__(
        self, provider: Provider, *, ceiling_interval_ns: int, is_sparse: bool, fail: Callable[[str], None]
    ) -> None:
        self.provider = provider
        self.ceiling_interval_ns = ceiling_interval_ns
        self._ceiling = Ceiling(ceiling_interval_ns, burst_allowance(ceiling_interval_ns))
        self._is_sparse = is_sparse
        self.archive_pages = False  # the list has numbered pages
        self.form = PLAIN  # of the list
        self.dialect = Dialect.STATUS
        self.rotation: Rotation | None = None  # of the credential; None: it stays the same
        self.fail = fail
        self._active: list[Incident] = []
        self._chance = Random(0)
        self._digest = blake2b(digest_size=8)
        self.faults_met: Counter[str] = Counter()
        self.hinted_until_ns = 0  # monotonic; the provider asked for a pause until then
        self.last_bad_ns: int | None = None  # monotonic; the last answer that was a refusal or a fault
        # monotonic; the last answer of a provider that is up. One that refuses a single request (401, 403) is up.
        self.last_up_ns: int | None = None
        self.recent: deque[tuple[int, str]] = deque()
        self.hints: list[tuple[int, int]] = []  # (when it was given, until when it asks for a pause), monotonic
        self.absences: Counter[int] = Counter()  # how often the provider answered that it has no such item
        self.honest: dict[int, set[bytes]] = {}  # every true body that was sent, by item
        self.latest: dict[
            int, tuple[int, bytes]
        ] = {}  # the body that was true when it was sent last, with that true time
        self.limited: deque[int] = deque()  # when the hidden limit refused, during the last minute
        self.unheard: list[tuple[int, int]] = []  # when nobody could hear of changes, from and until (true time)
        self._updates_heard_ns = provider.now()
        self._same: Counter[str] = Counter()  # how often each thing was asked for in this hour
        self._hour = 0
        self._cannot_store = False  # the disk is full, or the store is away
        self.refusals_max = 0  # that a caller may get within a minute; one more is a ban. 0: any number
        self._refused: deque[int] = deque()
        self.sent: Counter[str] = Counter()  # requests for ids, and for lists and their details
        self.limited_most = 0  # most refusals in any minute, after the first ten minutes

    def forgive(self, *, younger_than_ns: int = HEARD_WITHIN_NS) -> None:
        """Drop the youngest hints: a process ended, and may not have stored what the provider just asked for."""
        now_ns = self.provider.ticks()
        self.hints = [hint for hint in self.hints if hint[0] < now_ns - younger_than_ns]

    def has(self, item_id: int) -> bool:
        """Whether the provider has this item now."""
        return self.provider.body(item_id) != b"null"

    def is_young(self, item_id: int) -> bool:
        """Whether this id was among the newest all the time, and given less than an hour ago."""
        world, now_ns = self.provider.world, self.provider.now()
        return item_id > max(world.max_id(now_ns - YOUNG_FOR_NS), world.max_id(now_ns) - NEAR_NEWEST_IDS)

    def archive_lines(self) -> Sequence[Listed]:
        """What the list shows now."""
        archive = self.provider.archive
        return () if archive is None else archive.listing(self.provider.now())

    @property
    def requests(self) -> int:
        """How many requests arrived."""
        return self._ceiling.count

    @property
    def trace(self) -> str:
        """A digest of all arrivals: equal runs have equal digests."""
        return self._digest.hexdigest()

    def begin(self, incident: Incident) -> None:
        """Start an incident."""
        self._active.append(incident)
        self._chance = Random(incident.seed)

    def end(self, incident: Incident) -> None:
        """End an incident."""
        if incident in self._active:
            self._active.remove(incident)

    def calm(self) -> None:
        """End all incidents and heal the provider."""
        self._active.clear()
        self.let_store(works=True)
        self.provider.heal()
        if isinstance(self.provider.archive, Fanned):
            self.provider.archive.refuses = False

    def let_store(self, *, works: bool) -> None:
        """From now on the store works, or not. What it could not keep is asked for more often than once."""
        self._cannot_store = not works
        self._same.clear()

    def active(self, kind: IncidentKind) -> Sequence[Incident]:
        """The current incidents of a kind."""
        return [incident for incident in self._active if incident.kind is kind]

    def respond(self, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Response:
        at_ns = self.provider.ticks()
        self._arrived(at_ns, target if body is None else f"{target} {body.decode()}")
        response = self._respond(target, headers, body)
        self._log(at_ns, response)
        if (item := _ITEM.fullmatch(target)) is not None and isinstance(response, Answer):
            self._remember(int(item[1]), response)
        return said_in(self.dialect, response)

    def _remember(self, item_id: int, answer: Answer) -> None:
        if answer.status in {404, 410} or answer.body == b"null":
            self.absences[item_id] += 1
        elif answer.status == 200:
            provider = self.provider
            if answer.body == provider.body(item_id):
                self.latest[item_id] = (provider.now(), answer.body)
            stale_ns = provider.now() - round(provider.faults.stale_by_s * SECOND_NS)
            if answer.body in {provider.body(item_id), provider.world.body(item_id, stale_ns)}:
                self.honest.setdefault(item_id, set()).add(answer.body)
            else:
                self.last_bad_ns = provider.ticks()
                self.faults_met["nonsense"] += 1

    def open_stream(self, target: str) -> EventStream | Answer | None:
        at_ns = self.provider.ticks()
        self._arrived(at_ns, target)
        opened = None if self.active(IncidentKind.BAN) else self.provider.open_stream(target)
        self._log(at_ns, replies.ok(b"") if isinstance(opened, EventStream) else opened or Reset())
        if target == UPDATES and isinstance(opened, EventStream):
            self._hear(opened)
        return opened

    def _hear(self, stream: EventStream) -> None:
        """Note for how long nobody could hear of changes."""
        take, provider = stream.take, self.provider

        def heard() -> bytes:
            told = take()
            if told:
                self.heard_of_changes(provider.now())
            return told

        stream.take = heard  # type: ignore[method-assign]

    def heard_of_changes(self, now_ns: int) -> None:
        """Whoever listens knows all changes of the last minutes now."""
        if now_ns - self._updates_heard_ns > LISTED_FOR_NS:
            self.unheard.append((self._updates_heard_ns, now_ns))
        self._updates_heard_ns = now_ns

    def was_heard(self, item_id: int) -> bool:
        """Whether every change of this item was announced while somebody could hear it."""
        body = self.provider.world.body
        return all(body(item_id, from_ns) == body(item_id, to_ns) for from_ns, to_ns in self.unheard)

    def _arrived(self, at_ns: int, target: str) -> None:
        self._digest.update(f"{at_ns} {target}\n".encode())
        self.sent[LISTS if target.startswith(PREFIX) else IDS] += 1
        excess_ns = self._ceiling.excess_ns(at_ns)
        if excess_ns > 0:
            self.fail(f"a window holds {excess_ns / self.ceiling_interval_ns:.3f} requests above the ceiling")
        self._count_same(at_ns, target)
        for given_ns, until_ns in self.hints:
            if given_ns + HEARD_WITHIN_NS < at_ns < until_ns:
                self.fail(f"a request arrived {(until_ns - at_ns) // SECOND_NS} s before the provider wanted one")
        self.hints = [hint for hint in self.hints if hint[1] > at_ns]

    def _count_same(self, at_ns: int, target: str) -> None:
        """Who asks for the same thing again and again has a loop without a pause."""
        if _ITEM.fullmatch(target) is None and not is_detail(target):
            return
        if at_ns // HOUR_NS != self._hour:
            self._hour = at_ns // HOUR_NS
            self._same.clear()
        self._same[target] += 1
        most = SAME_PER_HOUR_WITHOUT_STORE_MAX if self._cannot_store else SAME_PER_HOUR_MAX
        if self._same[target] == most:
            self.fail(f"{target} was asked for {most} times in an hour")

    def _respond(self, target: str, headers: Mapping[str, str] | None, body: bytes | None = None) -> Response:
        for ban in self.active(IncidentKind.BAN):
            self.provider.arrivals.add(self.provider.ticks(), target)
            return replace(replies.SERVER_ERROR, status=int(ban.detail))
        if self.active(IncidentKind.WRONG_HINT) and self._chance.random() < _WRONG_HINT_SHARE:
            hint = self._chance.choice(HINTS)
            return Answer(self._chance.choice([429, 503]), b"{}", {"retry-after": hint})
        if target.startswith(PREFIX) and not is_detail(target) and self._is_page_bad():
            return self._chance.choice(_BAD_PAGES)
        if self.rotation is not None and (headers := self.rotation.accepted(headers)) is None:
            self.provider.arrivals.add(self.provider.ticks(), target)
            return replies.UNAUTHORIZED
        response = self.provider.respond(target, headers, body)
        if not isinstance(response, Answer) or response.status != 200:
            return response
        if target == "/v0/maxitem.json" and (lies := self.active(IncidentKind.LIE)):
            told = max(1, int(response.body) + int(lies[0].amount))
            return replace(response, body=b"%d" % told)
        if self._is_sparse and response.body == b"null":
            return replies.NOT_FOUND
        return response

    def _is_page_bad(self) -> bool:
        weather = self.active(IncidentKind.WEATHER)
        return bool(weather) and self._chance.random() < 0.15 * weather[0].amount

    def _log(self, at_ns: int, response: Response) -> None:
        word = "bad"
        match response:
            case Answer(status=200 | 404 | 410, cut_at=None):  # that there is no such item is an answer, too
                self.last_up_ns, word = at_ns, "good"
            case Answer(status=status):
                self.last_bad_ns = at_ns
                word = "refused" if status in {429, 503} else "failed" if status >= 500 else "bad"
                self.faults_met[str(status)] += 1
                if status in {401, 403}:
                    self.last_up_ns = at_ns
                if status == 429:
                    self._refuse(at_ns)
                    self._limited(at_ns)
                if status in {429, 503} and "retry-after" in response.headers:
                    self._hint(at_ns, response.headers["retry-after"])
            case _:
                self.last_bad_ns, word = at_ns, "failed"
                self.faults_met[type(response).__name__] += 1
        self.recent.append((at_ns, word))
        while self.recent and self.recent[0][0] < at_ns - RECENT_NS:
            self.recent.popleft()

    def _hint(self, at_ns: int, text: str) -> None:
        if text.isdecimal():
            until_ns = at_ns + min(int(text), HINT_MAX_S) * SECOND_NS
            self.hinted_until_ns = max(self.hinted_until_ns, until_ns)
            self.hints.append((at_ns, until_ns))

    def _refuse(self, at_ns: int) -> None:
        """Count every refusal, whatever its cause, as a provider does that bans."""
        self._refused.append(at_ns)
        while self._refused[0] < at_ns - MINUTE_NS:
            self._refused.popleft()
        if len(self._refused) > self.refusals_max > 0:
            self.fail(f"banned: {len(self._refused)} refusals within a minute, {self.refusals_max} are allowed")

    def _limited(self, at_ns: int) -> None:
        """Count a refusal by the hidden limit. Random and declared refusals do not count."""
        if self._active or self.provider.faults.rates or self.provider.faults.ids:
            return
        self.limited.append(at_ns)
        while self.limited[0] < at_ns - MINUTE_NS:
            self.limited.popleft()
        if at_ns > LEARNING_NS:
            self.limited_most = max(self.limited_most, len(self.limited))


def honest(kinds: Sequence[FaultKind]) -> list[FaultKind]:
    """The kinds without stale bodies. Those were true at an earlier moment, so only a later request can reveal them."""
    return [kind for kind in kinds if kind is not FaultKind.STALE]
