"""Is every mistake in a configuration one sentence and what to write instead? And do the layers win in their order?"""

from pathlib import Path

import pytest

from remora.core.errors import ConfigurationError
from remora.core.units import DAY_NS, HOUR_NS, MILLISECOND_NS, SECOND_NS
from remora.loops.numbered.rescan import RescanSettings
from remora.loops.numbered.service import ServiceSettings
from remora.operate.config.reader import load
from remora.operate.config.settings import Flags, Settings, SourceKind, default_in_flight, pick_numbered
from remora.operate.jobs.service import chosen
from remora.sources.hackernews import DECLARATION

LISTED = '[sources.chats]\nkind = "listed"\nurl = "https://archive.example/api"\n'
NUMBERED = '[sources.rfcs]\nkind = "numbered"\nurl = "https://rfcs.example"\n'
ITEM = 'item = { path = "/rfc/{id}.json" }\n'
NEWEST = 'newest = { path = "/newest.json", at = "number" }\n'


def read(folder: Path, text: str = "", environ: dict[str, str] | None = None, flags: Flags | None = None) -> Settings:
    if text:
        (folder / "remora.toml").write_text(text)
    return load(flags or Flags(), environ or {}, directory=folder)


def refusal(folder: Path, text: str = "", environ: dict[str, str] | None = None, flags: Flags | None = None) -> str:
    with pytest.raises(ConfigurationError) as refused:
        read(folder, text, environ, flags)
    assert refused.value.exit_code == 2
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_nothing_written_mirrors_hacker_news_at_a_safe_ceiling(tmp_path: Path) -> None:
    settings = read(tmp_path)
    source = settings.sources["hackernews"]
    assert (source.kind, source.ceiling_per_s, source.in_flight) == (SourceKind.NUMBERED, 250, 64)
    assert settings.store.url == "sqlite:///remora.db"
    assert settings.console.address == ("127.0.0.1", 8611)


def test_a_listed_source_starts_slow_and_one_at_a_time(tmp_path: Path) -> None:
    source = read(tmp_path, LISTED).sources["chats"]
    assert (source.ceiling_per_s, source.in_flight, source.url) == (1, 1, "https://archive.example/api")


def test_a_whole_configuration_is_read(tmp_path: Path) -> None:
    text = f"""
[store]
url = "postgresql://me@host/mirror"
[console]
listen = "[::1]:9000"
[sources.hackernews]
ceiling = "100/s"
rescan = {{ every = "12h", window = "auto" }}
jitter = "5ms"
timeout = "10s"
body_max = "1MiB"
first_id = 5
workers = 3
poll_every = "30s"
contact = "me@example.org"
{LISTED}
ceiling = "240/min"
every = "1h"
max_seconds = 900
max_fetches = 500
token_env = "CHATS_TOKEN"
headers = {{ Accept = "application/json" }}
list = {{ path = "/list", page_size = 50 }}
detail = {{ path = "/detail/{{key}}" }}
"""
    settings = read(tmp_path, text)
    hackernews, chats = settings.sources["hackernews"], settings.sources["chats"]
    assert (hackernews.rescan.every_ns, hackernews.rescan.window_ns) == (12 * HOUR_NS, 0)
    assert (hackernews.jitter_max_ns, hackernews.timeout_ns, hackernews.body_max) == (
        5 * MILLISECOND_NS,
        10 * SECOND_NS,
        1 << 20,
    )
    assert (chats.every_ns, chats.max_wall_ns, chats.max_fetches) == (HOUR_NS, 900 * SECOND_NS, 500)
    assert settings.console.address == ("::1", 9000)


def test_whatever_the_owner_of_a_numbered_source_chose_reaches_its_loops(tmp_path: Path) -> None:
    text = """
[sources.hackernews]
first_id = 5
in_flight = 7
workers = 3
poll_every = "30s"
rescan = { every = "12h", window = "5d" }
"""
    assert chosen(read(tmp_path, text).sources["hackernews"], backfill=False) == ServiceSettings(
        first_id=5,
        backfill=False,
        rescan=RescanSettings(12 * HOUR_NS, 5 * DAY_NS),
        update_workers=3,
        walk_width=7,
        poll_every_ns=30 * SECOND_NS,
    )


