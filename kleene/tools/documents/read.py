"""Reads a document of any kind: its text, its pages, its tables."""

from __future__ import annotations

from collections.abc import Iterator

from kleene.planner.errors import ToolError
from kleene.tools.documents import delimited, docx, html, mail, pdf, pptx, xlsx
from kleene.tools.documents.base import Page, Source, Table
from kleene.tools.documents.kinds import Kind, kind_of
from kleene.tools.documents.sections import sections
from kleene.tools.texts import decode

MAX_DEPTH = 4
"""Mails in mails."""

_PAGES = {
    Kind.PDF: pdf.pages,
    Kind.DOCX: docx.pages,
    Kind.XLSX: xlsx.pages,
    Kind.PPTX: pptx.pages,
    Kind.HTML: html.pages,
}
_TABLES = {
    Kind.PDF: pdf.tables,
    Kind.DOCX: docx.tables,
    Kind.XLSX: xlsx.tables,
    Kind.PPTX: pptx.tables,
    Kind.HTML: html.tables,
    Kind.CSV: delimited.tables,
}
_TITLED = (Kind.XLSX, Kind.EML)


def pages(source: Source) -> Iterator[Page]:
    """Pages of a PDF file, slides, sheets (as CSV), a mail and its attachments; of all else the sections under its first two levels of
    headings. Raises ``ToolError``: unsupported for a document that is broken, encrypted or of no kind known here, too large for a bomb."""
    kind = _kind(source)
    if kind is Kind.EML:
        yield from mail.pages(source, text)
    elif kind in _PAGES:
        yield from _PAGES[kind](source)
    else:
        yield from sections(decode(source.bytes()))


def text(source: Source) -> str:
    """The whole document as text, office files and HTML as Markdown. Sheets and attachments stand under their names."""
    kind = _kind(source)
    if kind in (Kind.TEXT, Kind.CSV):
        return decode(source.bytes())
    if kind is Kind.HTML:
        return html.markdown(source)
    parts = []
    for page in pages(source):
        titled = kind in _TITLED and page.title and (kind is Kind.XLSX or page.number > 1)
        parts.append(f"# {page.title}\n\n{page.text}".strip() if titled else page.text)
    return "\n\n".join(part for part in parts if part)


def tables(source: Source) -> Iterator[Table]:
    """The tables of a document: sheets, tables of the text, the one that a CSV file is. Each is to be read before the next."""
    kind = _kind(source)
    if kind is Kind.EML:
        return mail.tables(source, tables)
    if kind not in _TABLES:
        raise ToolError(
            f"{source.name} is {kind.value}, which holds no tables", kind="unsupported", hint="read it with read(path)"
        )
    return _TABLES[kind](source)


def _kind(source: Source) -> Kind:
    if source.depth > MAX_DEPTH:
        raise ToolError(f"{source.name} lies in more than {MAX_DEPTH} other mails", kind="unsupported")
    kind = kind_of(source)
    if kind is None:
        raise ToolError(
            f"{source.name} is a binary file of no kind that can be read",
            kind="unsupported",
            hint="readable are texts, Markdown, PDF, DOCX, XLSX, PPTX, EML, HTML and CSV",
        )
    return kind
