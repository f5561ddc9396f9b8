"""Does a notice arrive in the shape its reader knows, over every channel, and not in quiet hours?"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trustme
from aiohttp import web
from aiohttp.test_utils import TestServer

from remora.core.errors import ConfigurationError
from remora.operate.config.notify_settings import NotifySettings, WebhookStyle
from remora.operate.config.reader import load
from remora.operate.config.settings import Flags
from remora.operate.jobs.clock import SystemClock
from remora.operate.observe.channels import Notice, channels_of, mail, payload, style_of
from remora.operate.observe.notify import Notifier
from remora.sources.secret import Secret
from remora.sources.transport.notices import MailServer, send_mail
from remora.stores.memory import MemoryStore
from tests.operate.test_notify import Owner, status

NOTICE = Notice(
    kind="alarm", source="hackernews", name="RemoraDeadLetters", state="firing", text="3 dead", runbook="docs/x.md"
)


@pytest.mark.parametrize(
    "style, said",
    [
        (WebhookStyle.JSON, '"name":"RemoraDeadLetters"'),
        (WebhookStyle.SLACK, '"text":"*[remora] problem: hackernews RemoraDeadLetters*'),
        (WebhookStyle.DISCORD, '"allowed_mentions":{"parse":[]}'),
        (WebhookStyle.NTFY, "3 dead\ndocs/x.md"),
    ],
)
def test_each_service_gets_its_own_shape(style: WebhookStyle, said: str) -> None:
    body, headers = payload(style, NOTICE)
    assert said in body.decode()
    assert headers == (
        {
            "Title": "[remora] problem: hackernews RemoraDeadLetters",
            "Priority": "high",
            "Content-Type": "text/plain; charset=utf-8",
        }
        if style is WebhookStyle.NTFY
        else {"Content-Type": "application/json"}
    )


def test_a_service_is_known_by_its_host() -> None:
    assert style_of("https://hooks.slack.com/services/x") is WebhookStyle.SLACK
    assert style_of("https://discord.com/api/webhooks/x") is WebhookStyle.DISCORD
    assert style_of("https://ntfy.sh/topic") is WebhookStyle.NTFY
    assert style_of("https://alerts.example.org/x") is WebhookStyle.JSON


@asynccontextmanager
async def webhook(status_code: int) -> AsyncIterator[tuple[str, list[bytes]]]:
    got: list[bytes] = []

    async def take(request: web.Request) -> web.Response:
        got.append(await request.read())
        return web.Response(status=status_code)

    app = web.Application()
    app.router.add_post("/hook", take)
    server = TestServer(app)
    await server.start_server()
    yield f"http://127.0.0.1:{server.port}/hook", got
    await server.close()


@pytest.mark.parametrize(
    "status_code, why", [(204, None), (500, "it answered HTTP 500"), (302, "it answered HTTP 302")]
)
async def test_a_webhook_gets_one_post_and_its_answer_counts(status_code: int, why: str | None) -> None:
    async with webhook(status_code) as (url, got):
        send = channels_of(NotifySettings(webhook_env="HOOK"), {"HOOK": url})["webhook"]
        assert await send(NOTICE) == why
        assert json.loads(got[0])["text"] == "3 dead"


async def test_a_test_says_why_a_channel_failed_but_not_its_address() -> None:
    async with webhook(403) as (url, _):
        settings = NotifySettings("tell-me", webhook_env="HOOK")
        telling = Notifier(
            settings, MemoryStore(), clock=SystemClock(), tell=Owner(deaf=True).tell, environ={"HOOK": url}
        )
        assert await telling.test() == "command: failed (FileNotFoundError), webhook: failed (it answered HTTP 403)"


async def test_a_webhook_that_nobody_listens_at_is_a_failure_with_its_kind() -> None:
    send = channels_of(NotifySettings(webhook_env="HOOK"), {"HOOK": "http://127.0.0.1:9/s3cret"})["webhook"]
    assert await send(NOTICE) == "ClientConnectorError"


async def test_a_mail_is_given_to_its_server() -> None:
    heard: list[str] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail\r\n")
        in_text = False
        while line := (await reader.readline()).decode():
            heard.append(line)
            if in_text and line != ".\r\n":
                continue
            in_text = line.upper().startswith("DATA")
            writer.write(
                b"354 go\r\n" if in_text else b"221 bye\r\n" if line.upper().startswith("QUIT") else b"250 ok\r\n"
            )
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    settings = NotifySettings(mail_to="ops@example.org", smtp=f"127.0.0.1:{port}")
    assert await channels_of(settings, {})["mail"](NOTICE) is None
    server.close()
    text = "".join(heard)
    assert "Subject: [remora] problem: hackernews RemoraDeadLetters" in text
    assert "\r\nDate: " in text
    assert "@example.org>\r\n" in text.partition("\r\nMessage-ID: <")[2]
    assert "What to do: docs/x.md" in text
    nobody = NotifySettings(mail_to="ops@example.org", smtp="127.0.0.1:9")
    assert await channels_of(nobody, {})["mail"](NOTICE) == "ConnectionRefusedError"


async def test_a_login_that_cannot_be_sent_is_a_mail_that_failed() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        while line := (await reader.readline()).upper():
            writer.write(b"250-here\r\n250 AUTH PLAIN\r\n" if line.startswith(b"EHLO") else b"221 bye\r\n")
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        place = MailServer("127.0.0.1", port, user="u", password=Secret("pässword"), starttls=False)
        why = await send_mail(place, mail(NotifySettings(mail_to="ops@example.org"), NOTICE))
    assert why == "UnicodeEncodeError"


SMTP_ANSWERS = {
    b"EHLO": b"250-here\r\n250-STARTTLS\r\n250 AUTH PLAIN\r\n",
    b"STARTTLS": b"220 ok\r\n",
    b"AUTH": b"235 ok\r\n",
    b"DATA": b"354 go\r\n",
    b"QUIT": b"221 bye\r\n",
}


@pytest.mark.parametrize(
    "host, is_told", [("127.0.0.2", False), ("127.0.0.1", True)], ids=["elsewhere", "this machine"]
)
async def test_a_mail_server_that_cannot_prove_its_name_is_told_no_password(host: str, *, is_told: bool) -> None:
    """Every address of 127.0.0.0/8 is this machine, but only the usual ones are taken for it."""
    heard: list[bytes] = []
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert(host).configure_cert(theirs)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        try:
            while line := await reader.readline():
                heard.append(line.split()[0].upper())
                writer.write(SMTP_ANSWERS.get(heard[-1], b"250 ok\r\n"))
                if heard[-1] == b"STARTTLS":
                    await writer.start_tls(theirs)
                if heard[-1] == b"DATA":
                    await reader.readuntil(b"\r\n.\r\n")
                    writer.write(b"250 ok\r\n")
        except (OSError, ssl.SSLError):
            pass  # whoever does not trust us hangs up
        writer.close()

    async with await asyncio.start_server(talk, host, 0) as server:
        smtp = f"{host}:{server.sockets[0].getsockname()[1]}"
        settings = NotifySettings(mail_to="ops@example.org", smtp=smtp, smtp_user="u", smtp_password_env="PASSWORD")
        assert await channels_of(settings, {"PASSWORD": "word"})["mail"](NOTICE) == (
            None if is_told else "SSLCertVerificationError"
        )
    assert (b"AUTH" in heard) is is_told


@pytest.mark.parametrize(
    "environ, said",
    [({}, "PASSWORD, which is not set"), ({"PASSWORD": "pässword"}, "have to be plain ASCII")],
    ids=["not set", "no login can send it"],
)
def test_a_password_of_the_mail_server_that_cannot_work_is_refused_at_the_start(
    environ: dict[str, str], said: str
) -> None:
    settings = NotifySettings(mail_to="ops@example.org", smtp_user="u", smtp_password_env="PASSWORD")
    with pytest.raises(ConfigurationError, match=said) as refused:
        channels_of(settings, environ)
    assert "pässword" not in str(refused.value)


@pytest.mark.parametrize(
    "settings",
    [
        NotifySettings(mail_to="ops@example.org", smtp_user="u", smtp_password_env="hunter2-itself"),
        NotifySettings(webhook_env="https://hooks.example/hunter2-itself"),
    ],
    ids=["password", "webhook"],
)
def test_a_secret_that_was_written_in_place_of_its_variable_is_not_repeated(settings: NotifySettings) -> None:
    with pytest.raises(ConfigurationError, match="names a variable that is not set") as refused:
        channels_of(settings, {})
    assert "write the name of the variable that holds" in refused.value.hint
    assert "hunter2" not in f"{refused.value} {refused.value.hint}"


def test_a_mail_has_one_line_of_subject_whatever_an_item_says() -> None:
    odd = Notice(kind="item", source="a", name="x\r\nBcc: all@example.org", state="new", text="y")
    assert mail(NotifySettings(mail_to="ops@example.org"), odd)["Bcc"] is None


async def test_in_quiet_hours_nobody_is_told_and_what_lasts_is_told_afterwards() -> None:
    owner, minute = Owner(), [23 * 60]
    telling = Notifier(
        NotifySettings("tell-me", quiet="22:00-07:00"), MemoryStore(), clock=SystemClock(), tell=owner.tell,
        environ={}, minute_of_day=lambda: minute[0],
    )  # fmt: skip
    assert await telling.run_once(status(dead=3)) == 0
    minute[0] = 8 * 60
    assert await telling.run_once(status(dead=3)) == 1
    assert [notice.state for notice in owner.heard] == ["firing"]


def test_after_quiet_hours_the_owner_hears_what_differs_from_what_they_last_heard() -> None:
    minute = [21 * 60]
    telling = Notifier(
        NotifySettings("tell-me", quiet="22:00-07:00"), MemoryStore(), clock=SystemClock(), environ={},
        minute_of_day=lambda: minute[0],
    )  # fmt: skip
    cleared = msgspec.structs.replace(NOTICE, state="cleared")
    assert telling._outside_quiet_hours([NOTICE]) == [NOTICE]
    minute[0] = 23 * 60
    for notice in (cleared, NOTICE, cleared):  # it ends, begins again and ends: the owner still believes that it lasts
        assert telling._outside_quiet_hours([notice]) == []
    minute[0] = 8 * 60
    assert telling._outside_quiet_hours([]) == [cleared]


async def test_items_of_quiet_hours_never_take_the_place_of_an_alarm() -> None:
    owner, minute = Owner(), [23 * 60]
    telling = Notifier(
        NotifySettings("tell-me", quiet="22:00-07:00"), MemoryStore(), clock=SystemClock(), tell=owner.tell,
        environ={}, minute_of_day=lambda: minute[0],
    )  # fmt: skip
    items = [Notice(kind="item", source="hackernews", name=str(at), state="new", text="tide") for at in range(500)]
    assert telling._outside_quiet_hours(items) == []
    assert await telling.run_once(status(dead=3)) == 0
    minute[0] = 8 * 60
    told = telling._outside_quiet_hours([])
    assert [notice.kind for notice in told].count("item") == 100
    assert [notice.name for notice in told if notice.kind == "alarm"] == ["RemoraDeadLetters"]


def test_words_of_a_stranger_call_nobody_in_slack() -> None:
    calling = Notice(kind="item", source="hackernews", name="1", state="new", text="<!channel> a & b")
    body, _ = payload(WebhookStyle.SLACK, calling)
    assert json.loads(body)["text"].endswith("&lt;!channel&gt; a &amp; b")


async def test_only_the_wanted_sources_are_told_of() -> None:
    owner = Owner()
    settings = NotifySettings("tell-me", sources=("other",))
    telling = Notifier(settings, MemoryStore(), clock=SystemClock(), tell=owner.tell, environ={})
    assert await telling.run_once(status(dead=3)) == 0
    assert await telling.test() == "command: delivered"
    assert [notice.kind for notice in owner.heard] == ["test"]


@pytest.mark.parametrize(
    "minute, quiet", [("22:00-07:00", [(21 * 60, False), (22 * 60, True), (60, True), (7 * 60, False)])]
)
def test_quiet_hours_may_pass_midnight(minute: str, quiet: list[tuple[int, bool]]) -> None:
    settings = NotifySettings(quiet=minute)
    assert [(at, settings.is_quiet(at)) for at, _ in quiet] == quiet


@pytest.mark.parametrize(
    "line",
    [
        'quiet = "late"',
        'smtp = "mail"',
        'webhook = "slack"',
        'webhook = "https://"',
        'webhook = "https://[::1/"',
        'webhook = "https://a.example:99999/"',
        'webhook = "https://a.example"\nwebhook_env = "A"',
        "sources = 3",
    ],
)
def test_a_mistake_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "remora.toml").write_text(f"[notify]\n{line}\n")
    with pytest.raises(ConfigurationError):
        load(Flags(), {}, directory=tmp_path)


@pytest.mark.parametrize("address", ["slack", "https:///secret", "https://[::1/"])
def test_a_variable_without_an_address_is_refused_without_showing_it(address: str) -> None:
    with pytest.raises(ConfigurationError, match="holds no address") as refused:
        channels_of(NotifySettings(webhook_env="HOOK"), {"HOOK": address})
    assert address not in f"{refused.value}"
