"""Does the rate law send when it did? A law that changed shows it here before anybody meets it."""

from tools.law_traces import recorded, traces


def test_the_law_sends_to_twelve_providers_as_recorded() -> None:
    now, before = traces(), recorded()
    changed = [name for name in before.keys() | now.keys() if now.get(name) != before.get(name)]
    assert changed == [], "if the change is wanted: python -m bench.controllers, then python -m tools.law_traces"
