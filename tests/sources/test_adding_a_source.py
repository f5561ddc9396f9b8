"""Is the page about adding a source true? Its example is run, and its tables are compared with the settings."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from remora.contracts import Source
from remora.core.item import Document, Nothing, Readable, Unreadable
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.verdict import Reply
from remora.operate.config.reader import load
from remora.operate.config.settings import Flags
from remora.sources.declaration import ItemSettings, NewestSettings
from remora.sources.listed import DetailSettings, ListSettings
from tests.sources.permits import Gate
from tests.sources.replies import replied
from tests.sources.test_listed import Archive

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "adding-a-source.md").read_text()


def example(transport: Archive) -> Source:
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {}
    exec(compile(code[1], "adding-a-source.md", "exec"), names)
    source: Source = names["Weather"](transport)
    return source


async def test_the_example_is_a_source() -> None:
    transport, gate = Archive(lambda _url: ("report END", {})), Gate()
    source, station = example(transport), Discovery(Kind.DOCUMENT, "zrh", Lane.DETAIL)
    assert isinstance(await source.fetch(station, gate.permit()), Reply)
    assert transport.urls == ["https://weather.example/zrh.txt"]
    assert gate.departures == 1
    assert source.decode(station, replied(b"dry\nEND\n")) == Readable(Document("zrh", b"dry\nEND\n"))
    assert source.decode(station, replied(b"dry\n")) == Unreadable("cut off")
    assert source.decode(station, replied(b"")) == Nothing()


def default_of(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    return "none" if field.default in (None, ()) else f"`{field.default}`"


@pytest.mark.parametrize(
    "heading, settings",
    [
        ("### An item", ItemSettings),
        ("### The newest id", NewestSettings),
        ("### The list", ListSettings),
        ("### The detail", DetailSettings),
    ],
)
def test_every_setting_is_in_its_table_with_its_default(heading: str, settings: type[msgspec.Struct]) -> None:
    table = PAGE.split(heading, 1)[1].split("\n##", 1)[0]
    written = dict(re.findall(r"^\| `(\w+)` \| (\S+) \| [a-z`]", table, re.MULTILINE))
    shown = {field.name: default_of(field) for field in msgspec.structs.fields(settings)}
    assert {name: text for name, text in written.items() if name in shown} == shown


BLOCKS = [block for block in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if not block.startswith("[[")]


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_every_declaration_on_the_page_is_read_without_a_complaint(block: str, tmp_path: Path) -> None:
    (tmp_path / "remora.toml").write_text(block)
    assert load(Flags(config=str(tmp_path / "remora.toml")), {}).sources
