"""Whose the name of a macro is on a connection.

DuckDB lists its functions in 20 to 40 ms, a third of what opening an engine took. It says in a quarter of that what a few names stand for: as
plans in JSON, whose errors are values, so that a transaction of the user's goes on. Only where a name is somebody else's are all looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import attrs
import duckdb


@attrs.frozen
class Macro:
    """``sql`` is what follows CREATE MACRO; its first ``required`` parameters have no default. ``call`` is the function on demand that it calls,
    None for one that makes no call."""

    name: str
    sql: str
    required: int
    call: str | None = None
    table: bool = False

    @property
    def body(self) -> str:
        """As DuckDB shows it of a macro that makes no call."""
        return self.sql.partition(" AS ")[2]


def taken_names(con: duckdb.DuckDBPyConnection, macros: Sequence[Macro]) -> frozenset[str]:
    """Lower-case names of those that are a macro of the user's already, in any schema. An engine's are nobody's."""
    if not macros or _are_free(con, macros):
        return frozenset()
    pure = [macro.body for macro in macros if macro.call is None]
    found = con.execute(
        "SELECT DISTINCT lower(function_name) FROM duckdb_functions() "
        "WHERE function_type IN ('macro', 'table_macro') AND NOT internal AND NOT "
        "(database_name = 'temp' AND (macro_definition LIKE '%kleene_call_%' OR list_contains($1, macro_definition)))",
        [pure],
    ).fetchall()
    return frozenset(str(row[0]) for row in found)


def replaced_names(con: duckdb.DuckDBPyConnection, macros: Collection[Macro], suffix: str) -> frozenset[str]:
    """Lower-case names of those in whose place something else stands now: of the user's, or of an engine with another suffix."""
    if _are_own(con, [macro for macro in macros if macro.call is not None]):
        return frozenset()
    found = con.execute(
        "SELECT lower(function_name), macro_definition FROM duckdb_functions() "
        "WHERE database_name = 'temp' AND function_type IN ('macro', 'table_macro')"
    ).fetchall()
    own = re.compile(f"kleene_call_[a-z]+{suffix}\\(")
    others = {str(name) for name, text in found if not own.search(str(text))}
    shared = {macro.name.lower(): macro.body for macro in macros if macro.call is None}
    # The text of one that makes no call is every engine's: it stays for the last of them.
    if not any("kleene_call_" in str(text) and not own.search(str(text)) for _, text in found):
        others -= {str(name) for name, text in found if shared.get(str(name)) == text}
    return frozenset(others)


def _are_free(con: duckdb.DuckDBPyConnection, macros: Sequence[Macro]) -> bool:
    """Whether no name is a function's here, and none can be elsewhere: there is no schema but main, on the search path."""
    places = con.execute(
        "SELECT count(*) FROM duckdb_schemas() WHERE database_name NOT IN ('system', 'temp')"
    ).fetchone()
    if places != (1,):
        return False
    answers = _plans(con, [f"{'FROM' if macro.table else 'SELECT'} {macro.name}()" for macro in macros])
    return all(
        plan.get("error_subtype") == "MISSING_ENTRY" and str(plan.get("name")).lower() == macro.name.lower()
        for macro, plan in zip(macros, answers, strict=True)
    )


def _are_own(con: duckdb.DuckDBPyConnection, macros: Sequence[Macro]) -> bool:
    """Whether each name leads to the function that its macro calls."""
    texts = [
        f"{'FROM' if macro.table else 'SELECT'} {macro.name}({', '.join(['NULL'] * macro.required)})"
        for macro in macros
    ]
    return all(
        not plan["error"] and json.dumps(macro.call) in json.dumps(plan)
        for macro, plan in zip(macros, _plans(con, texts), strict=True)
    )


def _plans(con: duckdb.DuckDBPyConnection, texts: Iterable[str]) -> list[dict[str, Any]]:
    """What DuckDB makes of queries, or why it can make nothing of them."""
    rows = con.execute("SELECT json_serialize_plan(text) FROM (SELECT unnest($1::VARCHAR[]) AS text)", [list(texts)])
    return [json.loads(str(row[0])) for row in rows.fetchall()]
