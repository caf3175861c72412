"""CSV files as tables, through the standard library; all their cells are text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from kleene.tools.documents.base import Cell, Source, Table, explained
from kleene.tools.documents.kinds import Kind
from kleene.tools.texts import decode

DELIMITERS = ",;\t|"
SAMPLE = 64 << 10
CHECKED = 1_000


def tables(source: Source) -> Iterator[Table]:
    yield Table("table 1", _rows(source))


def _rows(source: Source) -> Iterator[tuple[int, list[Cell]]]:
    with explained(source, Kind.CSV.value):
        text = decode(source.bytes())
        delimiter = "\t" if source.extension == ".tsv" else _delimiter(text[:SAMPLE])
        for number, row in enumerate(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), 1):
            if number % CHECKED == 0:
                source.check()
            if any(row):
                yield number, list(row)


def _delimiter(sample: str) -> str:
    """The one that cuts the first lines into the most columns of the same number; a comma where none does.

    >>> _delimiter("a;b;c\\n1,5;2;3\\n"), _delimiter("one column\\nhello, world\\n")
    (';', ',')
    """
    best, most = ",", 1
    for delimiter in DELIMITERS:
        rows = list(csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter))[:50]
        widths = [len(row) for row in rows[:-1] or rows if row]
        if widths and min(widths) == max(widths) > most:
            best, most = delimiter, widths[0]
    return best
