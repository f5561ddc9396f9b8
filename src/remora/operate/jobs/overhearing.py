"""What exactly did a source answer? Its last reply is kept, for whoever tells an owner what was understood of it."""

from typing import Any

from remora.contracts import Capabilities, Permit, Source
from remora.contracts.source import SourceFailed
from remora.core.item import Decoded
from remora.core.ledger.discovery import Discovery
from remora.core.verdict import NoReply, Reply


class Overhearing:
    """A source that keeps its last reply for inspection."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.reply: Reply | NoReply | None = None
        self.failure: SourceFailed | None = None

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def capabilities(self) -> Capabilities:
        return self._source.capabilities

    async def fetch(self, discovery: Discovery, permit: Permit) -> Reply | NoReply:
        try:
            self.reply = await self._source.fetch(discovery, permit)
        except SourceFailed as failure:
            self.failure = failure
            raise
        return self.reply

    def decode(self, discovery: Discovery, reply: Reply) -> Decoded:
        return self._source.decode(discovery, reply)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)
