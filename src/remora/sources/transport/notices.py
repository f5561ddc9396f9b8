"""How does a notice reach its owner over the network? One POST to a webhook, or one mail; both with a short timeout.

These are the owner's own addresses, not a provider's, so no gate counts them.
"""

import asyncio
import smtplib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Final

import aiohttp

from remora.sources.secret import Secret
from remora.sources.transport.aiohttp_lookup import LookupResolver

TIMEOUT_S: Final = 10.0
TOO_LATE: Final = f"no answer within {TIMEOUT_S:.0f} s"
IMPLICIT_TLS_PORT: Final = 465
ACCEPTED: Final = range(200, 300)


@dataclass(frozen=True, slots=True)
class MailServer:
    """Where mail is given away, and as whom."""

    host: str
    port: int
    user: str | None = None
    password: Secret | None = None
    starttls: bool = True
    is_here: bool = False  # on this machine, where nobody is in between: its certificate may be anything


async def post_notice(url: str, body: bytes, headers: Mapping[str, str]) -> str | None:
    """Post once. None: it was accepted; otherwise why not, without the address, which may be a secret."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(
                timeout=timeout, connector=aiohttp.TCPConnector(resolver=LookupResolver())
            ) as session,
            session.post(url, data=body, headers=headers, allow_redirects=False) as reply,
        ):
            return None if reply.status in ACCEPTED else f"it answered HTTP {reply.status}"
    except TimeoutError:
        return TOO_LATE
    except (aiohttp.ClientError, ValueError) as error:
        return type(error).__name__


async def send_mail(server: MailServer, message: EmailMessage) -> str | None:
    """Give the mail to the server. None: it took it; otherwise why not."""
    return await asyncio.to_thread(_send, server, message)


def _send(server: MailServer, message: EmailMessage) -> str | None:
    is_tls, trust = server.port == IMPLICIT_TLS_PORT, _trust(server)
    try:
        with (
            smtplib.SMTP_SSL(server.host, server.port, timeout=TIMEOUT_S, context=trust)
            if is_tls
            else smtplib.SMTP(server.host, server.port, timeout=TIMEOUT_S)
        ) as connection:
            if server.starttls and not is_tls:
                connection.starttls(context=trust)
            if server.user is not None and server.password is not None:
                connection.login(server.user, server.password.reveal())
            connection.send_message(message)
    except TimeoutError:
        return TOO_LATE
    except smtplib.SMTPResponseException as error:  # its text may quote the login
        return f"the mail server answered {error.smtp_code} ({type(error).__name__})"
    except (OSError, smtplib.SMTPException, ValueError) as error:  # the last: what no login and no address can hold
        return type(error).__name__
    return None


def _trust(server: MailServer) -> ssl.SSLContext:
    """The password goes to nobody who cannot prove to be this host."""
    context = ssl.create_default_context()
    if server.is_here:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
