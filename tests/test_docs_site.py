"""Does the site of the docs hold every page, and does every link in it lead somewhere?"""

import re
from pathlib import Path

import pytest

from tools.docs_site import ROOT, build, name_of


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert build(folder) >= len(list((ROOT / "docs").glob("*.md")))
    return folder


@pytest.mark.slow
def test_every_page_is_there_and_is_found_by_its_words(site: Path) -> None:
    found = (site / "search.js").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert (site / name_of(f"docs/{page.name}")).is_file()
        assert f'"{page.stem.lower()}.html#' in found


def test_every_link_and_picture_of_the_site_exists(site: Path) -> None:
    missing = [
        (page.name, target)
        for page in site.glob("*.html")
        for target in re.findall(r'(?:href|src)="([^"#:]+\.(?:html|svg|png|css|js))', page.read_text())
        if not (site / target).is_file()
    ]
    assert missing == []


@pytest.mark.slow
def test_every_anchor_of_the_site_exists(site: Path) -> None:
    ids = {page.name: set(re.findall(r'id="([^"]+)"', page.read_text())) for page in site.glob("*.html")}
    missing = [
        (page.name, target, anchor)
        for page in site.glob("*.html")
        for target, anchor in re.findall(r'href="([^"#:]*)#([^"]+)"', page.read_text())
        if anchor not in ids[target or page.name]
    ]
    assert missing == []
