"""What does a reply mean in its provider's dialect? Rules over status, headers and body; the first that matches wins.

A rule is two JMESPath expressions, compiled and checked when the configuration is read. The common dialects
(`dialects.py`) come after an owner's own rules, so that most sources need none.
"""

import operator
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import jmespath
import msgspec
from jmespath.exceptions import JMESPathError

from remora.core.errors import ConfigurationError
from remora.core.quota_headers import wait_of
from remora.core.translation import NOTHING_SAID, Means, Translation
from remora.core.verdict import Reply
from remora.sources.json_path import holds_more_than, without_guard

# What a rule can look at, and how much of a body that is not JSON.
PLACES: Final = ("status", "headers", "body")
TEXT_MAX_CHARACTERS: Final = 4_096
BODY_VALUES_MAX: Final = 500_000
EXAMPLE: Final = "status == `403` && body.error == 'ratelimited'"
# Long enough to be rare in a good answer, short enough to be shared by several rules.
FRAGMENT_BYTES: Final = 4
# The parts of an expression that are looked up inside its first part, not in the reply.
_INSIDE_THE_FIRST: Final = frozenset(
    {"subexpression", "index_expression", "pipe", "projection", "filter_projection", "value_projection", "flatten"}
)
STATUSES: Final = frozenset(range(100, 600))
_COMPARED: Final = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lte": operator.le,
    "gt": operator.gt,
    "gte": operator.ge,
}

Node = Mapping[str, Any]


class Rule(msgspec.Struct, frozen=True):
    """One rule, as it is written in `[[sources.NAME.rules]]`."""

    when: str
    means: Means
    wait: str | None = None

    def __post_init__(self) -> None:
        _check_expression(self.when, "when")
        _check_can_match(_parsed(self.when), self.when)
        if self.wait is None:
            return
        if self.means is not Means.PRESSURE:
            raise ConfigurationError(
                f'rules: wait is written beside means = "{self.means}", where nothing reads it',
                hint='leave wait out, or write means = "pressure"',
            )
        _check_expression(self.wait, "wait")
        _check_can_match(_parsed(self.wait), self.wait)


def ends_of(rules: Iterable[Rule]) -> tuple[str, ...]:
    """When these rules say that a list has ended."""
    return tuple(rule.when for rule in rules if rule.means is Means.END)


class CompiledRule:
    """A compiled rule. A body that matches holds all of these texts (`traces`); if there are none, any body may match."""

    __slots__ = ("_statuses", "_wait", "_when", "means", "traces")

    def __init__(self, rule: Rule, *, traces: Sequence[bytes] = ()) -> None:
        self._when = jmespath.compile(rule.when)
        self._wait = None if rule.wait is None else jmespath.compile(rule.wait)
        self._statuses = _statuses(self._when.parsed)
        self.means = rule.means
        self.traces = tuple(traces)

    def may_match(self, status: int) -> bool:
        """Whether the expression can be true for a reply with this status."""
        return status in self._statuses or status not in STATUSES

    def matches(self, seen: Mapping[str, object]) -> bool:
        """Whether the expression is true for this reply; false if it cannot be evaluated."""
        try:
            return bool(self._when.search(seen))
        except JMESPathError:
            return False

    def wait_ns(self, seen: Mapping[str, object], headers: Mapping[str, str], *, now_wall_ns: int) -> int | None:
        """How long the reply asks to wait; None if it does not say."""
        if self._wait is None:
            return None
        try:
            return wait_of(self._wait.search(seen), headers, now_wall_ns=now_wall_ns)
        except JMESPathError:
            return None


class Rules:
    """The rules of one source, in order."""

    def __init__(self, rules: Sequence[CompiledRule]) -> None:
        self._rules = tuple(rules)

    def hints(self, status: int) -> tuple[bytes, ...]:
        """Texts of which a body holds at least one, if a rule matches it with this status. An empty one is in any body."""
        rules = [rule for rule in self._rules if rule.may_match(status)]
        if any(not rule.traces for rule in rules):
            return (b"",)
        shared = Counter(trace for rule in rules for trace in rule.traces)
        return shared_fragments(max(rule.traces, key=shared.__getitem__) for rule in rules)

    def translate(self, reply: Reply, *, now_wall_ns: int) -> Translation:
        """What the first matching rule says; the body is only parsed if one of them may match."""
        seen: dict[str, object] | None = None
        for rule in self._rules:
            if not rule.may_match(reply.status) or not all(trace in reply.body for trace in rule.traces):
                continue
            if seen is None:
                seen = {"status": reply.status, "headers": dict(reply.headers), "body": body_of(reply.body)}
            if rule.matches(seen):
                return Translation(rule.means, rule.wait_ns(seen, reply.headers, now_wall_ns=now_wall_ns))
        return NOTHING_SAID


def shared_fragments(texts: Iterable[bytes]) -> tuple[bytes, ...]:
    """A few fragments of these texts, so that every text holds one of them: fewer searches than one for each text."""
    left, chosen = set(texts), list[bytes]()
    while left:
        pieces = {
            text[at : at + FRAGMENT_BYTES] for text in left for at in range(max(1, len(text) - FRAGMENT_BYTES + 1))
        }
        covers = {piece: sum(piece in text for text in left) for piece in pieces}
        best = max(covers, key=lambda piece: (covers[piece], piece))
        if covers[best] == 1:  # nothing in common: the whole text is found least often by chance
            best = max(left)
        chosen.append(best)
        left = {text for text in left if best not in text}
    return tuple(chosen)


