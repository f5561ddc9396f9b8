"""Which ready declarations does `remora init` know? `--list` shows them, and a name of the shelf writes one."""

# ruff: noqa: PLC0415

import re
from typing import Final

import click

# The rest of the line says what the proposal means; it goes when the owner chooses another ceiling.
CEILING: Final = re.compile(r'^(ceiling = )"([^"]+)".*$', re.MULTILINE)
DEFAULT: Final = "hackernews"  # ours, whatever a package brings under this name
PLUGIN: Final = """
[sources.{name}]
preset = "{name}"     # a plug-in, installed beside remora; it knows its paths
# The one number: never faster than this, whatever the provider would allow.
ceiling = "{ceiling}"
# Where it is, and what it can be told: its documentation says whether you need them.
# url = "https://…"
# options = {{ … }}
"""


def _show(context: click.Context, _parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's form
    if not value:
        return
    from remora.sources.plugins import plugin_names
    from remora.sources.shelf import shelf_entry, shelf_names

    rows = [("hackernews", "Hacker News"), *((name, shelf_entry(name).title) for name in shelf_names())]
    rows += [(name, "a plug-in, installed beside remora") for name in sorted(plugin_names())]
    width = max(len(name) for name, _ in rows) + 2
    for name, title in rows:
        click.echo(f"{name:<{width}}{title}")
    context.exit()


list_option = click.option(
    "--list",
    "lists",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show,
    help="Show the ready declarations, and write nothing.",
)


def shelf_ceiling(name: str) -> str | None:
    """The ceiling that a declaration of the shelf or a plug-in proposes; None if there is no such name."""
    from remora.sources.plugins import plugin_named
    from remora.sources.shelf import shelf_entry, shelf_names

    if name not in shelf_names() and name != DEFAULT and (plugin := plugin_named(name)) is not None:
        return plugin.ceiling
    found = CEILING.search(shelf_entry(name).text) if name in shelf_names() else None
    return None if found is None else found[2]


def near_name(name: str) -> str | None:
    """The ready declaration whose name this one may be meant to be; None if it is one itself, or is like none."""
    from difflib import get_close_matches

    from remora.sources.plugins import plugin_names
    from remora.sources.shelf import shelf_names

    known = [DEFAULT, *shelf_names(), *plugin_names()]
    found = [] if name in known else get_close_matches(name.replace("_", "-"), known, n=1, cutoff=0.85)
    return found[0] if found else None


def shelf_configuration(name: str, *, ceiling: str, store: str) -> str | None:
    """The whole file for a declaration of the shelf or a plug-in; None if there is no such name."""
    from remora.operate.config.templates import head_for
    from remora.sources.plugins import plugin_names
    from remora.sources.shelf import shelf_entry, shelf_names

    if name not in shelf_names():
        is_plugin = name != DEFAULT and name in plugin_names()
        return f"{head_for(store)}{PLUGIN.format(name=name, ceiling=ceiling)}" if is_plugin else None
    text = shelf_entry(name).text
    if ceiling != shelf_ceiling(name):
        text = CEILING.sub(rf'\g<1>"{ceiling}"', text, count=1)
    return f"{head_for(store)}\n{text}"
