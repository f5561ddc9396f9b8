"""Which numbers does the rate law stand on, and why is each what it is?

All are ratios or counts of answers, so the law is the same at 0.2 and at 2,000 requests per second. The four that are
times say so: where to begin when nothing is known, how long to wait at most, how slow to become at most, and how much
of an answer's delay is noise of the machine.
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
ACCELERATION: Final = 12  # above a refuted edge the distance grows by a twelfth with each success
EDGES_KEPT: Final = 2  # the present edge, and the next higher one to slow down at once it is refuted

# What probing may cost. Refusals stay below 0.5 % with room for what probing did not cause; being shut out for a time
# is allowed to cost 2 % of the time, or 5 % while the edge is still being looked for.
REFUSED_BUDGET: Final = 0.0033
OUTAGE_BUDGET: Final = 0.02
OUTAGE_BUDGET_UNSETTLED: Final = 0.05
ACCOUNT_MOST: Final = 2.0  # a long clean run saves up for no more than two refusals
ACCOUNT_AFTER_REFUSALS: Final = -8.0  # refusals alone never block probing for longer than this
ACCOUNT_AFTER_A_CHANGE: Final = -1.0  # a provider that has become slower does not make us pay old debts
ACCOUNT_LEAST: Final = -250.0  # bounds the longest rest, hence the recovery

# Is a refusal stray, or is the edge here? A sequential likelihood test: the usual share of strays against one in ten.
STRAY_LEAST: Final = 0.004  # what probing itself causes
STRAY_MOST: Final = 0.02
STRAY_MEMORY: Final = 1_000
DENSE_SHARE: Final = 0.1
EDGE_BELIEVED: Final = 4.0  # two refusals within about 24 answers where strays are rare
EVIDENCE_MOST: Final = 5.0  # so that old evidence is forgotten within about 50 answers
ISOLATED: Final = 16  # good answers before a refusal that make it a possible stray
SAME_RATE: Final = 1.2  # a quarter of an octave either way, which discovery crosses in six answers: strays rarely hit
DISCOVERY_DOUBT: Final = 2.5  # a third refusal while no edge is known: an octave down costs little, a false edge much
STRAYS_USUAL: Final = 0.007  # a share that edges alone hardly ever cause
STRAYS_CREDIT: Final = 2.0  # refusals that may be owed there before probing stops: most were not its doing
REST_CHARGE: Final = 0.3  # a refusal at rest is not the probe's fault, but a sign that the edge is set too high
EDGE_NUDGE: Final = 0.75  # how much of a dip it lowers the edge

# What the provider lets through. Between two refusals it took all it would take: that rate is the edge.
CHAIN_GAP: Final = 64  # so many good answers since the last refusal say that something else was going on
CHAIN_MOST: Final = 128  # measured over no more answers than this; the limit may have changed since
FAR: Final = 1.2  # a probe that got this far above the old edge has seen a new one

# Shut out: refused in a row, or told to wait. Wait 32 requests' time, then four times as long each time.
SHUT_OUT: Final = 3.0  # requests' time without an accepted request
EXPENSIVE: Final = 64.0  # requests' time that hurts: keep well away from what caused it
CAREFUL: Final = 16.0  # requests' time shut out the last time, above which the climb stays slow all the way
CAREFUL_SUCCESSES: Final = 32  # one dip of climb takes so many successes then
DEEPEST_CUT: Final = 1 / 8
WAIT_GROWTH: Final = 4
OUTAGE_AGAIN: Final = 2  # wait twice the middle of the last outage, which is its end
OUTAGE_MEMORY: Final = 8  # good answers per request shut out, after which half of it is forgotten
WAIT_MOST_NS: Final = 15 * MINUTE_NS
RATE_LEAST_PER_S: Final = SECOND_NS / WAIT_MOST_NS

# Faults are pressure only when clearly more frequent than usual: the same test, against four times their usual share.
TROUBLE_LEAST: Final = 0.02
TROUBLE_MOST: Final = 0.5
TROUBLE_RATIO: Final = 4.0
TROUBLE_MEMORY: Final = 512
TROUBLE_BELIEVED: Final = 7.0

# Latency, smoothed over a few answers, against a baseline that falls at once and rises slowly.
LATENCY_MEMORY: Final = 8
BASELINE_MEMORY: Final = 1_024
LATENCY_HIGH: Final = 2.0
# Delay that our own rate causes is a queue: more than a whole interval longer than usual. Less is noise of the machine,
# which on a short way is many times the usual latency.
LATENCY_NOISE_NS: Final = 20 * MILLISECOND_NS
