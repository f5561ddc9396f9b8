"""What do the headers of a reply say about limits? How long to wait, how many requests are left, and until when.

A moment that a provider names is read on its own clock (the `Date` header): ours may be wrong.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from math import ceil, isfinite
from typing import Final

from remora.core.quota import Quota
from remora.core.units import DAY_NS, SECOND_NS

# A provider that asks for more than this is broken, not busy; the wait stays bounded and visible.
RETRY_AFTER_MAX_NS: Final = 30 * DAY_NS
# Larger numbers are not a duration but a moment: seconds since 1970, or milliseconds.
EPOCH_FROM_S: Final = 1_000_000_000
EPOCH_FROM_MS: Final = 1_000_000_000_000
# Shopify's bucket is documented to drain in this time, whatever its size (40 at 2/s, 80 at 4/s, 400 at 20/s).
SHOPIFY_DRAIN_NS: Final = 20 * SECOND_NS
REMAINING_MAX: Final = 10**12
# What OpenAI and some services of Azure send beside or instead of Retry-After.
WAIT_IN_MS_HEADERS: Final = ("retry-after-ms", "x-ms-retry-after-ms")

PREFIXES: Final = ("ratelimit-", "x-ratelimit-", "x-rate-limit-")
STANDARD: Final = "ratelimit"
POLICY: Final = "ratelimit-policy"
SHOPIFY: Final = "x-shopify-shop-api-call-limit"
QUOTA_HEADERS: Final = frozenset(
    {STANDARD, POLICY, SHOPIFY}
    | {f"{prefix}{word}" for prefix in PREFIXES for word in ("limit", "remaining", "used", "reset", "reset-after")}
)

# Python accepts numbers that no provider means: "inf", "nan", "1_000".
_SECONDS: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)")
_LEADING_NUMBER: Final = re.compile(r"\s*([0-9]{1,20}(?:\.[0-9]{0,20})?)\s*(?:[,;]|$)")
_MEMBER: Final = re.compile(r'(?:"[^"]*"|[^,"])+')
_PARAMETER: Final = re.compile(r"\s*([a-z]+)\s*=\s*([0-9]{1,20})\s*")
_USED_OF: Final = re.compile(r"\s*([0-9]{1,9})\s*/\s*([0-9]{1,9})\s*")


def parse_retry_after(headers: Mapping[str, str], *, now_wall_ns: int) -> int | None:
    """How long the provider asks to wait: seconds, a fraction, a moment or a date; the longer one of several waits.

    Zero and past dates give 0: there was a hint, but the pace alone decides. An unreadable value gives None.
    """
    waits = (
        parse_wait(headers.get("retry-after", ""), headers, now_wall_ns=now_wall_ns),
        *(_duration_ns(_number(headers.get(name, "")), per_s=1_000) for name in WAIT_IN_MS_HEADERS),
    )
    return max((wait_ns for wait_ns in waits if wait_ns is not None), default=None)


def parse_wait(text: str, headers: Mapping[str, str], *, now_wall_ns: int) -> int | None:
    """A wait as providers write it in `Retry-After` and elsewhere; None if it is missing or unreadable."""
    text = text.strip()
    if not text:
        return None
    number = _number(text)
    if number is not None and number < EPOCH_FROM_S:
        return _duration_ns(number)
    moment_ns = _date_ns(text) if number is None else _epoch_ns(number)
    wait_ns = _until_ns(moment_ns, headers, now_wall_ns)
    return None if wait_ns is None else min(max(wait_ns, 0), RETRY_AFTER_MAX_NS)


def wait_of(value: object, headers: Mapping[str, str], *, now_wall_ns: int) -> int | None:
    """A wait that a rule found: seconds, a moment since 1970, a date, or the same as text; otherwise None."""
    match value:
        case bool():
            return None
        case int() | float() if isfinite(value):
            return parse_wait(f"{value:.9f}", headers, now_wall_ns=now_wall_ns)
        case str():
            return parse_wait(value, headers, now_wall_ns=now_wall_ns)
        case _:
            return None


def has_quota(headers: Mapping[str, str]) -> bool:
    """Whether a reply says anything about a quota; most replies do not."""
    return not QUOTA_HEADERS.isdisjoint(headers)


def read_quota(headers: Mapping[str, str], *, now_wall_ns: int) -> Quota | None:
    """The tightest quota in a reply; None if it has none that can be used."""
    if not has_quota(headers):
        return None
    return tightest(
        quota
        for quota in (*_standard(headers), *_by_name(headers, now_wall_ns), *_shopify(headers))
        if 0 < quota.reset_in_ns <= RETRY_AFTER_MAX_NS
    )


def tightest(quotas: Iterator[Quota]) -> Quota | None:
    """The quota that allows the least: an empty one, or the one with the most time per remaining request."""
    return max(quotas, key=_tightness, default=None)


def _tightness(quota: Quota) -> tuple[bool, float]:
    return quota.remaining == 0, quota.reset_in_ns / max(1, quota.remaining)


# ── the IETF draft: RateLimit and RateLimit-Policy ──────────────────────────────────────────────────────────────────


def _standard(headers: Mapping[str, str]) -> Iterator[Quota]:
    """`"default";r=50;t=30` with the policy `"default";q=100;w=60`, or `limit=100, remaining=50, reset=30` (older)."""
    members = _MEMBER.findall(headers.get(STANDARD, ""))
    policies = dict(map(_parameters, _MEMBER.findall(headers.get(POLICY, ""))))
    for name, told in map(_parameters, members):
        policy = policies.get(name, {})
        reset_s = told.get("t", policy.get("w"))
        if "r" in told and reset_s is not None:
            yield _quota(told["r"], policy.get("q"), reset_s * SECOND_NS)
    older: dict[str, int] = {}
    for member in members:
        older.update(_parameters(f";{member}")[1])
    if "remaining" in older and "reset" in older:
        yield _quota(older["remaining"], older.get("limit"), older["reset"] * SECOND_NS)


def _parameters(member: str) -> tuple[str, dict[str, int]]:
    name, *parameters = member.split(";")
    found = [_PARAMETER.fullmatch(parameter) for parameter in parameters]
    return name.strip(), {each[1]: int(each[2]) for each in found if each is not None}


# ── one header per number ───────────────────────────────────────────────────────────────────────────────────────────


def _by_name(headers: Mapping[str, str], now_wall_ns: int) -> Iterator[Quota]:
    for prefix in PREFIXES:
        remaining = _leading_number(headers.get(f"{prefix}remaining", ""))
        reset_in_ns = _reset_in_ns(headers, prefix, now_wall_ns)
        if remaining is None or reset_in_ns is None:
            continue
        limit, used = (_leading_number(headers.get(f"{prefix}{word}", "")) for word in ("limit", "used"))
        if limit is None and used is not None:
            limit = used + remaining
        yield _quota(int(remaining), None if limit is None else int(limit), reset_in_ns)


def _reset_in_ns(headers: Mapping[str, str], prefix: str, now_wall_ns: int) -> int | None:
    """How long until the reset: given in seconds, as a moment since 1970, or as a date."""
    after_s = _leading_number(headers.get(f"{prefix}reset-after", ""))
    if after_s is not None:
        return ceil(after_s * SECOND_NS)
    text = headers.get(f"{prefix}reset", "")
    number = _leading_number(text)
    if number is None:
        return _until_ns(_date_ns(text), headers, now_wall_ns)
    if number < EPOCH_FROM_S:
        return ceil(number * SECOND_NS)
    return _until_ns(_epoch_ns(number), headers, now_wall_ns)


def _epoch_ns(number: float) -> int:
    seconds = number / 1_000 if number >= EPOCH_FROM_MS else number
    return ceil(min(seconds, EPOCH_FROM_MS) * SECOND_NS)


def _shopify(headers: Mapping[str, str]) -> Iterator[Quota]:
    """`32/40`: the bucket's level. At half full, what is left divided by the time to empty is its drain rate."""
    found = _USED_OF.fullmatch(headers.get(SHOPIFY, ""))
    if found is not None and (limit := int(found[2])) > 0 and (used := int(found[1])) > 0:
        yield _quota(max(0, limit - used), limit, ceil(SHOPIFY_DRAIN_NS * min(used, limit) / limit))


