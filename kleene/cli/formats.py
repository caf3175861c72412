"""Rows in the five formats: table, json, jsonl, csv, markdown. Written as they are read, line by line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import TextIO

from kleene.cli.rows import Cells, Relation, as_json, as_text, is_number, unique
from kleene.cli.table import Limits, table_lines

SCREEN_ROWS = 100  # what a terminal shows of a table; every other form and every pipe gets all rows


def write_rows(relation: Relation, format_: str, out: TextIO, limits: Limits | None = None) -> None:
    """Write every row. A relation without columns writes nothing.

    NULL is ``NULL`` in a table and in Markdown, ``null`` in JSON and an empty field in CSV, where an empty string is ``""``.
    """
    if not relation.columns:
        return
    lines = table_lines(relation, limits or Limits()) if format_ == "table" else WRITERS[format_](relation)
    for line in lines:
        out.write(line + "\n")


def jsonl_lines(relation: Relation) -> Iterator[str]:
    keys = [json.dumps(name, ensure_ascii=False) for name in unique(relation.columns)]
    for batch in as_json(relation):
        for row in batch:
            yield json_object(keys, row)


def json_object(keys: list[str], row: Cells) -> str:
    return "{" + ",".join(f"{k}:{'null' if v is None else v}" for k, v in zip(keys, row, strict=True)) + "}"


def json_lines(relation: Relation) -> Iterator[str]:
    """One array with one object a line. What was written is not JSON until the last line is."""
    last = None
    for line in jsonl_lines(relation):
        yield "[" if last is None else last + ","
        last = line
    if last is None:
        yield "[]"
    else:
        yield last
        yield "]"


def csv_lines(relation: Relation) -> Iterator[str]:
    yield ",".join(csv_field(name) for name in relation.columns)
    for batch in as_text(relation):
        for row in batch:
            yield ",".join(csv_field(cell) for cell in row)


QUOTED = re.compile(r'[",\r\n]|\A\s|\s\Z')


def csv_field(cell: str | None) -> str:
    """NULL is nothing, an empty string a pair of quotes; quotes are doubled.

    >>> [csv_field(c) for c in (None, "", "plain", "a,b", 'say "so" now')]
    ['', '""', 'plain', '"a,b"', '"say ""so"" now"']
    """
    if cell is None:
        return ""
    if cell == "" or QUOTED.search(cell):
        return '"' + cell.replace('"', '""') + '"'
    return cell


def markdown_lines(relation: Relation) -> Iterator[str]:
    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    yield line([markdown_cell(name) for name in relation.columns])
    yield line(["---:" if is_number(t) else "---" for t in relation.types])
    for batch in as_text(relation):
        for row in batch:
            yield line(["NULL" if cell is None else markdown_cell(cell) for cell in row])


def markdown_cell(cell: str) -> str:
    r"""
    >>> markdown_cell("a|b" + chr(10) + "c")
    'a\\|b<br>c'
    """
    return re.sub(r"\r\n|\r|\n", "<br>", cell.replace("\\", "\\\\").replace("|", "\\|"))


WRITERS: dict[str, Callable[[Relation], Iterator[str]]] = {
    "json": json_lines,
    "jsonl": jsonl_lines,
    "csv": csv_lines,
    "markdown": markdown_lines,
}
