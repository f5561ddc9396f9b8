"""How do the docs become a site? Every Markdown page as one HTML page, with a table of contents and an offline search.

The pages stay readable as plain files. The site needs no server and no network: open `build/docs/index.html`.
"""

import html
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt

ROOT: Final = Path(__file__).resolve().parent.parent
PAGES: Final = {
    "Start": ("README.md", "docs/mirror-hacker-news.md", "docs/archive-an-account.md", "docs/use-the-copy.md"),
    "Use": ("docs/cli.md", "docs/configuration.md", "docs/shelf.md", "docs/adding-a-source.md", "docs/plug-ins.md"),
    "Run": ("docs/operating.md", "docs/console.md", "docs/metrics.md", "docs/events.md", "docs/scaling.md"),
    "Read the copy": ("docs/tables.md", "docs/python.md", "docs/http-api.md"),
}
LAST: Final = "How it works"
STYLE: Final = """
:root{color-scheme:light dark;--g:light-dark(#fbfbf9,#101719);--i:light-dark(#172124,#e3eaea);--s:light-dark(#55646a,#9aacb1);
--l:light-dark(#dde2e0,#2a373b);--a:light-dark(#0a7285,#56bccd);--r:light-dark(#f1f3f1,#192326)}
*{box-sizing:border-box}body{margin:0 auto;max-width:80rem;display:grid;grid-template-columns:15rem minmax(0,1fr);gap:3rem;
padding:1.5rem 2rem;background:var(--g);color:var(--i);font:400 1rem/1.6 system-ui,sans-serif}
nav{font-size:.9rem;position:sticky;top:1.5rem;align-self:start;max-height:calc(100vh - 3rem);overflow:auto}
nav h2{font-size:.8rem;color:var(--s);margin:1.2rem 0 .2rem;font-weight:600}nav ul{list-style:none;margin:0;padding:0}
a{color:var(--a)}nav a{text-decoration:none;display:block;padding:.1rem 0}nav a[aria-current]{font-weight:650;color:var(--i)}
main{max-width:50rem;overflow-wrap:anywhere}h1,h2,h3{line-height:1.25}img{max-width:100%;height:auto}
pre{background:var(--r);padding:.8rem 1rem;overflow-x:auto;border-radius:.4rem;font-size:.875rem}code{font-size:.9em}
table{border-collapse:collapse;display:block;overflow-x:auto;font-size:.925rem}td,th{border-bottom:1px solid var(--l);padding:.35rem .8rem .35rem 0;
text-align:left;vertical-align:baseline}input{width:100%;font:inherit;padding:.3rem .5rem}#found{margin:.4rem 0 0}
@media(max-width:56rem){body{grid-template-columns:1fr;gap:1rem;padding:1rem}nav{position:static;max-height:none}}
"""
SEARCH: Final = """
const field = document.getElementById("search"), list = document.getElementById("found");
field.addEventListener("input", () => {
  const words = field.value.toLowerCase().split(/\\s+/).filter(Boolean);
  const hits = words.length ? PARTS.filter(([, , text]) => words.every((word) => text.includes(word))).slice(0, 12) : [];
  list.replaceChildren(...hits.map(([href, title]) => {
    const item = document.createElement("li"), link = document.createElement("a");
    link.href = href; link.textContent = title; item.append(link);
    return item;
  }));
});
"""


def slug(heading: str) -> str:
    """The anchor of a heading, as the forges make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def name_of(page: str) -> str:
    """The file of a page in the site."""
    return "index.html" if page == "README.md" else f"{Path(page).stem.lower()}.html"


def groups() -> dict[str, tuple[str, ...]]:
    """Every page in its group; pages that no group names come last."""
    named = {page for pages in PAGES.values() for page in pages}
    others = [f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")) if f"docs/{path.name}" not in named]
    found = {group: tuple(page for page in pages if (ROOT / page).exists()) for group, pages in PAGES.items()}
    return found | {LAST: (*others, "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")}


def rendered(page: str) -> tuple[str, str, list[tuple[str, str, str]]]:
    """Title, body, and the parts that the search knows: address, title, text."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse((ROOT / page).read_text("utf-8"))
    title, parts, heading = Path(page).stem, list[tuple[str, str, str]](), ""
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            heading = tokens[at + 1].content.replace("`", "")
            token.attrSet("id", slug(heading))
            title = heading if token.tag == "h1" else title
            parts.append((f"{name_of(page)}#{slug(heading)}", f"{title}: {heading}", heading.lower()))
        elif token.type in {"inline", "fence"} and parts:
            href, shown, text = parts[-1]
            parts[-1] = (href, shown, f"{text} {token.content.lower()}")
        for child in token.children or ():
            for attribute in ("href", "src"):
                if child.attrGet(attribute) is not None:
                    child.attrSet(attribute, _target(str(child.attrGet(attribute)), page))
    return title, parser.renderer.render(tokens, parser.options, {}), parts


def _target(link: str, page: str) -> str:
    """A link between pages of the repository as a link between pages of the site."""
    if re.match(r"[a-z]+:", link) or link.startswith("#"):
        return link
    path, _, anchor = link.partition("#")
    whole = (ROOT / page).parent / path
    if path.endswith(".md"):
        return name_of(whole.resolve().relative_to(ROOT).as_posix()) + (f"#{anchor}" if anchor else "")
    return Path(path).name if whole.suffix in {".svg", ".png"} else link


def build(folder: Path) -> int:
    """Write the site; answers how many pages it has."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {page: rendered(page) for found in groups().values() for page in found}
    parts = [part for _, _, found in pages.values() for part in found]
    (folder / "search.js").write_text(f"const PARTS = {json.dumps(parts)};{SEARCH}", "utf-8")
    (folder / "style.css").write_text(STYLE, "utf-8")
    for picture in [*(ROOT / "docs").rglob("*.svg"), *(ROOT / "docs").rglob("*.png")]:
        shutil.copyfile(picture, folder / picture.name)
    for page, (title, body, _) in pages.items():
        (folder / name_of(page)).write_text(
            _page(page, title, body, {one: found[0] for one, found in pages.items()}), "utf-8"
        )
    return len(pages)


def _page(page: str, title: str, body: str, titles: dict[str, str]) -> str:
    menu = "".join(
        f"<h2>{group}</h2><ul>{''.join(_link(one, titles[one], is_here=one == page) for one in found)}</ul>"
        for group, found in groups().items()
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="stylesheet" href="style.css"></head>'
        f'<body><nav aria-label="Pages"><label>Search<input id="search" type="search"></label><ul id="found"></ul>{menu}</nav>'
        f'<main>{body}</main><script src="search.js"></script></body></html>\n'
    )


def _link(page: str, title: str, *, is_here: bool) -> str:
    here = ' aria-current="page"' if is_here else ""
    return f'<li><a href="{name_of(page)}"{here}>{html.escape(title)}</a></li>'


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "docs"
    print(f"docs: {build(target)} pages; open {target / 'index.html'}")
