"""Is what a provider tells about its limits read in every dialect, and never misread?"""

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.quota import Quota
from remora.core.quota_headers import QUOTA_HEADERS, RETRY_AFTER_MAX_NS, read_quota
from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS

NOW_S = 1_790_000_000
NOW_NS = NOW_S * SECOND_NS


def read(headers: dict[str, str], *, now_ns: int = NOW_NS) -> Quota | None:
    return read_quota(headers, now_wall_ns=now_ns)


@pytest.mark.parametrize(
    "headers, expected",
    [
        pytest.param(
            {
                "x-ratelimit-limit": "5000",
                "x-ratelimit-remaining": "2114",
                "x-ratelimit-used": "2886",
                "x-ratelimit-reset": str(NOW_S + 1_800),
            },
            Quota(2_114, 5_000, HOUR_NS // 2),
            id="GitHub",
        ),
        pytest.param(
            {"ratelimit-limit": "60", "ratelimit-remaining": "7", "ratelimit-reset": str(NOW_S + 30)},
            Quota(7, 60, 30 * SECOND_NS),
            id="GitLab",
        ),
        pytest.param(
            {
                "x-ratelimit-limit": "300",
                "x-ratelimit-remaining": "299",
                "x-ratelimit-reset": "2026-09-21T13:18:20.250000Z",
                "date": "Mon, 21 Sep 2026 13:13:21 GMT",
            },
            Quota(299, 300, 5 * MINUTE_NS),
            id="Mastodon",
        ),
        pytest.param(
            {"x-ratelimit-used": "4", "x-ratelimit-remaining": "596.0", "x-ratelimit-reset": "235"},
            Quota(596, 600, 235 * SECOND_NS),
            id="Reddit",
        ),
        pytest.param(
            {"x-ratelimit-limit": "5", "x-ratelimit-remaining": "0", "x-ratelimit-reset-after": "1.25"},
            Quota(0, 5, SECOND_NS + SECOND_NS // 4),
            id="Discord",
        ),
        pytest.param(
            {"x-rate-limit-limit": "900", "x-rate-limit-remaining": "1", "x-rate-limit-reset": str(NOW_S + 900)},
            Quota(1, 900, 15 * MINUTE_NS),
            id="Twitter",
        ),
        pytest.param(
            {"x-ratelimit-remaining": "1", "x-ratelimit-reset": str(NOW_S * 1_000 + 1_500)},
            Quota(1, None, SECOND_NS + SECOND_NS // 2),
            id="milliseconds since 1970",
        ),
        pytest.param(
            {"ratelimit": '"default";r=50;t=30', "ratelimit-policy": '"default";q=100;w=60'},
            Quota(50, 100, 30 * SECOND_NS),
            id="the IETF draft",
        ),
        pytest.param(
            {
                "ratelimit": '"burst";r=9;t=1, "day, or so";r=10;t=3600',
                "ratelimit-policy": '"day, or so";q=1000;w=86400',
            },
            Quota(10, 1_000, HOUR_NS),
            id="the tighter one of two",
        ),
        pytest.param(
            {"ratelimit": '"default";r=3', "ratelimit-policy": '"default";q=100;w=60'},
            Quota(3, 100, MINUTE_NS),
            id="the whole window where no reset is told",
        ),
        pytest.param(
            {"ratelimit": "limit=100, remaining=0, reset=5"}, Quota(0, 100, 5 * SECOND_NS), id="an older draft"
        ),
        pytest.param(
            {"ratelimit-limit": "10, 10;w=1, 50;w=60", "ratelimit-remaining": "4", "ratelimit-reset": "1"},
            Quota(4, 10, SECOND_NS),
            id="a limit with its policies",
        ),
        pytest.param({"x-shopify-shop-api-call-limit": "32/40"}, Quota(8, 40, 16 * SECOND_NS), id="Shopify"),
        pytest.param({"x-shopify-shop-api-call-limit": "40/40"}, Quota(0, 40, 20 * SECOND_NS), id="Shopify, full"),
    ],
)
def test_every_dialect_tells_the_same_three_numbers(headers: dict[str, str], expected: Quota) -> None:
    assert read(headers) == expected


def test_a_shopify_bucket_that_is_half_full_is_used_at_the_rate_it_drains() -> None:
    quota = read({"x-shopify-shop-api-call-limit": "20/40"})
    assert quota is not None
    assert quota.reset_in_ns / quota.remaining == SECOND_NS / 2


def test_an_empty_quota_counts_more_than_one_that_is_nearly_empty() -> None:
    empty = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1"}
    assert read({**empty, "ratelimit": '"a";r=1;t=3600'}) == Quota(0, None, SECOND_NS)


@pytest.mark.parametrize("skew_ns", [0, -3 * HOUR_NS, 40 * HOUR_NS])
def test_a_reset_that_is_a_moment_is_judged_on_the_providers_own_clock(skew_ns: int) -> None:
    headers = {
        "x-ratelimit-remaining": "10",
        "x-ratelimit-reset": str(NOW_S + 60),
        "date": formatdate(NOW_S, usegmt=True),
    }
    assert read(headers, now_ns=NOW_NS + skew_ns) == Quota(10, None, MINUTE_NS)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"retry-after": "5"},
        {"x-ratelimit-remaining": "5"},
        {"x-ratelimit-reset": "5"},
        {"x-ratelimit-remaining": "-1", "x-ratelimit-reset": "60"},
        {"x-ratelimit-remaining": "many", "x-ratelimit-reset": "60"},
        {"x-ratelimit-remaining": "5", "x-ratelimit-reset": "soon"},
        {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "0"},
        {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(NOW_S - 5)},
        {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(NOW_S + 90 * 86_400)},
        {"ratelimit": '"a";r=;t='},
        {"ratelimit": "50"},
        {"x-shopify-shop-api-call-limit": "0/40"},
        {"x-shopify-shop-api-call-limit": "1/0"},
    ],
)
def test_what_is_no_quota_is_none(headers: dict[str, str]) -> None:
    assert read(headers) is None


@given(st.dictionaries(st.sampled_from(sorted(QUOTA_HEADERS | {"date"})), st.text(max_size=40)))
def test_no_header_is_too_strange(headers: dict[str, str]) -> None:
    quota = read(headers)
    if quota is not None:
        assert quota.remaining >= 0
        assert 0 < quota.reset_in_ns <= RETRY_AFTER_MAX_NS
