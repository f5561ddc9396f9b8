"""What need a command not load? structlog loads rich for coloured tracebacks, which we never print."""

import sys
from importlib import import_module
from typing import Any, Final, cast

RICH: Final = "rich"


def load_structlog_alone() -> None:
    """Load structlog as if rich were not installed. Our own output loads rich itself, where it is needed."""
    modules = cast("dict[str, Any]", sys.modules)
    if RICH in modules or "structlog" in modules:
        return
    modules[RICH] = None  # an import of it fails, and structlog does without
    try:
        import_module("structlog")
    finally:
        del modules[RICH]
