"""The tools that read documents: read, read_pages, read_table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from kleene.planner.errors import ToolError, did_you_mean
from kleene.tools import documents
from kleene.tools.base import Row, Work
from kleene.tools.documents.base import plain
from kleene.tools.documents.headers import named
from kleene.tools.jail import too_large
from kleene.tools.reading_apart import Readers


@contextmanager
def readers_of(work: Work) -> Iterator[Readers]:
    """Those of the engine; where a tool is used without one, its own for this use."""
    if work.readers is not None:
        yield work.readers
        return
    with closing(Readers()) as readers:
        yield readers


@contextmanager
def _source(work: Work, path: str) -> Iterator[documents.Source]:
    with work.workspace.open(path) as file:
        if file.size > work.limits.file_bytes:
            raise too_large(file.path, file.size, work.limits.file_bytes)
        with file.stream() as stream:
            yield documents.Source(file.path, stream, work.check)


def read(work: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
    with _source(work, arguments[0]) as source, readers_of(work) as readers:
        yield (readers.text(source, seconds=work.limits.seconds),)


def read_pages(work: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
    with _source(work, arguments[0]) as source, readers_of(work) as readers:
        for page in readers.pages(source, seconds=work.limits.seconds):
            yield page.number, page.title, page.text


def read_table(work: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
    path, wanted, header = arguments
    if header is not None and header < 0:
        raise ToolError(f"a header is a row's number from 1, or 0 for none, not {header}", kind="invalid arguments")
    with _source(work, path) as source, readers_of(work) as readers:
        names, found = [], False
        for number, table in enumerate(readers.tables(source, wanted, seconds=work.limits.seconds), 1):
            names.append(table.name)
            if documents.is_wanted(table.name, number, wanted):
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
