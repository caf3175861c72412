"""HTML as Markdown, through markdownify and Beautiful Soup."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

from kleene.tools.documents.base import Cell, Page, Source, Table, explained, library
from kleene.tools.documents.kinds import Kind
from kleene.tools.documents.sections import sections

_UNSEEN = ("script", "style", "template", "noscript", "head", "svg", "iframe", "object")


def pages(source: Source) -> Iterator[Page]:
    """The page's sections."""
    yield from sections(markdown(source))


def markdown(source: Source) -> str:
    """What a browser would show, as Markdown: headings, lists, tables and links are kept, scripts, styles and comments are not."""
    markdownify = library("markdownify", "HTML")
    with explained(source, Kind.HTML.value):
        soup = _soup(source)
        title = soup.title.get_text(" ", strip=True) if soup.title is not None else ""
        for element in soup(list(_UNSEEN)):
            element.decompose()
        source.check()
        converter = markdownify.MarkdownConverter(heading_style="ATX", bullets="-", escape_misc=False)
        text = re.sub(r"\n{3,}", "\n\n", str(converter.convert_soup(soup))).strip()
        text = "\n".join(line.rstrip() for line in text.split("\n"))
        return text if not title or re.search(r"^# ", text, re.MULTILINE) else f"# {title}\n\n{text}".strip()


def tables(source: Source) -> Iterator[Table]:
    with explained(source, Kind.HTML.value):
        for number, element in enumerate(_soup(source).find_all("table"), 1):
            source.check()
            yield Table(f"table {number}", list(enumerate(_rows(element), 1)))


def _soup(source: Source) -> Any:
    bs4 = library("bs4", "HTML")
    with warnings.catch_warnings():
        # It warns of texts that look like addresses or XML: they are read all the same.
        warnings.simplefilter("ignore")
        return bs4.BeautifulSoup(source.bytes(), "html.parser")


def _rows(table: Any) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for row in table.find_all("tr"):
        if row.find_parent("table") is table:
            cells = row.find_all(["td", "th"], recursive=False)
            rows.append([" ".join(cell.get_text(" ", strip=True).split()) for cell in cells])
    return [row for row in rows if row]
