"""Which numbers does the rate law stand on, and why is each what it is?

All are ratios or counts of answers, so the law is the same at 0.2 and at 2,000 requests per second. The five that are
times say so: where to begin when nothing is known, how long to wait at most, how slow to become at most, how much of an
answer's delay is noise of the machine, and how much of it is a queue that hurts.
"""

from typing import Final

from remora.core.units import MILLISECOND_NS, MINUTE_NS, SECOND_NS

# Discovery. 16 good answers show that an octave holds; 4 round trips let a refusal come back before the next octave.
COLD_START_PER_S: Final = 1.0
SUCCESSES_PER_DOUBLING: Final = 16
ROUND_TRIPS_PER_DOUBLING: Final = 4

# Around the edge. A dip of 2.5 % is cheap to rest at and wider than the edge's own noise.
DIP: Final = 0.025
CLIMB_SUCCESSES: Final = 64  # from the dip to the edge: slow enough that one refusal tells where the edge is
ACCELERATION: Final = 12  # above an edge the distance grows by a twelfth with each success
FASTEST_CLIMB: Final = 24  # and the rate by no more than this part: what a window still counts must not be far behind
EDGES_KEPT: Final = 2  # the present edge, and the next higher one to slow down at
ELSEWHERE: Final = 4 * DIP  # an edge found this far away is another edge
FAR: Final = 1.2  # and this far away, another provider
LEFT_BEHIND: Final = 1.5  # so far above an edge hardly any burst carries a probe: it has not held

# What probing may cost, in good answers. The longer an edge has held, the longer it will: it is asked again after a
# third of the answers it has held for. Where edges were seen to move far, a thirty-second of what they last held for is
# soon enough to find most of what the next move brings, and sooner still where it would bring back a higher edge. But
# one that holds on is asked the more rarely: a sixteenth is what one false move may cost.
PRICE_LEAST: Final = 64.0
PRICE_MOST: Final = 3_000.0
PRICE_AGE: Final = 1 / 3
PRICE_LASTED: Final = 1 / 32
PRICE_HELD: Final = 1 / 16
SETTLED: Final = 800  # good answers before an edge has held at all
ACCOUNT_MOST: Final = 128.0  # a long clean run saves up for no more than two cheap refusals
ACCOUNT_AFTER_REFUSALS: Final = -2_400.0  # refusals alone never block probing for longer than this
ACCOUNT_AFTER_A_CHANGE: Final = -64.0  # a provider that has changed does not make us pay old debts
ACCOUNT_LEAST: Final = -75_000.0  # bounds the longest rest, hence the recovery
REST_CHARGE: Final = 0.3  # a refusal at rest, or in a test, is not a probe of its own
DOUBT_LEAST: Final = 0.1  # of a dip, by which a probe that got above the edge raises it; a whole one while it is new
EDGE_NUDGE: Final = 0.75  # of a dip, by which a refusal at rest lowers it
REST_MARGIN: Final = DIP / 4  # how far to rest below what was let through: so that a burst can fill again
FILLED_LASTS: Final = 1_500  # good answers for which a burst that filled during a wait should last at rest

# A burst that filled since the last refusal carries a probe above the edge. The probe goes no higher than this until
# more was let through than the edge and such a burst explain: then the edge has moved, and the climb goes on.
PROBE_HEIGHT: Final = 4 * DIP
LIMIT_DIPS: Final = 0.7  # so many dips below the edge lies what the provider lets through, where that was measured
BURST_NOISE: Final = 2  # answers more than that which may be chance
BURST_MOST: Final = 512.0  # requests that a burst holds at most: idle for an hour says no more than for a minute

# A probe that was refused above the edge is tested: go on at about that rate. Refused there, half way back.
TEST_ENDED: Final = 2 * DIP  # half way is near enough
TEST_MOST: Final = 10_000  # good answers that prove any edge, however long the wait was

# Is a refusal stray, or is the edge here? A sequential likelihood test: the usual share of strays against one in ten.
STRAY_LEAST: Final = 0.004  # what probing itself causes at most in the long run
STRAY_MOST: Final = 0.02
STRAY_MEMORY: Final = 1_000
STRAY_WEIGHT: Final = 1.6  # makes up for the strays that are not counted, for being near others or regular
STRAYS_USUAL: Final = 0.007  # a share that edges alone hardly ever cause
STRAYS_CREDIT: Final = 2.0  # refusals that may be owed there before probing stops: most were not its doing
SAME_PLACE: Final = DIP / 8  # a probe is refused so near the last one by chance only once in six
STRAYS_DOUBTED: Final = 0.8  # of the share is left when refusals turn out to be regular
DOUBTFUL: Final = 0.5  # a refusal that means less than this may as well have been a stray
MEANING_LEAST: Final = 0.15  # even there a refusal says a little: an edge set too high must not pass for strays

