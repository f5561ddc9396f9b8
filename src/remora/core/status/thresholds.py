"""How much is too much? Every threshold of an answer, an alarm or an alert, defined once; its name says what it means.

`deploy/prometheus/alerts.yml` repeats some of them; a test compares the two.
"""

from typing import Final

from remora.core.ledger.freshness import SILENT_NS
from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS

# The newest id is requested every 15 s, or as often as the owner says: four missed answers are too many.
NEWEST_ID_NOT_FRESH_NS: Final = 60 * SECOND_NS
NEWEST_IDS_MISSED_NOT_FRESH: Final = 4
# After this silence the stream is reopened, so the mirror may have missed a change.
STREAM_SILENT_NOT_FRESH_NS: Final = SILENT_NS
# A stream that was lost this recently is still being opened again; nobody has to act yet.
STREAM_MAY_RECONNECT_NS: Final = 2 * MINUTE_NS
# By then the stream should have been reopened several times: somebody has to look.
STREAM_SILENT_PAGE_NS: Final = 5 * MINUTE_NS
# A long or delayed run may miss its turn once, not more often.
RUNS_MISSED_NOT_FRESH: Final = 3
# A mirror this many ids behind is mentioned; a backfill of this size that makes no progress is a ticket.
BEHIND_IDS: Final = 50_000
BACKFILL_MOVES_IDS_PER_HOUR: Final = 50
INBOX_DEEP: Final = 2_000
RESCAN_LATE_NS: Final = 12 * HOUR_NS
# The law keeps refusals under 0.4 percent in steady state; several times that is not polite.
REFUSED_SHARE_NOT_POLITE: Final = 0.02
REQUESTS_TO_JUDGE: Final = 50
# The newest id is asked for four times in this time: a row of private items alone does not look like a ban.
BARRED_AFTER_NS: Final = 60 * SECOND_NS
# Refused for its rate for this long, whatever we send: a ban rather than a limit.
BAN_AFTER_NS: Final = 600 * SECOND_NS
BARRED_ANSWERS: Final = 4
# A rate is a division: a rounding error of one in a thousand does not exceed the ceiling.
CEILING_TOLERANCE: Final = 1.001
# If requests are sent at this share of the allowed rate, the pace is the limit, whatever else took time.
AT_THE_PACE: Final = 0.9
# Below this share of the ceiling the rate is not "at the ceiling", whatever delayed each request.
FAR_BELOW_THE_CEILING: Final = 0.5
# A longer wait is shown with its end and its reason.
WAIT_WORTH_TELLING_NS: Final = 5 * SECOND_NS
