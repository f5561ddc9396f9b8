"""Which mistakes did random worlds find? Each with its seed and the test that shows it mended."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Found:
    """One mistake that a random world showed."""

    seed: str  # of the draw of its day: a later draw gives another world for the same number
    where: str
    what: str
    shown_by: str


FOUND: tuple[Found, ...] = (
    Found(
        "1794852103026",
        "the walk of a list",
        "after some numbers of entries no page of the sizes that were tried overlapped with the last one; an entry deleted there hid its neighbour, and that was called vanished",
        "`tests/loops/test_listed_paging.py`, `tests/loops/test_listed_deletions.py`",
    ),
    Found(
        "1794852103085",
        "the walk of a list",
        "what a full walk in windows did not reach, because the clock was a day behind, was called vanished by a process whose clock was less behind",
        "`tests/loops/test_listed_since.py`",
    ),
    Found(
        "35",
        "verify",
        "documents that only their list holds were asked for one by one at an address that does not exist, and called gone",
        "`tests/loops/test_verify.py`",
    ),
    Found(
        "13",
        "retention",
        "a named reader that came while old changes were being deleted was left behind: who is waited for was found out before, in another transaction",
        "`tests/read/test_following.py`",
    ),
    Found(
        "83",
        "the search index",
        "a document that was read again unchanged had another time in an index that was built anew than in one that had followed",
        "`tests/read/test_search.py`",
    ),
    Found(
        "20261116114",
        "the fuzzer",
        "a process that was started after the clock had been set back waits longer for a Retry-After; the judge called that invented",
        "`tests/fuzz/worlds/retry-after-that-outlasts-a-clock-set-back.json`",
    ),
    Found(
        "1794831830116",
        "lists in parts",
        "a window that held exactly one page of entries was taken for a wrong declaration, and every later walk stopped at it",
        "`tests/loops/test_listed_paging.py`",
    ),
    Found(
        "1794828500000",
        "the status",
        "while every process stood by after the leader had been stopped, it said that it works",
        "`tests/core/test_readout.py`",
    ),
    Found(
        "20261117123",
        "the simulator",
        "a short suspension within a longer one ended the longer one, but only for the judge",
        "`tests/world/test_clock.py`",
    ),
    Found(
        "1794823548075",
        "the rate law",
        "refusals of single items in the first minute left a pace of one request a minute for days: no higher rate had been accepted for long, so none was looked for",
        "`tests/core/test_rate_recovery.py`",
    ),
    Found(
        "1794823548075",
        "the rescan",
        "at a pace of one request a minute 31 idle walkers asked the store for a segment every five seconds, for hours",
        "`tests/loops/test_rescan.py`",
    ),
    Found(
        "410",
        "the walk of a list",
        "a full walk in windows, which end at our own time, called documents vanished that are newer than our clock, which had been set back by a day",
        "`tests/loops/test_listed_since.py`",
    ),
    Found(
        "1794822508091",
        "the fuzzer",
        "a document that the hidden limit refused in the last complete run, and that is owed, counted as lost; the next run asks for it again",
        "the seed itself",
    ),
    Found(
        "1794822508058",
        "the status",
        "a list whose last requests failed was said to wait for the circuit breaker until the next run, hours after the circuit had let a probe pass; nothing was left to ask for",
        "`tests/fuzz/worlds/provider-that-was-down-at-the-end-of-a-run.json`",
    ),
    Found(
        "7011",
        "the change stream",
        "a newest id that was told too high once made a quiet stream look deaf at every keep-alive: a reconnect and a rescan of all young items every 30 s until the next event",
        "`tests/loops/test_updates.py`",
    ),
    Found(
        "1794813855345",
        "the shared gate",
        "a circuit that opened during a Retry-After was never probed: while the provider's wait lasted nobody asked for time, and nobody was woken after it",
        "`tests/fuzz/worlds/circuit-that-opens-during-a-wait-of-the-provider.json`",
    ),
    Found(
        "348",
        "the status",
        "after a restart during a ban, refusals alone made the status say that it works",
        "`tests/core/test_barred.py`",
    ),
    Found(
        "1794813855106",
        "the fuzzer",
        "newest items that waited for their turn at a low pace counted as lost",
        "`tests/fuzz/worlds/newest-items-that-wait-at-a-low-pace.json`",
    ),
    Found(
        "410",
        "the fuzzer",
        "where a list is read in windows, the fuzzer took the time of another clock than the last process had: what is newer than that process's clock, which had been set back by a day, counted as lost",
        "the seed itself",
    ),
    Found(
        "20261116023",
        "the backfill",
        "a lease that was lost at the moment of a stop hid the stop: the walk claimed its segment again and renewed the lease for ever",
        "`tests/fuzz/worlds/lease-lost-at-the-moment-of-a-stop.json`",
    ),
    Found(
        "1794810213316",
        "the walk of a list",
        "a walk by offset that was interrupted at the end of the list went on behind it: an entry that had moved up meanwhile was skipped until the next full walk",
        "`tests/fuzz/worlds/walk-from-the-oldest-interrupted-at-its-end.json`",
    ),
    Found(
        "1794810213742",
        "the fuzzer",
        "the rest of a walk that had been interrupted before the faults stopped counted as the full walk after which store and world are equal",
        "`tests/fuzz/worlds/full-walk-that-was-interrupted-before-the-faults-stopped.json`",
    ),
    Found(
        "102",
        "the fuzzer",
        "the entries of a page that could not be read, and that is owed itself, counted as passed by the watermark",
        "`tests/fuzz/worlds/pages-left-behind-by-a-walk-from-the-oldest.json`",
    ),
    Found(
        "13",
        "the fuzzer",
        "where a list is read in windows, what is newer than our own clock, which had been set back by a day, counted as lost",
        "the seed itself",
    ),
    Found(
        "1794802148033",
        "the gate",
        "a wait of our own law, shared by a process whose record was refused as outdated, was told as the provider's Retry-After",
        "`tests/gate/test_retry_after.py`",
    ),
    Found(
        "1794802148010",
        "the fuzzer",
        "a provider that refuses every request counted as silent, and the status was expected to say that it is down",
        "`tests/fuzz/worlds/status-when-a-broken-provider-follows-a-refusing-one.json`",
    ),
    Found(
        "1794802148260",
        "the fuzzer",
        "an item that changed back within the second after the rescan had read it counted as stale",
        "`tests/fuzz/worlds/item-that-changes-back-during-the-last-rescan.json`",
    ),
    Found(
        "1794802148318",
        "the fuzzer",
        "what a full disk could not keep was asked for every ten seconds, and counted as a loop without a pause",
        "the seed itself",
    ),
    Found(
        "506",
        "the fuzzer",
        "without a rescan, an announced item that still waited in the durable inbox counted as lost",
        "`tests/fuzz/worlds/announced-items-that-wait-at-a-low-pace.json`",
    ),
    Found(
        "1794793561039",
        "recovery",
        "two processes whose clocks differed by 25 hours each found due what the other had just put off: one request a second for each gap",
        "`tests/loops/test_recover.py`",
    ),
    Found(
        "1794788316023",
        "the gate",
        "a canary that ended because its process was ending was sent again at once, for ever: a loop that never waits",
        "`tests/fuzz/worlds/canary-spins-after-the-end.json`",
    ),
    Found(
        "1794788316032",
        "the fuzzer",
        "the lease of a document's gap was not seen to end, so that the next one looked like a second live lease",
        "the seed itself",
    ),
    Found(
        "1794788316162",
        "the fuzzer",
        "the status was compared in the moment a suspended machine woke up, before anything had run",
        "`tests/fuzz/worlds/status-right-after-a-suspended-machine.json`",
    ),
    Found(
        "21",
        "the simulated archive",
        "a cursor between two entries of one second skipped one of them",
        "`tests/world/test_archive.py`",
    ),
    Found(
        "1794788316007",
        "the fuzzer",
        "a world that ended during a kill left the dead process's file locked",
        "`tests/fuzz/test_worlds.py`",
    ),
    Found(
        "10",
        "the fuzzer",
        "without a rescan, a change that was announced while no stream could be open (a pace of one request in 197 s) counted as lost",
        "no test of its own",
    ),
    Found(
        "1794837239795",
        "the fuzzer",
        "on a quiet mirror an outage met only stream connects and a few polls, so that the status said it works for ten minutes",
        "`tests/loops/test_stream_connects.py`",
    ),
)