# ── numbers and moments ─────────────────────────────────────────────────────────────────────────────────────────────


def _quota(remaining: int, limit: int | None, reset_in_ns: int) -> Quota:
    return Quota(min(remaining, REMAINING_MAX), limit, reset_in_ns)


def _leading_number(text: str) -> float | None:
    found = _LEADING_NUMBER.match(text)
    return None if found is None else float(found[1])


def _number(text: str) -> float | None:
    text = text.strip()
    return float(text) if _SECONDS.fullmatch(text) else None


def _duration_ns(number: float | None, *, per_s: int = 1) -> int | None:
    """Rounded up: a wait is never shorter than the provider asked for."""
    if number is None:
        return None
    return ceil(min(max(number / per_s, 0.0), RETRY_AFTER_MAX_NS / SECOND_NS) * SECOND_NS)


def _until_ns(moment_ns: int | None, headers: Mapping[str, str], now_wall_ns: int) -> int | None:
    if moment_ns is None:
        return None
    provider_now_ns = _date_ns(headers.get("date", ""))
    return moment_ns - (now_wall_ns if provider_now_ns is None else provider_now_ns)


def _date_ns(text: str) -> int | None:
    """An HTTP date or an ISO 8601 one. Without a zone it is GMT, as HTTP dates are."""
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - few answers name a date

    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            moment = read(text.strip())
            aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return ceil(aware.timestamp()) * SECOND_NS
        except (ValueError, TypeError, OverflowError, IndexError):
            continue
    return None
