"""Reads data files through a throw-away DuckDB connection of their own, never through the user's or a session's instance."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import duckdb
import pyarrow as pa

from kleene.planner.errors import ConfigError
from kleene.planner.identifiers import written
from kleene.session.context.feed import Feed
from kleene.session.text import count, one_line

READERS = {
    ".csv": ("read_csv", "CSV"),
    ".tsv": ("read_csv", "CSV"),
    ".parquet": ("read_parquet", "Parquet"),
    ".json": ("read_json", "JSON"),
    ".jsonl": ("read_json", "JSON lines"),
    ".ndjson": ("read_json", "JSON lines"),
}

SEPARATORS = (";", "\t", "|", ",")

SAMPLED_WHOLE = 64 << 20
"""Files up to this size are read once more to find their types, so that no late row contradicts a guess."""

READABLE = (
    "readable are texts (UTF-8 or UTF-16), PDF, DOCX, PPTX, EML, HTML, folders of these, - for standard input, and as tables .csv, .tsv, .json, "
    ".jsonl, .ndjson (also with .gz), .parquet, .duckdb and .xlsx files"
)


def scratch() -> duckdb.DuckDBPyConnection:
    """An in-memory connection for reading files. Types that Arrow lacks (JSON, HUGEINT, UUID, BIT) keep their names on the way."""
    connection = duckdb.connect(config={"autoinstall_known_extensions": False})
    connection.execute("SET arrow_lossless_conversion = true")
    return connection


@attrs.frozen
class Table:
    """What one table is read from: a query with its parameters, and what its file is called in notes (``shown``) and errors (``path``)."""

    connection: duckdb.DuckDBPyConnection
    query: str
    parameters: dict[str, str]
    path: Path
    shown: str
    kind: str
    notes: tuple[str, ...] = ()

    def feed(self, name: str) -> Feed:
        """The table under a name. Reads the file's head for the schema; raises ``ConfigError`` where that is impossible."""
        with _named(self.path, self.kind):
            schema = self.relation(f"SELECT * FROM ({self.query}) LIMIT 0").arrow().schema
        return Feed(name, schema, self.shown, self._batches)

    def _batches(self, feed: Feed) -> Iterator[pa.RecordBatch]:
        feed.notes.extend(self.notes)
        with _named(self.path, self.kind):
            reader = self.relation(self.query).arrow()
            while (batch := next(reader, None)) is not None:
                yield batch

    def relation(self, query: str) -> duckdb.DuckDBPyRelation:
        """A query that may name the table's parameters."""
        return self.connection.cursor().sql(query, params=self.parameters or None)


def is_data(path: Path) -> bool:
    """True when the name says that the file is a table. DuckDB files are told by content: see ``textfile.binary_kind``."""
    return _suffix(path) in READERS


def file_feed(connection: duckdb.DuckDBPyConnection, path: Path, shown: str, name: str) -> Feed:
    """The feed of one data file. A CSV file that is not UTF-8 is read as Latin-1, with a note."""
    function, kind = READERS[_suffix(path)]
    size = path.stat().st_size
    whole = ", sample_size = -1" if function != "read_parquet" and size <= SAMPLED_WHOLE else ""
    table = Table(connection, f"SELECT * FROM {function}($path{whole})", {"path": _unglobbed(path)}, path, shown, kind)
    if function != "read_csv":
        return table.feed(name)
    try:
        return _doubted(table, whole).feed(name)
    except ConfigError as error:
        if not re.search(r"utf-8|unicode", error.message, re.IGNORECASE):
            raise
    latin = f"{whole}, encoding = 'latin-1'"
    notes = (f"{shown} is not UTF-8: read as Latin-1",)
    return _doubted(attrs.evolve(table, query=f"SELECT * FROM read_csv($path{latin})", notes=notes), latin).feed(name)


def database_tables(connection: duckdb.DuckDBPyConnection, path: Path, shown: str) -> dict[str, Table]:
    """The tables and views of a DuckDB file, attached read-only, by name; those of another schema are named ``schema_table``."""
    alias = f"source_{len(connection.execute('FROM duckdb_databases()').fetchall())}"
    with _named(path, "a DuckDB database"):
        literal = str(path).replace("'", "''")
        connection.execute(f"ATTACH '{literal}' AS {alias} (READ_ONLY)")
        found = connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = $1 AND NOT internal UNION ALL "
            "SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = $1 AND NOT internal ORDER BY ALL",
            [alias],
        ).fetchall()
    tables = {}
    for schema, table in found:
        query = f"SELECT * FROM {alias}.{_quoted(schema)}.{_quoted(table)}"
        name = table if schema == "main" else f"{schema}_{table}"
        tables[name] = Table(connection, query, {}, path, shown, "a DuckDB database")
    return tables


def reserved_words(connection: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """The words that cannot name a table without quotes."""
    query = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category IN ('reserved', 'type_function')"
    return frozenset(row[0] for row in connection.execute(query).fetchall())


def _doubted(table: Table, options: str) -> Table:
    """A CSV table with a warning where its separator could not be told (one column, and its first lines hold a mark that separates
    elsewhere), and one where lines before those that DuckDB took for the table were left out."""
    notes = list(table.notes)
    with _named(table.path, table.kind):
        sniffed = f"SELECT SkipRows, list_transform(Columns, lambda c: c.name) FROM sniff_csv($path{options})"
        ((skipped, columns),) = table.relation(sniffed).fetchall()
        first = table.relation(f"SELECT * FROM ({table.query}) LIMIT 5").fetchall() if len(columns) == 1 else []
    lines = [*columns, *(str(v) for (v,) in first)]
    mark = next((m for m in SEPARATORS if first and sum(m in line for line in lines) > 1), None)
    if mark is not None:
        shown = "chr(9)" if mark == "\t" else f"'{mark}'"
        notes.append(
            f"{table.shown} was read as one column, its separator could not be told: string_split({written(columns[0])}, {shown}) takes it apart"
        )
    if skipped:
        notes.append(
            f"the first {count(skipped, 'line')} of {table.shown} {'is' if skipped == 1 else 'are'} not in the table: the columns differ from "
            f"those of the lines that follow"
        )
    return attrs.evolve(table, notes=tuple(notes))


@contextmanager
def _named(path: Path, kind: str) -> Iterator[None]:
    """Turns what DuckDB, Arrow or the system say of a file into an error that names it."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        said = re.sub(r"^[A-Z][A-Za-z ]*Error: ", "", str(error).strip())
        hint = READABLE
        if "already attached" in said or "different configuration" in said or "Conflicting lock" in said:
            hint = "it is open elsewhere: close it there, or hand over its tables by name"
        raise ConfigError(f"cannot read {path} as {kind}: {one_line(said, 300)}", hint=hint) from None


def _suffix(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz").removesuffix(".zst")
    return Path(name).suffix


def _unglobbed(path: Path) -> str:
    """The path as a pattern that matches only itself."""
    return re.sub(r"[\[*?]", lambda m: f"[{m[0]}]", str(path))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
