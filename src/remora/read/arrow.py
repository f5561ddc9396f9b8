"""How do many rows become typed columns? In bulk: one pass per column, not one per cell."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from remora.contracts.extras import install_hint
from remora.contracts.reader import ItemColumns
from remora.core.errors import ConfigurationError
from remora.core.units import MILLISECOND_NS
from remora.read.export_rows import DOCUMENT_COLUMNS, ITEM_COLUMNS, YEAR_2101_S, texts_of

# A table in more pieces than this is cut by month in another way.
_RUNS_MAX: Final = 64


def load_pyarrow() -> ModuleType:
    """The library, or what to install."""
    try:
        import_module("pyarrow.parquet")
        import_module("pyarrow.compute")
        return import_module("pyarrow")
    except ImportError:
        raise ConfigurationError(
            "Parquet and Arrow need pyarrow, which is not installed",
            hint=install_hint("pyarrow"),
        ) from None


def schema(pyarrow: ModuleType, *, is_listed: bool) -> Any:
    """The types of the columns."""
    moment_ms = pyarrow.timestamp("ms", tz="UTC")
    types = {
        "id": pyarrow.int64(),
        "time": pyarrow.timestamp("s", tz="UTC"),
        "parent": pyarrow.int64(),
        "score": pyarrow.int64(),
        "descendants": pyarrow.int64(),
        "dead": pyarrow.bool_(),
        "deleted": pyarrow.bool_(),
        "kids": pyarrow.list_(pyarrow.int64()),
        "revision": pyarrow.int32(),
        "first_seen_at": moment_ms,
        "last_fetched_at": moment_ms,
        "changed_at": moment_ms,
        "fetched_at": moment_ms,
        "vanished_at": moment_ms,
        "gone": pyarrow.bool_(),
        "exported_at": moment_ms,
    }
    # The latest row of a document tells whether its list shows it: nothing else of it changes then.
    names = (*DOCUMENT_COLUMNS, "exported_at") if is_listed else ITEM_COLUMNS
    return pyarrow.schema([(name, types.get(name, pyarrow.string())) for name in names])


def item_table(pyarrow: ModuleType, source: str, columns: ItemColumns) -> Any:
    """A table of items with the columns of `ITEM_COLUMNS`."""
    wanted = schema(pyarrow, is_listed=False)
    texts = [texts_of(body) for body in columns["body"]]
    made: Mapping[str, Sequence[Any]] = {
        **columns,
        "time": [time if time is not None and 0 <= time < YEAR_2101_S else None for time in columns["time"]],
        "last_fetched_at": [fetched or None for fetched in columns["last_fetched_at"]],
        "dead": list(map(bool, columns["dead"])),
        "deleted": list(map(bool, columns["deleted"])),
        "title": [text.title for text in texts],
        "url": [text.url for text in texts],
        "text": [text.text for text in texts],
        "kids": [text.kids for text in texts],
    }
    arrays = [
        pyarrow.repeat(source, len(texts))
        if field.name == "source"
        else _bodies(pyarrow, columns["body"])
        if field.name == "body"
        else pyarrow.array(made[field.name], field.type)
        for field in wanted
    ]
    return pyarrow.Table.from_arrays(arrays, schema=wanted)


def document_table(pyarrow: ModuleType, rows: Sequence[tuple[Any, ...]], *, now_ns: int) -> Any:
    """A table of documents with the columns of `DOCUMENT_COLUMNS`, and when it was made."""
    wanted = schema(pyarrow, is_listed=True)
    columns = [*zip(*rows, strict=True), [now_ns // MILLISECOND_NS] * len(rows)]
    arrays = [pyarrow.array(column, field.type) for column, field in zip(columns, wanted, strict=True)]
    return pyarrow.Table.from_arrays(arrays, schema=wanted)


def _bodies(pyarrow: ModuleType, bodies: Sequence[bytes]) -> Any:
    """Bodies as text. Checked in bulk; only if one is no UTF-8 each is decoded on its own."""
    try:
        return pyarrow.array(bodies, pyarrow.binary()).cast(pyarrow.string())
    except pyarrow.ArrowInvalid:
        return pyarrow.array([body.decode("utf-8", "replace") for body in bodies], pyarrow.string())


def by_month(pyarrow: ModuleType, table: Any, column: str) -> list[tuple[str | None, Any]]:
    """The table cut by the month of a column, as 2026-01; None for rows without a time."""
    compute = pyarrow.compute
    moments = table.column(column)
    ends = compute.min_max(moments).as_py()
    if moments.null_count == 0 and f"{ends['min']:%Y-%m}" == f"{ends['max']:%Y-%m}":
        return [(f"{ends['min']:%Y-%m}", table)]  # ids follow time: nearly every page is of one month
    naive = moments.cast(pyarrow.timestamp(moments.type.unit)).combine_chunks()  # quicker than with a time zone
    months = compute.add(compute.multiply(compute.year(naive), 12), compute.month(naive))
    runs = compute.run_end_encode(months)
    if len(runs.values) > _RUNS_MAX:
        return [
            (_month(month), table.filter(compute.is_null(months) if month is None else compute.equal(months, month)))
            for month in compute.unique(months).to_pylist()
        ]
    pieces: dict[str | None, list[Any]] = {}
    began = 0
    for month, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        pieces.setdefault(_month(month), []).append(table.slice(began, end - began))  # copies nothing
        began = end
    return [(month, _own(pyarrow, pyarrow.concat_tables(tables), table)) for month, tables in pieces.items()]


def _own(pyarrow: ModuleType, some: Any, whole: Any) -> Any:
    """A small part as a copy: a slice would keep the whole table in memory until it is written."""
    return some.take(pyarrow.array(range(some.num_rows))) if some.num_rows * 2 < whole.num_rows else some


def _month(number: int | None) -> str | None:
    return None if number is None else f"{(number - 1) // 12:04}-{(number - 1) % 12 + 1:02}"
