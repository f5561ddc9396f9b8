"""Which other source shares the account in some worlds? A list beside a numbered source."""

from typing import Final

from remora.sim.fuzz.forms import PLAIN, detail_settings, list_settings
from remora.sources.list_settings import Paging

SECOND: Final = "second"
SECOND_LIST: Final = list_settings(PLAIN, Paging.OFFSET)
SECOND_DETAIL: Final = detail_settings(PLAIN)
