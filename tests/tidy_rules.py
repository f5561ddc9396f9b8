"""Which of our habits can a program check? The ones in this file: each rule is a function from a module to its findings.

`test_tidy` applies them to the whole tree, and to planted mistakes, so that a rule that has gone blind is noticed too.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from tests.syntax import parsed

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
PARAMETERS_MAX = 8
CLOCK_CHANCE_LOGGING_IO = frozenset(
    [
        "aiohttp",
        "asyncio",
        "io",
        "logging",
        "os",
        "pathlib",
        "psycopg",
        "random",
        "secrets",
        "socket",
        "sqlite3",
        "ssl",
        "structlog",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "uuid",
        "http.client",
        "urllib.request",
    ]
)
CLIENT_LIBRARIES = frozenset(
    [
        "aiohttp",
        "ftplib",
        "http.client",
        "httpcore",
        "httpx",
        "pycurl",
        "requests",
        "smtplib",
        "telnetlib",
        "urllib.request",
        "urllib3",
    ]
)
CONNECTING_CALLS = frozenset({"create_connection", "create_unix_connection", "open_connection", "sock_connect"})
STATUS_CODES = range(100, 600)
BROAD = frozenset({"BaseException", "Exception"})

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef

# A statement at the start of a text, in capitals or in small letters; English sentences have neither.
DATA_SQL = re.compile(
    r"""\s*(?:--[^\n]*\n\s*)*(?:
    (?:WITH\s+(?:RECURSIVE\s+)?\w+\s+AS) | (?:SELECT\s.*\sFROM\s) | (?:SELECT\s+[\w*]+\() | (?:INSERT\s+(?:OR\s+\w+\s+)?INTO)
    | (?:REPLACE\s+INTO) | (?:UPDATE\s+\w+\s+SET) | (?:DELETE\s+FROM) | (?:ALTER\s+TABLE) | (?:TRUNCATE\s+\w+)
    | (?:(?:CREATE|DROP)\s+(?:UNIQUE\s+|VIRTUAL\s+|TEMP\s+|UNLOGGED\s+)*(?:TABLE|INDEX|VIEW|TRIGGER|SCHEMA|SEQUENCE))
    | (?:insert\s+into\s) | (?:delete\s+from\s) | (?:create\s+table\s) | (?:update\s+\w+\s+set\s)
    )""",
    re.VERBOSE | re.DOTALL,
)
CONTROL_SQL = re.compile(r"\s*(?:PRAGMA\s+\w+|BEGIN\s+IMMEDIATE|SAVEPOINT\s|VACUUM\s+INTO|LISTEN\s|NOTIFY\s)")


@dataclass(frozen=True)
class Module:
    """One Python file: where it lies, seen from the repository's root, and what it says."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return parsed(self.text, self.path)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @property
    def functions(self) -> Iterator[AnyFunction]:
        return (node for node in self.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))

    @property
    def imports(self) -> Iterator[tuple[int, str]]:
        """Line and full dotted name of everything imported."""
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)

    def lies_in(self, *places: str) -> bool:
        """Whether this is one of the files, or inside one of the folders."""
        return any(PurePosixPath(self.path).is_relative_to(place) for place in places)

    def finding(self, line: int, what: str) -> str:
        return f"{self.path}:{line}: {what}"


def long_files(module: Module) -> Iterator[str]:
    lines = module.text.count("\n")
    if lines > FILE_LINES_MAX:
        yield module.finding(lines, f"{lines} lines, at most {FILE_LINES_MAX}: there are two ideas in it")


def long_functions(module: Module) -> Iterator[str]:
    for function in module.functions:
        lines = function_lines(function)
        if lines > FUNCTION_LINES_MAX:
            yield module.finding(function.lineno, f"{function.name} has {lines} lines, at most {FUNCTION_LINES_MAX}")


def function_lines(function: AnyFunction) -> int:
    """The length of a function without its decorators."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def many_parameters(module: Module) -> Iterator[str]:
    for function in module.functions:
        arguments = function.args
        named = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        count = len([name for name in named if name not in {"self", "cls"}])
        if count > PARAMETERS_MAX:
            yield module.finding(function.lineno, f"{function.name} has {count} parameters, at most {PARAMETERS_MAX}")


def missing_opening(module: Module) -> Iterator[str]:
    """Every module that says anything opens with the question it answers."""
    opening = ast.get_docstring(module.tree) or ""
    first_line = opening.split("\n\n", maxsplit=1)[0]
    if module.text.strip() and not re.search(r"[.?](\s|$)", first_line):
        yield module.finding(1, "open with a docstring whose first sentence says which question the module answers")


def impure_core(module: Module) -> Iterator[str]:
    """The core decides; it neither looks at a clock, nor throws dice, nor talks to anybody."""
    if not module.lies_in("src/remora/core"):
        return
    for line, name in module.imports:
        if _is_or_is_inside(name, CLOCK_CHANCE_LOGGING_IO):
            yield module.finding(line, f"the core imports {name}")
    for node in module.nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr="now" | "utcnow" | "today" as name)):
                yield module.finding(node.lineno, f"the core asks a clock: {name}()")
            case ast.Call(func=ast.Name(id="open" | "print" | "input" as name)):
                yield module.finding(node.lineno, f"the core does I/O: {name}()")
            case ast.AsyncFunctionDef() | ast.Await():
                yield module.finding(node.lineno, "the core waits")
            case _:
                pass


def stray_sql(module: Module) -> Iterator[str]:
    """SQL lives in the stores, and there in .sql files; a store's code may only begin, commit and set pragmas."""
    if not module.lies_in("src"):
        return
    in_a_store = module.lies_in("src/remora/stores")
    openings = _docstrings(module.tree)
    for node in module.nodes:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or node in openings:
            continue
        if DATA_SQL.match(node.value) or (not in_a_store and CONTROL_SQL.match(node.value)):
            where = "move it into the store's .sql file" if in_a_store else "only stores hold SQL"
            yield module.finding(node.lineno, f"SQL in Python code: {where}")


