"""Which items are known to be good? A canary requests one, to distinguish a bad item from a provider that is down."""

from collections import defaultdict
from typing import Final

from remora.core.item import Page
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.verdict import Deferred, Found, Malformed, Missing, NotYet, Pressure, Refused, Trouble, Verdict

KEYS_PER_KIND: Final = 8


class KnownGood:
    """The keys with recent good answers, by kind. Each canary requests a different one, because any may turn bad.

    A canary has the kind that fails: a list page says nothing about the details. Until the first good answer of that
    kind, it requests what is likely to be good: an item below the newest id, or an entry of the last list page.
    """

    def __init__(self) -> None:
        self._keys: defaultdict[Kind, dict[str, None]] = defaultdict(dict)
        self._listed: dict[str, None] = {}
        self._failing: Kind = Kind.ITEM
        self._newest_tried = 0
        self.is_answering = False  # the last answer was good

    def hear(self, discovery: Discovery, verdict: Verdict) -> None:
        """Remember which keys have good answers, and which kind fails."""
        match verdict:
            case Found():
                self.answered(discovery)
                if isinstance(verdict.thing, Page):
                    self._list(verdict.thing)
            case Trouble() | Malformed():
                self._failing, self.is_answering = discovery.kind, False
                self._keys[discovery.kind].pop(discovery.key, None)
                self._listed.pop(discovery.key, None)
            case NotYet() | Missing():
                self.is_answering = True
            case Pressure() | Refused() | Deferred():
                self.is_answering = False

    def answered(self, *discoveries: Discovery) -> None:
        """Remember keys of one kind with good answers, the latest last."""
        self.is_answering = True
        keys = self._keys[discoveries[-1].kind]
        for discovery in discoveries[-KEYS_PER_KIND:]:
            keys.pop(discovery.key, None)
            keys[discovery.key] = None
        while len(keys) > KEYS_PER_KIND:
            del keys[next(iter(keys))]

    def canary(self, *, newest_id: int | None) -> Discovery | None:
        """Something to request that should get a good answer; None: nothing is known."""
        keys = self._keys[self._failing]
        if not keys and self._failing is Kind.DOCUMENT:
            keys = self._listed
        if keys:
            key = next(iter(keys))
            keys[key] = keys.pop(key)  # the next canary requests another one
            return Discovery(self._failing, key, Lane.LIVE)
        if self._failing is not Kind.ITEM or newest_id is None:
            return None
        # The newest ids may be bad too, so each canary requests a lower one.
        below = 4**self._newest_tried - 1
        self._newest_tried = 0 if below >= newest_id - 1 else self._newest_tried + 1
        return Discovery.item(max(1, newest_id - below), via=Lane.LIVE)

    def _list(self, page: Page) -> None:
        """Entries spread over the page: neighbours may be bad together."""
        if page.entries:
            every = -(-len(page.entries) // KEYS_PER_KIND)
            self._listed = {entry.key: None for entry in page.entries[::-every]}
