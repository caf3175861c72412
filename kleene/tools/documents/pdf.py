"""PDF files, page by page, through pypdf."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from kleene.planner.errors import ToolError
from kleene.tools.documents.base import Page, Source, Table, explained, library
from kleene.tools.documents.kinds import Kind, encrypted


def pages(source: Source) -> Iterator[Page]:
    """The text of each page; its title is that of the outline's first entry for it. A page without text (a scan) has an empty one."""
    pypdf = library("pypdf", "PDF files")
    logging.getLogger("pypdf").setLevel(
        logging.CRITICAL
    )  # it logs what is odd in a file; what matters comes back as an error
    with explained(source, Kind.PDF.value):
        reader = pypdf.PdfReader(source.stream)
        if reader.is_encrypted and not _opened(reader):
            raise encrypted(source)
        titles = _titles(reader)
        for number, page in enumerate(reader.pages, 1):
            source.check()
            yield Page(number, titles.get(number), _text(page))


def tables(source: Source) -> Iterator[Table]:
    raise ToolError(
        f"{source.name} is a PDF file, in which tables are only lines and words",
        kind="unsupported",
        hint="read its pages with read_pages(path) and extract the cells with a call",
    )
    yield  # a generator, as its fellows are


def _opened(reader: Any) -> bool:
    """Many files are encrypted for their owner only: everyone may read them, with the empty password."""
    try:
        return bool(reader.decrypt(""))
    except Exception:  # a cipher that needs another library, or a broken dictionary
        return False


def _text(page: Any) -> str:
    text = page.extract_text()
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")


def _titles(reader: Any) -> dict[int, str]:
    titles: dict[int, str] = {}
    try:
        entries = list(_flat(reader.outline))
        for entry in entries:
            number = reader.get_destination_page_number(entry)
            if number is not None:
                titles.setdefault(number + 1, str(entry.title).strip())
    except Exception:  # a broken outline does not keep anyone from the pages
        return titles
    return titles


def _flat(outline: Any) -> Iterator[Any]:
    for entry in outline:
        if isinstance(entry, list):
            yield from _flat(entry)
        else:
            yield entry
