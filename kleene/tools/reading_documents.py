"""The tools that read documents: read, read_pages, read_table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kleene.planner.errors import ToolError, did_you_mean
from kleene.tools import documents
from kleene.tools.base import Row, Work
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


def read(work: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
    with _source(work, arguments[0]) as source:
        yield (documents.text(source),)


def read_pages(work: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
    with _source(work, arguments[0]) as source:
        for page in documents.pages(source):
            yield page.number, page.title, page.text


def read_table(work: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
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
