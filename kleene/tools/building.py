"""Builds office files from plain text: .docx from Markdown, .xlsx from CSV or from the tables of Markdown.

The libraries (python-docx, openpyxl, markdown-it-py) are those of the extra ``documents`` and imported when they are needed.
"""

from __future__ import annotations

import csv
import datetime
import io
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

import attrs

from kleene.planner.errors import ToolError

MAX_ROWS = 1_048_576
MAX_COLUMNS = 16_384
MAX_CELL = 32_767
MAX_INLINE = 20_000
MAX_BRACKETS = 200
MAX_DEPTH = 20
"""Of quotes and lists in each other; the marks of deeper ones stay text."""
EXTRA = "pip install 'kleene[documents]'"
UNBUILT = {
    **dict.fromkeys((".doc", ".odt", ".rtf", ".pdf"), ".docx or .md"),
    **dict.fromkeys((".xls", ".xlsm", ".ods"), ".xlsx or .csv"),
    **dict.fromkeys((".ppt", ".pptx", ".odp"), ".docx or .md"),
}
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d{1,15})?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


Check = Callable[[], None]
"""Called every now and then; raises when there is no more time."""


def built(path: str, text: str, check: Check = lambda: None) -> bytes | None:
    """The bytes of a file that is not written as it is, by its suffix; None for all others.

    Raises ``ToolError``: unsupported for a suffix that nothing here can build, or without the libraries.
    """
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in UNBUILT:
        raise ToolError(
            f"a {suffix} file cannot be built from text", kind="unsupported", hint=f"write {UNBUILT[suffix]}"
        )
    try:
        if suffix == ".docx":
            return docx_of(text, check)
        if suffix == ".xlsx":
            return xlsx_of(text, check)
    except ImportError as error:
        raise ToolError(f"building a {suffix} file needs {error.name}", kind="unsupported", hint=EXTRA) from error
    return None


def legal(text: str) -> str:
    """Without what XML cannot hold.

    >>> legal("a\\x00b")
    'a\\ufffdb'
    """
    return _ILLEGAL.sub("\ufffd", text)


def _markdown(text: str, check: Check) -> list[Any]:
    """The tokens of markdown-it. A block of many brackets (which cost the square of their number) or of great length stays plain text, and so do
    the marks of quotes and lists below ``MAX_DEPTH``: at ``maxNesting`` of its own the library drops what is left of the text."""
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import blockquote, list_block
    from markdown_it.token import Token

    def inline(state: Any) -> None:
        for token in state.tokens:
            check()
            if token.type == "inline":
                token.children = []
                if len(token.content) > MAX_INLINE or token.content.count("[") > MAX_BRACKETS:
                    token.children.append(Token("text", "", 0, content=token.content))
                else:
                    state.md.inline.parse(token.content, state.md, state.env, token.children)

    def shallow(rule: Callable[..., bool]) -> Callable[..., bool]:
        def block(state: Any, *at: Any) -> bool:
            return state.level < MAX_DEPTH and rule(state, *at)

        return block

    parser = MarkdownIt("commonmark", {"maxNesting": 2 * MAX_DEPTH}).enable(["table", "strikethrough"])
    parser.block.ruler.at("blockquote", shallow(blockquote), {"alt": ["paragraph", "reference", "blockquote", "list"]})
    parser.block.ruler.at("list", shallow(list_block), {"alt": ["paragraph", "reference", "blockquote"]})
    parser.core.ruler.at("inline", inline)
    return parser.parse(legal(text))


# Word


def docx_of(markdown: str, check: Check = lambda: None) -> bytes:
    """Headings, paragraphs, lists, quotes, code, tables, links and emphasis of Markdown as a Word file; images become their text."""
    import docx

    document = docx.Document()
    _Writer(document, check).blocks(_markdown(markdown, check))
    held = io.BytesIO()
    document.save(held)
    return held.getvalue()


@attrs.define
class _Style:
    bold: int = 0
    italic: int = 0
    strike: int = 0
    link: str | None = None


