"""Rows in the five formats: table, json, jsonl, csv, markdown. Written as they are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TextIO

from kleene.rendering.rows import Relation, as_text, csv_batches, is_number, json_batches
from kleene.rendering.table import Limits, table_lines

SCREEN_ROWS = 100  # what a terminal shows of a table; every other form and every pipe gets all rows


def write_rows(relation: Relation, format_: str, out: TextIO, limits: Limits | None = None) -> None:
    """Write every row, some thousand at a time. A relation without columns writes nothing.

    NULL is ``NULL`` in a table and in Markdown, ``null`` in JSON and an empty field in CSV, where an empty string is ``""``.
    """
    if not relation.columns:
        return
    batches = (
        iter([list(table_lines(relation, limits or Limits()))]) if format_ == "table" else WRITERS[format_](relation)
    )
    for batch in batches:
        out.write("\n".join(batch) + "\n")


def json_array(relation: Relation) -> Iterator[list[str]]:
    """One array with one object a line. What was written is not JSON until the last line is."""
    last = "["
    first = True
    for batch in json_batches(relation):
        separated = [last] if first else [last + ","]
        separated += [line + "," for line in batch[:-1]]
        last, first = batch[-1], False
        yield separated
    yield ["[]"] if first else [last, "]"]


def csv_file(relation: Relation) -> Iterator[list[str]]:
    yield [",".join(csv_field(name) for name in relation.columns)]
    yield from csv_batches(relation)


QUOTED = re.compile(r'[",\r\n]|\A\s|\s\Z')


def csv_field(cell: str | None) -> str:
    """A field: NULL is nothing, an empty string a pair of quotes; quotes are doubled.

    >>> [csv_field(c) for c in (None, "", "plain", "a,b", 'say "so" now')]
    ['', '""', 'plain', '"a,b"', '"say ""so"" now"']
    """
    if cell is None:
        return ""
    if cell == "" or QUOTED.search(cell):
        return '"' + cell.replace('"', '""') + '"'
    return cell


def markdown_table(relation: Relation) -> Iterator[list[str]]:
    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    yield [
        line([markdown_cell(name) for name in relation.columns]),
        line(["---:" if is_number(t) else "---" for t in relation.types]),
    ]
    for batch in as_text(relation):
        yield [line(["NULL" if cell is None else markdown_cell(cell) for cell in row]) for row in batch]


def markdown_cell(cell: str) -> str:
    r"""
    >>> markdown_cell("a|b" + chr(10) + "c")
    'a\\|b<br>c'
    """
    return re.sub(r"\r\n|\r|\n", "<br>", cell.replace("\\", "\\\\").replace("|", "\\|"))


WRITERS: dict[str, Callable[[Relation], Iterator[list[str]]]] = {
    "json": json_array,
    "jsonl": json_batches,
    "csv": csv_file,
    "markdown": markdown_table,
}
