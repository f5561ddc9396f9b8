"""Is what is decided about lists, verdicts and headers as recorded? Thousands of drawn inputs, near every bound."""

import pytest

from tests.core.decisions import lists
from tools.decisions import changed, recorded


@pytest.mark.parametrize("name", lists.DECISIONS)
def test_it_decides_as_recorded(name: str) -> None:
    assert changed(name, recorded()[name]) is None, "if the change is wanted: python -m tools.decisions"
