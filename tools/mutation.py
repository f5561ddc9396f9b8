"""Which small mistakes in core/ would no test notice? Every place where one token can be wrong, and a sample of them.

A mutant is one change of the syntax tree: another comparison, boundary, connective, operator, constant or result. What only
describes is left out: docstrings, annotations, texts, and assertions, which check our own mistakes.
"""

import ast
import copy
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CORE: Final = Path("src/remora/core")

COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
LARGE: Final = 1_000  # from here on a constant is doubled: one more would be the same


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file. `number` counts the places of the file."""

    file: str
    number: int
    line: int
    operator: str
    change: str  # from what to what, as source

    @property
    def module(self) -> str:
        """The module that is changed."""
        parts = Path(self.file).with_suffix("").parts[1:]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def mutants_of(file: Path) -> list[Mutant]:
    """Every mutant of a file, in the order of the tree."""
    tree = ast.parse(file.read_text())
    return [
        Mutant(str(file), number, node.lineno, operator, f"{ast.unparse(node)} -> {ast.unparse(_changed(node, at))}")
        for number, (node, at, operator) in enumerate(_places(tree))
    ]


def planted(mutant: Mutant) -> ast.Module:
    """The tree of the file with the mutant in it."""
    tree = ast.parse(Path(mutant.file).read_text())
    node, at, _ = list(_places(tree))[mutant.number]
    new = _changed(node, at)
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is node:
                setattr(parent, name, new)
            elif isinstance(value, list) and any(one is node for one in value):
                value[[one is node for one in value].index(True)] = new
    return ast.fix_missing_locations(tree)


def sample(count: int, seed: int, folder: Path = CORE) -> list[Mutant]:
    """So many mutants of all files, drawn from all of them alike."""
    every = [mutant for file in sorted(folder.rglob("*.py")) for mutant in mutants_of(file)]
    return random.Random(seed).sample(every, min(count, len(every)))  # noqa: S311  chance, no secret


def interval(killed: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson)."""
    if not of:
        return 0.0, 1.0
    z, share = 1.96, killed / of
    middle = share + z * z / (2 * of)
    spread = z * (share * (1 - share) / of + z * z / (4 * of * of)) ** 0.5
    return (middle - spread) / (1 + z * z / of), (middle + spread) / (1 + z * z / of)


Node = ast.expr | ast.stmt


def _places(tree: ast.Module) -> Iterator[tuple[Node, int, str]]:
    """Every node that can be changed, which of its parts, and what kind of change it is."""
    for node in _relevant(tree):
        match node:
            case ast.Compare(ops=ops):
                yield from ((node, at, "comparison") for at, op in enumerate(ops) if type(op) in COMPARISONS)
            case ast.BoolOp():
                yield node, 0, "connective"
            case ast.UnaryOp(op=ast.Not()):
                yield node, 0, "negation"
            case ast.BinOp(op=op) if type(op) in ARITHMETIC and not _is_text(node):
                yield node, 0, "arithmetic"
            case ast.AugAssign(op=op) if type(op) in ARITHMETIC:
                yield node, 0, "arithmetic"
            case ast.Constant(value=bool() | int() | float()):
                yield node, 0, "constant"
            case ast.Return(value=ast.expr() as value) if not _is_none(value):
                yield node, 0, "result"
            case _:
                pass


def _relevant(node: ast.AST) -> Iterator[Node]:
    """All expressions and statements that decide something."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_params"} or isinstance(node, ast.JoinedStr):
            continue
        if isinstance(node, ast.ClassDef) and name == "keywords":
            continue  # frozen, as a decorator would say it
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.Assert | ast.Import | ast.ImportFrom) or not isinstance(child, ast.AST):
                continue
            if isinstance(child, ast.expr | ast.stmt):
                yield child
            yield from _relevant(child)


def _is_text(node: ast.BinOp) -> bool:
    sides: Sequence[ast.expr] = (node.left, node.right)
    return any(isinstance(one, ast.JoinedStr) or isinstance(getattr(one, "value", None), str) for one in sides)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _changed(node: Node, at: int) -> Node:
    new = copy.deepcopy(node)
    match new:
        case ast.Compare(ops=ops):
            ops[at] = COMPARISONS[type(ops[at])]()
        case ast.BoolOp(op=op):
            new.op = ast.Or() if isinstance(op, ast.And) else ast.And()
        case ast.UnaryOp(operand=operand):
            return operand
        case ast.BinOp(op=op) | ast.AugAssign(op=op):
            new.op = ARITHMETIC[type(op)]()
        case ast.Constant(value=bool(value)):
            new.value = not value
        case ast.Constant(value=int() | float() as value):
            new.value = value + 1 if abs(value) < LARGE else value * 2
        case ast.Return(value=ast.Constant(value=bool(value))):
            new.value = ast.Constant(value=not value)
        case ast.Return():
            new.value = ast.Constant(value=None)
        case _:
            raise AssertionError(f"{type(new).__name__} is no place")
    return new
