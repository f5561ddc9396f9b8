"""Do the docs tell the truth, and all of it? What they name exists, and what exists is named by them."""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import msgspec
import pytest

import remora.operate.observe.metrics
from bench.other_results import OTHERS
from remora.operate.cli.main import main
from remora.operate.config.settings import Settings
from tests.docs_reader import ROOT, Page, anchor, command_words, exists_in_the_repository, page, pages
from tests.syntax import parsed

SELF_EXPLAINING_OPTIONS = frozenset({"--help", "--version"})
SERIES_SUFFIXES = ("_bucket", "_count", "_sum", "_total", "_created")


# -- the command line ------------------------------------------------------------------------------------------------


def test_every_command_shown_in_the_docs_exists() -> None:
    lines = [(shown.name, words) for shown in pages() for words in shown.command_lines]
    assert_none(f"{where}: {problem}" for where, words in lines for problem in problems(main, words))


def test_every_option_named_in_the_docs_exists() -> None:
    known = {option for _, command in commands(main) for option in options(command)} | SELF_EXPLAINING_OPTIONS
    assert_none(f"{shown.name}: {option}" for shown in pages() for option in shown.lone_options - known)


def test_every_command_and_every_option_is_documented() -> None:
    reference = required_page("docs/cli.md")
    assert_none(name for path, command in commands(main) for name in undocumented(reference, path, command))


# -- settings --------------------------------------------------------------------------------------------------------


def test_every_setting_is_documented() -> None:
    names = setting_names(Settings)
    text = required_page("docs/configuration.md").text
    assert_none(name for name in names if not re.search(rf"\b{re.escape(name)}\b", text))


def test_every_setting_named_in_the_docs_exists() -> None:
    known = setting_names(Settings)
    named = {cell.split(".")[-1].split(" ")[0] for cell in required_page("docs/configuration.md").first_cells}
    assert_none(name for name in named - known if re.fullmatch(r"[a-z][a-z_]*", name))


def test_every_configuration_shown_in_the_docs_has_only_known_settings() -> None:
    root = msgspec.inspect.type_info(Settings)
    shown = [(shown.name, tomllib.loads(block)) for shown in pages() for block in shown.blocks("toml")]
    assert_none(f"{where}: {name}" for where, settings in shown for name in unknown_settings(root, settings, ""))


# -- metrics ---------------------------------------------------------------------------------------------------------


def test_every_metric_is_documented() -> None:
    exported = metrics()
    documented = {series(name) for name in metric_words(required_page("docs/metrics.md").text)}
    assert_none(name for name in exported if series(name) not in documented)


def test_every_metric_named_in_the_docs_exists() -> None:
    known = {series(name) for name in metrics()}
    named = {(shown.name, name) for shown in pages() for name in metric_words(" ".join(shown.spans))}
    assert_none(f"{where}: {name}" for where, name in named if series(name) not in known)


# -- paths, links, make ----------------------------------------------------------------------------------------------


def test_every_path_named_in_the_docs_exists() -> None:
    named = {(shown.name, shown.path.parent, path) for shown in pages() for path in shown.repository_paths}
    assert_none(f"{where}: {path}" for where, beside, path in named if not exists_in_the_repository(path, beside))


def test_the_page_about_performance_ends_with_what_a_new_run_would_write_there() -> None:
    assert (ROOT / "docs/performance.md").read_text("utf-8").endswith(OTHERS)


def test_every_link_leads_somewhere() -> None:
    links = [(shown, target) for shown in pages() for target in shown.links]
    assert_none(f"{shown.name}: {target}" for shown, target in links if not leads_somewhere(shown, target))


def test_every_make_target_named_in_the_docs_exists() -> None:
    known = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert_none(f"{shown.name}: make {target}" for shown in pages() for target in shown.make_targets - known)


# -- is the reader itself awake? ---------------------------------------------------------------------------------------


@click.group()
@click.option("--config")
def example(config: str) -> None: ...


@example.group(invoke_without_command=True)
@click.option("--state")
def gaps(state: str) -> None: ...


@gaps.command()
@click.option("--all", "everything", is_flag=True)
def replay(*, everything: bool) -> None: ...


@pytest.mark.parametrize(
    "line, complaint",
    [
        (" gaps --state owed", ""),
        (" --config x gaps replay --all | head", ""),
        (" gaps [--state S | --config C]", ""),
        (" gasp", "there is no `remora gasp`"),
        (" gaps --sate owed", "`remora gaps` has no --sate"),
        (" gaps replay --state owed --none", "`remora gaps replay` has no --none"),
    ],
)
def test_a_command_that_does_not_exist_is_noticed(line: str, complaint: str) -> None:
    assert "; ".join(problems(example, command_words(line))) == complaint


def test_a_page_gives_up_what_it_claims() -> None:
    text = "# A `b` c\nSee [it](#a-b-c), `core/x.py`, `make demo`, `--all`.\n\n```console\n$ remora gaps \\\n  --all\nremora: no\n```\n"
    shown = Page(Path("x.md"), text)
    assert list(shown.command_lines) == [["gaps", "--all"]]
    assert (shown.lone_options, shown.make_targets, list(shown.links)) == ({"--all"}, {"demo"}, ["#a-b-c"])
    assert list(shown.repository_paths) == ["core/x.py"]
    assert shown.anchors == {anchor("A b c")}