def body_of(body: bytes) -> object:
    """The body as values where it is JSON, else the beginning of its text."""
    if holds_more_than(body, BODY_VALUES_MAX):
        return None
    try:
        return msgspec.json.decode(without_guard(body))
    except (ValueError, RecursionError):  # msgspec's own error is a ValueError
        return body[:TEXT_MAX_CHARACTERS].decode("utf-8", "replace")


def check_rules(rules: Sequence[Rule], where: str) -> None:
    """Refuse mistakes between rules: a rule after another one that matches the same replies."""
    seen: dict[str, int] = {}
    for position, rule in enumerate(rules, start=1):
        earlier = seen.setdefault(" ".join(rule.when.split()), position)
        if earlier != position:
            raise ConfigurationError(
                f"rule {position} of {where} can never match: rule {earlier} has the same when and comes first",
                hint="leave one of them out",
            )


def headers_named(rules: Sequence[Rule]) -> tuple[str, ...]:
    """The headers that the expressions look at: the transport keeps only the headers that are needed."""
    texts = [text for rule in rules for text in (rule.when, rule.wait) if text is not None]
    return tuple(sorted({name for text in texts for name in _headers_in(_parsed(text))}))


# ── what is wrong with an expression ────────────────────────────────────────────────────────────────────────────────


def _check_expression(text: str, key: str) -> None:
    try:
        jmespath.compile(text)
    except JMESPathError:
        bare = re.search(r"[=<>!]=?\s*-?[0-9]", text) is not None
        hint = "write numbers between backquotes, as status == `429`" if bare else f"write it as in {EXAMPLE}"
        raise ConfigurationError(f"rules: {key} is {text}, which is not a JMESPath expression", hint=hint) from None


def _check_can_match(tree: Node, text: str) -> None:
    names = list(_root_names(tree))
    strange = [name for name in names if name not in PLACES]
    if strange:
        raise ConfigurationError(
            f'rules: {text} looks at "{strange[0]}", which no reply has',
            hint=f"a rule sees status, headers and body; texts have single quotes, as in {EXAMPLE}",
        )
    if not names:
        raise ConfigurationError(f"rules: {text} looks at nothing of the reply", hint=f"write it as in {EXAMPLE}")
    for header in _headers_in(tree):
        if header != header.lower():
            raise ConfigurationError(
                f'rules: {text} can never match: the header "{header}" is kept in small letters',
                hint=f'write headers."{header.lower()}"',
            )
    for value in _compared_to_status(tree):
        if isinstance(value, bool) or not isinstance(value, int) or not 100 <= value <= 599:
            raise ConfigurationError(
                f"rules: {text} can never match: a status is a number from 100 to 599, not {value!r}",
                hint="write it between backquotes, as status == `429`",
            )
    if not _statuses(tree):
        raise ConfigurationError(
            f"rules: {text} can never match: no status fulfils all of it",
            hint="join statuses with ||, or write two rules",
        )


def _parsed(text: str) -> Node:
    tree: Node = jmespath.compile(text).parsed
    return tree


def _root_names(node: Node) -> Iterator[str]:
    """The names that are looked up in the reply itself."""
    if node["type"] == "field":
        yield node["value"]
    children = node["children"][:1] if node["type"] in _INSIDE_THE_FIRST else node["children"]
    for child in children:
        yield from _root_names(child)


def _headers_in(node: Node) -> Iterator[str]:
    children = node["children"]
    if node["type"] == "subexpression" and children[0] == {"type": "field", "children": [], "value": "headers"}:
        if children[1]["type"] == "field":
            yield children[1]["value"]
        return
    for child in children:
        yield from _headers_in(child)


def _statuses(node: Node) -> frozenset[int]:
    """The statuses with which an expression may be true. What depends on headers or body may be true with all of them."""
    children = node["children"]
    match node["type"]:
        case "and_expression":
            return _statuses(children[0]) & _statuses(children[1])
        case "or_expression":
            return _statuses(children[0]) | _statuses(children[1])
        case "comparator" if node["value"] in _COMPARED and [child["type"] for child in children] == [
            "field",
            "literal",
        ]:
            name, limit = children[0]["value"], children[1]["value"]
            is_told = name == "status" and isinstance(limit, int)
            return frozenset(s for s in STATUSES if _COMPARED[node["value"]](s, limit)) if is_told else STATUSES
        case _:
            return STATUSES


def _compared_to_status(node: Node) -> Iterator[object]:
    """The literals that the status is tested for being equal to."""
    children = node["children"]
    if node["type"] == "comparator" and node["value"] == "eq":
        kinds = {child["type"] for child in children}
        named = any(child["type"] == "field" and child["value"] == "status" for child in children)
        if kinds == {"field", "literal"} and named:
            yield next(child["value"] for child in children if child["type"] == "literal")
    for child in children:
        yield from _compared_to_status(child)
