"""Can the dashboard show anything? Every query of it names metrics that exist, and Prometheus can read it."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remora.operate.observe.metrics import Metrics

DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana" / "remora.json"
SERIES = ("_bucket", "_count", "_sum", "_total")


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return found


def queries() -> Iterator[str]:
    found = dashboard()
    for panel in found["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (each["expr"] for each in found["annotations"]["list"])
    yield from (each["query"]["query"] for each in found["templating"]["list"] if each["type"] == "query")


def exported() -> set[str]:
    """Every series name that a scrape can have."""
    names: set[str] = set()
    for family in Metrics().registry.collect():
        match family.type:
            case "counter":
                names.add(f"{family.name}_total")
            case "histogram":
                names |= {f"{family.name}{suffix}" for suffix in ("_bucket", "_count", "_sum")}
            case _:
                names.add(family.name)
    return names


def named() -> set[str]:
    return {name for query in queries() for name in re.findall(r"remora_\w+", query)}


def test_every_query_names_an_existing_metric() -> None:
    assert named() - exported() == set()


def test_every_metric_is_on_the_dashboard() -> None:
    bare = {re.sub(r"_(bucket|count|sum)$", "", name) for name in exported()}
    assert bare - {re.sub(r"_(bucket|count|sum)$", "", name) for name in named()} == set()


def test_panels_have_names_of_their_own_and_do_not_overlap() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_prometheus_can_read_every_query(promtool_path: Path, tmp_path: Path) -> None:
    rules = [
        {"record": f"check:{number}", "expr": query.replace("$source", ".*")}
        for number, query in enumerate(query for query in queries() if not query.startswith("label_values"))
    ]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "check", "rules": rules}]}))
    done = subprocess.run(
        [promtool_path, "check", "rules", path], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("suffix", SERIES)
def test_no_query_takes_a_counter_for_a_gauge(suffix: str) -> None:
    """What only grows is looked at through a rate, except where two totals are compared."""
    grown = [query for query in queries() if re.search(rf"remora_\w+{suffix}\b", query)]
    assert [
        query for query in grown if "rate(" not in query and "increase(" not in query and " - on" not in query
    ] == []
