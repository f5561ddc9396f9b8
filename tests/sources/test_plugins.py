"""How are the sources of other packages found? By entry points, imported only when needed; a broken one is one sentence."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import remora.testing
from remora.contracts import Capabilities, SourceSetup
from remora.contracts.plugin import SourcePlugin
from remora.core.errors import ConfigurationError
from remora.core.item import Batch, Document, Entry, Newest, Page, Readable, Unreadable, WrongShape
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.verdict import NoReply
from remora.operate.config.reader import read_source
from remora.operate.config.settings import SourceKind
from remora.sources.plugins import open_plugin, plugin_named, plugin_names
from remora.testing import Fake, FakeTransport, World, mirror_plugin
from tests.sources.replies import replied

# The modules that hold the names are not names of the kit.
MODULES = {"contract", "counting_server", "fake", "mirroring", "permits", "world"}
GOOD = """
from remora import Capabilities, SourcePlugin
class Source:
    capabilities = Capabilities(list=True)
    def __init__(self, setup):
        self.name = setup.name
        setup.options["size"] + 1
    async def fetch(self, discovery, permit): ...
    def decode(self, discovery, reply): return reply.body[1]["secret-in-a-body"]
PLUGIN = SourcePlugin(make=Source, capabilities=Source.capabilities, url="https://weather.example", ceiling="30/min")
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator["Installer"]:
    monkeypatch.syspath_prepend(str(tmp_path))
    plugin_named.cache_clear()
    yield Installer(tmp_path)
    plugin_named.cache_clear()
    for name in [name for name in sys.modules if name.startswith("installed_")]:
        del sys.modules[name]


