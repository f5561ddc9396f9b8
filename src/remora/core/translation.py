"""What did a provider say in its own dialect? Small rules translate status, headers and body before the verdict."""

from enum import StrEnum
from typing import Final

import msgspec

from remora.core.quota import Quota


class Means(StrEnum):
    """What a reply can mean according to a rule."""

    PRESSURE = "pressure"
    REFUSED = "refused"
    MISSING = "missing"
    GONE = "gone"
    TROUBLE = "trouble"
    MALFORMED = "malformed"
    END = "end"  # the list ends here


class Translation(msgspec.Struct, frozen=True):
    """What the rules found in one reply. An answer may be good and still ask for a wait or name a quota."""

    means: Means | None = None  # None: no rule matched; the status decides
    wait_ns: int | None = None
    quota: Quota | None = None


NOTHING_SAID: Final = Translation()