def test_the_default_rescan_reaches_three_days_back(tmp_path: Path) -> None:
    rescan = read(tmp_path).sources["hackernews"].rescan
    assert (rescan.every_ns, rescan.window_ns) == (6 * HOUR_NS, 3 * DAY_NS)


# -- layers --------------------------------------------------------------------------------------------------------------


def test_a_later_layer_wins_file_then_environment_then_flags(tmp_path: Path) -> None:
    text = '[sources.hackernews]\nceiling = "1/s"\n'
    environ = {"REMORA_CEILING": "2/s"}
    assert read(tmp_path, text).sources["hackernews"].ceiling_per_s == 1
    assert read(tmp_path, text, environ).sources["hackernews"].ceiling_per_s == 2
    assert read(tmp_path, text, environ, Flags(ceiling="4/s")).sources["hackernews"].ceiling_per_s == 4


def test_one_key_of_one_source_can_come_from_the_environment(tmp_path: Path) -> None:
    environ = {"REMORA_SOURCES_CHATS_CEILING": "30/min", "REMORA_SOURCES_CHATS_IN_FLIGHT": "2"}
    chats = read(tmp_path, LISTED, environ).sources["chats"]
    assert (chats.ceiling_per_s, chats.in_flight) == (0.5, 2)


def test_flags_apply_to_the_named_source_only(tmp_path: Path) -> None:
    text = LISTED + "[sources.hackernews]\n"
    settings = read(tmp_path, text, flags=Flags(source="chats", ceiling="30/min"))
    assert settings.sources["chats"].ceiling_per_s == 0.5
    assert settings.sources["hackernews"].ceiling_per_s == 250


def test_variables_that_a_container_platform_sets_are_left_alone(tmp_path: Path) -> None:
    assert read(tmp_path, environ={"REMORA_SERVICE_HOST": "10.0.0.1", "REMORA_PORT_8611_TCP": "x"}).sources


def test_a_numbered_source_is_declared_in_three_lines(tmp_path: Path) -> None:
    source = read(tmp_path, NUMBERED + ITEM + NEWEST).sources["rfcs"]
    assert (source.kind, source.preset, source.ceiling_per_s) == (SourceKind.NUMBERED, None, 1)
    assert source.declaration.newest.at == "number"
    assert source.declaration.absent.status == (404, 410)
    assert not source.capabilities.change_stream


@pytest.mark.parametrize("text", ["", "[sources.hackernews]", '[sources.hackernews]\npreset = "hackernews"'])
def test_a_preset_brings_its_declaration_and_its_name_is_enough(tmp_path: Path, text: str) -> None:
    source = read(tmp_path, text).sources["hackernews"]
    assert (source.preset, source.url) == ("hackernews", "https://hacker-news.firebaseio.com/v0")
    assert source.declaration == DECLARATION


def test_a_preset_may_have_another_name_and_another_address(tmp_path: Path) -> None:
    text = '[sources.copy]\npreset = "hackernews"\nurl = "http://127.0.0.1:8700/v0"\nceiling = "5/s"'
    source = read(tmp_path, text).sources["copy"]
    assert (source.kind, source.preset, source.ceiling_per_s) == (SourceKind.NUMBERED, "hackernews", 5)
    assert source.url == "http://127.0.0.1:8700/v0"


def test_a_yes_or_no_can_be_a_variable(tmp_path: Path) -> None:
    environ = {"REMORA_SOURCES_RFCS_PUBLIC": "true"}
    assert read(tmp_path, NUMBERED + ITEM + NEWEST, environ).sources["rfcs"].capabilities.public


