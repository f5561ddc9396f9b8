"""From where on is it too much? Every threshold of an answer, an alarm or an alert, once, with what it means in its name.

`deploy/prometheus/alerts.yml` repeats some of them; a test compares.
"""

from typing import Final

from remora.core.ledger.freshness import SILENT_NS
from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS

# The newest id is asked for every 15 s, or as often as the owner says: four missed questions are too many.
NEWEST_ID_NOT_FRESH_NS: Final = 60 * SECOND_NS
NEWEST_IDS_MISSED_NOT_FRESH: Final = 4
# After this silence the stream is opened again, so the copy may have missed a change.
STREAM_SILENT_NOT_FRESH_NS: Final = SILENT_NS
# Several attempts to open the stream again have failed by then: somebody has to look.
STREAM_SILENT_PAGE_NS: Final = 5 * MINUTE_NS
# A run that took long or was held back may miss its turn once, not more.
RUNS_MISSED_NOT_FRESH: Final = 3
# History this far behind is mentioned; a backfill this large that does not move is a ticket.
BEHIND_IDS: Final = 50_000
BACKFILL_MOVES_IDS_PER_HOUR: Final = 50
INBOX_DEEP: Final = 2_000
RESCAN_LATE_NS: Final = 12 * HOUR_NS
# The law keeps refusals under 0.4 percent in steady state; several times that is not polite.
REFUSED_SHARE_NOT_POLITE: Final = 0.02
REQUESTS_TO_JUDGE: Final = 50
# A rate is a division: a thousandth of rounding is not faster than the ceiling.
CEILING_TOLERANCE: Final = 1.001
# Requests that leave at this share of what is allowed are held back by the pace, whatever else took time.
AT_THE_PACE: Final = 0.9
# Below this share of the ceiling nobody is "at the ceiling", whatever held each request.
FAR_BELOW_THE_CEILING: Final = 0.5
# A longer wait is told with its end and its reason.
WAIT_WORTH_TELLING_NS: Final = 5 * SECOND_NS
