"""Which ready declarations does `remora init` know? `--list` shows them, and a name of the shelf writes one."""

# ruff: noqa: PLC0415

import click


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


def shelf_configuration(name: str) -> str | None:
    """The whole file for a declaration of the shelf; None if the shelf has no such name."""
    from remora.operate.config.templates import HEAD
    from remora.sources.shelf import shelf_entry, shelf_names

    return f"{HEAD}\n{shelf_entry(name).text}" if name in shelf_names() else None
