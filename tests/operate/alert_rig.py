"""How does an alert see a fault? Real scrapes of the real metrics, minute by minute, given to promtool as series."""

import json
import math
import re
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from remora.core.item import Newest
from remora.core.lanes import Lane
from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.status.readout import read_out
from remora.core.status.snapshot import Beat, LedgerFacts, Role, Snapshot, SourceFacts
from remora.core.units import SECOND_NS
from remora.core.verdict import Found
from remora.operate.observe.metrics import Metrics
from tests.browser.scenes import NEWEST_ID, watching

RULES: Final = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yml"
METRIC: Final = re.compile(r"\bremora_\w+")
# A scrape has six times as many metrics as the rules read, and to parse it is most of the time.
IN_RULES: Final = frozenset(METRIC.findall(RULES.read_text()))
SOURCE: Final = "hackernews"
CEILING_INTERVAL_NS: Final = SECOND_NS // 250
PROMTOOL_TIMEOUT_S: Final = 60

Facts = Callable[[int], SourceFacts | None]
Ledger = Callable[[int], LedgerFacts]
Act = Callable[[Metrics, int], None]


def healthy_facts(now_ns: int) -> SourceFacts:
    return watching(now_ns)


def healthy_ledger(now_ns: int) -> LedgerFacts:
    return LedgerFacts(kind=SOURCE, coverage=Coverage((IdRange(1, NEWEST_ID),)), newest_id=NEWEST_ID, inbox_depth=0)


def traffic(metrics: Metrics, _step: int) -> None:
    """Requests leave with a permit each and are answered well."""
    for _ in range(10):
        metrics.departed(SOURCE, Lane.LIVE)
        metrics.wire_sent(SOURCE)
        metrics.judged(SOURCE, Lane.LIVE, Found(Newest(3)))


@dataclass(frozen=True)
class Fault:
    """What goes wrong: what the runtime says, what the ledger holds, what is counted, or that nothing is scraped."""

    alert: str
    facts: Facts = healthy_facts
    ledger: Ledger = healthy_ledger
    act: Act = traffic
    scraped: bool = True
    step_s: int = 30
    healthy_steps: int = 10
    faulty_steps: int = 40
    recovering_steps: int = 20

    @property
    def ends_s(self) -> int:
        return (self.healthy_steps + self.faulty_steps - 1) * self.step_s


@dataclass
class Tape:
    """What Prometheus would have stored: one value per step and series, None where there was none."""

    step_s: int
    steps: int = 0
    series: dict[str, list[float | None]] = field(default_factory=dict)

    def record(self, metrics: Metrics | None) -> None:
        """One scrape, or one that failed."""
        values = {} if metrics is None else dict(_samples(metrics))
        for name in {*self.series, *values}:
            line = self.series.setdefault(name, [None] * self.steps)
            line.append(values.get(name))
        self.steps += 1

    def as_input(self) -> list[dict[str, str]]:
        return [{"series": name, "values": " ".join(map(_written, line))} for name, line in self.series.items()]


def play(fault: Fault) -> Tape:
    """The service is well, then the fault, then it is well again."""
    metrics = Metrics()
    metrics.watch(SOURCE, ceiling_interval_ns=CEILING_INTERVAL_NS)
    well = Fault(fault.alert)
    tape = Tape(fault.step_s)
    acts = (
        *[well] * fault.healthy_steps,
        *[fault] * fault.faulty_steps,
        *[well] * fault.recovering_steps,
    )
    for step, world in enumerate(acts):
        now_ns = step * fault.step_s * SECOND_NS
        facts = world.facts(now_ns)
        beats = [] if facts is None else [Beat(now_ns, _snapshot(facts, now_ns))]
        status = read_out(beats, {SOURCE: world.ledger(now_ns)}, now_ns=now_ns)
        world.act(metrics, step)
        metrics.take(SOURCE, status.sources[SOURCE])
        tape.record(metrics if world.scraped else None)
    return tape


def firing(promtool: Path, tape: Tape, expected: Iterable[tuple[int, str, int]], folder: Path) -> str:
    """Have promtool check how many alerts fire at which moments: (seconds, selector, how many). Empty when it agrees."""
    checks = [
        {
            "expr": f'count(ALERTS{{alertstate="firing"{selector}}})',
            "eval_time": f"{at_s}s",
            "exp_samples": [{"labels": "{}", "value": count}] if count else [],
        }
        for at_s, selector, count in expected
    ]
    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": f"{tape.step_s}s",
        "tests": [
            {"interval": f"{tape.step_s}s", "input_series": tape.as_input(), "promql_expr_test": checks},
        ],
    }
    path = folder / "test.yml"
    path.write_text(json.dumps(test))  # every JSON text is YAML, too
    done = subprocess.run(
        [promtool, "test", "rules", path], capture_output=True, text=True, timeout=PROMTOOL_TIMEOUT_S, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def _snapshot(facts: SourceFacts, now_ns: int) -> Snapshot:
    return Snapshot(role=Role.SERVICE, started_at_ns=now_ns, sources={SOURCE: facts})


def _samples(metrics: Metrics) -> Iterable[tuple[str, float]]:
    body, _ = metrics.scrape("text/plain")
    lines = body.decode().splitlines(keepends=True)
    asked_for = "".join(line for line in lines if not IN_RULES.isdisjoint(METRIC.findall(line)))
    for family in text_string_to_metric_families(asked_for):
        if family.type in {"gauge", "counter"}:
            for sample in family.samples:
                if not sample.name.endswith("_created"):
                    labels = ",".join(f'{key}="{value}"' for key, value in sorted(sample.labels.items()))
                    yield f"{sample.name}{{{labels}}}", sample.value


def _written(value: float | None) -> str:
    if value is None:
        return "_"
    return "NaN" if math.isnan(value) else repr(value)
