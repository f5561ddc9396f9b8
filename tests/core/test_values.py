"""Are the numbers of core/ the ones that were recorded? Constants, and the defaults of classes and functions."""

from tests.core.decisions.values import RECORD, values


def test_every_constant_and_every_default_is_as_recorded() -> None:
    now, before = set(values()), set(RECORD.read_text().splitlines())
    assert sorted(now ^ before) == [], "if the change is wanted: python -m tools.decisions"
