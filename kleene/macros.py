"""The plain names (``llm``, ``llm_bool``, ...) on the user's own connection: temporary macros over the functions on demand.

``con.sql("SELECT llm('hi')")`` then works without the planner, with the same memo, budget and trace. Macros are per connection, the lookup
functions under them are instance-wide: the macro carries the engine's suffix, so two engines never mix.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import duckdb

from kleene.macronames import Macro, replaced_names, taken_names
from kleene.planner.catalog import Catalog
from kleene.planner.resolve import call_spec
from kleene.planner.specs import AnswerType, CallSpec, FunctionSpec

if TYPE_CHECKING:
    from kleene.planner.settings import Settings

SITE = "plain"
SCHEMA_AT = {"llm_json": 1}  # the argument that is no part of the prompt but of the answer's type


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
    return Macro(spec.name, f"{spec.name}({names}) AS {spec.text}({values})", len(spec.params))


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
        return Macro(spec.name, f"{head} AS TABLE {rows}", required, call=function, table=True)
    return Macro(spec.name, f"{head} AS {body}", required, call=function)


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


def create(
    con: duckdb.DuckDBPyConnection, wanted: Sequence[Macro], *, alone: bool = False
) -> tuple[list[Macro], list[Macro]]:
    """Create macros on a connection: those made, and those left alone because the user has a function of that name.

    ``alone``: nobody else can have made any there.
    """
    taken = frozenset() if alone else taken_names(con, wanted)
    made = [macro for macro in wanted if macro.name.lower() not in taken]
    if made:
        con.execute(";".join(f"CREATE OR REPLACE TEMP MACRO {macro.sql}" for macro in made))
    return made, [macro for macro in wanted if macro not in made]


def drop(con: duckdb.DuckDBPyConnection, made: Collection[Macro], suffix: str) -> None:
    """Drop an engine's macros. What the user or another engine on the connection has put in the place of one stays."""
    try:
        kept = replaced_names(con, made, suffix)
    except duckdb.Error:
        return
    for macro in made:
        if macro.name.lower() not in kept:
            with suppress(duckdb.Error):
                con.execute(f"DROP {'MACRO TABLE' if macro.table else 'MACRO'} IF EXISTS temp.main.{macro.name}")


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
