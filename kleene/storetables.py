"""The tables of the store that statements may read by their plain names, and of which rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kleene.services import Services

HOST_TABLES = frozenset(
    [
        "memo",
        "trace_runs",
        "trace_sessions",
        "trace_statements",
        "trace_calls",
        "trace_operators",
        "trace_runs_of_statement",
        "trace_rounds",
        "trace_tool_calls",
        "trace_final",
        "turns",
        "estimates",
        "calibrations",
    ]
)
"""What a person's statement may read of the store."""

SESSION_TABLES = {
    "trace_statements": "SELECT * FROM main.trace_statements WHERE session = $1",
    "trace_calls": "SELECT * FROM main.trace_calls WHERE session = $1",
    "turns": "SELECT n, sql, result FROM main.kleene_turns WHERE session = $1 AND result IS NOT NULL ORDER BY n",
}
"""What a model's session may read of the store, and how: its own rows of these."""


def stored(services: Services, name: str, trust: str, session: str | None) -> Any:
    """A table of the store as Arrow, all events up to now included. With the trust of a model, the session's rows only."""
    services.trace.flush()
    services.keep_lessons()
    cursor = services.store.cursor()
    try:
        if trust == "host":
            return cursor.sql(f'SELECT * FROM main."{name.lower()}"').to_arrow_table()
        return cursor.sql(SESSION_TABLES[name.lower()], params=[session]).to_arrow_table()
    finally:
        cursor.close()


def tables_shown(schema: str) -> str:
    """SHOW TABLES of a session as SQL: DuckDB's own lists the store's tables too, which the session may not read."""
    given = ", ".join(f"('{name}')" for name in SESSION_TABLES)
    literal = "'" + schema.replace("'", "''") + "'"
    return (
        f"SELECT table_name AS name FROM information_schema.tables WHERE table_schema = {literal} "
        f"UNION SELECT name FROM (VALUES {given}) given(name) ORDER BY name"
    )