def assert_none(findings: Iterable[str]) -> None:
    listed = sorted(set(findings))
    assert not listed, "\n".join(["", *listed])


# -- what exists -----------------------------------------------------------------------------------------------------


def commands(
    group: click.Group, path: tuple[str, ...] = ("remora",)
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, group
    for name, command in group.commands.items():
        if command.hidden:
            continue
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def options(command: click.Command) -> list[str]:
    """The long options of a command that are not hidden."""
    declared = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    names = [name for option in declared for name in (*option.opts, *option.secondary_opts)]
    return [name for name in names if name.startswith("--") and name not in SELF_EXPLAINING_OPTIONS]


def problems(main: click.Group, words: list[str]) -> Iterator[str]:
    """What is wrong with a shown command line. Words that follow an option or name a thing are not looked at."""
    command: click.Command = main
    path, allowed = ["remora"], {*options(main), *SELF_EXPLAINING_OPTIONS}
    previous_takes_a_value = False
    for word in words:
        if word.startswith("--"):
            name = word.split("=")[0]
            if name not in allowed:
                yield f"`{' '.join(path)}` has no {name}"
            previous_takes_a_value = "=" not in word and not is_flag(command, name)
        elif isinstance(command, click.Group) and not previous_takes_a_value and re.fullmatch(r"[a-z][a-z|-]*", word):
            names = word.split("|")
            unknown = [name for name in names if name not in command.commands]
            if unknown:
                yield f"there is no `{' '.join([*path, unknown[0]])}`"
                return
            command = command.commands[names[0]]
            path.append(names[0])
            allowed.update(options(command))
        else:
            previous_takes_a_value = False


def is_flag(command: click.Command, name: str) -> bool:
    found = (param for param in command.params if name in (*param.opts, *param.secondary_opts))
    return any(isinstance(param, click.Option) and (param.is_flag or param.count) for param in found)


def undocumented(reference: Page, path: tuple[str, ...], command: click.Command) -> Iterator[str]:
    """A command's name, or its options that neither its own section nor a common one explains."""
    name = " ".join(path)
    if not re.search(rf"\b{re.escape(name)}\b", reference.text):
        yield name
        return
    sections = reference.sections
    own = [text for title, text in sections if re.search(rf"`?{re.escape(name)}\b(?! [a-z])", title)]
    common = [text for title, text in sections if "remora " not in title]
    where = "\n".join([*own, *common]) if own else reference.text
    yield from (
        f"{name} {option}" for option in options(command) if not re.search(rf"{re.escape(option)}(?![\w-])", where)
    )


def setting_names(root: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for struct in structs(msgspec.inspect.type_info(root)) for field in struct.fields}


def structs(kind: msgspec.inspect.Type) -> Iterator[msgspec.inspect.StructType]:
    """Every struct that a configuration can hold, from its root down."""
    match kind:
        case msgspec.inspect.StructType(fields=fields):
            yield kind
            for field in fields:
                yield from structs(field.type)
        case msgspec.inspect.DictType(value_type=inner):
            yield from structs(inner)
        case msgspec.inspect.UnionType(types=inners):
            for inner in inners:
                yield from structs(inner)
        case msgspec.inspect.VarTupleType(item_type=inner):
            yield from structs(inner)
        case _:
            pass


def unknown_settings(kind: msgspec.inspect.Type, value: object, place: str) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    if isinstance(kind, msgspec.inspect.DictType):
        for key, inner in value.items():
            yield from unknown_settings(kind.value_type, inner, f"{place}{key}.")
        return
    fields = {field.encode_name: field.type for struct in shallow_structs(kind) for field in struct.fields}
    for key, inner in value.items():
        if fields and key not in fields:
            yield f"{place}{key}"
        elif key in fields:
            yield from unknown_settings(fields[key], inner, f"{place}{key}.")


def shallow_structs(kind: msgspec.inspect.Type) -> list[msgspec.inspect.StructType]:
    kinds = kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
    return [inner for inner in kinds if isinstance(inner, msgspec.inspect.StructType)]


def metrics() -> set[str]:
    """The names in the metrics module, read from its text: what is written there is what is exported."""
    source = Path(remora.operate.observe.metrics.__file__).read_text()
    texts = [node.value for node in ast.walk(parsed(source)) if isinstance(node, ast.Constant)]
    found = {text for text in texts if isinstance(text, str) and re.fullmatch(r"remora_[a-z0-9_]+", text)}
    assert found, "remora.operate.observe.metrics names no metric that begins with remora_"
    return found


def metric_words(text: str) -> set[str]:
    return set(re.findall(r"\bremora_[a-z0-9_]+\b", text))


def series(name: str) -> str:
    """A metric's name without what Prometheus adds to it."""
    return next((name.removesuffix(suffix) for suffix in SERIES_SUFFIXES if name.endswith(suffix)), name)


def leads_somewhere(shown: Page, target: str) -> bool:
    place, _, fragment = target.partition("#")
    path = (shown.path.parent / place).resolve() if place else shown.path
    if not path.exists():
        return False
    return not fragment or path.suffix != ".md" or fragment in Page(path, path.read_text()).anchors


def required_page(name: str) -> Page:
    found = page(name)
    assert found is not None, f"{name} is missing"
    return found