def stray_connections(module: Module) -> Iterator[str]:
    """Only the HTTP source opens an outgoing connection; the console's server may serve with the same library."""
    if not module.lies_in("src") or module.lies_in("src/remora/sources/transport"):
        return
    serves = module.lies_in("src/remora/operate")
    for line, name in module.imports:
        if _is_or_is_inside(name, CLIENT_LIBRARIES) and not (serves and _is_or_is_inside(name, {"aiohttp.web"})):
            yield module.finding(line, f"imports {name}: only sources/transport opens outgoing connections")
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and node.attr in CONNECTING_CALLS:
            yield module.finding(node.lineno, f"{node.attr}: only sources/transport opens outgoing connections")


def stray_status_codes(module: Module) -> Iterator[str]:
    """Only the verdict knows what a status code means; the simulated provider, being the other side, invents them."""
    if not module.lies_in("src") or module.lies_in("src/remora/core/verdict.py", "src/remora/sim"):
        return
    for node in module.nodes:
        sides: list[ast.AST]
        match node:
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
            case ast.Match(subject=subject, cases=cases):
                sides = [subject, *(case.pattern for case in cases)]
            case _:
                continue
        if any(_names_a_status(side) for side in sides) and any(_holds_a_code(side) for side in sides):
            yield module.finding(node.lineno, "compares a status code: only core/verdict.py does")


def stray_environment(module: Module) -> Iterator[str]:
    """Settings are read once, where they enter."""
    if not module.lies_in("src") or module.lies_in("src/remora/operate"):
        return
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"}:
            yield module.finding(node.lineno, "reads the environment: only operate does")


def swallowed_errors(module: Module) -> Iterator[str]:
    for node in module.nodes:
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        broad = any(kind is None or (isinstance(kind, ast.Name) and kind.id in BROAD) for kind in caught)
        if broad and all(_does_nothing(statement) for statement in node.body):
            yield module.finding(node.lineno, "a broad except that does nothing hides our own mistakes")


def mocks(module: Module) -> Iterator[str]:
    """A fake that passes the contract suite instead of a mock."""
    for line, name in module.imports:
        if _is_or_is_inside(name, {"unittest.mock", "mock", "pytest_mock"}):
            yield module.finding(line, f"imports {name}: use a fake that passes the contract suite")


def factless_tests(module: Module) -> Iterator[str]:
    """A test shows one fact: it asserts, expects an error, or calls something whose name says that it does."""
    for function in module.functions:
        if module.lies_in("tests") and function.name.startswith("test_") and not _shows_a_fact(function):
            yield module.finding(function.lineno, f"{function.name} asserts nothing")


RULES = (
    long_files,
    long_functions,
    many_parameters,
    missing_opening,
    impure_core,
    stray_sql,
    stray_connections,
    stray_status_codes,
    stray_environment,
    swallowed_errors,
    mocks,
    factless_tests,
)


def _is_or_is_inside(name: str, modules: frozenset[str] | set[str]) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in modules)


def _docstrings(tree: ast.Module) -> set[ast.AST]:
    """The texts that stand alone as statements: they explain, nobody runs them."""
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def _names_a_status(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return "status" in name.lower()
        case _:
            return False


def _holds_a_code(node: ast.AST) -> bool:
    return any(
        (isinstance(part, ast.Constant) and type(part.value) is int and part.value in STATUS_CODES)
        or (isinstance(part, ast.Name) and part.id == "HTTPStatus")
        for part in ast.walk(node)
    )


def _does_nothing(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass | ast.Continue) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def _shows_a_fact(function: AnyFunction) -> bool:
    telling = re.compile(r"^_?(assert|check|expect|prove|raises|run_state_machine|fail)")
    for node in ast.walk(function):
        match node:
            case ast.Assert():
                return True
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if telling.search(name):
                return True
            case _:
                pass
    return False
