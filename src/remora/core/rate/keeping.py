"""When is a learned pace stored, and when is it shared with other processes?"""

from typing import Final

from remora.core.units import MILLISECOND_NS, SECOND_NS

# A learned pace is stored at most this often; a back-off is stored at once.
SAVE_EVERY_S: Final = 1.0
# From this interval on departures are rare.
RARE_FROM_NS: Final = SECOND_NS
# A pace that rose by this much is shared soon: until then all processes still go at the old one, and it proves nothing.
SHARE_RISE: Final = 1.02
SHARE_RISE_EVERY_NS: Final = 50 * MILLISECOND_NS
# One more step of the law than is shared, no more.
AHEAD_OF_ALL: Final = 1.07
# After a back-off nothing leaves until it is stored, so that a crash cannot forget it. A store that is down may hold
# the gate only this long.
HOLD_FOR_STORE_NS: Final = SECOND_NS
# Why the pace went down when no answer of this process asked for it.
REMEMBERED: Final = "remembered"
TOLD: Final = "another_process"
