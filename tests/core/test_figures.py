"""Are the figures of core/ the ones that the docs tell?"""

from tools.figures import PAGE, page


def test_every_figure_is_documented_as_it_is() -> None:
    assert PAGE.read_text() == page(), "write the page anew: python -m tools.figures"
