"""Which numbers does the rate law use, and why does each have its value?

All are ratios or counts of answers, so the law is the same at 0.2 and at 2,000 requests per second. Three are times or
rates: where to begin when nothing is known, the longest wait, and how much of an answer's delay is a queue that hurts.
"""

from typing import Final

from remora.core.units import MILLISECOND_NS, MINUTE_NS

# How many answers prove something. A few in a row: that an octave of discovery holds, that a refusal came alone, that there
# is a queue, that a cut has not helped. Many: which rate the provider accepts, that refusals are not dense. After so many
# requests' time without an answer an outage hurts, and the rate stays well below the one that caused it.
A_FEW: Final = 16
MANY: Final = 64
# After so many answers what was usual before, a share or a delay, is forgotten. An edge is settled once it has held for so many.
MEMORY: Final = 1_000

# Discovery. In 4 round trips a refusal arrives before the next octave. With many in flight that is still too fast: what is
# sent above the edge until the first refusal is heard may all be refused.
COLD_START_PER_S: Final = 1.0
ROUND_TRIPS_PER_DOUBLING: Final = 4
MORE_PER_ROUND_TRIP: Final = 2.0  # so many more requests in flight with each round trip at most

# Around the edge. A dip of 2.5 % is cheap to rest at and wider than the edge's own noise. The last dip before the edge takes
# many answers, so that one refusal tells where the edge is.
DIP: Final = 0.025
NEAR: Final = 2 * DIP  # an edge found this near is the same edge; an outage that a probe caused lowers it so far
ACCELERATION: Final = 12  # above an edge the distance grows by a twelfth with each success
EDGES_KEPT: Final = 2  # the present edge, and the next higher one to slow down at
ELSEWHERE: Final = 4 * DIP  # an edge found this far away is another edge, and no burst is let carry a probe further
FAR: Final = 1.2  # and this far away, another provider: hardly any burst carries a probe so far
FAR_BELOW: Final = 8.0  # so far below a rate that was once accepted, an incident is as likely as a limit

# What probing may cost, in good answers. The longer an edge has held, the longer it is likely to hold: it is probed
# again after a third of the answers it has held for. Where edges moved far, a thirty-second of the answers the last one
# held for is soon enough to gain most of the next move, and it is sooner still where a higher edge may come back. An
# edge that keeps holding is probed more rarely: one false move may cost a sixteenth. No refusal costs less than many answers.
PRICE_MOST: Final = 3_000.0
PRICE_AGE: Final = 1 / 3
PRICE_LASTED: Final = 1 / 32
PRICE_HELD: Final = 1 / 16
ACCOUNT_MOST: Final = 128.0  # a long run without refusals saves up for at most two cheap ones
ACCOUNT_AFTER_REFUSALS: Final = -2_400.0  # refusals alone never block probing for longer than this
ACCOUNT_AFTER_A_CHANGE: Final = -float(MANY)  # after the provider has changed, no more than one cheap refusal is owed
ACCOUNT_LEAST: Final = -75_000.0  # bounds the longest rest, and so the time to recover
REST_CHARGE: Final = 0.3  # a refusal at rest or in a test costs less than one that a probe caused
DOUBT_LEAST: Final = 0.1  # of a dip, by which a probe that got above the edge raises it; a whole dip while it is new

# Where the owner wrote a limit on refusals, the gate sends nothing once it is used up. So a refusal costs more there.
REFUSALS_SPARED: Final = 8.0  # probing uses at most an eighth of the limit
REST_WITH_ONE_LEFT: Final = 1 - 3 * DIP  # of what was accepted: the last refusal before a silence is not risked there

# A burst that filled since the last refusal carries a probe above the edge. The probe goes no higher than ELSEWHERE until
# the provider has accepted more requests than the edge plus such a burst allow. Then the edge has moved: climb on.
LIMIT_DIPS: Final = 0.7  # the accepted rate is this many dips below the edge, where it was measured
BURST_NOISE: Final = 2  # this many answers more than that may be chance
BURST_MOST: Final = 512.0  # the most requests that a burst holds: an idle hour proves no more than an idle minute

