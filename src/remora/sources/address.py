"""Which declared paths are allowed, and how is a key put into one? Paths stay below the source's own address."""

import re
from typing import Final
from urllib.parse import quote, unquote_plus

from remora.core.errors import ConfigurationError

RELATIVE: Final = re.compile(r"/(?!/)[!-~]*")
_HINT: Final = 'write a path that begins with one "/", with spaces and the like as %20'


def check_path(path: str, where: str, *, mark: str | None = None, stands_for: str = "") -> None:
    """A path below the source's address. It may have a fixed query and must contain `mark`."""
    if not RELATIVE.fullmatch(path) or "#" in path:
        raise ConfigurationError(f'{where} is "{path}"', hint=_HINT)
    if mark is not None and mark not in path:
        raise ConfigurationError(f'{where} is "{path}"', hint=f"write {mark} where {stands_for} belongs")


def without_parameter(url: str, name: str) -> str:
    """The address without a query parameter; everything else stays as it is written."""
    start, mark, query = url.partition("?")
    pairs = [pair for pair in query.split("&") if unquote_plus(pair.partition("=")[0]) != name]
    return f"{start}{mark if pairs else ''}{'&'.join(pairs)}"


def quoted(key: str) -> str:
    """The key as one segment of a path. A key of dots alone is escaped, or it would mean another folder."""
    step = quote(key, safe="", errors="surrogatepass")
    return step.replace(".", "%2E") if set(key) == {"."} else step