# -- mistakes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, said",
    [
        ('[sources.hackernews]\nceiling = "0/s"', '"0/s", which is not a rate above zero'),
        ('[sources.hackernews]\nceiling = "-5/s"', "not a rate above zero"),
        ('[sources.hackernews]\nceiling = "1000000000000/s"', 'faster than 100,000/s; write at most "100000/s"'),
        ('[sources.hackernews]\nceiling = "1000000000000d"', "slower than one request a day"),
        ('[sources.hackernews]\ntimeout = "1000000000000d"', "longer than 3,650 days"),
        ('[sources.hackernews]\nceiling = "fast"', 'sources.hackernews.ceiling is "fast"'),
        ("[sources.hackernews]\nceiling = 250", "has no unit"),
        ('[sources.hackernews]\nceling = "5/s"', "did you mean ceiling?"),
        ('[sources.hackernews]\nevery = "1h"', "has every, which only sources of kind listed have"),
        ('[sources.chats]\nkind = "listed"\nfirst_id = 3', "has first_id, which only sources of kind numbered have"),
        ("[sources.hackernews]\nzebra = 1", "unknown key zebra; known here: absent, account"),
        ('[stores]\nurl = "x"', "did you mean store?"),
        ("[sources.hackernews]\nin_flight = 0", "whole number from 1 to 1,024"),
        ('[sources.hackernews]\nin_flight = "many"', "whole number"),
        ("[sources.hackernews]\nworkers = true", "whole number"),
        ('[sources.hackernews]\ntimeout = "0s"', "a span of time that is zero"),
        ("[sources.hackernews]\ntimeout = 30", "has no unit"),
        ('[sources.hackernews]\nrescan = "6h"', "not a section"),
        ('[sources.hackernews]\nrescan = { evry = "6h" }', "did you mean every?"),
        ("[sources.hackernews]\nurl = 5", "not a text"),
        ('[sources.hackernews]\nurl = "hn"', "not a base address"),
        ('[sources.hackernews]\nurl = "https://me:word@host/"', "contains a user or a password"),
        ('[sources.hackernews]\nurl = "https://host:70000000/"', "not an address"),
        ('[sources.chats]\nkind = "listed"', "sources.chats has no url"),
        ('[sources.chats]\nurl = "https://host/"', "sources.chats has no kind"),
        ('[sources.chats]\nkind = "chat"', 'kind is "chat"'),
        ('[sources.Chats]\nkind = "listed"', "cannot be the name of a source"),
        ('[sources.__proto__]\nkind = "listed"', "cannot be the name of a source"),
        ('[sources.-]\nkind = "listed"', "cannot be the name of a source"),
        ("sources = 3", "sources is 3, not a section"),
        ("[sources]\nhackernews = 3", "sources.hackernews is 3, not a section"),
        ("[store]\nurl = 3", "store.url is 3"),
        ('[store]\nurl = "remora.db"', "names no store of ours"),
        ('[store]\nurl = "mysql://host/db"', '"mysql"'),
        ('[console]\nlisten = "8611"', "the console's listen address"),
        ('[console]\nlisten = "127.0.0.1:99999"', "the console's listen address"),
        ("[store\n", "not valid TOML"),
        (LISTED + '[notify]\nsources = ["chat"]', 'notify.sources names "chat"'),
        (LISTED + '[notify]\nsources = ["chat"]', "configured: chats"),
        (LISTED + 'token_env = "A"\ntoken_file = "b"', "both token_env and token_file"),
        (LISTED + 'headers = { Host = "x" }', "cannot be sent"),
        (LISTED + 'headers = { X-Price = "5 €" }', "headers.X-Price cannot be sent"),
        (
            LISTED + 'auth = { header_env = "A", name = "Host" }',
            'auth.name is "Host", a header that Remora writes itself',
        ),
        (LISTED + 'auth = { header_env = "A", name = "content-length" }', 'auth.name is "content-length"'),
        (LISTED + 'auth = { header_env = "A", name = "Transfer-Encoding" }', "the API's header for its key"),
        (
            LISTED + 'headers = { x-key = "a" }\nauth = { header_env = "A", name = "X-Key" }',
            "both auth and headers.x-key",
        ),
        (LISTED + "max_seconds = 0", "leaves no time"),
        ('[sources.hn]\nkind = "hackernews"', 'which is a preset; write preset = "hackernews"'),
        ('[sources.hn]\npreset = "hackernws"', "there are: hackernews"),
        ('[sources.hn]\npreset = "hackernews"\nkind = "listed"', "its preset is of kind numbered"),
        ('[sources.hackernews]\npreset = "hackernews"\nnewest = { path = "/x" }', "the preset hackernews declares"),
        ('[sources.hackernews]\nkind = "numbered"', "sources.hackernews has no item"),
        (NUMBERED, "sources.rfcs has no item"),
        (NUMBERED + ITEM, "sources.rfcs has no newest"),
        (NUMBERED + NEWEST + 'item = { path = "/rfc/" }', "write {id} where the item's id belongs"),
        (NUMBERED + NEWEST + 'item = { path = "rfc/{id}" }', 'begins with one "/"'),
        (NUMBERED + NEWEST + 'item = { pth = "/rfc/{id}" }', "did you mean path?"),
        (NUMBERED + NEWEST + 'item = { path = "/rfc/{id}", colour = "x" }', "unknown key colour"),
        (NUMBERED + NEWEST + 'item = { path = "/rfc/{id}", time = "a..b" }', 'item.time is "a..b"'),
        (NUMBERED + ITEM + 'newest = { at = "number" }', "sources.rfcs.newest has no path"),
        (NUMBERED + ITEM + 'newest = { path = "/n", at = 3 }', "not a text"),
        (NUMBERED + ITEM + 'newest = { path = "/n", stream = "n" }', 'newest.stream is "n"'),
        (NUMBERED + ITEM + 'newest = { path = "/n/{id}" }', "leave {id} out: this request is always the same"),
        (NUMBERED + ITEM + NEWEST + 'updates = { path = "/c/{name}" }', "leave {name} out"),
        (NUMBERED + ITEM + NEWEST + 'updates = { items = "ids" }', "sources.rfcs.updates has no path"),
        (NUMBERED + ITEM + NEWEST + 'updates = { path = "/c", users = "u" }', "nothing says where a user is"),
        (NUMBERED + ITEM + NEWEST + 'user = { path = "/people" }', "write {name} where the user's name belongs"),
        (NUMBERED + ITEM + NEWEST + "absent = { status = [429] }", "cannot mean that an item is absent"),
        (NUMBERED + ITEM + NEWEST + "absent = { status = 404 }", "not a list; write status = […]"),
        (NUMBERED + ITEM + NEWEST + 'absent = { equals = "x" }', "absent has equals without at"),
        (NUMBERED + ITEM + NEWEST + 'rescan = { every = "1h" }', "nothing says how old an item is"),
        (NUMBERED + ITEM + NEWEST + 'every = "1h"', "which only sources of kind listed have"),
        (NUMBERED + ITEM + NEWEST + 'public = "yes"', "write true or false"),
    ],
)
def test_a_mistake_in_the_file_is_one_sentence_and_what_to_write(tmp_path: Path, text: str, said: str) -> None:
    assert said in refusal(tmp_path, text)


