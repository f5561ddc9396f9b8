"""Which addresses does a host name have, in the form that aiohttp reads?"""

import socket

from aiohttp.abc import AbstractResolver, ResolveResult

from remora.sources.transport.lookup import Lookups


class LookupResolver(AbstractResolver):
    """`Lookups` for aiohttp, whose own resolver uses the event loop's threads."""

    def __init__(self) -> None:
        self._lookups = Lookups()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """All addresses of the host, as aiohttp reads them."""
        numeric = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
        return [
            ResolveResult(
                hostname=host,
                host=socket.getnameinfo(address, numeric)[0],  # also with the scope that a local address of IPv6 needs
                port=port,
                family=found,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for found, _, protocol, _, address in await self._lookups.addresses(host, port, family)
        ]

    async def close(self) -> None:
        """Nothing to do: a lookup that still runs is not waited for."""
