"""Is what is decided about pacing and shared time as recorded? Thousands of drawn inputs, near every bound."""

import pytest

from tests.core.decisions import pacing
from tools.decisions import changed, recorded


@pytest.mark.parametrize("name", pacing.DECISIONS)
def test_it_decides_as_recorded(name: str) -> None:
    assert changed(name, recorded()[name]) is None, "if the change is wanted: python -m tools.decisions"