ISOLATED: Final = 16  # good answers before a refusal that make it a possible stray
REGULAR: Final = 1.25  # chance hits so nearly after as many answers as the last time only once in nine
DENSE_SHARE: Final = 0.1
EDGE_BELIEVED: Final = 4.0  # two refusals within about 24 answers where strays are rare
TEST_FAILED: Final = 3.3  # the same within about 32, in a test where strays are usual
EVIDENCE_MOST: Final = 5.0  # so that old evidence is forgotten within about 50 answers
SAME_RATE: Final = 1.2  # a quarter of an octave either way, which discovery crosses in six answers: strays rarely hit
DISCOVERY_DOUBT: Final = 2.5  # a third refusal while no edge is known: an octave down costs little, a false edge much

# What the provider lets through. Between two refusals it took all it would take: that rate is the edge.
CHAIN_GAP: Final = 64  # so many good answers since the last refusal are enough to measure it, and say it is not dense
CHAIN_MOST: Final = 128  # dense refusals measure over no more answers than this; the limit may have changed since
CLOGGED: Final = 4  # refused after so few more: not the rate, but what is still counted from before, is too much

# Shut out: refused in a row, or told to wait. Wait 32 requests' time, then four times as long each time. It may cost
# 2 % of the time, or 5 % while the edge is still being looked for.
SHUT_OUT: Final = 3.0  # requests' time without an accepted request
EXPENSIVE: Final = 64.0  # requests' time that hurts: keep well away from what caused it
CAREFUL: Final = 17.0  # requests' time shut out the last time, above which the climb stays slow; one wait alone is 16
CAREFUL_SUCCESSES: Final = 32  # one dip of climb takes so many successes then
OUTAGE_BUDGET: Final = 0.02
OUTAGE_BUDGET_UNSETTLED: Final = 0.05
OUTAGE_DIPS: Final = 2  # how far below the edge to come back after a probe was shut out
ASKED_DIPS: Final = 4  # how far a refusal at rest lowers it at most where the provider asks for a wait: it has counted
DEEPEST_CUT: Final = 1 / 8
WAIT_GROWTH: Final = 4
OUTAGE_KEPT: Final = 0.95  # of the memory of the last outage is left after a single refusal
OUTAGE_MEMORY: Final = 8  # good answers per request shut out, after which half of it is forgotten
WAIT_MOST_NS: Final = 15 * MINUTE_NS
RATE_LEAST_PER_S: Final = SECOND_NS / WAIT_MOST_NS

# Faults are pressure only when clearly more frequent than usual: the same test, against four times their usual share.
TROUBLE_LEAST: Final = 0.02
TROUBLE_MOST: Final = 0.5
TROUBLE_RATIO: Final = 4.0
TROUBLE_MEMORY: Final = 512
TROUBLE_BELIEVED: Final = 7.0

# Latency, smoothed over a few answers, against a baseline that falls as soon and rises slowly.
LATENCY_MEMORY: Final = 8
BASELINE_MEMORY: Final = 1_024
LATENCY_HIGH: Final = 2.0
# Some providers answer from a cache or not, and a few slow answers in a row are chance there. In a queue all are slow:
# the same test again, their usual share against nearly all, and a quick one begins it anew.
SLOW_LEAST: Final = 0.01
SLOW_MOST: Final = 0.9
SLOW_QUEUED: Final = 0.95
SLOW_MEMORY: Final = 64
SLOW_BELIEVED: Final = 7.0
# Delay that our own rate causes is a queue: more than a whole interval longer than usual. Less is noise of the machine,
# which on a short way is many times the usual latency.
LATENCY_NOISE_NS: Final = 20 * MILLISECOND_NS
# A queue that our own rate holds up is drained. A shorter one hurts nobody, and may be the machine's.
QUEUE_LONG_NS: Final = 100 * MILLISECOND_NS
QUEUE_BELIEVED: Final = 4  # answers in a row
QUEUE_CUT: Final = 1 / 2  # of the rate at which requests are served: the queue drains
QUEUE_JUDGED: Final = 16  # answers after the cut that tell whether it has helped
QUEUE_DRAINS: Final = 0.75  # a queue of ours is shorter than this by then; what is not was not our doing
