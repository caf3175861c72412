"""Rows as exact text: what is shown is what DuckDB's cast to VARCHAR gives.

DuckDB itself prints each value. Python's own would lose intervals (``1 month`` becomes 30 days), infinite dates and nanoseconds; where a result
has texts, whole numbers and truths only, nothing is lost and no database is opened, which takes 25 ms.
"""

from __future__ import annotations

import json
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


def text_table(columns: tuple[str, ...], rows: Sequence[Sequence[str | None]]) -> Table:
    """Rows of text that no statement gave."""
    import pyarrow

    arrays = [pyarrow.array([row[i] for row in rows], pyarrow.string()) for i in range(len(columns))]
    return Table(columns, ("VARCHAR",) * len(columns), pyarrow.table(arrays, names=list(columns)))


NUMBER = re.compile(r"(U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|BIGNUM|DECIMAL\(\d+,\s*\d+\))\Z")
FLOATING = ("FLOAT", "DOUBLE")
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
PLAIN = frozenset(("VARCHAR", "BOOLEAN", *INTEGERS))
"""Types whose values Python prints as DuckDB does."""


def is_number(type_: str) -> bool:
    """Whether a DuckDB type's values are numbers, to be aligned to the right.

    >>> is_number("DECIMAL(9,2)"), is_number("DOUBLE"), is_number("DOUBLE[]")
    (True, True, False)
    """
    return type_ in FLOATING or NUMBER.match(type_) is not None


def as_text(relation: Relation) -> Iterator[list[Cells]]:
    """Batches of rows, each value as DuckDB casts it to VARCHAR; NULL is None."""
    table = relation.to_arrow_table()
    if table.num_columns and PLAIN.issuperset(relation.types):
        return plainly(table)
    return printed(table, [text_of(v, t) for v, t in zip(values(relation, table), relation.types, strict=True)])


def csv_batches(relation: Relation) -> Iterator[list[str]]:
    """Batches of lines, the fields as ``csv_field`` of the formats writes them. DuckDB puts the lines together."""
    table = relation.to_arrow_table()
    fields = [csv_of(value, type_) for value, type_ in zip(values(relation, table), relation.types, strict=True)]
    return lines(table, " || ',' || ".join(fields))


def json_batches(relation: Relation) -> Iterator[list[str]]:
    """Batches of lines, each row one JSON object. DuckDB puts the lines together.

    Numbers keep every digit; NaN and the infinities, which JSON does not have, become strings; a JSON value stays as it was written.
    """
    table = relation.to_arrow_table()
    fields = []
    for name, value, type_ in zip(unique(relation.columns), values(relation, table), relation.types, strict=True):
        key = sql_text(json.dumps(name, ensure_ascii=False) + ":")
        fields.append(f"{key} || coalesce({json_of(value, type_)}, 'null')")
    nested = any(type_ not in FLOATING and any(f in type_ for f in FLOATING) for type_ in relation.types)
    for batch in lines(table, "'{' || " + " || ',' || ".join(fields) + " || '}'"):
        yield [without_nan(line) for line in batch] if nested else batch


def text_of(value: str, type_: str) -> str:
    """The SQL that prints a value. A decimal below one has its zero (DuckDB prints .50 where the type has no digit before the point)."""
    text = f"CAST({value} AS VARCHAR)"
    return f"regexp_replace({text}, '^(-?)[.]', '\\10.')" if type_.startswith("DECIMAL(") and is_number(type_) else text


def csv_of(value: str, type_: str) -> str:
    text = text_of(value, type_)
    if is_number(type_):
        return f"coalesce({text}, '')"
    quoted = f"""'"' || replace({text}, '"', '""') || '"'"""
    return f"""CASE WHEN {value} IS NULL THEN '' WHEN {text} = '' OR regexp_matches({text}, '[",\\r\\n]|^\\s|\\s$') THEN {quoted} ELSE {text} END"""


def json_of(value: str, type_: str) -> str:
    if type_ in FLOATING:
        odd = f"CASE WHEN isnan({value}) THEN '\"NaN\"' WHEN {value} > 0 THEN '\"Infinity\"' WHEN {value} < 0 THEN '\"-Infinity\"' END"
        return f"CASE WHEN isfinite({value}) THEN CAST({value} AS VARCHAR) ELSE {odd} END"
    if is_number(type_):
        return text_of(value, type_)
    if type_ == "JSON":
        # Line ends can only stand between the tokens of a JSON text: a space there changes nothing.
        return f"translate(CAST({value} AS VARCHAR), chr(10) || chr(13), '  ')"
    return f"CAST(to_json({value}) AS VARCHAR)"


NAN = re.compile(r'"(?:[^"\\]|\\.)*"|-?(?:NaN|Infinity)')


def without_nan(line: str) -> str:
    """The line with NaN and the infinities as strings; what stands in a string is left alone.

    >>> without_nan('{"a":[NaN,"NaN",-Infinity]}')
    '{"a":["NaN","NaN","-Infinity"]}'
    """
    if "NaN" not in line and "Infinity" not in line:
        return line
    return NAN.sub(lambda m: m[0] if m[0].startswith('"') else f'"{m[0]}"', line)


def sql_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


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


def plainly(table: pyarrow.Table) -> Iterator[list[Cells]]:
    for batch in table.combine_chunks().to_batches(max_chunksize=BATCH):
        yield list(zip(*([_plain(v) for v in column.to_pylist()] for column in batch.columns), strict=True))


def _plain(value: str | int | bool | None) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value).lower()  # a truth is lower case; a number has no case


def printed(table: pyarrow.Table, exprs: Sequence[str]) -> Iterator[list[Cells]]:
    import duckdb

    with duckdb.connect() as con:
        zone = time_zone(table.schema)
        if zone is not None:
            con.execute("SET TimeZone = ?", [zone])
        con.register("rows", table.rename_columns([f"c{i}" for i in range(table.num_columns)]))
        con.execute(f"SELECT {', '.join(exprs)} FROM rows")
        while batch := con.fetchmany(BATCH):
            yield batch


def lines(table: pyarrow.Table, expr: str) -> Iterator[list[str]]:
    """Batches of an expression's values, which are never NULL."""
    for batch in printed(table, [expr]):
        yield [line for (line,) in batch if line is not None]


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
