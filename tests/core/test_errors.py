"""Does every error say what to do next, and does its class decide the exit code and whether to try again?"""

import pytest

from remora.core.errors import (
    ConfigurationError,
    Exit,
    RemoraError,
    StoreBusy,
    StoreEmpty,
    StoreError,
    StoreForeign,
    StoreRefused,
    StoreUnavailable,
)


@pytest.mark.parametrize(
    "kind, exit_code, retryable",
    [
        (RemoraError, Exit.FAILED, False),
        (ConfigurationError, Exit.USAGE, False),
        (StoreError, Exit.FAILED, False),
        (StoreUnavailable, Exit.FAILED, True),
        (StoreBusy, Exit.FAILED, False),
        (StoreRefused, Exit.USAGE, True),
        (StoreForeign, Exit.USAGE, False),
        (StoreEmpty, Exit.USAGE, False),
    ],
)
def test_the_class_decides_how_the_process_ends_and_whether_to_try_again(
    kind: type[RemoraError], exit_code: Exit, retryable: bool
) -> None:
    error = kind("the store is gone", hint="bring it back")
    assert (error.exit_code, error.retryable) == (exit_code, retryable)
    assert str(error) == "the store is gone; bring it back"


def test_only_store_errors_are_store_errors() -> None:
    assert not issubclass(ConfigurationError, StoreError)
    assert all(issubclass(kind, StoreError) for kind in (StoreUnavailable, StoreBusy, StoreRefused, StoreForeign))


def test_the_exit_codes_are_the_documented_ones() -> None:
    assert {code.name: int(code) for code in Exit} == {"DONE": 0, "FAILED": 1, "USAGE": 2, "BUDGET_USED": 75}