class _Writer:
    """Puts the tokens of markdown-it into a document of python-docx. Both are untyped."""

    def __init__(self, document: Any, check: Check) -> None:
        self.document = document
        self.check = check
        self.lists: list[str] = []
        self.quotes = 0
        self.fresh = False  # the next paragraph begins a list item

    def blocks(self, tokens: Sequence[Any]) -> None:
        i = 0
        while i < len(tokens):
            token = tokens[i]
            self.check()
            match token.type:
                case "heading_open":
                    self.inline(self.document.add_heading(level=int(token.tag[1])), tokens[i + 1])
                    i += 2
                case "paragraph_open":
                    self.inline(self.paragraph(), tokens[i + 1])
                    i += 2
                case "bullet_list_open" | "ordered_list_open":
                    self.lists.append("List Bullet" if token.type.startswith("bullet") else "List Number")
                case "bullet_list_close" | "ordered_list_close":
                    self.lists.pop()
                case "list_item_open":
                    self.fresh = True
                case "blockquote_open":
                    self.quotes += 1
                case "blockquote_close":
                    self.quotes -= 1
                case "fence" | "code_block":
                    self.code(token.content)
                case "html_block":
                    self.document.add_paragraph(token.content.rstrip("\n"))
                case "hr":
                    self.document.add_paragraph("―" * 20)
                case "table_open":
                    end = next(n for n in range(i, len(tokens)) if tokens[n].type == "table_close")
                    self.table(_rows(tokens[i:end]))
                    i = end
            i += 1

    def paragraph(self) -> Any:
        if self.lists:
            depth = min(len(self.lists), 3)
            style = self.lists[-1] if self.fresh else "List Continue"
            self.fresh = False
            return self.document.add_paragraph(style=style + (f" {depth}" if depth > 1 else ""))
        return self.document.add_paragraph(style="Quote" if self.quotes else None)

    def code(self, text: str) -> None:
        from docx.shared import Pt

        paragraph = self.document.add_paragraph()
        paragraph.paragraph_format.left_indent = Pt(18)
        run = paragraph.add_run(text.rstrip("\n"))
        run.font.name, run.font.size = "Courier New", Pt(9)

    def table(self, rows: list[list[Any]]) -> None:
        width = max(len(row) for row in rows)
        table = self.document.add_table(rows=0, cols=width, style="Table Grid")
        for number, row in enumerate(rows):
            self.check()
            cells = table.add_row().cells
            for cell, token in zip(cells, row, strict=False):
                self.inline(cell.paragraphs[0], token, _Style(bold=1 if number == 0 else 0))

    def inline(self, paragraph: Any, token: Any, style: _Style | None = None) -> None:
        style = style or _Style()
        for child in token.children or ():
            match child.type:
                case "strong_open" | "strong_close":
                    style.bold += child.nesting
                case "em_open" | "em_close":
                    style.italic += child.nesting
                case "s_open" | "s_close":
                    style.strike += child.nesting
                case "link_open":
                    style.link = str(child.attrs.get("href", ""))
                case "link_close":
                    style.link = None
                case "softbreak":
                    self.run(paragraph, " ", style)
                case "hardbreak":
                    paragraph.add_run().add_break()
                case "code_inline":
                    self.run(paragraph, child.content, style).font.name = "Courier New"
                case "image":
                    self.run(paragraph, f"[{child.content}]", style)
                case _:
                    self.run(paragraph, child.content, style)

    def run(self, paragraph: Any, text: str, style: _Style) -> Any:
        run = paragraph.add_run(text)
        run.bold, run.italic, run.font.strike = (
            bool(style.bold) or None,
            bool(style.italic) or None,
            bool(style.strike) or None,
        )
        if style.link:
            self.link(paragraph, run, style.link)
        return run

    def link(self, paragraph: Any, run: Any, target: str) -> None:
        """Moves a run into a hyperlink, for which python-docx has no call (1.2)."""
        from docx.opc.constants import RELATIONSHIP_TYPE
        from docx.oxml import OxmlElement
        from docx.oxml.ns import qn

        run.font.underline = True
        element = OxmlElement("w:hyperlink")
        element.set(qn("r:id"), paragraph.part.relate_to(target, RELATIONSHIP_TYPE.HYPERLINK, is_external=True))
        run._r.addprevious(element)
        element.append(run._r)


