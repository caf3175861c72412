"""The tools that read documents: read, read_pages, read_table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kleene.planner.errors import ToolError, did_you_mean
from kleene.planner.specs import Param, Volatility
from kleene.tools import documents
from kleene.tools.base import Row, Tool, Work
from kleene.tools.documents.base import plain
from kleene.tools.documents.headers import named
from kleene.tools.jail import too_large


@contextmanager
def _source(work: Work, path: str) -> Iterator[documents.Source]:
    with work.workspace.open(path) as file:
        if file.size > work.limits.file_bytes:
            raise too_large(file.path, file.size, work.limits.file_bytes)
        with file.stream() as stream:
            yield documents.Source(file.path, stream, work.check)


def _read(work: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
    with _source(work, arguments[0]) as source:
        yield (documents.text(source),)


def _read_pages(work: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
    with _source(work, arguments[0]) as source:
        for page in documents.pages(source):
            yield page.number, page.title, page.text


def _read_table(work: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
    path, wanted, header = arguments
    if header is not None and header < 0:
        raise ToolError(f"a header is a row's number from 1, or 0 for none, not {header}", kind="invalid arguments")
    with _source(work, path) as source:
        names, found = [], False
        for number, table in enumerate(documents.tables(source), 1):
            names.append(table.name)
            if wanted is None or wanted.casefold() == table.name.casefold() or wanted == str(number):
                found = True
                for row, cells in named(table.rows, header):
                    yield table.name, row, {name: plain(cell) for name, cell in cells.items()}
        if wanted is not None and not found:
            near = did_you_mean(wanted, names)
            listed = f"there are: {', '.join(names[:20])}" if names else "it holds none"
            raise ToolError(
                f"{source.name} has no table {wanted!r}",
                kind="invalid arguments",
                hint=f"did you mean {near!r}?" if near else listed,
            )


PATH, TEXT = Param("path", "VARCHAR"), Param("text", "VARCHAR")

READ = Tool(
    name="read",
    params=(PATH,),
    required=1,
    columns=(TEXT,),
    run=_read,
    volatility=Volatility.STABLE,
    description="a whole file as text (one row); PDF, DOCX, XLSX, PPTX, EML, HTML too, as Markdown",
)
READ_PAGES = Tool(
    name="read_pages",
    params=(PATH,),
    required=1,
    columns=(Param("page", "BIGINT"), Param("title", "VARCHAR"), TEXT),
    run=_read_pages,
    volatility=Volatility.STABLE,
    description="a document page by page: PDF pages, slides, sheets as CSV, a mail and its attachments, sections of all else",
)
READ_TABLE = Tool(
    name="read_table",
    params=(PATH, Param("sheet", "VARCHAR"), Param("header", "BIGINT")),
    required=1,
    columns=(Param("sheet", "VARCHAR"), Param("row", "BIGINT"), Param("cells", "JSON")),
    run=_read_table,
    volatility=Volatility.STABLE,
    description="the rows of a document's tables (XLSX, CSV, DOCX, PPTX, HTML): cells->>'Column'; header 0: no names, A, B, ...",
)
