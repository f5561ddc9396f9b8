"""How do the results read as tables?"""

from collections.abc import Callable, Iterable

from bench.controllers.scenarios import LIMITS, MODELS
from bench.controllers.trials import EVERYWHERE, OTHERS, OURS, STEPS, WARM, Result

CONTROLLERS = (OURS, *OTHERS)


def render(results: list[Result]) -> str:
    """All tables, as Markdown."""
    return (
        "\n\n".join([_compared(results), _limits(results), _crowded(results), _times(results), _totals(results)]) + "\n"
    )


def _compared(results: list[Result]) -> str:
    def cell(model: str, controller: str) -> str:
        return _shares(_of(results, controller, model, 10.0, 1))

    title = "### Hidden limit 10/s, one in flight: goodput / refused"
    return _table(title, MODELS, CONTROLLERS, cell)


def _limits(results: list[Result]) -> str:
    def cell(model: str, limit: str) -> str:
        return _shares(_of(results, OURS, model, float(limit), 1))

    title = "### Remora at other limits (requests/s), one in flight: goodput / refused"
    return _table(title, EVERYWHERE, [f"{limit:g}" for limit in LIMITS], cell)


def _crowded(results: list[Result]) -> str:
    def cell(model: str, column: str) -> str:
        return _shares(_of(results, OURS, model, 10.0, 8))

    models = [model for model in MODELS if _of(results, OURS, model, 10.0, 8)]
    return _table("### Remora with eight in flight at 10/s", models, ["goodput / refused"], cell)


def _times(results: list[Result]) -> str:
    bucket = "token bucket b=10"
    rows: dict[str, Callable[[str], str]] = {
        "cold to 90 % of 10/s": lambda name: _seconds(r.seconds_to_90 for r in _of(results, name, bucket, 10.0, 1)),
    }
    for model in STEPS:
        rows[f"after the drop, {model}"] = lambda name, model=model: _seconds(  # type: ignore[misc]
            r.seconds_after_drop for r in _of(results, name, model, 10.0, 1)
        )
        rows[f"after the rise, {model}"] = lambda name, model=model: _seconds(  # type: ignore[misc]
            r.seconds_after_rise for r in _of(results, name, model, 10.0, 1)
        )
    warm = _seconds(r.seconds_to_90 for r in _of(results, WARM, bucket, 10.0, 1))
    table = _table("### Seconds to 90 %", rows, CONTROLLERS, lambda row, name: rows[row](name))
    return f"{table}\n\nWarm, from the record of an earlier run, Remora takes {warm}."


def _totals(results: list[Result]) -> str:
    def cell(row: str, name: str) -> str:
        of = [result for result in results if result.trial.controller == name]
        if row.startswith("ceiling"):
            return str(sum(result.measured.crossings for result in of))
        return f"{sum(result.banned for result in of)} of {sum(result.trial.model.startswith('ban') for result in of)}"

    return _table("### In all trials", ["ceiling crossings", "bans"], CONTROLLERS, cell)


def _of(results: list[Result], controller: str, model: str, limit: float, in_flight: int) -> list[Result]:
    wanted = (controller, model, limit, in_flight)
    return [r for r in results if (r.trial.controller, r.trial.model, r.trial.limit_per_s, r.trial.in_flight) == wanted]


def _shares(results: list[Result]) -> str:
    if not results:
        return "–"
    good = sum(result.measured.goodput_share for result in results) / len(results)
    refused = sum(result.measured.refused_share for result in results) / len(results)
    return f"{good:.1%} / {refused:.2%}"


def _seconds(times: Iterable[float | None]) -> str:
    known = list(times)
    if any(value is None for value in known):
        return "never"
    return " / ".join(f"{value:.0f} s" for value in known if value is not None)


def _table(title: str, rows: Iterable[str], columns: Iterable[str], cell: Callable[[str, str], str]) -> str:
    columns = list(columns)
    lines = [title, "", f"| | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    lines += [f"| {row} | {' | '.join(cell(row, column) for column in columns)} |" for row in rows]
    return "\n".join(lines)
