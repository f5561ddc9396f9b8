"""How is a weather service of plain text mirrored? Its list is lines, its reports end with a line END.

No declaration can express this, because nothing here is JSON. Only names of `import remora` are used.

    GET /stations.txt?after=gva      one line per station: its name, a space, when its report was last written
    GET /reports/zrh.txt             a report; a whole one ends with the line END
"""

from typing import Final
from urllib.parse import quote

from remora import (
    Capabilities,
    ConfigurationError,
    Decoded,
    Discovery,
    Document,
    Entry,
    Kind,
    NoReply,
    Page,
    Permit,
    Readable,
    Reply,
    SourcePlugin,
    SourceSetup,
    Unreadable,
    WrongShape,
)

CAPABILITIES: Final = Capabilities(list=True)
END: Final = b"END\n"


class Weather:
    """One text report per station."""

    capabilities = CAPABILITIES

    def __init__(self, setup: SourceSetup) -> None:
        self.name = setup.name
        self._url = setup.url
        self._transport = setup.transport
        self._headers = setup.headers
        self._country = _country(setup)

    async def fetch(self, discovery: Discovery, permit: Permit) -> Reply | NoReply:
        """Exactly one request, sent with the permit."""
        return await self._transport.get(self._address(discovery), permit, headers=self._headers)

    def decode(self, discovery: Discovery, reply: Reply) -> Decoded:
        """What the reply holds. Never raises, and never calls a page the last one because it could not be read."""
        if not reply.body.endswith(END):
            return Unreadable("cut off")
        if discovery.kind is Kind.DOCUMENT:
            return Readable(Document(discovery.key, reply.body))
        lines = reply.body.removesuffix(END).decode("utf-8", "replace").splitlines()
        entries = [Entry(name, written) for name, _, written in (line.partition(" ") for line in lines) if written]
        if len(entries) < len(lines):
            return WrongShape("a line without a date")
        return Readable(Page(tuple(entries), next_position=entries[-1].key if entries else None))

    def _address(self, discovery: Discovery) -> str:
        # Keys are other people's text: they are quoted.
        key = quote(discovery.key, safe="")
        if discovery.kind is Kind.DOCUMENT:
            return f"{self._url}/reports/{key}.txt"
        return f"{self._url}/stations.txt?country={self._country}&after={key}"


def _country(setup: SourceSetup) -> str:
    country = setup.options.get("country", "ch")
    if not isinstance(country, str) or len(country) != 2 or not country.isalpha():
        raise ConfigurationError(
            f"sources.{setup.name}.options.country is {country!r}", hint='write two letters, as country = "ch"'
        )
    return country


PLUGIN: Final = SourcePlugin(
    make=Weather, capabilities=CAPABILITIES, url="https://weather.example", ceiling="30/min", defaults={"every": "1h"}
)
