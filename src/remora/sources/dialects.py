"""How do common providers say "too many requests" without a 429? Rules that every source has after its own."""

from collections.abc import Sequence
from typing import Final

import msgspec

from remora.core.quota import Quota
from remora.core.quota_headers import wait_of
from remora.core.translation import NOTHING_SAID, Means, Translation
from remora.core.units import DAY_NS
from remora.core.verdict import Reply
from remora.sources.rules import CompiledRule, Rule, Rules

_RETRY_AFTER: Final = 'headers."retry-after"'
_MESSAGE: Final = "not_null(body.message, body.error.message, body.errors[0].message, body.error_description, body.detail, body.error, body)"
_IN_SO_MANY_WORDS: Final = ("rate limit", "Rate limit", "too many requests", "Too many requests", "Too Many Requests")
_GOOGLE: Final = ("userRateLimitExceeded", "rateLimitExceeded", "quotaExceeded", "dailyLimitExceeded")


def _pressure(when: str, *traces: str, wait: str = _RETRY_AFTER) -> CompiledRule:
    return CompiledRule(Rule(when, Means.PRESSURE, wait), traces=[trace.encode() for trace in traces])


# The field in which all of them say it with any status. Good answers rarely have one: one search excludes all of these.
_ERROR: Final = '"error'

_WAIT_INSIDE: Final = "not_null(body.retry_after, body.parameters.retry_after, body.error.retry_after)"

COMMON: Final = (
    # Telegram and others, which name the wait in the body of their 429, in seconds, and not in a header
    _pressure(f"status == `429` && {_WAIT_INSIDE}", '"retry_after"', wait=f"not_null({_RETRY_AFTER}, {_WAIT_INSIDE})"),
    # Slack, inside a 200
    _pressure("body.ok == `false` && body.error == 'ratelimited'", _ERROR, "ratelimited"),
    # Wikipedia and every other MediaWiki, inside a 200
    _pressure("contains(['maxlag', 'ratelimited'], body.error.code)", _ERROR, "maxlag"),
    _pressure("body.error.code == 'ratelimited'", _ERROR, "ratelimited"),
    # Gmail and other APIs of Google, as a 403
    *(_pressure(f"body.error.errors[?reason == '{reason}']", _ERROR, reason) for reason in _GOOGLE),
    _pressure("body.error.status == 'RESOURCE_EXHAUSTED'", _ERROR, "RESOURCE_EXHAUSTED"),
    # GraphQL of GitHub and of Shopify, inside a 200
    _pressure("body.errors[?type == 'RATE_LIMITED']", _ERROR, "RATE_LIMITED"),
    _pressure("body.errors[?extensions.code == 'THROTTLED']", _ERROR, "THROTTLED"),
    # Stack Exchange, as a 400
    _pressure("body.error_name == 'throttle_violation'", _ERROR, "throttle_violation"),
    # GitHub's secondary limit, and others that say it in words
    *(
        _pressure(f"(status == `400` || status == `403`) && contains({_MESSAGE}, '{words}')", words)
        for words in _IN_SO_MANY_WORDS
    ),
)


_QUOTA_LEFT: Final = b'"quota_remaining"'


class _Wrapper(msgspec.Struct):
    """What Stack Exchange puts around every answer."""

    quota_max: int
    quota_remaining: int
    backoff: float | None = None


_wrapper: Final = msgspec.json.Decoder(_Wrapper)


class Dialects:
    """An owner's rules, then the common ones, and the quota that a good answer has in its body."""

    def __init__(self, own: Sequence[Rule] = ()) -> None:
        self._rules = Rules((*(CompiledRule(rule) for rule in own), *COMMON))
        self._hints: dict[int, tuple[bytes, ...]] = {}  # by status

    def translate(self, reply: Reply, *, now_wall_ns: int) -> Translation:
        """What a reply means in the provider's dialect."""
        return NOTHING_SAID if self.is_silent(reply) else self._translate(reply, now_wall_ns)

    def is_silent(self, reply: Reply) -> bool:
        """Whether its body holds nothing that any rule looks for."""
        hints = self._hints.get(reply.status)
        if hints is None:
            hints = self._hints[reply.status] = (_QUOTA_LEFT, *self._rules.hints(reply.status))
        # This runs for every reply. A generator would cost as much as the searches, and `in` more: it tries the hint as a
        # number first.
        body = reply.body
        for hint in hints:  # noqa: SIM110
            if body.find(hint) >= 0:
                return False
        return True

    def _translate(self, reply: Reply, now_wall_ns: int) -> Translation:
        said = self._rules.translate(reply, now_wall_ns=now_wall_ns)
        if _QUOTA_LEFT not in reply.body:
            return said
        try:
            wrapper = _wrapper.decode(reply.body)
        except (ValueError, RecursionError):
            return said
        # It counts per day in UTC and gives no reset.
        until_midnight_ns = DAY_NS - now_wall_ns % DAY_NS
        quota = Quota(max(0, wrapper.quota_remaining), wrapper.quota_max, until_midnight_ns)
        pause_ns = wait_of(wrapper.backoff, reply.headers, now_wall_ns=now_wall_ns)
        return Translation(said.means, said.wait_ns if pause_ns is None else pause_ns, quota)
