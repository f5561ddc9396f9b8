"""Whom does the owner want to be told, how, about what, and when not? Nobody by default."""

import re
from collections.abc import Collection
from enum import StrEnum
from typing import Annotated, Final

import msgspec

from remora.core.errors import ConfigurationError
from remora.sources.address import is_web_address

QUIET: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
SERVER: Final = re.compile(r"[A-Za-z0-9.-]{1,253}:[0-9]{1,5}")
# What the command finds in its environment. It may call `remora`, which must not take them for settings.
NOTICE_VARIABLES: Final = {
    "kind": "REMORA_KIND",
    "source": "REMORA_SOURCE",
    "name": "REMORA_NAME",
    "state": "REMORA_STATE",
    "text": "REMORA_TEXT",
    "runbook": "REMORA_RUNBOOK",
}


class WebhookStyle(StrEnum):
    """The shape of a webhook's body."""

    JSON = "json"
    SLACK = "slack"
    DISCORD = "discord"
    NTFY = "ntfy"


def parse_sources(value: object, where: str) -> tuple[str, ...]:
    """Names of sources."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise ConfigurationError(f"{where} is {value}, which is not a list of names", hint='write sources = ["hackernews"]')


Sources = Annotated[tuple[str, ...], msgspec.Meta(extra={"reads": parse_sources})]


class NotifySettings(msgspec.Struct, frozen=True):
    """Whom to tell, about which new items, and when not."""

    command: str | None = None
    search: str | None = None
    webhook: str | None = None
    webhook_env: str | None = None
    style: WebhookStyle | None = None
    mail_to: str | None = None
    mail_from: str | None = None
    smtp: str | None = None
    smtp_user: str | None = None
    smtp_password_env: str | None = None
    sources: Sources = ()
    quiet: str | None = None

    def __post_init__(self) -> None:
        if self.webhook is not None and self.webhook_env is not None:
            raise ConfigurationError("notify has both webhook and webhook_env", hint="write one of them")
        if self.webhook is not None and not is_web_address(self.webhook):
            raise ConfigurationError("notify.webhook is not an address", hint='write webhook = "https://…"')
        if self.quiet is not None and QUIET.fullmatch(self.quiet) is None:
            raise ConfigurationError(
                f'notify.quiet is "{self.quiet}"', hint='write local times, as quiet = "22:00-07:00"'
            )
        if self.smtp is not None and SERVER.fullmatch(self.smtp) is None:
            raise ConfigurationError(
                f'notify.smtp is "{self.smtp}"', hint='write host and port, as smtp = "mail.example.org:587"'
            )

    def check_sources(self, known: Collection[str]) -> None:
        """Refuse a source that does not exist: with a name that is misspelt nobody would be told of anything."""
        for name in self.sources:
            if name not in known:
                raise ConfigurationError(
                    f'notify.sources names "{name}", and there is no such source',
                    hint=f"configured: {', '.join(sorted(known))}; leave sources out to hear of all",
                )

    @property
    def is_anybody_told(self) -> bool:
        """Whether there is a way to tell somebody."""
        return any((self.command, self.webhook, self.webhook_env, self.mail_to))

    def wants(self, source: str) -> bool:
        """Whether the owner wants to hear of this source."""
        return not self.sources or source in self.sources

    def is_quiet(self, minute_of_day: int) -> bool:
        """Whether nobody should be told at this minute of the local day."""
        found = None if self.quiet is None else QUIET.fullmatch(self.quiet)
        if found is None:
            return False
        begins, ends = (60 * int(found[at]) + int(found[at + 1]) for at in (1, 3))
        if begins <= ends:
            return begins <= minute_of_day < ends
        return minute_of_day >= begins or minute_of_day < ends

    def __repr__(self) -> str:
        # The command and the webhook may contain a secret address.
        return "NotifySettings(…)"
