"""Which text can every database hold?"""

from hypothesis import given
from hypothesis import strategies as st

from remora.core.texts import REPLACEMENT, storable


@given(st.text(st.characters() | st.sampled_from("\0\ud800\udfff")))
def test_a_storable_text_can_be_held_anywhere_and_stays_as_it_is(text: str) -> None:
    held = storable(text)
    assert "\0" not in held
    assert held.encode().decode() == held
    assert storable(held) == held
    assert [kept for kept, sent in zip(held, text, strict=True) if kept != REPLACEMENT] == [
        sent for sent in text if sent not in {"\0", REPLACEMENT} and not "\ud800" <= sent <= "\udfff"
    ]


def test_what_cannot_be_held_leaves_its_place_and_no_text_stays_none() -> None:
    assert storable("a\0b \ud83d c") == "a\ufffdb \ufffd c"
    assert storable("caf\u00e9") == "caf\u00e9"
    assert storable(None) is None
