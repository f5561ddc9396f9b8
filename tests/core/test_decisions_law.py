"""Is what is decided about the rate law as recorded? Thousands of drawn inputs, near every bound."""

import pytest

from tests.core.decisions import law
from tools.decisions import changed, recorded


@pytest.mark.parametrize("name", law.DECISIONS)
def test_it_decides_as_recorded(name: str) -> None:
    assert changed(name, recorded()[name]) is None, "if the change is wanted: python -m tools.decisions"
