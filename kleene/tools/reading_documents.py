"""The tools that read documents: read, read_pages, read_table."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from kleene.planner.errors import ToolError, did_you_mean
from kleene.planner.specs import Param, Volatility
from kleene.tools import documents
from kleene.tools.base import Row, Tool, Work
from kleene.tools.documents.base import Cell, plain, shown
from kleene.tools.jail import too_large

HEADER_WITHIN = 20
"""So many rows are looked at for the one with the names of the columns."""


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
                for row, cells in _named(table.rows, header):
                    yield table.name, row, json.dumps(cells, ensure_ascii=False)
        if wanted is not None and not found:
            near = did_you_mean(wanted, names)
            listed = f"there are: {', '.join(names[:20])}" if names else "it holds none"
            raise ToolError(
                f"{source.name} has no table {wanted!r}",
                kind="invalid arguments",
                hint=f"did you mean {near!r}?" if near else listed,
            )


def _named(rows: Iterable[tuple[int, list[Cell]]], header: int | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows below the header, their cells by its names, NULL where a row is shorter.

    Without a number the header is the first row with two filled cells (titles stand above it), or the first row where none has.
    """
    iterator = iter(rows)
    if header == 0:
        for number, cells in iterator:
            yield number, {letters(i): plain(cell) for i, cell in enumerate(cells)}
        return
    if header is None:
        first = list(itertools.islice(iterator, HEADER_WITHIN))
        wide = next((i for i, (_, cells) in enumerate(first) if sum(c not in (None, "") for c in cells) > 1), 0)
        iterator = itertools.chain(first[wide:], iterator)
    else:
        iterator = itertools.dropwhile(lambda row: row[0] < header, iterator)
    names: list[str] | None = None
    for number, cells in iterator:
        if names is None:
            names = column_names(cells)
            continue
        for i in range(len(names), len(cells)):
            names.append(_unused(letters(i), names))
        yield number, dict(itertools.zip_longest(names, map(plain, cells)))


def column_names(cells: list[Cell]) -> list[str]:
    """The names that a header gives, on one line each; an empty one is its column's letter, one that was there before gets a number.

    >>> column_names(["Part", None, "Price", "Price"])
    ['Part', 'B', 'Price', 'Price_2']
    """
    names: list[str] = []
    for i, cell in enumerate(cells):
        names.append(_unused(" ".join(shown(cell).split()) or letters(i), names))
    return names


def _unused(name: str, names: list[str]) -> str:
    if name not in names:
        return name
    return next(f"{name}_{n}" for n in itertools.count(2) if f"{name}_{n}" not in names)


def letters(index: int) -> str:
    """A column's letters as in a sheet, from index 0.

    >>> [letters(i) for i in (0, 25, 26, 701, 702)]
    ['A', 'Z', 'AA', 'ZZ', 'AAA']
    """
    text = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        text = chr(ord("A") + rest) + text
    return text


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
