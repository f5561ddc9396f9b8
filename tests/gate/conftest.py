"""What does the gate say while it is tested? Its events are captured, for the tests that read them and off the screen."""

from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs


@pytest.fixture(autouse=True)
def events() -> Iterator[list[MutableMapping[str, Any]]]:
    """Every event the gate told."""
    with capture_logs() as captured:
        yield captured
