"""Which declared paths are allowed, and how is a key put into one? Paths stay below the source's own address."""

import re
import string
from typing import Final
from urllib.parse import SplitResult, quote, unquote_plus, urljoin, urlsplit

from remora.core.errors import ConfigurationError
from remora.sources.secret import MASK

RELATIVE: Final = re.compile(r"/(?!/)[!-~]*")
_PLACEHOLDER: Final = re.compile(r"\{\w+\}")
_PRINTED: Final = string.punctuation
_USUAL_PORTS: Final = {"http": ":80", "https": ":443"}
_HINT: Final = 'write a path that begins with one "/", with spaces and the like as %20'


def check_path(path: str, where: str, *, mark: str | None = None, stands_for: str = "") -> None:
    """A path below the source's address. It may have a fixed query and must contain `mark`."""
    if not RELATIVE.fullmatch(path) or "#" in path:
        raise ConfigurationError(f'{where} is "{_without_query(path)}"', hint=_HINT)
    if mark is not None and mark not in path:
        raise ConfigurationError(
            f'{where} is "{_without_query(path)}"', hint=f"write {mark} where {stands_for} belongs"
        )


def check_fixed_path(path: str, where: str) -> None:
    """A path that is the same in every request: nothing would take the place of a placeholder."""
    check_path(path, where)
    if (found := _PLACEHOLDER.search(path)) is not None:
        raise ConfigurationError(
            f'{where} is "{_without_query(path)}"', hint=f"leave {found[0]} out: this request is always the same"
        )


def _without_query(path: str) -> str:
    start, mark, _ = path.partition("?")
    return f"{start}?{MASK}" if mark else start


def is_web_address(url: str) -> bool:
    """Whether a request can be sent there at all: a post to an address without a host would be repeated for ever."""
    try:
        parts = urlsplit(url)
        return parts.scheme in {"https", "http"} and bool(parts.hostname) and parts.port != 0 and url.isprintable()
    except ValueError:  # a port that is no number, or half of an IPv6 address
        return False


def within_origin(url: str, target: str) -> str | None:
    """Path and query of an address that a page at `url` names; None if it leads to another host, port or scheme.

    The whole authority is compared, so that a foreign host, port or user never receives a token. Its case and the usual
    port of the scheme make no difference, and characters that an address may not hold are escaped.
    """
    try:
        # Both are escaped: a host that is not ASCII must be the same text in both.
        url, target = quote(url, safe=_PRINTED), quote(target.strip(), safe=_PRINTED)
        joined = urljoin(url, target).partition("#")[0]
        here, there = urlsplit(url), urlsplit(joined)
    except ValueError:
        return None
    rest = joined.partition("://")[2].removeprefix(there.netloc)
    is_here = there.scheme == here.scheme and _authority(there) == _authority(here)
    return rest if is_here and RELATIVE.fullmatch(rest) else None


def _authority(parts: SplitResult) -> str:
    return parts.netloc.lower().removesuffix(_USUAL_PORTS.get(parts.scheme, ""))


def without_parameter(url: str, name: str) -> str:
    """The address without a query parameter; everything else stays as it is written."""
    start, mark, query = url.partition("?")
    pairs = [pair for pair in query.split("&") if unquote_plus(pair.partition("=")[0]) != name]
    return f"{start}{mark if pairs else ''}{'&'.join(pairs)}"


def holds_parameter(url: str, name: str) -> bool:
    """Whether an address has a query parameter of this name."""
    return bool(name) and without_parameter(url, name) != url


def with_query(url: str, *pairs: tuple[str, str]) -> str:
    """The address with these parameters. One without a name is not sent."""
    query = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs if name)
    return f"{url}{'&' if '?' in url else '?'}{query}" if query else url


def quoted(key: str) -> str:
    """The key as one segment of a path. A key of dots alone is escaped, or it would mean another folder."""
    step = quote(key, safe="", errors="surrogatepass")
    return step.replace(".", "%2E") if set(key) == {"."} else step
