"""Is a rule checked when it is read, and does the first that matches decide?"""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.errors import ConfigurationError
from remora.core.item import Page
from remora.core.reasons import GapReason
from remora.core.translation import Means, Translation
from remora.core.units import SECOND_NS
from remora.core.verdict import Found, Malformed, Missing, Pressure, Refused, Reply, Trouble, Verdict, classify
from remora.operate.config.reader import read_source
from remora.sources.dialects import COMMON, Dialects
from remora.sources.rules import CompiledRule, Rule, Rules, headers_named, shared_fragments

NOW_NS = 1_790_000_000 * SECOND_NS


def reply(status: int = 200, body: bytes = b"{}", **headers: str) -> Reply:
    return Reply(status, body, 0, 1, {name.replace("_", "-"): text for name, text in headers.items()})


def rule(when: str, means: Means = Means.PRESSURE, wait: str | None = None) -> Rule:
    return Rule(when, means, wait)


def said(rules: list[Rule], to: Reply) -> Translation:
    return Rules([CompiledRule(each) for each in rules]).translate(to, now_wall_ns=NOW_NS)


def test_the_first_rule_that_matches_wins() -> None:
    rules = [rule("status == `400`", Means.MISSING), rule("status >= `400`", Means.TROUBLE)]
    assert said(rules, reply(400)).means is Means.MISSING
    assert said(rules, reply(401)).means is Means.TROUBLE
    assert said(rules, reply(200)).means is None


