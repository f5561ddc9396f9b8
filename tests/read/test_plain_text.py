"""Is a provider's HTML read as plain text, whatever it is and however much of it there is?"""

import time

import pytest

from remora.core.texts import REPLACEMENT
from remora.read.plain_text import plain

MANY = 100_000


@pytest.mark.parametrize(
    "text, shown",
    [
        ("one<p>two<br>three", "one\n\ntwo\n\nthree"),
        (
            'see <a href="https:&#x2F;&#x2F;a.example&#x2F;long" rel="nofollow">https:&#x2F;&#x2F;a.ex...</a>',
            "see https://a.example/long",
        ),
        ("<A HREF='https://a.example'>the <i>page</i></A>.", "the page (https://a.example)."),
        ("<a name=x>here</a>", "here"),
        ('<a title="a < b" href=https://a.example>x</a>', "x (https://a.example)"),
        ("<a href=https://a.example>never closed", "never closed"),
        ("<a href=https://a.example>one <a href=https://b.example>two</a>", "one two (https://a.example)"),
        ("a </a> b", "a  b"),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        ("x <y and <i>z</i>", "x <y and z"),
        ("&lt;b&gt; &amp;amp; caf&eacute;", "<b> &amp; café"),
    ],
)
def test_tags_go_and_the_addresses_of_links_stay(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize("zeros", [0, 10, 10_000])
def test_a_character_is_found_by_its_number_however_many_zeros_it_has(zeros: int) -> None:
    assert plain(f"&#{'0' * zeros}65;&#x{'0' * zeros}42;") == "AB"


@pytest.mark.parametrize("digits", [8, 10_000])
def test_a_number_that_no_character_has_is_a_replacement(digits: int) -> None:
    assert plain(f"a &#{'1' * digits}; b &#{'1' * digits} c") == f"a {REPLACEMENT} b {REPLACEMENT} c"


@pytest.mark.parametrize(
    "part", ["<a href=", "<a href=x>", "<a ", "<a", "<p ", "<p", "</a>", "<", "&#", "&#1", "&", "\n", "<a href=x></a>"]
)
def test_reading_takes_time_that_grows_with_the_text_and_not_with_its_square(part: str) -> None:
    began_s = time.process_time()
    plain(part * (MANY // len(part)))
    assert time.process_time() - began_s < 1.0
