"""How does a world's provider say "too many"? Not always with a 429: inside a 200, as a 403, as a 400, or by a rule of its own."""

import json
from dataclasses import replace
from enum import StrEnum
from random import Random
from typing import Final

from remora.core.translation import Means
from remora.sim.replies import Answer, Response
from remora.sources.rules import Rule

_SHARE: Final = 0.3
_RETRY_AFTER: Final = "retry-after"
_OWN_RULE: Final = Rule("status == `200` && body.state == 'busy'", Means.PRESSURE, "body.again_in")


class Dialect(StrEnum):
    """How the provider refuses for a while."""

    STATUS = "status"  # 429
    SLACK = "slack"  # 200 with an error in the body
    GOOGLE = "google"  # 403 with a reason
    STACK = "stack"  # 400 with the name of the error
    WORDS = "words"  # 403 in so many words
    OWN = "own"  # 200 with a body that only the owner's rule explains, and that holds the wait


_SAID: Final[dict[Dialect, tuple[int, object]]] = {
    Dialect.SLACK: (200, {"ok": False, "error": "ratelimited"}),
    Dialect.GOOGLE: (403, {"error": {"code": 403, "errors": [{"reason": "userRateLimitExceeded"}]}}),
    Dialect.STACK: (400, {"error_id": 502, "error_name": "throttle_violation", "error_message": "too many"}),
    Dialect.WORDS: (403, {"message": "You have exceeded a secondary rate limit. Please wait."}),
}


def draw_dialect(seed: int) -> Dialect:
    """With a chance of its own: everything else in the world of this seed stays as it was."""
    chance = Random(f"dialect/{seed}")
    return chance.choice(list(Dialect)) if chance.random() < _SHARE else Dialect.STATUS


def rules_of(dialect: Dialect) -> tuple[Rule, ...]:
    """The rules that an owner declares for this provider. The common dialects need none."""
    return (_OWN_RULE,) if dialect is Dialect.OWN else ()


def said_in(dialect: Dialect, response: Response) -> Response:
    """The same answer; a 429 is said in the provider's dialect."""
    if dialect is Dialect.STATUS or not isinstance(response, Answer) or response.status != 429:
        return response
    if dialect is Dialect.OWN:
        hint = response.headers.get(_RETRY_AFTER)
        body = {"state": "busy"} if hint is None else {"state": "busy", "again_in": hint}
        return replace(response, status=200, body=json.dumps(body).encode(), headers={})
    status, value = _SAID[dialect]
    return replace(response, status=status, body=json.dumps(value).encode())