# After a refusal above the edge, that rate is tested: go on at about that rate. If refused there, go half way back.
TEST_MOST: Final = 10_000  # this many good answers prove any edge, however long the wait was

# Is a refusal a stray, or is the edge here? A sequential likelihood test: the usual share of strays against one in ten.
STRAY_LEAST: Final = 0.004  # the most that probing itself causes in the long run
STRAY_MOST: Final = 0.02
STRAY_WEIGHT: Final = 1.6  # makes up for strays that are not counted because they are near others or regular
STRAYS_USUAL: Final = 0.007  # a share that edges alone hardly ever cause
STRAYS_CREDIT: Final = 2.0  # refusals that may be owed there before probing stops: probing did not cause most of them
SAME_PLACE: Final = DIP / 8  # by chance, a probe is refused this near the last one only once in six times
STRAYS_DOUBTED: Final = 0.8  # this part of the share is kept when refusals turn out to be regular
DOUBTFUL: Final = 0.5  # a refusal that means less than this may well have been a stray

REGULAR: Final = 1.25  # by chance, refusals come this regularly only once in nine times
# Refusals are dense if one answer in ten is refused. Even where strays are usual, one refusal in ten is taken for the edge:
# an edge set too high must not look like strays.
DENSE_SHARE: Final = 0.1
EDGE_BELIEVED: Final = 4.0  # two refusals within about 24 answers where strays are rare
EVIDENCE_MOST: Final = 5.0  # old evidence is forgotten within about 50 answers
DISCOVERY_DOUBT: Final = 2.5  # requires a third refusal while no edge is known: an octave is cheap, a false edge is not

# The accepted rate. Between two refusals the provider accepted all it would accept: that rate is the edge.
# Refused after so few more, the rate is fine, but the provider still counts earlier requests. To be told to wait for less
# than so few requests' time is no outage. Time without requests counts for so few intervals at most.
HARDLY_ANY: Final = 4
REST_MARGIN: Final = DIP / 4  # how far to rest below the accepted rate, so that a burst can fill again

# Shut out: refused in a row, or told to wait. Wait 32 requests' time, then four times as long each time. Being shut out
# may cost 2 % of the time, or 5 % while the edge is not settled.
CAREFUL: Final = 17.0  # if the last outage took more requests' time, the climb stays slow; a single wait is 16
OUTAGE_BUDGET: Final = 0.02
OUTAGE_BUDGET_UNSETTLED: Final = 0.05
DEEPEST_CUT: Final = 1 / 8
WAIT_GROWTH: Final = 4
OUTAGE_KEPT: Final = 0.95  # this part of the last outage is remembered after a single refusal
OUTAGE_MEMORY: Final = 8  # after this many good answers per request shut out, half of it is forgotten
WAIT_MOST_NS: Final = 15 * MINUTE_NS

# Faults are pressure only when clearly more frequent than usual: the same test, against four times their usual share.
TROUBLE_LEAST: Final = 0.02
TROUBLE_MOST: Final = 0.5
TROUBLE_RATIO: Final = 4.0
OFTEN_BELIEVED: Final = 7.0  # of faults, and of slow answers

# Latency, smoothed over a few answers, against a baseline that falls as fast and rises slowly.
LATENCY_MEMORY: Final = 8
LATENCY_HIGH: Final = 2.0
# Some providers answer partly from a cache, where a few slow answers in a row are chance. In a queue all are slow: more
# in a row than their usual share explains. A quick answer begins a new row.
# A delay caused by our own rate is a queue: longer than a whole interval, and than this. A shorter one hurts nobody and
# may be noise of the machine, which on a short network path is many times the usual latency.
QUEUE_LONG_NS: Final = 100 * MILLISECOND_NS
QUEUE_CUT: Final = 1 / 2  # of the rate at which requests are served, so that the queue drains
