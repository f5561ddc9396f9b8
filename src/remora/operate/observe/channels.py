"""By which ways is the owner told? A command, a webhook in the shape its service reads, or a mail; each may fail alone."""

import asyncio
import html
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import Final
from urllib.parse import urlsplit

import msgspec

from remora.core.errors import ConfigurationError
from remora.core.texts import storable
from remora.operate.config.notify_settings import NOTICE_VARIABLES, NotifySettings, WebhookStyle
from remora.operate.config.owned_commands import end_with_children
from remora.operate.config.secrets import text_from_environment
from remora.operate.config.settings import LOOPBACK_NAMES
from remora.sources.address import is_web_address
from remora.sources.secret import Secret
from remora.sources.transport.notices import MailServer, post_notice, send_mail

COMMAND_TIMEOUT_S: Final = 10.0
PATH: Final = "/usr/local/bin:/usr/bin:/bin"
# A service is recognised by its host, so that nobody has to write the style.
HOSTS: Final = {
    "hooks.slack.com": WebhookStyle.SLACK,
    "discord.com": WebhookStyle.DISCORD,
    "discordapp.com": WebhookStyle.DISCORD,
    "ntfy.sh": WebhookStyle.NTFY,
}
SUBJECT_CHARACTERS_MAX: Final = 150


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner is told."""

    kind: str  # alarm, item or test
    source: str
    name: str  # the alarm, or the item's id
    state: str  # firing, cleared or new
    text: str
    runbook: str | None = None

    @property
    def subject(self) -> str:
        """The notice in one line."""
        word = {"firing": "problem", "cleared": "resolved"}.get(self.state, self.state)
        return f"[remora] {word}: {self.source} {self.name}"[:SUBJECT_CHARACTERS_MAX]


# None: it was delivered; otherwise why not, in a few words.
Tell = Callable[[Sequence[str], Notice], Awaitable[str | None]]
Channel = Callable[[Notice], Awaitable[str | None]]


async def run_command(command: Sequence[str], notice: Notice) -> str | None:
    """Run it once. None: it succeeded in time; otherwise why not."""
    variables = {
        NOTICE_VARIABLES[key]: storable(str(value or ""))  # no variable holds a NUL
        for key, value in msgspec.to_builtins(notice).items()
    }
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PATH": PATH, "LANG": "C.UTF-8", **variables},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(COMMAND_TIMEOUT_S):
            await process.communicate(msgspec.json.encode(notice))
    except TimeoutError:
        return f"it took longer than {COMMAND_TIMEOUT_S:.0f} s"
    finally:
        if process.returncode is None:
            await end_with_children(process)
    return None if process.returncode == 0 else f"it ended with code {process.returncode}"


def channels_of(
    settings: NotifySettings, environ: Mapping[str, str], *, tell: Tell = run_command
) -> dict[str, Channel]:
    """Every way that the owner configured, by its name."""
    channels: dict[str, Channel] = {}
    command = shlex.split(settings.command or "")
    if command:
        channels["command"] = lambda notice: tell(command, notice)
    if (url := webhook_address(settings, environ)) is not None:
        channels["webhook"] = _webhook(url, settings.style or style_of(url))
    if settings.mail_to is not None:
        channels["mail"] = _mail(settings, environ)
    return channels


def webhook_address(settings: NotifySettings, environ: Mapping[str, str]) -> str | None:
    """The address; in a variable where it is a secret."""
    if settings.webhook_env is None:
        return settings.webhook
    url = text_from_environment(
        "notify.webhook_env",
        settings.webhook_env,
        environ,
        holds="the address of the webhook",
        example='webhook_env = "REMORA_WEBHOOK"',
    ).strip()
    if not is_web_address(url):
        raise ConfigurationError(
            f"the variable {settings.webhook_env}, which notify.webhook_env names, holds no address",
            hint=f"set {settings.webhook_env} to https://host/path",
        )
    return url


def style_of(url: str) -> WebhookStyle:
    """The shape that the service at this address reads."""
    return HOSTS.get(urlsplit(url).hostname or "", WebhookStyle.JSON)


def payload(style: WebhookStyle, notice: Notice) -> tuple[bytes, dict[str, str]]:
    """Body and headers of the POST."""
    more = f"\n{notice.runbook}" if notice.runbook else ""
    match style:
        case WebhookStyle.JSON:
            return msgspec.json.encode(notice), {"Content-Type": "application/json"}
        case WebhookStyle.SLACK:
            # Escaped as Slack asks for it: words of a stranger must not call everybody (`<!channel>`) or hide a link.
            said = html.escape(f"*{notice.subject}*\n{notice.text}{more}", quote=False)
            return msgspec.json.encode({"text": said}), {"Content-Type": "application/json"}
        case WebhookStyle.DISCORD:
            # Nobody may be called by words that a stranger wrote into an item.
            body = {"content": f"**{notice.subject}**\n{notice.text}{more}"[:2_000], "allowed_mentions": {"parse": []}}
            return msgspec.json.encode(body), {"Content-Type": "application/json"}
        case WebhookStyle.NTFY:
            title = notice.subject.encode("ascii", "replace").decode()
            priority = "high" if notice.state == "firing" else "default"
            return f"{notice.text}{more}".encode(), {
                "Title": title,
                "Priority": priority,
                "Content-Type": "text/plain; charset=utf-8",
            }


def _webhook(url: str, style: WebhookStyle) -> Channel:
    async def send(notice: Notice) -> str | None:
        body, headers = payload(style, notice)
        return await post_notice(url, body, headers)

    return send


def _mail(settings: NotifySettings, environ: Mapping[str, str]) -> Channel:
    host, _, port = (settings.smtp or "localhost:25").rpartition(":")
    server = MailServer(
        host,
        int(port),
        user=settings.smtp_user,
        password=_mail_password(settings, environ),
        starttls=settings.smtp_user is not None,
        is_here=host in LOOPBACK_NAMES,
    )

    async def send(notice: Notice) -> str | None:
        return await send_mail(server, mail(settings, notice))

    return send


def _mail_password(settings: NotifySettings, environ: Mapping[str, str]) -> Secret | None:
    """The password of the mail server. One that no login can send is refused here, not in the night when it is needed."""
    if settings.smtp_password_env is None:
        return None
    password = text_from_environment(
        "notify.smtp_password_env",
        settings.smtp_password_env,
        environ,
        holds="the password of the mail server",
        instead=", or leave smtp_password_env out",
        example='smtp_password_env = "MAIL_PASSWORD"',
    )
    if not (password.isascii() and (settings.smtp_user or "").isascii()):
        raise ConfigurationError(
            "notify.smtp_user and the password of the mail server have to be plain ASCII",
            hint="give the user at the mail server a password of plain letters, digits and signs",
        )
    return Secret(password)


def mail(settings: NotifySettings, notice: Notice) -> EmailMessage:
    """The notice as a mail."""
    message = EmailMessage()
    message["Subject"] = " ".join(notice.subject.split())
    message["From"] = settings.mail_from or settings.mail_to or ""
    message["To"] = settings.mail_to or ""
    # Without these two, many servers take a mail for unwanted.
    message["Date"] = formatdate(localtime=True)
    message["Message-ID"] = make_msgid(domain=message["From"].partition("@")[2] or "localhost")
    more = f"\n\nWhat to do: {notice.runbook}" if notice.runbook else ""
    message.set_content(f"{notice.text}{more}\n")
    return message