def test_a_file_from_an_editor_that_marks_utf_8_is_read(tmp_path: Path) -> None:
    assert "chats" in read(tmp_path, "\ufeff" + LISTED).sources


def test_a_file_that_is_not_utf_8_says_how_to_save_it(tmp_path: Path) -> None:
    (tmp_path / "remora.toml").write_text(LISTED, "utf-16")
    assert "is not UTF-8 text; save it as UTF-8" in refusal(tmp_path)


def test_a_jitter_floor_above_the_ceiling_interval_is_refused_and_says_what_to_write(tmp_path: Path) -> None:
    told = refusal(tmp_path, '[sources.hackernews]\nceiling = "10/s"\njitter_min = "200ms"\n')
    assert "longer than the ceiling's interval (100ms)" in told
    assert 'write jitter_min = "0ms", or a slower ceiling, as ceiling = "200ms"' in told


@pytest.mark.parametrize(
    "ceiling, jitter_min", [("60/min", "90s"), ("250/s", "4.5ms"), ("3000/s", "1ms"), ("10/h", "6.5m")]
)
def test_what_a_refused_jitter_floor_says_to_write_is_not_refused(
    tmp_path: Path, ceiling: str, jitter_min: str
) -> None:
    told = refusal(tmp_path, f'[sources.hackernews]\nceiling = "{ceiling}"\njitter_min = "{jitter_min}"\n')
    instead = told.rpartition("as ceiling = ")[2]
    source = read(tmp_path, f'[sources.hackernews]\nceiling = {instead}\njitter_min = "{jitter_min}"\n')
    assert source.sources["hackernews"].ceiling_interval_ns == source.sources["hackernews"].jitter_min_ns
    first, _, second = told.partition(" is longer than the ceiling's interval ")
    assert first.rpartition("jitter_min ")[2] != second.partition(",")[0]