def _rows(tokens: Sequence[Any]) -> list[list[Any]]:
    """The inline tokens of a table's cells, by rows."""
    rows: list[list[Any]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(token)
    return rows


# Excel


@attrs.frozen
class Sheet:
    name: str
    rows: Sequence[Sequence[str]]


def xlsx_of(text: str, check: Check = lambda: None) -> bytes:
    """CSV (with commas, semicolons or tabs) as one sheet; Markdown with tables as a sheet each, named by the heading above it.

    Numbers, dates and TRUE or FALSE become values where they are written so that nothing of them is lost (``007`` stays text); a text that
    begins with ``=`` stays text too and is never a formula. Raises ``ToolError`` (too large) beyond what a sheet can hold.
    """
    from openpyxl import Workbook

    workbook = Workbook(write_only=True)
    for sheet in _sheets(legal(text), check):
        page = workbook.create_sheet(sheet.name)
        for number, row in enumerate(sheet.rows, 1):
            check()
            if number > MAX_ROWS or len(row) > MAX_COLUMNS:
                raise ToolError(
                    f"a sheet holds {MAX_ROWS:,} rows of {MAX_COLUMNS:,} columns; there are more",
                    kind="too large",
                    hint="write .csv",
                )
            page.append([_cell(page, value, number) for value in row])
    held = io.BytesIO()
    workbook.save(held)
    return held.getvalue()


def _cell(page: Any, text: str, row: int) -> Any:
    from openpyxl.cell import WriteOnlyCell

    if len(text) > MAX_CELL:
        raise ToolError(f"a cell of row {row:,} has {len(text):,} characters; it holds {MAX_CELL:,}", kind="too large")
    value = value_of(text)
    cell = WriteOnlyCell(page, value=value)
    if isinstance(value, str):
        cell.data_type = "s"  # openpyxl takes a text that begins with = for a formula
    return cell


def value_of(text: str) -> str | int | float | bool | datetime.date | None:
    """
    >>> [value_of(t) for t in ("12", "007", "1.50", "TRUE", "", "=1+1", "2026-01-31", "2026-02-31")]
    [12, '007', 1.5, True, None, '=1+1', datetime.date(2026, 1, 31), '2026-02-31']
    """
    if not text:
        return None
    if _NUMBER.fullmatch(text) and text != "-0":
        return float(text) if "." in text else int(text)
    if text in ("TRUE", "FALSE"):
        return text == "TRUE"
    if _DATE.fullmatch(text) and text >= "1900-03-01":  # Excel counts a day in February 1900 that never was
        try:
            return datetime.date.fromisoformat(text)
        except ValueError:
            return text
    return text


def _sheets(text: str, check: Check) -> Iterator[Sheet]:
    if re.search(r"^\s{0,3}\|?[ :|-]*-[ :-]*\|[ :|-]*$", text, re.MULTILINE):
        tables = list(_tables(text, check))
        if tables:
            yield from tables
            return
    first = text[:10_000].partition("\n")[0]
    delimiter = max(",;\t", key=lambda c: (first.count(c), c == ","))
    try:
        rows = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise ToolError(f"the text is no CSV: {error}", kind="invalid arguments") from error
    yield Sheet("Sheet1", rows)


def _tables(text: str, check: Check) -> Iterator[Sheet]:
    tokens = _markdown(text, check)
    heading, used, i = "", set[str](), 0
    while i < len(tokens):
        if tokens[i].type == "heading_open":
            heading = _plain(tokens[i + 1])
        elif tokens[i].type == "table_open":
            end = next(n for n in range(i, len(tokens)) if tokens[n].type == "table_close")
            yield Sheet(_title(heading, used), [[_plain(cell) for cell in row] for row in _rows(tokens[i:end])])
            i = end
        i += 1


def _plain(token: Any) -> str:
    return "".join(" " if child.type == "softbreak" else child.content for child in token.children or ())


def _title(heading: str, used: set[str]) -> str:
    """A name that a sheet may have: at most 31 characters, none of ``[]:*?/\\``, no apostrophe around it, and no other sheet's."""
    base = re.sub(r"[\[\]:*?/\\]", " ", heading).strip("' \t")[:28].strip("' \t") or f"Sheet{len(used) + 1}"
    name, n = base, 1
    while name.casefold() in used:
        n += 1
        name = f"{base[: 30 - len(str(n))]} {n}"
    used.add(name.casefold())
    return name
