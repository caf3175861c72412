"""Rows as exact text: DuckDB itself prints each value, so that what is shown is what a cast to VARCHAR gives.

Python's own values would lose intervals (``1 month`` becomes 30 days), infinite dates and nanoseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    import duckdb
    import pyarrow

BATCH = 2048
Cells = tuple[str | None, ...]


class Relation(Protocol):
    """What a statement gives: ``types`` are DuckDB's names."""

    @property
    def columns(self) -> Sequence[str]: ...

    @property
    def types(self) -> Sequence[str]: ...

    def to_arrow_table(self) -> pyarrow.Table: ...


@attrs.frozen
class Table:
    """A relation that is at hand."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    table: pyarrow.Table

    def to_arrow_table(self) -> pyarrow.Table:
        return self.table

    @classmethod
    def of(cls, relation: duckdb.DuckDBPyRelation) -> Table:
        return cls(tuple(relation.columns), tuple(str(t) for t in relation.types), relation.to_arrow_table())


NUMBER = re.compile(r"(U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|BIGNUM|DECIMAL\(\d+,\s*\d+\))\Z")
FLOATING = ("FLOAT", "DOUBLE")


def is_number(type_: str) -> bool:
    """Whether a DuckDB type's values are numbers, to be aligned to the right.

    >>> is_number("DECIMAL(9,2)"), is_number("DOUBLE"), is_number("DOUBLE[]")
    (True, True, False)
    """
    return type_ in FLOATING or NUMBER.match(type_) is not None


def as_text(relation: Relation) -> Iterator[list[Cells]]:
    """Batches of rows, each value as DuckDB casts it to VARCHAR; NULL is None."""
    table = relation.to_arrow_table()
    return printed(table, [f"CAST({value} AS VARCHAR)" for value in values(relation, table)])


def as_json(relation: Relation) -> Iterator[list[Cells]]:
    """Batches of rows, each value as JSON text on one line; NULL is None.

    Numbers keep every digit; NaN and the infinities, which JSON does not have, become strings; a JSON value stays as it was written.
    """
    table = relation.to_arrow_table()
    exprs = [json_of(value, type_) for value, type_ in zip(values(relation, table), relation.types, strict=True)]
    nested = [i for i, t in enumerate(relation.types) if t not in FLOATING and any(f in t for f in FLOATING)]
    for rows in printed(table, exprs):
        yield [without_nan(row, nested) for row in rows] if nested else rows


def json_of(value: str, type_: str) -> str:
    if type_ in FLOATING:
        odd = f"CASE WHEN isnan({value}) THEN '\"NaN\"' WHEN {value} > 0 THEN '\"Infinity\"' WHEN {value} < 0 THEN '\"-Infinity\"' END"
        return f"CASE WHEN isfinite({value}) THEN CAST({value} AS VARCHAR) ELSE {odd} END"
    if is_number(type_):
        return f"CAST({value} AS VARCHAR)"
    if type_ == "JSON":
        # Line ends can only stand between the tokens of a JSON text: a space there changes nothing.
        return f"translate(CAST({value} AS VARCHAR), chr(10) || chr(13), '  ')"
    return f"CAST(to_json({value}) AS VARCHAR)"


NAN = re.compile(r'"(?:[^"\\]|\\.)*"|-?(?:NaN|Infinity)')


def without_nan(row: Cells, columns: Sequence[int]) -> Cells:
    cells = list(row)
    for i in columns:
        text = cells[i]
        if text is not None and ("NaN" in text or "Infinity" in text):
            cells[i] = NAN.sub(lambda m: m[0] if m[0].startswith('"') else f'"{m[0]}"', text)
    return tuple(cells)


def values(relation: Relation, table: pyarrow.Table) -> list[str]:
    """One SQL expression a column, with the types that Arrow does not carry given back."""
    return [
        f"CAST(c{i} AS {type_})" if comes_back(type_, str(arrow)) else f"c{i}"
        for i, (type_, arrow) in enumerate(zip(relation.types, table.schema.types, strict=True))
    ]


def comes_back(type_: str, arrow: str) -> bool:
    """Whether a cast to the type restores what Arrow lost: JSON arrives as text, a TUPLE as a struct."""
    if re.search(r"\b(UNION|VARIANT)\b", type_):
        return False
    return "JSON" in type_ if arrow == "string" else re.search(r"\b(JSON|TUPLE)\b", type_) is not None


def printed(table: pyarrow.Table, exprs: Sequence[str]) -> Iterator[list[Cells]]:
    import duckdb

    if not exprs:
        return
    with duckdb.connect() as con:
        zone = time_zone(table.schema)
        if zone is not None:
            con.execute("SET TimeZone = ?", [zone])
        con.register("rows", table.rename_columns([f"c{i}" for i in range(len(exprs))]))
        con.execute(f"SELECT {', '.join(exprs)} FROM rows")
        while batch := con.fetchmany(BATCH):
            yield batch


def time_zone(schema: pyarrow.Schema) -> str | None:
    """The session's time zone, which Arrow keeps with each TIMESTAMPTZ column; None where there is none."""
    found = re.search(r"timestamp\[\w+, tz=([^\]]+)\]", "\n".join(str(t) for t in schema.types))
    return found[1] if found else None


def unique(columns: Sequence[str]) -> list[str]:
    """Column names made different from each other, as DuckDB does it for a subquery.

    >>> unique(["a", "a", "b", "a"])
    ['a', 'a_1', 'b', 'a_2']
    """
    taken: set[str] = set()
    names = []
    for column in columns:
        name, n = column, 0
        while name in taken:
            n += 1
            name = f"{column}_{n}"
        taken.add(name)
        names.append(name)
    return names
