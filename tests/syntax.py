"""How do tests read code? As a syntax tree, parsed while no garbage is collected."""

import ast
import gc


def parsed(text: str, path: str = "<module>") -> ast.Module:
    """The tree of a module.

    Python 3.11 counts its recursion wrongly, and fails, when a collection in the middle of `ast.parse` runs the
    finalizers that other tests left behind.
    """
    gc.disable()
    try:
        return ast.parse(text, path)
    finally:
        gc.enable()
