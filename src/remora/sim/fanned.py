"""What does a workspace look like whose channels each have a list of their own? Channels come and go, and some are refused.

`/archive/channels/` is an archive whose conversations are the channels. Below `/archive/in/<channel>/` each channel has an
archive of its own, whose conversations are older than the channel itself. The key of a document is that of its channel, a
slash, and its own. One limit counts the requests of the whole account.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from random import Random
from typing import Final

from remora.core.units import HOUR_NS
from remora.sim.limits import Limit, limiter
from remora.sim.listed import PREFIX, Archive, ArchiveSettings
from remora.sim.listed_pages import Listed
from remora.sim.replies import NOT_FOUND, SERVER_ERROR, Answer, rate_limited

CHANNELS: Final = PREFIX + "channels/"
_INSIDE: Final = re.compile(re.escape(PREFIX) + r"in/([^/]+)/(.*)")
_REFUSED_EVERY: Final = 4  # periods
_PERIOD_NS: Final = 2 * HOUR_NS
_EMPTY_SHARE: Final = 0.15


@dataclass(frozen=True, slots=True)
class Channels:
    """How many channels there are, and what happens to them."""

    at_start: int
    added_per_day: float
    removed_share: float
    refused_share: float = 0.3  # their lists and details are refused in every fourth period


class Fanned(Archive):
    """The archives of all channels, as one: its keys name the channel, too."""

    def __init__(self, settings: ArchiveSettings, channels: Channels) -> None:
        super().__init__(replace(settings, limit=Limit()))
        self._all = limiter(settings.limit)
        self._told_when = settings.limit.retry_after
        self._asked = channels
        self._archives: dict[str, Archive] = {}
        self._renamed: dict[str, dict[str, tuple[Listed, Listed]]] = {}  # by channel and key, without it and with it
        self.refuses = True  # False: every channel can be read from now on
        self.channels = Archive(
            replace(
                self.settings,
                conversations=channels.at_start,
                added_per_day=channels.added_per_day,
                removed_share=channels.removed_share,
                gone_share=0.0,
                malformed_share=0.0,
            ),
            self._prose,
        )

    def listing(self, now_ns: int) -> Sequence[Listed]:
        """What the lists of all channels show now."""
        there = self._there(now_ns)
        return list(chain.from_iterable(self._shown(channel, archive.listing(now_ns)) for channel, archive in there))

    def _shown(self, channel: str, lines: Sequence[Listed]) -> Sequence[Listed]:
        """The lines of a channel with its key before their own. An archive gives the same line until it changes."""
        known = self._renamed.setdefault(channel, {})
        for line in lines:
            if line.key not in known or known[line.key][0] is not line:
                known[line.key] = line, replace(line, key=f"{channel}/{line.key}")
        return [known[line.key][1] for line in lines]

    def keys(self, first: int, last: int, now_ns: int) -> list[str]:
        """The keys of some conversations of every channel, without its own."""
        per_channel = max(1, len(self._there(now_ns)))
        found = (archive.keys(first // per_channel, last // per_channel, now_ns) for _, archive in self._there(now_ns))
        return list(chain.from_iterable(found))

    def detail(self, key: str, now_ns: int) -> bytes | None:
        """The whole conversation as it is now; None if it or its channel does not exist."""
        channel, _, own = key.partition("/")
        return self._archive(channel).detail(own, now_ns) if self._is_there(channel, now_ns) else None

    def readable(self, now_ns: int) -> dict[str, bytes]:
        """What a mirror can fetch of all channels."""
        return {
            f"{channel}/{key}": body
            for channel, archive in self._there(now_ns)
            for key, body in archive.readable(now_ns).items()
        }

    def joined(self, key: str, now_ns: int) -> bytes | None:
        """What a mirror makes of a head and its messages."""
        channel, _, own = key.partition("/")
        return self._archive(channel).joined(own, now_ns) if self._is_there(channel, now_ns) else None

    def respond(
        self, target: str, headers: Mapping[str, str], body: bytes | None = None, *, now_ns: int, at_ns: int
    ) -> Answer:
        """The answer to one request that arrives at `at_ns` (monotonic)."""
        refused_ns = self._all.refuse_ns(at_ns)
        if refused_ns is not None:
            return rate_limited(refused_ns if self._told_when else None)
        if target.startswith(CHANNELS):
            inside = PREFIX + target.removeprefix(CHANNELS)
            return self.channels.respond(inside, headers, body, now_ns=now_ns, at_ns=at_ns)
        found = _INSIDE.fullmatch(target)
        if found is None or not self._is_there(found[1], now_ns):
            return NOT_FOUND
        if (refusal := self._refusal(found[1], now_ns)) is not None:
            return refusal
        archive = self._archive(found[1])
        answer = archive.respond(PREFIX + found[2], headers, body, now_ns=now_ns, at_ns=at_ns)
        return _below(answer, f"{PREFIX}in/{found[1]}/")

    def _refusal(self, channel: str, now_ns: int) -> Answer | None:
        """A channel may be closed to the reader for a while, or be broken."""
        chance = Random(f"{self.settings.seed}/{channel}/refused")
        if not self.refuses or chance.random() >= self._asked.refused_share:
            return None
        status, turn = chance.choice([403, 500]), chance.randrange(_REFUSED_EVERY)
        return replace(SERVER_ERROR, status=status) if now_ns // _PERIOD_NS % _REFUSED_EVERY == turn else None

    def _is_there(self, channel: str, now_ns: int) -> bool:
        return any(line.key == channel for line in self.channels.listing(now_ns))

    def _there(self, now_ns: int) -> list[tuple[str, Archive]]:
        return [(line.key, self._archive(line.key)) for line in self.channels.listing(now_ns)]

    def _archive(self, channel: str) -> Archive:
        if channel not in self._archives:
            chance, settings, count = Random(f"{self.settings.seed}/{channel}"), self.settings, self._asked.at_start
            is_empty = chance.random() < _EMPTY_SHARE
            self._archives[channel] = Archive(
                replace(
                    settings,
                    seed=chance.randrange(1 << 30),
                    conversations=0 if is_empty else max(1, settings.conversations // count),
                    added_per_day=0.0 if is_empty else settings.added_per_day / count,
                ),
                self._prose,
            )
        return self._archives[channel]


def _below(answer: Answer, place: str) -> Answer:
    """The same answer; the address of its next page is below this place."""
    body = answer.body.replace(b'"next":"' + PREFIX.encode(), b'"next":"' + place.encode())
    headers = {name: value.replace(f"<{PREFIX}", f"<{place}") for name, value in answer.headers.items()}
    return replace(answer, body=body, headers=headers)
