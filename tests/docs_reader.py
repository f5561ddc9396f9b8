"""What does a Markdown page claim? This file takes out of it the commands, options, paths, links and settings it names."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "remora"
FENCE = re.compile(
    r"^(?P<mark>```+|~~~+)(?P<language>[\w-]*)[^\n]*\n(?P<body>.*?)^(?P=mark)\s*$", re.MULTILINE | re.DOTALL
)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)[^)]*\)")
HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*$", re.MULTILINE)
COMMAND_LINE = re.compile(r"^(?:\$ |> )?(?:[A-Z_]+=\S+ )*(?:\S*/|python3? -m )?remora(?P<rest>(?: .*)?)$")
PATH = re.compile(r"^\.?[\w-][\w.-]*(?:/[\w.*-]+)*/?$")
SHELL_ENDS = frozenset({"|", "||", "&&", ";", ">", ">>", "<", "&", "2>", "2>&1", "#"})
OUR_SUFFIXES = frozenset({".css", ".html", ".js", ".md", ".py", ".service", ".sql", ".txt"})


@dataclass(frozen=True)
class Page:
    """One page of the documentation."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix() if self.path.is_relative_to(ROOT) else self.path.name

    @cached_property
    def prose(self) -> str:
        """The page without its fenced blocks."""
        return FENCE.sub("", self.text)

    @cached_property
    def spans(self) -> list[str]:
        """What stands in backticks inside the prose."""
        return [span.replace(r"\|", "|").strip() for span in SPAN.findall(self.prose)]

    def blocks(self, *languages: str) -> list[str]:
        """The fenced blocks in one of these languages."""
        return [match["body"] for match in FENCE.finditer(self.text) if match["language"] in languages]

    @property
    def command_lines(self) -> Iterator[list[str]]:
        """The words after `remora` of every command the page shows, in a block or in backticks."""
        shown = [line for block in self.blocks("", "console", "sh", "bash", "shell", "text") for line in _joined(block)]
        for line in (*shown, *self.spans):
            if (match := COMMAND_LINE.match(line.strip())) and _is_a_call(match["rest"]):
                yield command_words(match["rest"])

    @property
    def lone_options(self) -> set[str]:
        """Long options that stand in backticks on their own."""
        return {span.split()[0].split("=")[0] for span in self.spans if re.match(r"--[a-z]", span)}

    @property
    def make_targets(self) -> set[str]:
        shown = [
            line.removeprefix("$ ") for block in self.blocks("", "console", "sh", "bash") for line in _joined(block)
        ]
        return {match[1] for line in (*shown, *self.spans) if (match := re.match(r"make ([a-z]+)\b", line))}

    @property
    def repository_paths(self) -> Iterator[str]:
        """What stands in backticks and looks like a file or folder of this repository."""
        ours = {entry.name for folder in (ROOT, PACKAGE) if folder.exists() for entry in folder.iterdir()}
        for span in self.spans:
            first = span.split("/", maxsplit=1)[0]
            is_ours = first in ours and "/" in span
            if PATH.match(span) and first not in {".venv", "demo"} and (is_ours or Path(span).suffix in OUR_SUFFIXES):
                yield span

    @property
    def links(self) -> Iterator[str]:
        """Links to other places of this repository."""
        for match in LINK.finditer(self.prose):
            if not re.match(r"[a-z]+:", match["target"]):
                yield match["target"]

    @cached_property
    def anchors(self) -> set[str]:
        return {anchor(title) for _, title in HEADING.findall(self.prose)}

    @property
    def sections(self) -> list[tuple[str, str]]:
        """Title and text of every section; a section ends where the next heading begins."""
        marks = list(HEADING.finditer(self.text))
        ends = [*(mark.start() for mark in marks[1:]), len(self.text)]
        return [(mark[2], self.text[mark.end() : end]) for mark, end in zip(marks, ends, strict=True)]

    @property
    def first_cells(self) -> set[str]:
        """The names in backticks in the first column of the page's tables."""
        rows = re.findall(r"^\|([^|]+)\|", self.prose, re.MULTILINE)
        return {name for row in rows for name in SPAN.findall(row)}


def pages() -> list[Page]:
    """The documentation as it is now. The changelog is left out: it may name what no longer exists."""
    at_the_root = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
    paths = [*at_the_root, *sorted((ROOT / "docs").rglob("*.md"))]
    return [Page(path, path.read_text()) for path in paths if path.exists()]


def page(name: str) -> Page | None:
    """One page by its path from the root, if it is there."""
    return next((found for found in pages() if found.name == name), None)


def anchor(title: str) -> str:
    """The name by which a heading can be linked to."""
    plain = re.sub(r"[^\w\- ]", "", title.replace("`", "").lower())
    return plain.strip().replace(" ", "-")


def exists_in_the_repository(path: str, beside: Path) -> bool:
    """Whether a path, which may hold a `*`, names something here: from the root, the package, or the page's folder."""
    wanted = path.rstrip("/")
    if any(any(folder.glob(wanted)) for folder in (ROOT, PACKAGE, beside) if folder.exists()):
        return True
    folders = [ROOT / name for name in ("src", "tests", "tools", "bench", "docs")]
    return "/" not in wanted and any(any(folder.rglob(wanted)) for folder in folders)


def command_words(rest: str) -> list[str]:
    """The words of a command line, up to the shell's next word; brackets of a usage line are taken off."""
    is_usage = "[" in rest
    words: list[str] = []
    for word in _split(re.sub(r"[\[\]]", " ", rest) if is_usage else rest):
        if word in SHELL_ENDS and not (is_usage and word == "|"):
            break
        words.append(word)
    return [word for word in words if word != "|"]


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()


def _is_a_call(rest: str) -> bool:
    """Whether this is the command and not a sentence or an output that begins with its name."""
    words = rest.split()
    return bool(words) and re.match(r"^[\[a-z-]", words[0]) is not None and not words[0].endswith((":", ",", "."))


def _joined(block: str) -> list[str]:
    """The lines of a block, those ending in a backslash joined with the next."""
    return block.replace("\\\n", " ").splitlines()
