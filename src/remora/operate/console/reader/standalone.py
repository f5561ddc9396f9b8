"""How is a thread or a document saved as one file? As a page with its style inside, without scripts and without links home."""

from functools import cache

from markupsafe import Markup

from remora.contracts.reader import MirroredDocument
from remora.operate.console.reader.rendering import STATIC, render
from remora.operate.console.reader.thread_rows import thread_rows
from remora.read.readable import readable_fields, title_or_key
from remora.read.thread import ThreadNode


def thread_html(thread: ThreadNode) -> str:
    """An item with all its replies and every break."""
    rows, still_open = thread_rows(thread)
    return render("show.html", style=_style(), item=thread.item, thread=thread, rows=rows, still_open=still_open)


def document_html(document: MirroredDocument) -> str:
    """A document: readable fields first, then the raw JSON."""
    fields, is_cut = readable_fields(document.body)
    title = title_or_key(document.fields, document.key)
    return render("show_document.html", style=_style(), document=document, title=title, fields=fields, is_cut=is_cut)


@cache
def _style() -> Markup:
    files = (STATIC.parent.parent / "static" / "console.css", STATIC / "reader.css")
    return Markup("\n".join(file.read_text("utf-8") for file in files))  # noqa: S704 - these are our own files
