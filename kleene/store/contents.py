"""What a database file holds, asked in a way that the file cannot answer itself.

A macro or a view of a file stands before DuckDB's own function or table of that name. So the listings are named in full, where no file has a
place, and what they say is judged here: ``count``, ``max`` and ``lower`` may be the file's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LISTINGS = {
    "table": ("duckdb_tables", "table_name, schema_name"),
    "view": ("duckdb_views", "view_name, schema_name"),
    "function": ("duckdb_functions", "function_name, schema_name"),
    "type": ("duckdb_types", "type_name, schema_name"),
    "schema": ("duckdb_schemas", "schema_name, schema_name"),
}
BUILT_IN = "main"  # the schema that every file has


@attrs.frozen
class Held:
    """An object of a file. ``kind``: table, view, function (a macro too), type, sequence or schema."""

    kind: str
    name: str
    schema: str


def tables(con: DuckDBPyConnection) -> list[Held]:
    """The tables of the databases that are open."""
    return _listed(con, "table")


def has_table(con: DuckDBPyConnection, name: str) -> bool:
    """A table of the main schema, and no view."""
    return Held("table", name, BUILT_IN) in tables(con)


def contents(con: DuckDBPyConnection) -> list[Held]:
    """All that is not DuckDB's own. Listing its functions takes DuckDB some 20 ms: for files that are not known yet."""
    found = [held for kind in LISTINGS for held in _listed(con, kind)]
    sequences = con.execute("SELECT sequence_name, schema_name FROM system.main.duckdb_sequences()").fetchall()
    found += [Held("sequence", str(name), str(schema)) for name, schema in sequences]
    return [held for held in found if held != Held("schema", BUILT_IN, BUILT_IN)]


def _listed(con: DuckDBPyConnection, kind: str) -> list[Held]:
    listing, columns = LISTINGS[kind]
    rows = con.execute(f"SELECT {columns} FROM system.main.{listing}() WHERE NOT internal").fetchall()
    return [Held(kind, str(name), str(schema)) for name, schema in rows]
