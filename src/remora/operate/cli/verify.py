"""Which command says how true the mirror is?"""

# ruff: noqa: PLC0415

from typing import TYPE_CHECKING

import click

from remora.core.errors import ConfigurationError
from remora.operate.cli.common import (
    as_json_option,
    if_busy,
    load_settings,
    log_options,
    print_json,
    source_options,
    start_logs,
    view_for,
)

if TYPE_CHECKING:
    from remora.operate.jobs.verify import Verified


@click.command(short_help="Read a random sample again and bound what can be wrong.")
@source_options
@click.option("--sample", type=click.IntRange(1), default=10_000, show_default=True, help="How many to read again.")
@as_json_option
@log_options
def verify(*, sample: int, as_json: bool, **common: str | None) -> None:
    """Read a random sample again and say how many can be missing or stale. Differences are healed."""
    settings = load_settings(**common)
    name = common.get("source")
    if name is None and len(settings.sources) != 1:
        raise ConfigurationError(
            "there is more than one source", hint=f"name one with --source: {', '.join(sorted(settings.sources))}"
        )
    from remora.operate.config.settings import known_source
    from remora.operate.jobs.stopping import run_job
    from remora.operate.jobs.verify import verify as verify_mirror
    from remora.operate.observe.logs import tell

    name = name or next(iter(settings.sources))
    known_source(settings, name)
    start_logs(settings)
    view = view_for(as_json=as_json)
    try:
        with if_busy("stop it first, or use PostgreSQL: only one process may write a SQLite file"):
            ended = run_job(verify_mirror(settings, source=name, sample=sample, view=view))
    finally:
        view.close()
    if ended.result is None:
        tell("stopped on request; what was read is stored")
        return
    found = ended.result
    if as_json:
        import msgspec

        print_json({**msgspec.to_builtins(found), "bad": found.bad, "sentence": found.sentence()})
    else:
        _print(found)
    if found.failure is not None:
        raise found.failure


def _print(found: "Verified") -> None:
    click.echo(found.sentence())
    words = {
        "same": "are the same",
        "counts": "differ only in score or replies",
        "stale": "were stale and are healed",
        "missing": "were missing and are healed",
        "gone": "are gone at the source; their last content is kept",
        "unanswered": "were not answered; they say nothing",
    }
    for finding, count in found.findings.items():
        click.echo(f"  {count:>9,} {words[finding]}")
