"""The table ``memory(key, value)``: what a session puts there is there again in the next run of the same store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

if TYPE_CHECKING:
    from kleene.connection import Connection

MOST = 1_000


def recall(connection: Connection) -> None:
    """Make the session's table of what earlier runs kept, where there is something."""
    (count,) = connection.rows("SELECT count(*) FROM main.kleene_memory")[0]
    if count and "memory" not in connection.table_names("main"):
        connection.rows(
            "CREATE TABLE IF NOT EXISTS memory AS SELECT key, value FROM main.kleene_memory ORDER BY recorded_at, key"
        )


def keep(connection: Connection, schema: str) -> None:
    """Keep what the session's table holds, at most 1,000 rows; a key that is gone is forgotten. Does nothing without the table."""
    found = connection.rows(
        "SELECT column_name FROM duckdb_columns() WHERE schema_name = $1 AND table_name = 'memory' "
        "AND table_oid IN (SELECT table_oid FROM duckdb_tables()) ORDER BY column_index",  # a view would run here, unbounded
        [schema],
    )
    if [name for (name,) in found] != ["key", "value"]:
        return
    connection.begin()
    try:
        connection.rows("DELETE FROM main.kleene_memory")
        connection.rows(
            "INSERT INTO main.kleene_memory SELECT key::VARCHAR, max(value::VARCHAR), make_timestamp(epoch_us(now()::TIMESTAMPTZ)) "
            f'FROM "{schema}".memory WHERE key IS NOT NULL GROUP BY key LIMIT {MOST}'
        )
        connection.commit()
    except duckdb.Error:  # another run keeps its memory at this moment: the later one stays
        connection.rollback()
