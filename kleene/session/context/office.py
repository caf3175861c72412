"""Documents (PDF, DOCX, XLSX, PPTX, EML, HTML) as paragraphs of ctx, and the sheets of workbooks as tables, read in a process of
their own (``kleene.tools.reading_apart``)."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import attrs
import pyarrow as pa

from kleene.planner.errors import ConfigError, ToolError
from kleene.session.context.feed import Feed
from kleene.session.context.names import Called, stem
from kleene.session.context.paragraphs import paragraphs
from kleene.tools import documents
from kleene.tools.documents import Kind
from kleene.tools.documents.base import Cell, shown
from kleene.tools.documents.headers import named
from kleene.tools.reading_apart import Readers

_OFFICE = (Kind.PDF, Kind.DOCX, Kind.XLSX, Kind.PPTX, Kind.EML, Kind.HTML)
_PAGED = {Kind.PDF: "page {0.number}", Kind.PPTX: "slide {0.number}", Kind.XLSX: "sheet {0.title}"}
BATCH_ROWS = 2_048


def kind_of(path: Path, name: Called, notes: list[str], readers: Readers) -> Kind | None:
    """The kind of a document, None for a text and for what is none. Raises ``ConfigError`` for one that cannot be read: encrypted, of an old
    format, or without the library for it; HTML is then read as it is, with a note."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as stream:
            kind = readers.kind(documents.Source(name.label, stream))
    except OSError:
        return None
    except ToolError as error:
        raise ConfigError(f"cannot read {name.label}: {error.message}", hint=error.hint) from None
    if kind not in _OFFICE or kind is None:
        return None
    if not documents.can_read(kind):
        install = "pip install 'kleene[documents]'"
        if kind is Kind.HTML:
            notes.append(f"{name.shown} is read with its tags: {install} reads HTML")
            return None
        raise ConfigError(f"reading {kind.value} needs a library that is not installed: {name.label}", hint=install)
    return kind


def paragraphs_of(stream: BinaryIO, name: Called, kind: Kind, readers: Readers) -> Iterator[tuple[str, str]]:
    """Each paragraph with where it stands: the source, and the page, slide, sheet or attachment. Raises ``ToolError``."""
    for page in readers.pages(documents.Source(name.label, stream)):
        where = _PAGED[kind].format(page) if kind in _PAGED else None
        if kind is Kind.EML and page.number > 1:
            where = page.title
        for text in paragraphs(io.StringIO(page.text)):
            yield text, f"{name.shown}, {where}" if where else name.shown


@attrs.frozen
class Sheet:
    """A sheet's rows in columns, each of one type: BOOLEAN, BIGINT, DOUBLE, DATE or TIMESTAMP where all its cells are, else VARCHAR."""

    table: pa.Table
    source: str

    def feed(self, name: str) -> Feed:
        return Feed(name, self.table.schema, self.source, lambda _: iter(self.table.to_batches(BATCH_ROWS)))


def sheets(path: Path, name: Called, readers: Readers) -> list[tuple[str, Sheet]]:
    """The sheets of a workbook that have a header and rows, with the name each would have as a table: the file's, and the sheet's where
    there are several. Raises ``ConfigError``."""
    found = []
    try:
        with path.open("rb") as stream:
            for table in readers.tables(documents.Source(name.label, stream)):
                rows = [cells for _, cells in named(table.rows, None)]
                if rows:
                    found.append((table.name, Sheet(_columns(rows), f"{name.shown}, sheet {table.name}")))
    except ToolError as error:
        raise ConfigError(error.message, hint=error.hint) from None
    except OSError as error:
        raise ConfigError(f"cannot read {name.label}: {error.strerror or error}") from None
    base = stem(path.name)
    return [(base if len(found) == 1 else f"{base}_{title}", sheet) for title, sheet in found]


def _columns(rows: list[dict[str, Cell]]) -> pa.Table:
    # The last row knows all names: a row may be longer than the header and add some.
    names: list[str] = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: _column([row.get(name) for row in rows]) for name in names})


def _column(cells: list[Cell]) -> pa.Array:
    kinds = {type(cell) for cell in cells if cell is not None and cell != ""}
    values: list[Any] = [None if cell == "" else cell for cell in cells]
    try:
        if kinds == {bool}:
            return pa.array(values, pa.bool_())
        if kinds and kinds <= {int, float}:
            whole = all(v is None or (float(v).is_integer() and abs(v) < 2**53) for v in values)
            return pa.array(
                [v if v is None else int(v) if whole else float(v) for v in values],
                pa.int64() if whole else pa.float64(),
            )
        if kinds and kinds <= {dt.date, dt.datetime}:
            midnight = all(not isinstance(v, dt.datetime) or v.time() == dt.time() for v in values)
            if midnight:
                return pa.array([v.date() if isinstance(v, dt.datetime) else v for v in values], pa.date32())
            return pa.array(
                [v if isinstance(v, dt.datetime) or v is None else dt.datetime.combine(v, dt.time()) for v in values],
                pa.timestamp("us"),
            )
    except (pa.ArrowException, OverflowError):
        pass  # a number beyond BIGINT, a year beyond TIMESTAMP: as text
    return pa.array([None if cell is None else shown(cell) for cell in cells], pa.string())
