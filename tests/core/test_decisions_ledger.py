"""Is what is decided about the ledger as recorded? Thousands of drawn inputs, near every bound."""

import pytest

from tests.core.decisions import ledger
from tools.decisions import changed, recorded


@pytest.mark.parametrize("name", ledger.DECISIONS)
def test_it_decides_as_recorded(name: str) -> None:
    assert changed(name, recorded()[name]) is None, "if the change is wanted: python -m tools.decisions"
