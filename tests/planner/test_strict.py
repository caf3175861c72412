"""What a missing answer does to an expression; checked against DuckDB for the functions that are called strict."""

from __future__ import annotations

import duckdb
import pytest
import sqlglot

from kleene.planner.calls import Call
from kleene.planner.dialect import CallSQL
from kleene.planner.strict import STRICT_NAMES, monotone, strict


def expression(text: str) -> sqlglot.exp.Expr:
    """An expression in which the column ``c`` stands for a call."""
    root = sqlglot.exp.Tuple(expressions=[sqlglot.parse_one(f"SELECT {text}", read=CallSQL).expressions[0]])
    for column in list(root.find_all(sqlglot.exp.Column)):
        if column.name == "c":
            column.replace(Call(this=1, expressions=[sqlglot.exp.Literal.string("x")]))
    return root.expressions[0]


@pytest.mark.parametrize(
    "text",
    [
        "c",
        "NOT c",
        "c = 'a'",
        "c || 'x'",
        "lower(c)",
        "c LIKE 'a%'",
        "c IN ('a', 'b')",
        "c BETWEEN 1 AND 2",
        "CAST(c AS INTEGER)",
        "c + 1 > 2",
    ],
)
def test_strict(text: str) -> None:
    assert strict(expression(text))


@pytest.mark.parametrize(
    "text",
    [
        "c IS NULL", "coalesce(c, 'x')", "concat('b', c)", "concat_ws('-', 'a', c)", "[c]", "{'a': c}", "greatest(c, 'a')", "least(c, 'a')",
        "c IS DISTINCT FROM 'a'", "hash(c)", "typeof(c)", "list_value(c)", "json_object('a', c)", "CAST(c || '' AS JSON)", "c AND p", "c OR p",
        "CASE WHEN c THEN 1 END", "string_split(c, ',')", "'a' IN (c, 'b')", "nullif(c, 'a')", "struct_pack(a := c)",
    ],
)  # fmt: skip
def test_not_strict(text: str) -> None:
    assert not strict(expression(text))


@pytest.mark.parametrize("text", ["c", "c AND p", "c OR NOT c", "NOT (c AND p)", "c = 'a' OR c > 'b'"])
def test_monotone(text: str) -> None:
    assert monotone(expression(text))


@pytest.mark.parametrize("text", ["c IS NULL", "NOT (c IS NULL)", "c AND coalesce(c, true)", "c IS NOT TRUE"])
def test_not_monotone(text: str) -> None:
    assert not monotone(expression(text))


def test_every_function_called_strict_gives_null_for_null() -> None:
    con = duckdb.connect()
    known = {
        (name, len(types))
        for name, types in con.execute(
            "SELECT function_name, parameter_types FROM duckdb_functions() WHERE function_type = 'scalar'"
        ).fetchall()
        if name in STRICT_NAMES
    }
    tried = 0
    for name, arity in sorted(known):
        for position in range(arity):
            for filler in ("'a'", "1"):
                arguments = ["CAST(NULL AS VARCHAR)" if i == position else filler for i in range(arity)]
                try:
                    value = con.execute(f"SELECT {name}({', '.join(arguments)})").fetchall()[0][0]
                except duckdb.Error:
                    continue
                tried += 1
                assert value is None, f"{name} with NULL at {position + 1} gives {value!r}"
    assert tried > len(STRICT_NAMES)
