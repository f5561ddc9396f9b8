"""What is written to ask for an address, and over which connections? Most addresses differ by one name only."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from remora.sources.transport.origin import Origin, authority_end, origin_of
from remora.sources.transport.pool import Pool
from remora.sources.transport.settings import HttpSettings

# A source asks for nearly everything in one place. So many places are known, each with a request that only lacks a name.
PLACES_KNOWN: Final = 16

_PLAIN: Final = re.compile(r"[!-~]*")
# Stands for the name in a request, to see where in it the name is written. No address is likely to hold it, and it does not
# end as it begins: what stands before it cannot shift it.
ANY_NAME: Final = "x09876543210987654321"
_KEPT_IN_TARGET: Final = "/?:@!$&'()*+,;=%-._~[]|"


class Requests:
    """The requests of one transport. A new origin gets a pool of connections."""

    def __init__(self, settings: HttpSettings, pools: dict[Origin, Pool]) -> None:
        self._proxy = settings.proxy
        self._pools = pools
        self._common = {"User-Agent": settings.user_agent, "Accept": "*/*", "Accept-Encoding": "identity"}
        self._places: dict[tuple[str, ...], tuple[Pool, list[bytes]]] = {}

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> tuple[Pool, bytes] | None:
        """Where to send a request to, and what is written; None if the address cannot be used."""
        return self._written("GET", url, headers or {})

    def named(
        self, around: tuple[str, ...], name: str, headers: Mapping[str, str] | None = None
    ) -> tuple[Pool, bytes] | None:
        """The same for an address in which `name` stands between these parts."""
        is_usual = not headers and name.isascii() and name.isalnum()  # never written in another way
        if is_usual and (known := self._places.get(around)) is not None:
            pool, parts = known
            return pool, name.encode().join(parts)  # fast path
        if is_usual and len(self._places) < PLACES_KNOWN and (found := self._around(around)) is not None:
            self._places[around] = found
        return self.get(name.join(around), headers)

    def _around(self, around: tuple[str, ...]) -> tuple[Pool, list[bytes]] | None:
        """What is written around any plain name; None if the address has none, or not in its path and query alone."""
        url = ANY_NAME.join(around)
        if len(around) == 1 or authority_end(url) > len(around[0]):
            return None
        found = self._written("GET", url, {})
        if found is None:
            return None
        pool, request = found
        parts = request.split(ANY_NAME.encode())
        return (pool, parts) if len(parts) == len(around) else None

    def post(self, url: str, headers: Mapping[str, str] | None, body: bytes) -> tuple[Pool, bytes] | None:
        """The same with a body."""
        return self._written("POST", url, headers or {}, body)

    def _written(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> tuple[Pool, bytes] | None:
        end = authority_end(url)
        scheme, _, authority = url[:end].partition("://")
        origin = origin_of(scheme.lower(), authority)
        if origin is None:
            return None
        target = _target(url[end:])
        if self._proxy is not None and not origin.is_tls:  # the proxy must know where to
            target = f"http://{origin.host_header}{target}"
        own, names = _lines(headers), {name.lower() for name in headers}
        assert own.count("\n") == len(headers), "a header holds no line break"
        # The owner's is sent instead of the common one.
        common = {name: text for name, text in self._common.items() if name.lower() not in names}
        length = "" if body is None else f"Content-Length: {len(body)}\r\n"
        head = f"{method} {target} HTTP/1.1\r\nHost: {origin.host_header}\r\n{own}{length}{_lines(common)}\r\n"
        return self._pools.setdefault(origin, Pool(origin)), head.encode("latin-1") + (body or b"")


def _target(path: str) -> str:
    """The request target of what follows the authority."""
    target = path.partition("#")[0]
    if not _PLAIN.fullmatch(target):  # an address that the provider wrote
        target = quote(target, safe=_KEPT_IN_TARGET)
    return target if target.startswith("/") else f"/{target}"


def _lines(headers: Mapping[str, str]) -> str:
    return "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
