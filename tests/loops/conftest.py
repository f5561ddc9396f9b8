"""What is the same for every test of a loop? Only warnings are logged: a simulated week has many good days."""

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def quiet_log() -> Iterator[None]:
    """Routine events are not written; writing them takes longer than a simulated week."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    yield
    structlog.configure(**before)
