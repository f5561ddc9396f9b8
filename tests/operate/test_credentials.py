"""Is a credential shown as its owner wrote it, kept fresh, and never seen anywhere else?"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from structlog.testing import capture_logs

from remora.contracts import ConnectGate, Permit
from remora.core.errors import ConfigurationError, RemoraError
from remora.core.ledger.run import StoppedBy
from remora.core.units import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS
from remora.core.verdict import Fault, NoReply, Reply
from remora.loops.listed.run import RunOptions
from remora.operate.config import credentials
from remora.operate.config.credentials import FromCommand, FromFile, open_credential
from remora.operate.config.reader import load, read_source
from remora.operate.config.secrets import secret_values
from remora.operate.config.settings import Flags, SourceSettings
from remora.operate.jobs.clock import SystemClock
from remora.sim.clock import SimClock
from remora.sim.replies import UNAUTHORIZED, Answer, Response
from remora.sim.transport import FreePermit
from remora.sources.auth import Credential, Issued, SignedTransport, Way
from remora.sources.paging import ListSettings, Paging
from remora.sources.secret import Secret
from tests.gate.rig import simulated
from tests.loops.listed_rig import NAME, ListedRig, SmallArchive
from tests.sources.permits import OnlyGets

CANARY = "canary-7d1f"
URL = "https://api.example/list?page=2"


def source(**keys: object) -> SourceSettings:
    return read_source("chats", {"kind": "listed", "url": "https://api.example", **keys})


@dataclass
class Issuing:
    """An origin that gives one secret after the other."""

    secrets: list[str]
    expires_in_ns: int | None = None
    reads: int = 0
    changed: bool = False
    is_broken: bool = False

    def has_changed(self) -> bool:
        return self.changed

    async def read(self) -> Issued:
        self.changed = False
        if self.is_broken:
            raise RemoraError("the origin cannot be read", hint="repair it")
        self.reads += 1
        return Issued(Secret(self.secrets[min(self.reads, len(self.secrets)) - 1]), self.expires_in_ns)


# -- how it is shown -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "auth, url, headers",
    [
        ({"bearer_env": "S"}, URL, {"Authorization": f"Bearer {CANARY}"}),
        ({"basic_env": "P"}, URL, {"Authorization": "Basic dXNlcjpwYXNz"}),
        ({"header_env": "S", "name": "X-Api-Key"}, URL, {"X-Api-Key": CANARY}),
        ({"cookie_env": "S", "name": "session"}, URL, {"Cookie": f"session={CANARY}"}),
        ({"query_env": "Q", "name": "key"}, f"{URL}&key=a%26b%3D", {}),
    ],
)
async def test_each_way_shows_the_secret_in_one_place(
    auth: dict[str, str], url: str, headers: Mapping[str, str]
) -> None:
    environ = {"S": CANARY, "P": "user:pass", "Q": "a&b="}
    credential = open_credential("chats", source(auth=auth), environ, clock=SystemClock())
    assert credential is not None
    await credential.ready()
    assert credential.sign(URL, None) == (url, headers)


async def test_the_short_forms_are_bearer_tokens(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(CANARY)
    token.chmod(0o600)
    for keys in ({"token_env": "S"}, {"token_file": str(token)}, {"token_command": f"echo {CANARY}"}):
        credential = open_credential("chats", source(**keys), {"S": CANARY}, clock=SystemClock())
        assert credential is not None
        await credential.ready()
        assert credential.sign(URL, None) == (URL, {"Authorization": f"Bearer {CANARY}"})


# -- how it stays good ---------------------------------------------------------------------------------------------------


async def test_a_file_is_read_again_when_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first")
    path.chmod(0o600)
    origin = FromFile("chats", path)
    assert (await origin.read()).secret.reveal() == "first"
    assert not origin.has_changed()
    other = tmp_path / "other"
    other.write_text("second")
    other.chmod(0o600)
    other.replace(path)
    assert origin.has_changed()
    assert (await origin.read()).secret.reveal() == "second"
    path.unlink()
    assert not origin.has_changed()


@pytest.mark.parametrize(
    "prints, secret, expires_in_ns",
    [
        (f"echo {CANARY}", CANARY, None),
        (f"""echo '{{"token": "{CANARY}", "expires_in": 90}}'""", CANARY, 90 * SECOND_NS),
        (f"""echo '{{"token": "{CANARY}", "expires_in": 1e300}}'""", CANARY, 3_650 * DAY_NS),
        (f"""echo '{{"access_token": "{CANARY}", "token_type": "x"}}'""", CANARY, None),
    ],
)
async def test_a_command_prints_the_secret_and_may_say_how_long_it_is_good(
    prints: str, secret: str, expires_in_ns: int | None
) -> None:
    issued = await FromCommand("chats", f'sh -c "{prints.replace(chr(34), chr(92) + chr(34))}"').read()
    assert (issued.secret.reveal(), issued.expires_in_ns) == (secret, expires_in_ns)


@pytest.mark.parametrize(
    "command, why",
    [
        (f"sh -c 'echo {CANARY}; exit 3'", "ended with code 3"),
        (f"sh -c 'echo {CANARY} {CANARY} >&2'", "does not hold a token"),
        (f"/nowhere/{CANARY}", "cannot be run"),
        (f"""sh -c 'echo "{{ {CANARY}"'""", "no token"),
    ],
)
async def test_a_command_that_fails_says_so_without_what_it_printed(command: str, why: str) -> None:
    with pytest.raises(RemoraError) as failed:
        await FromCommand("chats: bearer_command", command).read()
    assert why in failed.value.message
    assert CANARY not in f"{failed.value.message} {failed.value.hint}"


@pytest.mark.parametrize("command", ["sleep 20", "sh -c 'sleep 20; true'", "sh -c 'sleep 20 & sleep 20'"])
async def test_a_command_is_given_up_in_time_whatever_it_has_started(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "COMMAND_MAX_S", 0.2)
    async with asyncio.timeout(10):
        with pytest.raises(ConfigurationError, match="took longer"):
            await FromCommand("chats", command).read()


async def test_a_command_that_prints_without_end_is_stopped_and_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "COMMAND_MAX_S", 5.0)
    async with asyncio.timeout(10):
        with pytest.raises(ConfigurationError, match="prints more than") as failed:
            await FromCommand("chats", f"yes {CANARY}").read()
    assert CANARY not in str(failed.value)


def test_a_secret_is_renewed_before_it_expires_and_not_much_sooner() -> None:
    async def main(clock: SimClock) -> None:
        origin = Issuing(["one", "two"], expires_in_ns=HOUR_NS)
        credential = Credential(Way.BEARER, origin, clock=clock)
        await credential.ready()
        await clock.sleep_until(clock.monotonic_ns() + 58 * MINUTE_NS)
        await credential.ready()
        assert origin.reads == 1
        await clock.sleep_until(clock.monotonic_ns() + 90 * SECOND_NS)
        await asyncio.gather(*(credential.ready() for _ in range(5)))
        assert origin.reads == 2
        assert credential.sign(URL, None)[1] == {"Authorization": "Bearer two"}

    simulated(main)


def test_a_secret_that_cannot_be_read_again_stays_in_use() -> None:
    async def main(clock: SimClock) -> None:
        origin = Issuing([CANARY])
        credential = Credential(Way.BEARER, origin, clock=clock, account="chats")
        await credential.ready()
        origin.changed = origin.is_broken = True
        with capture_logs() as logs:
            await credential.ready()
        assert credential.sign(URL, None)[1] == {"Authorization": f"Bearer {CANARY}"}
        assert [event["event"] for event in logs] == ["credential_unreadable"]
        assert CANARY not in repr(logs)

    simulated(main)


def test_a_read_that_took_long_to_fail_is_repeated_a_while_after_its_end() -> None:
    async def main(clock: SimClock) -> None:
        class Slow(Issuing):
            """Takes longer to fail than it is left alone afterwards."""

            ended_ns: list[int]

            async def read(self) -> Issued:
                began_ns = clock.monotonic_ns()
                if self.ended_ns:
                    assert began_ns - self.ended_ns[-1] >= 10 * SECOND_NS
                    self.is_broken = False
                await clock.sleep_until(began_ns + 30 * SECOND_NS)
                self.ended_ns.append(clock.monotonic_ns())
                return await super().read()

        origin = Slow([CANARY], is_broken=True)
        origin.ended_ns = []
        credential = Credential(Way.BEARER, origin, clock=clock, account="chats")
        await credential.ready()
        assert len(origin.ended_ns) == 2
        assert credential.sign(URL, None)[1] == {"Authorization": f"Bearer {CANARY}"}

    simulated(main)


async def test_a_command_that_takes_its_time_is_told_while_it_is_waited_for() -> None:
    with capture_logs() as logs:
        await FromCommand("sources.chats.token_command", f"echo {CANARY}").read()
        assert logs == []
        slow = f"sh -c 'read line; echo {CANARY}; sleep 0.2'"
        await FromCommand("sources.chats.token_command", slow, told_after_s=0.02).read()
    assert [(event["event"], event["setting"]) for event in logs] == [
        ("credential_awaited", "sources.chats.token_command")
    ]
    assert CANARY not in repr(logs)


@dataclass
class Guarded(SmallArchive):
    """An archive that only answers to one token."""

    token: str = "one"
    refused: int = field(default=0)

    def __post_init__(self) -> None:
        SmallArchive.__init__(self, 15)

    def respond(self, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Response:
        if (headers or {}).get("Authorization") != f"Bearer {self.token}":
            self.refused += 1
            return UNAUTHORIZED
        return super().respond(target, headers, body)


def test_after_a_401_the_secret_is_read_again_and_the_run_goes_on() -> None:
    async def main(clock: SimClock) -> None:
        archive, origin = Guarded(), Issuing(["old", "one"])
        rig = ListedRig(clock, archive, credential=Credential(Way.BEARER, origin, clock=clock))
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()
        assert (archive.refused, origin.reads) == (1, 2)

    simulated(main)


def test_a_secret_that_stays_refused_is_not_asked_for_without_end() -> None:
    async def main(clock: SimClock) -> None:
        archive, origin = Guarded(), Issuing([f"wrong {number}" for number in range(99)])
        rig = ListedRig(clock, archive, credential=Credential(Way.BEARER, origin, clock=clock))
        assert (await rig.run()).stopped_by is StoppedBy.LIST_REFUSED
        assert origin.reads <= 3
        assert archive.refused <= 3

    simulated(main)


class Echoing(SmallArchive):
    """Wants the secret in the query, and repeats it in the address of the next page."""

    wanted = "old"

    def respond(self, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Response:
        if parse_qs(urlsplit(target).query).get("key") != [self.wanted]:
            return UNAUTHORIZED
        answer = super().respond(target, headers, body)
        assert isinstance(answer, Answer)
        return replace(answer, body=answer.body.replace(b"/next?", f"/next?key={self.wanted}&".encode()))


def test_a_secret_that_the_next_address_repeats_is_not_stored_and_the_walk_goes_on_with_a_new_one() -> None:
    async def main(clock: SimClock) -> None:
        archive, origin = Echoing(57), Issuing(["old", "new"])
        paging = ListSettings(path="/next", paging=Paging.NEXT, page_size=10)
        credential = Credential(Way.QUERY, origin, clock=clock, name="key")
        rig = ListedRig(clock, archive, settings=paging, credential=credential)
        await rig.run(RunOptions(max_fetches=3))
        assert (await rig.store.walk_state(NAME)).position == "/next?limit=10&from=30"
        archive.wanted, origin.changed = "new", True
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    simulated(main)


def test_a_secret_in_the_query_replaces_one_that_the_address_holds() -> None:
    async def main(clock: SimClock) -> None:
        credential = Credential(Way.QUERY, Issuing(["new"]), clock=clock, name="key")
        await credential.ready()
        for url in ("https://x/a?key=old&b=%20", "https://x/a?b=%20&key=old", "https://x/a?b=%20"):
            assert credential.sign(url, None)[0] == "https://x/a?b=%20&key=new"
        assert credential.sign("https://x/a?key=old", None)[0] == "https://x/a?key=new"

    simulated(main)


# -- what is refused, and what is never seen -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "keys",
    [
        {"auth": CANARY},
        {"auth": {"bearer_env": [CANARY]}},
        {"token_env": [CANARY]},
        {"token_command": ["echo", CANARY]},
        {"headers": f"Authorization: Bearer {CANARY}"},
        {"headers": {"Authorization": [CANARY]}},
        {"list": {"path": f"list of all?key={CANARY}"}},
        {"detail": {"path": f"/detail?key={CANARY}"}},
    ],
)
def test_a_secret_that_was_written_into_the_file_is_refused_without_being_shown(keys: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        source(**keys)
    assert "chats" in refused.value.message
    assert CANARY not in f"{refused.value.message} {refused.value.hint}"


@pytest.mark.parametrize(
    "keys, complaint",
    [
        ({"auth": {"bearer_env": "A", "basic_env": "B"}}, "two credentials, bearer_env and basic_env"),
        ({"auth": {"bearer_env": "A"}, "token_env": "B"}, "has both auth and token_env"),
        ({"token_env": "A", "token_command": "b"}, "has both token_env and token_command"),
        ({"token_env": "A", "headers": {"Authorization": "x"}}, "both token_env and headers.Authorization"),
        ({"auth": {}}, "says nowhere"),
        ({"auth": {"header_env": "A"}}, "without a name"),
        ({"auth": {"bearer_env": "A", "name": "b"}}, "with a name"),
        ({"auth": {"header_env": "A", "name": "a b"}}, "auth.name"),
        ({"auth": {"bearer": CANARY}}, "unknown key bearer"),
        ({"token_command": "sh -c 'open"}, "a quote that does not end"),
    ],
)
def test_a_credential_that_cannot_work_is_refused_in_one_sentence(keys: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        source(**keys)
    assert complaint in refused.value.message
    assert CANARY not in f"{refused.value.message} {refused.value.hint}"
    assert refused.value.hint


def test_all_sources_of_an_account_have_its_credential_and_the_log_knows_it(tmp_path: Path) -> None:
    (tmp_path / "remora.toml").write_text(
        '[accounts.a]\nceiling = "1/s"\nauth = { query_env = "S", name = "key" }\n'
        '[sources.one]\nkind = "listed"\nurl = "https://a.example"\naccount = "a"\n'
    )
    settings = load(Flags(), {}, directory=tmp_path)
    assert settings.sources["one"].auth == settings.accounts["a"].auth
    assert secret_values(settings, {"S": CANARY}) == (CANARY,)
    assert repr(settings.sources["one"].auth) == "AuthSettings(query)"


class Wire(OnlyGets):
    """A transport that only remembers what it was asked to send."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Mapping[str, str] | None]] = []

    async def get(self, url: str, permit: Permit, *, headers: Mapping[str, str] | None = None) -> Reply | NoReply:
        del permit
        self.sent.append((url, headers))
        return NoReply(Fault.CONNECTION, None, 0)

    def stream(
        self, url: str, connect: ConnectGate, *, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[bytes]:
        raise AssertionError("no stream is opened here")


@pytest.mark.parametrize("host", ["https://api.example.evil.example", "http://api.example", "https://api.example:444"])
async def test_a_secret_goes_to_no_other_host_than_its_own(host: str) -> None:
    credential = open_credential("chats", source(token_env="S"), {"S": CANARY}, clock=SystemClock())
    assert credential is not None
    await credential.ready()
    wire = Wire()
    signed = SignedTransport(wire, credential, url="https://api.example/v1")
    for url in (f"{host}/next", "https://api.example/next"):
        await signed.get(url, FreePermit(SystemClock()))
    assert wire.sent == [
        (f"{host}/next", None),
        ("https://api.example/next", {"Authorization": f"Bearer {CANARY}"}),
    ]
