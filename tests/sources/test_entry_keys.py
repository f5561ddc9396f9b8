"""Is it said what is wrong with a key, without the key itself?"""

import pytest

from remora.sources.entry_keys import unusable_keys

GOOD = {"id": "a"}


@pytest.mark.parametrize(
    "odd, told",
    [
        ([], ""),
        ([{}], '1 of 3 entries has no key at "id"'),
        ([{"id": None}, {}, 5], '3 of 5 entries have no key at "id"'),
        ([{"id": ""}], '1 of 3 entries has no usable key at "id": 1 empty'),
        ([{"id": True}, {"id": [1]}], '2 of 4 entries have no usable key at "id": 2 neither text nor whole number'),
        (
            [{"id": "x" * 513}, {"id": "a\nb"}, {}],
            (
                '3 of 5 entries have no usable key at "id": 1 longer than 512 characters, '
                "1 with a line break or another character that cannot be printed, 1 missing"
            ),
        ),
        ([{"id": "x" * 512}, {"id": 10**100}], ""),
    ],
)
def test_what_is_wrong_with_the_keys_of_a_page_is_counted_by_kind(odd: list[object], told: str) -> None:
    assert unusable_keys([GOOD, *odd, GOOD], "id") == told