class Installer:
    """Lays a package with one entry point onto the path, as an installer does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def __call__(self, code: str, *, name: str = "weather", names: str = "PLUGIN") -> None:
        self._count += 1
        module, package = f"installed_{self._folder.name}_{self._count}".replace("-", "_"), f"package{self._count}"
        (self._folder / f"{module}.py").write_text(code)
        told = self._folder / f"{package}-1.0.dist-info"
        told.mkdir()
        (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (told / "entry_points.txt").write_text(f"[remora.sources]\n{name} = {module}:{names}\n")


def test_a_plugin_is_a_preset_whose_name_is_enough(install: Installer) -> None:
    install(GOOD)
    source = read_source("weather", {"options": {"size": 3}})
    assert (source.kind, source.preset, source.url) == (SourceKind.LISTED, "weather", "https://weather.example")
    assert source.ceiling_per_s == 0.5
    assert source.capabilities == Capabilities(list=True)
    assert read_source("copy", {"preset": "weather", "ceiling": "5/s", "url": "http://127.0.0.1:1"}).ceiling_per_s == 5


def test_names_are_found_without_importing_anything(install: Installer) -> None:
    install("raise AssertionError('imported')")
    assert "weather" in plugin_names()
    read_source("chats", {"kind": "listed", "url": "https://archive.example"})


@pytest.mark.parametrize(
    "code, names, said",
    [
        ("import nowhere_at_all", "PLUGIN", "package1 1.0 cannot be imported: ModuleNotFoundError in "),
        ("1 / 0", "PLUGIN", "cannot be imported: ZeroDivisionError in installed"),
        ("def broken(:", "PLUGIN", "cannot be imported: SyntaxError"),
        ("", "PLUGIN", "cannot be imported: AttributeError"),
        ("class Source: ...", "Source", "Source, which is not a remora.SourcePlugin"),
    ],
)
def test_a_broken_plugin_is_one_sentence(install: Installer, code: str, names: str, said: str) -> None:
    install(code, names=names)
    with pytest.raises(ConfigurationError, match=re.escape(said)) as refused:
        read_source("weather", {})
    assert "\n" not in str(refused.value)


def test_two_packages_with_one_name_are_refused(install: Installer) -> None:
    install(GOOD)
    install(GOOD)
    with pytest.raises(ConfigurationError, match=r"package1 1\.0 and package2 1\.0 both bring a plug-in weather"):
        read_source("weather", {})


def test_one_of_our_presets_cannot_be_replaced(install: Installer) -> None:
    install("raise AssertionError('imported')", name="hackernews")
    assert read_source("hackernews", {}).kind is SourceKind.NUMBERED


@pytest.mark.parametrize(
    "table, said",
    [
        ({"preset": "weather", "list": {"path": "/x"}}, "has list, but its preset is a plug-in"),
        ({"kind": "listed", "url": "https://a.example", "options": {}}, "has options, which only plug-ins read"),
        ({"preset": "wether"}, "there are: hackernews, weather"),
        ({"kind": "weather"}, 'write preset = "weather"'),
        ({"preset": "weather", "kind": "numbered"}, "its preset is of kind listed"),
    ],
)
def test_settings_that_a_plugin_does_not_read_are_refused(
    install: Installer, table: dict[str, object], said: str
) -> None:
    install(GOOD)
    with pytest.raises(ConfigurationError) as refused:
        read_source("x", table)
    assert said in f"{refused.value.message}; {refused.value.hint}"


def test_a_plugin_that_fails_to_open_or_to_read_stops_nobody(install: Installer) -> None:
    install(GOOD)
    plugin = plugin_named("weather")
    assert plugin is not None
    transport = FakeTransport(Fake(World()))
    with pytest.raises(ConfigurationError, match="plug-in weather failed to open the source w: KeyError in installed"):
        open_plugin("weather", plugin, SourceSetup("w", "https://weather.example", transport))
    source = open_plugin("weather", plugin, SourceSetup("w", "https://weather.example", transport, {}, {"size": 1}))
    read = source.decode(Discovery(Kind.DOCUMENT, "k", Lane.DETAIL), replied(b"{}"))
    assert read == WrongShape("the plug-in failed with TypeError")


PAGE, DOCUMENT = Kind.PAGE, Kind.DOCUMENT


@pytest.mark.parametrize(
    "kind, result, is_kept",
    [
        (DOCUMENT, None, False),
        (DOCUMENT, Document("k", b"{}"), False),
        (DOCUMENT, Readable(Document("k", cast("bytes", "text"))), False),
        (DOCUMENT, Readable(Page((), None)), False),
        (DOCUMENT, Readable(Document("k", b"{}", "2026")), True),
        (DOCUMENT, Readable(Batch((Document("k", b"{}"),))), True),
        (DOCUMENT, Readable(Batch((cast("Document", "k"),))), False),
        (PAGE, Readable(Document("k", b"{}")), False),
        (PAGE, Readable(Page((cast("Entry", "k"),), None)), False),
        (PAGE, Readable(Page((Entry(cast("str", 5), None),), None)), False),
        (PAGE, Readable(Page((Entry("k", cast("str", 5)),), None)), False),
        (PAGE, Readable(Page((), cast("str", 5))), False),
        (PAGE, Readable(Page((Entry("k", None),), "2")), True),
        (PAGE, Unreadable("cut off"), True),
        (Kind.NEWEST, Readable(Newest(5)), True),
    ],
)
def test_a_result_that_decode_may_not_have_is_a_body_that_cannot_be_read(
    kind: Kind, result: object, is_kept: bool
) -> None:
    class Odd:
        name, capabilities = "w", Capabilities(list=True)

        def decode(self, discovery: object, reply: object) -> object:
            return result

    plugin = SourcePlugin(make=lambda _setup: cast("Any", Odd()), capabilities=Capabilities(list=True))
    source = open_plugin("weather", plugin, SourceSetup("w", "https://weather.example", FakeTransport(Fake(World()))))
    read = source.decode(Discovery(kind, "k", Lane.DETAIL), replied(b"{}"))
    assert (read is result) is is_kept
    assert is_kept or isinstance(read, WrongShape)


def test_a_plugin_that_opens_nothing_is_one_sentence() -> None:
    plugin = SourcePlugin(make=lambda _setup: cast("Any", None), capabilities=Capabilities(list=True))
    with pytest.raises(ConfigurationError, match="plug-in weather failed to open the source w"):
        open_plugin("weather", plugin, SourceSetup("w", "https://weather.example", FakeTransport(Fake(World()))))


def test_a_plugin_that_opens_something_else_than_it_declares_is_refused() -> None:
    class Other:
        name, capabilities = "another", Capabilities(list=True)

        async def fetch(self, discovery: object, permit: object) -> NoReply:
            raise AssertionError

        def decode(self, discovery: object, reply: object) -> WrongShape:
            raise AssertionError

    plugin = SourcePlugin(make=lambda _setup: Other(), capabilities=Capabilities(list=True))
    with pytest.raises(ConfigurationError, match="another name or other capabilities"):
        open_plugin("weather", plugin, SourceSetup("w", "https://weather.example", FakeTransport(Fake(World()))))


def test_the_plugin_and_the_fake_of_the_page_work_together() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "plug-ins.md").read_text()
    names: dict[str, Any] = {}
    for snippet in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(snippet, "plug-ins.md", "exec"), names)
    mirrored = mirror_plugin(names["PLUGIN"], names["service"], kills=1)
    assert mirrored.documents == names["service"].truth()


def test_every_name_of_the_test_kit_is_in_the_table_of_the_page() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "plug-ins.md").read_text()
    table = page.split("## Test it")[1]
    public = {name for name in vars(remora.testing) if not name.startswith("_")} - MODULES
    cells = " ".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
    assert sorted(name for name in public if not re.search(rf"`{name}\b", cells)) == []
