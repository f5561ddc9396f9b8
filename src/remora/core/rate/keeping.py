"""When is a learned pace stored, and when is it shared with other processes?"""

from typing import Final

from remora.core.units import MILLISECOND_NS, SECOND_NS

# A learned pace is stored at most this often; a back-off is stored at once.
SAVE_EVERY_S: Final = 1.0
# Departures are rare at this interval or a longer one.
RARE_FROM_NS: Final = SECOND_NS
# A pace that rose by this much is shared soon: until then all processes keep the old one, so the new one is unproven.
SHARE_RISE: Final = 1.02
SHARE_RISE_EVERY_NS: Final = 50 * MILLISECOND_NS
# A process may be at most one step of the law ahead of the shared pace.
AHEAD_OF_ALL: Final = 1.07
# After a back-off nothing is sent until it is stored, so that a crash cannot forget it. A store that is down may hold
# the gate only this long.
HOLD_FOR_STORE_NS: Final = SECOND_NS
# The pace went down because answers took much longer than usual: more was sent than the provider serves.
SLOW_ANSWERS: Final = "slow_answers"
# Why the pace went down although no answer of this process caused it.
REMEMBERED: Final = "remembered"
TOLD: Final = "another_process"
