"""Which numbers does core/ hold beside the figures of docs/figures.md? Tables, and the defaults of classes and functions."""

import ast
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from types import FunctionType
from typing import Final

import msgspec

from tests.core.decisions.drawing import shown
from tools.figures import CORE, is_figure, module_of

RECORD: Final = Path(__file__).with_name("values.txt")


def values() -> Iterator[str]:
    """All of them, by module and name."""
    for file in sorted(CORE.rglob("*.py")):
        module = module_of(file)
        place = file.relative_to(CORE).with_suffix("")
        for name in _defined(file):
            yield from (f"{place} {line}" for line in _lines(name, getattr(module, name)))


def _defined(file: Path) -> Iterator[str]:
    """What a module defines itself, in its order."""
    for node in ast.parse(file.read_text()).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                yield name
            case _:
                pass


def _lines(name: str, value: object) -> Iterator[str]:
    if isinstance(value, FunctionType):
        yield from _of_function(name, value)
    elif isinstance(value, type):
        yield from _of_class(name, value)
    elif _has_numbers(value) and not is_figure(value, name):
        yield f"{name} = {shown(value)}"


def _of_function(name: str, function: FunctionType) -> Iterator[str]:
    for parameter in inspect.signature(function).parameters.values():
        if _has_numbers(parameter.default):
            yield f"{name}({parameter.name} = {shown(parameter.default)})"


def _of_class(name: str, kind: type) -> Iterator[str]:
    if issubclass(kind, Enum):
        yield from (f"{name}.{member.name} = {member.value}" for member in kind if _has_numbers(member.value))
    elif issubclass(kind, msgspec.Struct):
        for each in msgspec.structs.fields(kind):
            if _has_numbers(each.default):
                yield f"{name}.{each.name} = {shown(each.default)}"
    elif is_dataclass(kind):
        yield from _of_function(name, vars(kind)["__init__"])
    else:
        ours = sorted((key, one) for key, one in vars(kind).items() if not key.startswith("__"))
        yield from (f"{name}.{key} = {shown(one)}" for key, one in ours if isinstance(one, int))
    for method, function in sorted(vars(kind).items()):
        inner = function.__func__ if isinstance(function, classmethod) else function
        if isinstance(inner, FunctionType) and not method.startswith("__"):
            yield from _of_function(f"{name}.{method}", inner)


def _has_numbers(value: object) -> bool:
    """Whether it is a number, or holds some. Words are compared where they are shown."""
    if isinstance(value, type):
        return False
    if isinstance(value, Mapping):
        return any(map(_has_numbers, value.values()))
    if isinstance(value, tuple | frozenset):
        return any(map(_has_numbers, value))
    return isinstance(value, int | float) or is_dataclass(value) or isinstance(value, msgspec.Struct)
