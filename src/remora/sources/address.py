"""What may a declared path be, and how does a key become a part of one? Paths stay below the source's own address."""

import re
from typing import Final
from urllib.parse import quote

from remora.core.errors import ConfigurationError

RELATIVE: Final = re.compile(r"/(?!/)[!-~]*")
_HINT: Final = 'write a path that begins with one "/", with spaces and the like as %20'


def check_path(path: str, where: str, *, mark: str | None = None, stands_for: str = "") -> None:
    """A path below the source's address, that may carry a fixed query. `mark` must be in it."""
    if not RELATIVE.fullmatch(path) or "#" in path:
        raise ConfigurationError(f'{where} is "{path}"', hint=_HINT)
    if mark is not None and mark not in path:
        raise ConfigurationError(f'{where} is "{path}"', hint=f"write {mark} where {stands_for} belongs")


def quoted(key: str) -> str:
    """The key as one step of a path; a key of dots alone would otherwise mean another folder."""
    step = quote(key, safe="", errors="surrogatepass")
    return step.replace(".", "%2E") if set(key) == {"."} else step
