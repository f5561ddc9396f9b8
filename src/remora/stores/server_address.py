"""Can the address of a PostgreSQL server lead anywhere? Its hosts and ports are looked at before it is written into a file.

It is read as PostgreSQL's own library does: several hosts with commas, none for a local socket. Whether somebody answers is
for `remora check` to find out.
"""

import re
from typing import Final

from remora.core.errors import ConfigurationError

# A name, or an IPv6 address in brackets, and perhaps a port.
_HOST: Final = re.compile(r"(?:\[[^\[\]]+\]|[^\[\]:]*)(?::(?P<port>[^:]*))?")
_PORT_MAX: Final = 65_535
_HINT: Final = (
    "write postgresql://user@host:5432/database, an IPv6 address in brackets; in a password @ is %40 and / is %2F"
)


def check_server(url: str) -> None:
    """Refuse hosts and ports that can never work, without showing them: what is beside them may be a password."""
    authority = url.partition("://")[2].partition("/")[0]
    hosts = (authority.partition("@")[2] if "@" in authority else authority).partition("?")[0]
    for host in hosts.split(","):
        found = _HOST.fullmatch(host)
        if found is None:
            raise ConfigurationError("the store's address has a host that cannot be read", hint=_HINT)
        port = found["port"]
        if port and not (port.isascii() and port.isdigit() and 0 < int(port[:9]) <= _PORT_MAX):
            raise ConfigurationError("the store's address has a port that is no number from 1 to 65535", hint=_HINT)
