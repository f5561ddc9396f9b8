"""How does a page become HTML? With templates that escape everything, in a thread, so that collecting goes on meanwhile."""

import asyncio
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup, escape

from remora.contracts.reader import MirroredItem, moment
from remora.operate.console.reader import links
from remora.operate.console.reader.front_views import VIEWS
from remora.read.as_text import pretty
from remora.read.index_entries import domain_of
from remora.read.plain_text import one_line, plain
from remora.read.safe_html import safe_html

_HERE: Final = Path(__file__).parent
STATIC: Final = _HERE / "static"
RAW_MAX: Final = 500_000
MINUTE_FORMAT: Final = "%Y-%m-%d %H:%M"
# As on every page of the console, but with forms that search.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS: Final = {"Content-Security-Policy": POLICY}


async def page(request: web.Request, template: str, *, status: int = 200, **values: Any) -> web.Response:
    """A whole page, as the answer to a request."""
    relative = links.Relative(links.to_root(request.rel_url.raw_path))
    text = await asyncio.to_thread(render, template, links=relative, **values)
    body = text.encode("utf-8", "replace")
    return web.Response(body=body, content_type="text/html", charset="utf-8", status=status, headers=HEADERS)


def render(template: str, **values: Any) -> str:
    """The HTML of a template."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    made = Environment(
        # All are read at once: an upgrade beside a running service must not mix its pages with older code.
        loader=DictLoader({each.name: each.read_text("utf-8") for each in (_HERE / "templates").iterdir()}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["views"] = tuple(VIEWS.values())
    made.filters.update(
        count=_count,
        day=_day,
        domain=domain_of,
        html=_html,
        marked=_marked,
        minute=_minute,
        raw=_raw,
        title=_title,
        web=_web,
    )
    return made


def _count(number: int, word: str, words: str | None = None) -> str:
    """A number with its word: `1 reply`, `2 replies`."""
    return f"{number:,} {word if number == 1 else words or word + 's'}"


def _minute(when: datetime | int | None) -> str:
    """A moment to the minute, in UTC; a number is in nanoseconds."""
    if isinstance(when, int):
        when = moment(when)
    return "" if when is None else f"{when.astimezone(UTC):{MINUTE_FORMAT}}"


def _day(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"


def _html(text: str | None) -> Markup:
    """A provider's HTML, made safe."""
    return Markup(safe_html(text or ""))  # noqa: S704 - it was just made safe


def _marked(snippet: str) -> Markup:
    """A snippet with the words that were looked for as marks."""
    return Markup(escape(snippet).replace("«", Markup("<mark>")).replace("»", Markup("</mark>")))  # noqa: S704 - escaped


def _title(item: MirroredItem) -> str:
    """What an item is called in a list: its title, else the beginning of its text."""
    fields = item.fields
    for name in ("title", "text"):
        value = fields.get(name)
        if isinstance(value, str) and (line := one_line(plain(value))):
            return line if len(line) <= 120 else f"{line[:119]}…"
    return f"({item.type or 'item'} without a title)"


def _raw(body: bytes) -> str:
    """The body as indented JSON; only the beginning of a giant."""
    text = pretty(body)
    return text if len(text) <= RAW_MAX else f"{text[:RAW_MAX]}\n… (cut after {RAW_MAX:,} characters)"


def _web(address: str | None) -> str | None:
    """An address that a link may lead to; None for every other scheme."""
    return address if address and address.lower().startswith(("https://", "http://")) else None