@pytest.mark.parametrize(
    "body, wait, wait_ns",
    [
        (b'{"s": 7}', "body.s", 7 * SECOND_NS),
        (b'{"s": 0.5}', "body.s", SECOND_NS // 2),
        (b'{"s": "7"}', "body.s", 7 * SECOND_NS),
        (b'{"s": 1790000060}', "body.s", 60 * SECOND_NS),
        (b'{"s": "2026-09-21T14:14:20Z"}', "body.s", 60 * SECOND_NS),
        (b'{"s": true}', "body.s", None),
        (b'{"s": [1]}', "body.s", None),
        (b"{}", "body.s", None),
        (b"{}", 'headers."x-wait"', 9 * SECOND_NS),
    ],
)
def test_a_wait_is_read_as_seconds_a_moment_or_a_date(body: bytes, wait: str, wait_ns: int | None) -> None:
    found = said([rule("status == `200`", wait=wait)], reply(body=body, x_wait="9"))
    assert found.wait_ns == (None if wait_ns is None else pytest.approx(wait_ns, abs=60 * SECOND_NS * 20))
    if wait_ns is not None and "2026" not in str(body):
        assert found.wait_ns == wait_ns


@pytest.mark.parametrize(
    "means, verdict",
    [
        (Means.PRESSURE, Pressure(GapReason.RATE_LIMITED, 3 * SECOND_NS)),
        (Means.REFUSED, Refused(GapReason.FORBIDDEN)),
        (Means.MISSING, Missing(GapReason.NOT_FOUND)),
        (Means.GONE, Missing(GapReason.GONE)),
        (Means.TROUBLE, Trouble(GapReason.SERVER_ERROR)),
        (Means.MALFORMED, Malformed(GapReason.MALFORMED)),
        (Means.END, Found(Page((), None))),
    ],
)
def test_what_a_rule_says_counts_before_the_status(means: Means, verdict: Verdict) -> None:
    found = classify(
        reply(200, retry_after="3"),
        None,
        behind_newest=None,
        now_wall_ns=NOW_NS,
        said=Translation(means),
        is_page=True,
    )
    assert found == verdict


def test_an_end_that_is_no_page_is_a_missing_item() -> None:
    found = classify(reply(), None, behind_newest=None, now_wall_ns=NOW_NS, said=Translation(Means.END))
    assert found == Missing(GapReason.NOT_FOUND)


def test_a_body_that_is_no_json_is_seen_as_its_text() -> None:
    assert said([rule("contains(body, 'slow down')")], reply(body=b"<p>please slow down</p>")).means is Means.PRESSURE


def test_an_expression_that_does_not_fit_a_reply_does_not_match_it() -> None:
    assert said([rule("contains(body.a, 'x')")], reply(body=b'{"a": 5}')).means is None


@given(st.integers(100, 599), st.binary(max_size=60))
def test_no_reply_is_too_strange_for_the_common_dialects(status: int, body: bytes) -> None:
    odd = reply(status, body + b'"quota_remaining" rate limit ratelimited')
    found = Dialects().translate(odd, now_wall_ns=NOW_NS)
    assert found.means in {None, Means.PRESSURE}


@pytest.mark.parametrize(
    "body, headers, wait_s",
    [
        (b'{"retry_after": 5}', {}, 5),
        (b'{"ok": false, "parameters": {"retry_after": 5}}', {}, 5),
        (b'{"retry_after": 5}', {"retry-after": "7"}, 7),
        (b'{"retry_after": "soon"}', {}, None),
    ],
)
def test_a_429_may_name_its_wait_in_its_body(body: bytes, headers: dict[str, str], wait_s: int | None) -> None:
    found = Dialects().translate(reply(429, body, **headers), now_wall_ns=NOW_NS)
    assert found.means is Means.PRESSURE
    assert found.wait_ns == (None if wait_s is None else wait_s * SECOND_NS)
    assert Dialects().translate(reply(200, body), now_wall_ns=NOW_NS).means is None


def test_the_headers_that_rules_look_at_are_known() -> None:
    rules = [rule("headers.\"x-left\" == '0' && body.a", wait="headers.soon"), rule("status == `403`")]
    assert headers_named(rules) == ("soon", "x-left")


@pytest.mark.parametrize(
    "written, complaint, hint",
    [
        ({"when": "status = 5", "means": "pressure"}, "not a JMESPath expression", "backquotes"),
        ({"when": "body.[", "means": "pressure"}, "not a JMESPath expression", "write it as in"),
        ({"when": "status == 429", "means": "pressure"}, "not a JMESPath expression", "status == `429`"),
        ({"when": "status == '429'", "means": "pressure"}, "can never match", "status == `429`"),
        (
            {"when": "status == `200` && body.a && status == `429`", "means": "pressure"},
            "can never match: no status fulfils all of it",
            "join statuses with ||",
        ),
        ({"when": "status < `400` && (status == `404` || status > `499`)", "means": "end"}, "no status fulfils", "||"),
        ({"when": "body.a && status == `4290`", "means": "pressure"}, "can never match", "status == `429`"),
        ({"when": 'status == "429"', "means": "pressure"}, 'looks at "429"', "single quotes"),
        ({"when": "error == 'x'", "means": "pressure"}, 'looks at "error"', "status, headers and body"),
        ({"when": "headers.\"Retry-After\" == '1'", "means": "pressure"}, "small letters", '"retry-after"'),
        ({"when": "`true`", "means": "pressure"}, "looks at nothing", "write it as in"),
        ({"when": "status == `429`", "means": "slower"}, "slower", "pressure"),
        ({"when": "status == `429`"}, "has no means", "means"),
        ({"when": "status == `429`", "means": "pressure", "wait": "body.("}, "not a JMESPath", "write it as in"),
        ({"when": "status == `404`", "means": "missing", "wait": "body.s"}, "where nothing reads it", "leave wait out"),
        ({"when": "status == `429`", "means": "pressure", "for": "5s"}, "for", "known"),
    ],
)
def test_a_rule_that_cannot_work_is_refused_with_what_to_write(written: object, complaint: str, hint: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_source("chats", {"kind": "listed", "url": "https://a.example", "rules": [written]})
    assert complaint in refused.value.message
    if hint != "known":
        assert hint in f"{refused.value.hint}"


def test_a_rule_behind_one_that_matches_the_same_is_refused() -> None:
    twice = [{"when": "status == `403`", "means": "pressure"}, {"when": "status  == `403`", "means": "refused"}]
    with pytest.raises(ConfigurationError, match=r"rule 2 of sources\.chats can never match"):
        read_source("chats", {"kind": "listed", "url": "https://a.example", "rules": twice})


def test_rules_are_read_from_the_file() -> None:
    table = {"kind": "listed", "url": "https://a.example"}
    rules = [{"when": "body.ok == `false`", "means": "pressure", "wait": 'headers."retry-after"'}]
    (found,) = read_source("chats", {**table, "rules": rules}).rules
    assert msgspec.to_builtins(found) == rules[0]


@given(st.lists(st.text("abcLimit ", min_size=1, max_size=12), max_size=12))
def test_every_text_holds_one_of_the_fragments_that_are_looked_for_first(texts: list[str]) -> None:
    traces = [text.encode() for text in texts]
    fragments = shared_fragments(traces)
    assert all(any(fragment in trace for fragment in fragments) for trace in traces)
    assert len(fragments) <= len(set(traces))


def test_one_search_excludes_the_common_rules_in_a_good_answer() -> None:
    assert Rules(COMMON).hints(200) == (b'"error',)


def test_a_body_that_a_rule_matches_holds_one_of_the_texts_that_are_looked_for_first() -> None:
    traces = [rule.traces for rule in COMMON]
    assert all(traces)
    for status in (200, 400, 403, 503, 999):
        hints = Rules(COMMON).hints(status)
        for rule in COMMON:
            body = b" ".join(rule.traces)
            assert not rule.may_match(status) or any(hint in body for hint in hints)
        assert len(hints) <= len(COMMON) // 2


@pytest.mark.parametrize(
    "when, status",
    [
        ("status == `403`", 403),
        ("status > `403` || body.a", 200),
        ("!(status == `200`)", 404),
        ("body.a && (status == `400` || status == `403`)", 400),
        ("status >= `500`", 777),  # no status that a rule may name; the expression decides
    ],
)
def test_a_rule_is_asked_about_every_status_with_which_it_can_match(when: str, status: int) -> None:
    rules = [rule("status == `299`", Means.TROUBLE), rule(when, Means.MISSING)]
    assert said(rules, reply(status, b'{"a": true}')).means is Means.MISSING
