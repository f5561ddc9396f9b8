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


async def post_notice(url: str, body: bytes, headers: Mapping[str, str]) -> bool:
    """Whether the address accepted the body in time."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(
                timeout=timeout, connector=aiohttp.TCPConnector(resolver=LookupResolver())
            ) as session,
            session.post(url, data=body, headers=headers, allow_redirects=False) as reply,
        ):
            return reply.status in ACCEPTED
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return False


async def send_mail(server: MailServer, message: EmailMessage) -> bool:
    """Whether the server took the mail in time."""
    return await asyncio.to_thread(_send, server, message)


def _send(server: MailServer, message: EmailMessage) -> bool:
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
    except (OSError, smtplib.SMTPException, ValueError):  # the last: what cannot be written into a login or an address
        return False
    return True


def _trust(server: MailServer) -> ssl.SSLContext:
    """The password goes to nobody who cannot prove to be this host."""
    context = ssl.create_default_context()
    if server.is_here:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
