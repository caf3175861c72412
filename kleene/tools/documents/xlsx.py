"""Excel workbooks, sheet by sheet and row by row, through openpyxl."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

from kleene.tools.documents import archive
from kleene.tools.documents.base import Cell, Page, Source, Table, explained, library, shown
from kleene.tools.documents.kinds import Kind

CHECKED = 500


def pages(source: Source) -> Iterator[Page]:
    """Each sheet as CSV."""
    for number, table in enumerate(tables(source), 1):
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        for _, row in table.rows:
            writer.writerow([shown(cell) for cell in row])
        yield Page(number, table.name, out.getvalue().rstrip("\n"))


def tables(source: Source) -> Iterator[Table]:
    """Each sheet, read as its rows are asked for, and to be read before the next. Empty rows and columns at the end are left out.

    A formula is its last computed value, and its text where nothing was ever computed.
    """
    openpyxl = library("openpyxl", "Excel workbooks")
    with explained(source, Kind.XLSX.value), ExitStack() as stack:
        archive.checked(source, Kind.XLSX.value)
        has_formulas = _has_formulas(source)
        # Links to other workbooks are not followed or even read.
        options = {"read_only": True, "keep_links": False}
        values = stack.enter_context(closing(openpyxl.load_workbook(source.stream, data_only=True, **options)))
        formulas = None
        if has_formulas:
            formulas = stack.enter_context(closing(openpyxl.load_workbook(source.stream, data_only=False, **options)))
        for sheet in values.worksheets:
            yield Table(sheet.title, _rows(source, sheet, formulas[sheet.title] if formulas else None))


def _rows(source: Source, sheet: Any, formulas: Any) -> Iterator[tuple[int, list[Cell]]]:
    with explained(source, Kind.XLSX.value):
        written = None if formulas is None else _cells(formulas)
        for number, row in enumerate(_cells(sheet), 1):
            if number % CHECKED == 0:
                source.check()
            cells = list(row)
            if written is not None:
                texts = next(written, ())
                cells = [_formula(texts, i) if cell is None else cell for i, cell in enumerate(cells)]
            while cells and cells[-1] in (None, ""):
                cells.pop()
            if cells:
                yield number, cells


def _cells(sheet: Any) -> Iterator[tuple[Cell, ...]]:
    # What a sheet says of its size may be false: too small hides rows, too large makes millions of empty ones.
    sheet.reset_dimensions()
    rows: Iterator[tuple[Cell, ...]] = sheet.iter_rows(values_only=True)
    return rows


def _formula(texts: tuple[Cell, ...], index: int) -> Cell:
    return texts[index] if index < len(texts) else None


def _has_formulas(source: Source) -> bool:
    with zipfile.ZipFile(source.stream) as book:
        for name in book.namelist():
            if name.startswith("xl/worksheets/") and name.endswith(".xml"):
                with book.open(name) as part:
                    tail = b""
                    while piece := part.read(1 << 20):
                        if b"<f>" in (seen := tail + piece) or b"<f " in seen:
                            return True
                        tail = piece[-2:]
                        source.check()
    return False