def test_jitter_is_never_longer_than_the_ceiling_interval(tmp_path: Path) -> None:
    source = read(tmp_path, '[sources.hackernews]\njitter = "3s"').sources["hackernews"]
    assert source.jitter_max_ns == source.ceiling_interval_ns


@pytest.mark.parametrize(
    "environ, said",
    [
        ({"REMORA_CIELING": "5/s"}, "did you mean REMORA_CEILING?"),
        ({"REMORA_SOURCES_HACKERNEWS_CEILNG": "5/s"}, "did you mean REMORA_SOURCES_HACKERNEWS_CEILING?"),
        ({"REMORA_SOURCES_NOBODY_CEILING": "5/s"}, "names no source and key"),
        ({"REMORA_CEILING": "soon"}, 'sources.hackernews.ceiling is "soon"'),
        ({"REMORA_STORE": "nowhere"}, "names no store of ours"),
        ({"REMORA_CONFIG": "absent.toml"}, "absent.toml cannot be read"),
    ],
)
def test_a_mistake_in_the_environment_is_one_sentence(tmp_path: Path, environ: dict[str, str], said: str) -> None:
    assert said in refusal(tmp_path, environ=environ)


def test_a_flag_that_could_mean_several_sources_asks_which(tmp_path: Path) -> None:
    text = LISTED + "[sources.hackernews]\n"
    assert "name it with --source: chats, hackernews" in refusal(tmp_path, text, flags=Flags(ceiling="1/s"))
    assert "there is no source nobody" in refusal(tmp_path, text, flags=Flags(source="nobody", ceiling="1/s"))


def test_a_command_for_one_kind_refuses_the_other(tmp_path: Path) -> None:
    settings = read(tmp_path, LISTED)
    with pytest.raises(ConfigurationError, match="chats is listed, not numbered; use remora run for it"):
        pick_numbered(settings, "chats")
    with pytest.raises(ConfigurationError, match="there is no source of kind numbered"):
        pick_numbered(settings, None)


# -- nothing else makes it faster ------------------------------------------------------------------------------------------


def test_more_in_flight_is_needed_the_higher_the_ceiling_but_within_bounds() -> None:
    assert default_in_flight(4 * MILLISECOND_NS) == 64
    assert default_in_flight(SECOND_NS) == 4
    assert default_in_flight(1_000) == 256


def test_no_repr_shows_a_password_or_a_header(tmp_path: Path) -> None:
    text = '[store]\nurl = "postgresql://me:hunter2@host/db"\n' + LISTED + 'headers = { "X-Key" = "swordfish" }\n'
    shown = repr(read(tmp_path, text))
    assert "hunter2" not in shown
    assert "swordfish" not in shown
