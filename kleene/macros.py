"""The plain names (``llm``, ``llm_bool``, ...) on the user's own connection: temporary macros over the functions on demand.

``con.sql("SELECT llm('hi')")`` then works without the planner, with the same memo, budget and trace. Macros are per connection, the lookup
functions under them are instance-wide: the macro carries the engine's suffix, so two engines never mix.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
import duckdb

from kleene.planner.catalog import Catalog
from kleene.planner.resolve import call_spec
from kleene.planner.specs import AnswerType, CallSpec, FunctionSpec

if TYPE_CHECKING:
    from kleene.planner.settings import Settings

SITE = "plain"
SCHEMA_AT = {"llm_json": 1}  # the argument that is no part of the prompt but of the answer's type


@attrs.frozen
class Macro:
    """``parameters`` in order; those after ``required`` default to ''. ``sql`` is the body."""

    name: str
    sql: str
    table: bool = False


def macros(catalog: Catalog, suffix: str) -> Iterator[Macro]:
    """A macro for every function that a plain connection can have."""
    for spec in catalog.functions.values():
        if spec.body == "pure":
            yield _pure(spec)
        elif spec.body in ("builtin", "prompt"):
            yield _macro(spec, suffix)


def _pure(spec: FunctionSpec) -> Macro:
    names = ", ".join(p.name for p in spec.params)
    values = ", ".join(f"CAST({p.name} AS {p.type})" for p in spec.params)
    return Macro(spec.name, f"{spec.name}({names}) AS {spec.text}({values})")


def _macro(spec: FunctionSpec, suffix: str) -> Macro:
    required = len(spec.params) if spec.required is None else spec.required
    parameters = [p.name if i < required else f"{p.name} := ''" for i, p in enumerate(spec.params)]
    arguments = []
    for i, param in enumerate(spec.params):
        value = f"CAST({param.name} AS {param.type})" if param.type.upper() not in ("VARCHAR", "TEXT") else param.name
        if spec.aggregate and i == 1:
            value = f"string_agg(CAST({param.name} AS VARCHAR), chr(10) || chr(10))"
        arguments.append(f"CAST({value} AS VARCHAR)")
    function = f"kleene_call_{spec.answer.carrier.value}{suffix}"
    call = f"{function}('{SITE}:{spec.name}', {', '.join(arguments)})"
    body = _typed(call, spec.answer)
    head = f"{spec.name}({', '.join(parameters)})"
    if spec.table is not None:
        if spec.name == "expand":
            rows = f"SELECT unnest(list_slice({body}, 1, n)) AS {spec.table[0].name}"
        else:
            rows = f"SELECT unnest({body}, max_depth := 2)"
        return Macro(spec.name, f"{head} AS TABLE {rows}", table=True)
    return Macro(spec.name, f"{head} AS {body}")


def _typed(call: str, answer: AnswerType) -> str:
    if answer.kind in ("text", "bool", "double", "score", "bigint") and answer.sql.upper() in (
        "VARCHAR",
        "TEXT",
        "BOOLEAN",
        "DOUBLE",
        "BIGINT",
    ):
        return call
    nested = (
        answer.kind == "list" or answer.sql.upper().endswith("]") or answer.sql.upper().startswith(("STRUCT", "MAP"))
    )
    return f"CAST(CAST({call} AS JSON) AS {answer.sql})" if nested else f"CAST({call} AS {answer.sql})"


def create(con: duckdb.DuckDBPyConnection, catalog: Catalog, suffix: str) -> tuple[list[str], list[str]]:
    """Create the macros on a connection; the names made, and the names left alone because the user has an object of that name."""
    pure = [_pure(s).sql.partition(" AS ")[2] for s in catalog.functions.values() if s.body == "pure"]
    taken = {
        str(r[0])
        for r in con.execute(
            "SELECT lower(function_name) FROM duckdb_functions() WHERE function_type IN ('macro', 'table_macro') AND NOT internal "
            "AND NOT (database_name = 'temp' AND (macro_definition LIKE '%kleene_call_%' OR list_contains($1, macro_definition))) "
            "UNION ALL SELECT lower(table_name) FROM duckdb_tables() UNION ALL SELECT lower(view_name) FROM duckdb_views()",
            [pure],
        ).fetchall()
    }
    made, left = [], []
    for macro in macros(catalog, suffix):
        if macro.name.lower() in taken:
            left.append(macro.name)
            continue
        con.execute(f"CREATE OR REPLACE TEMP MACRO {macro.sql}")
        made.append(macro.name)
    return made, left


def drop(con: duckdb.DuckDBPyConnection, names: list[str], catalog: Catalog, suffix: str) -> None:
    """Drop an engine's macros. One that another engine on the connection has replaced by its own stays, and so do the pure ones then."""
    try:
        found = con.execute(
            "SELECT lower(function_name), regexp_matches(macro_definition, $1) FROM duckdb_functions() "
            "WHERE database_name = 'temp' AND macro_definition LIKE '%kleene_call_%'",
            [f"kleene_call_[a-z]+{suffix}\\("],
        ).fetchall()
    except duckdb.Error:
        return
    kept = {name for name, own in found if not own}
    for name in names:
        spec = catalog.function(name)
        if name.lower() in kept or (kept and spec is not None and spec.body == "pure"):
            continue
        kind = "MACRO TABLE" if spec is not None and spec.table is not None else "MACRO"
        try:
            con.execute(f"DROP {kind} IF EXISTS temp.main.{name}")
        except duckdb.Error:
            continue


def plain_spec(spec: FunctionSpec, arguments: tuple[str, ...], settings: Settings) -> tuple[CallSpec, tuple[str, ...]]:
    """The call that a plain name's arguments (texts, '' for options not given) stand for, and its prompt arguments."""
    answer, alias, effort = spec.answer, spec.model, spec.effort
    values = []
    for param, value in zip(spec.params, arguments, strict=True):
        if spec.body == "builtin" and param.name == "model":
            alias = value or alias
        elif spec.body == "builtin" and param.name == "effort":
            effort = value or effort
        elif spec.body == "builtin" and param.name == "schema":
            answer = AnswerType(answer.kind, answer.sql, value)
        else:
            values.append(value)
    return call_spec(spec, settings, answer=answer, alias=alias, effort=effort), tuple(values)
