"""Several calls in one expression over a single row: DuckDB evaluates no argument behind a constant NULL, and a lookup's row is such a vector."""

from __future__ import annotations

import threading

import duckdb
import pytest

import kleene
from kleene.planner.evaluation import flat, followed
from tests.kleene.engines import engine

TWO = [
    "SELECT llm('a') || llm('b')",
    "SELECT llm(s || '1') || llm(s || '2') FROM one",
    "SELECT concat(llm(s || '1'), 'x') || upper(llm(s || '2')) FROM one",
    "SELECT count(*) FROM one WHERE llm(s || '1') || llm(s || '2') = 'x'",
    "SELECT length(llm(s || '1')) + length(llm(s || '2')) FROM one",
    "SELECT (llm(s || '1') = 'x')::INT + (llm(s || '2') = 'x')::INT FROM one",
    "SELECT replace(llm(s || '1'), 'x', llm(s || '2')) FROM one",
    "SELECT llm(s || '1') = llm(s || '2') FROM one",
    "SELECT llm(s || '1') BETWEEN 'a' AND llm(s || '2') FROM one",
    "SELECT (SELECT llm(s || '1') || llm(s || '2')) FROM one",
    "SELECT * FROM one WHERE llm(s || '1') LIKE llm(s || '2')",
    "SELECT llm(s || '1') || n.s || llm(s || '2') FROM one, (SELECT 'x' AS s) n, (SELECT 1) WHERE one.s = one.s".replace(
        "(s ||", "(one.s ||"
    ),
]


@pytest.mark.parametrize("statement", TWO)
def test_calls_over_one_row_are_counted_and_asked_side_by_side(statement: str) -> None:
    both = threading.Barrier(2, timeout=10)

    def answer(request: object) -> str:
        both.wait()  # breaks where the second is asked after the first
        return "x"

    with kleene.attach(duckdb.connect(), store=":memory:", models=kleene.FunctionModel(answer, "x", threads=True)) as k:
        k.sql("CREATE TABLE one AS SELECT 'row' AS s")
        plan = k.explain(statement)
        assert plan.estimate.calls == 2
        found = k.sql(statement)
        assert found.usage.requests == 2
        found.fetchall()


def test_the_last_row_of_a_table_is_counted_too() -> None:
    with engine() as (k, _):
        k.sql("CREATE TABLE t AS SELECT 'row ' || i AS s FROM range(2049) r(i)")
        assert k.explain("SELECT llm(s || '1') || llm(s || '2') FROM t").estimate.calls == 2 * 2049


def test_what_is_not_needed_is_not_asked() -> None:
    with engine() as (k, model):
        k.sql("CREATE TABLE one AS SELECT 'row' AS s, NULL::VARCHAR AS nothing")
        for statement, calls in (
            ("SELECT nothing || llm(s) FROM one", 0),
            ("SELECT (CASE WHEN s = 'no' THEN llm('a') END) || llm('b') FROM one", 0),
            ("SELECT llm(nothing) || llm(s) FROM one", 0),
            ("SELECT coalesce(llm('a'), llm('b')) FROM one", 1),
        ):
            k.sql(statement)
            assert model.take() <= max(calls, 1), statement


@pytest.mark.parametrize(
    "value", ["NULL::VARCHAR", "'é'", "true", "NULL::BIGINT", "1.5::DOUBLE", "[1, NULL]", "NULL::FLOAT[]"]
)
def test_what_is_read_flat_is_the_same_value(value: str) -> None:
    from sqlglot import parse_one

    text = flat(parse_one(value, read="duckdb")).sql("duckdb")
    con = duckdb.connect()
    assert (
        con.sql(f"SELECT {text}, typeof({text})").fetchall() == con.sql(f"SELECT {value}, typeof({value})").fetchall()
    )
    assert con.sql(f"SELECT count(*) FROM range(5000) WHERE {text} IS DISTINCT FROM {value}").fetchall() == [(0,)]


def test_a_single_call_is_left_as_it_is() -> None:
    assert followed([]) == set()
    with engine() as (k, _):
        k.sql("CREATE TABLE one AS SELECT 'row' AS s")
        assert (
            "list_extract" not in k.explain("SELECT llm(s), upper(llm(s || '2')) FROM one WHERE llm_bool(s)").duckdb_sql
        )
