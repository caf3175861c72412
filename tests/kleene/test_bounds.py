"""What one call of a function may make where a model writes statements: bounded where DuckDB cannot be interrupted, and else as DuckDB has it."""

from __future__ import annotations

import duckdb
import pytest

import kleene
from kleene.bounds import MOST, bound
from tests.kleene.scripted import Script, engine, sql

BOMBS = [
    ("repeat", f"repeat('x', {MOST + 1})"),
    ("repeat", f"repeat([1], {MOST + 1})"),
    ("lpad", f"lpad('', {MOST + 1}, 'x')"),
    ("rpad", f"'a'.rpad({MOST + 1}, 'x')"),
    ("list_resize", f"list_resize([1], {MOST + 1})"),
    ("array_resize", f"array_resize([1], {MOST + 1}, 0)"),
    ("range", f"range({MOST + 1})"),
    ("range", f"range(-1, {MOST})"),
    ("range", f"range(0, {-MOST - 1}, -1)"),
    ("generate_series", f"unnest(generate_series(1, {MOST + 2}))"),
    ("generate_series", f"generate_series(0, {10 * MOST + 10}, 10)"),
]

USES = [
    "repeat('ab', 2), repeat([1], 2), repeat(NULL, 3), repeat('a', NULL), repeat('a'::BLOB, 2), repeat('', 0), repeat('x', 3::TINYINT)",
    "lpad('x', 3, 'yz'), rpad('é', 3, '👍'), 'x'.lpad(2, 'y'), lpad(NULL, 2, 'a'), lpad('x', NULL, 'a')",
    "list_resize([1], 3), list_resize([1], 3, 9), list_resize([1, 2], 1), array_resize([1], 2), list_resize([1], NULL)",
    "range(5), range(2, 5), range(0, 10, 2), range(5, 0, -2), range(NULL), range(1, NULL), range(9, 1), range(-3)",
    "generate_series(3), generate_series(1, 4), generate_series(4, 1, -1), [x * 2 for x in range(3)]",
    "range(DATE '2020-01-01', DATE '2020-01-03', INTERVAL 1 DAY), generate_series(TIMESTAMP '2020-01-01', TIMESTAMP '2020-01-02', INTERVAL 6 HOUR)",
    "len(range(0, 100000000, 100)), len(range(100000000, 0))",
]


@pytest.fixture
def bounded() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute("CREATE SCHEMA s; SET search_path = 's'")
    bound(con)
    return con


@pytest.mark.parametrize(("name", "expression"), BOMBS)
def test_too_much_at_once_is_an_error(bounded: duckdb.DuckDBPyConnection, name: str, expression: str) -> None:
    with pytest.raises(duckdb.InvalidInputException, match=f"{name} makes at most 10,000,000 at once here"):
        bounded.execute(f"SELECT {expression}")


@pytest.mark.parametrize("expressions", USES)
def test_within_the_bound_it_is_duckdbs(bounded: duckdb.DuckDBPyConnection, expressions: str) -> None:
    mine, theirs = (con.execute(f"SELECT {expressions}") for con in (bounded, duckdb.connect()))
    assert mine.description == theirs.description
    assert mine.fetchall() == theirs.fetchall()


def test_rows_are_bounded_each_and_table_functions_are_not(bounded: duckdb.DuckDBPyConnection) -> None:
    rows = bounded.execute("SELECT len(range(r, r * 2)), repeat('x', r::INT) FROM range(3) t(r)").fetchall()
    assert rows == [(0, ""), (1, "x"), (2, "xx")]
    assert bounded.execute(f"SELECT count(*) FROM range({MOST + 1})").fetchall() == [(MOST + 1,)]
    with pytest.raises(duckdb.InvalidInputException, match="at once"):
        bounded.execute(f"SELECT lpad('', ({MOST} + r)::INT, 'x') FROM range(3) t(r)").fetchall()


def test_a_sessions_bomb_is_an_error_of_its_statement_and_the_session_goes_on() -> None:
    bomb = "SELECT length(lpad('x', 1000000000, 'y'))"
    script = Script(sql(bomb), sql("SELECT len(generate_series(1, 1000000000))"), sql("FINAL(len(range(3)))"))
    with engine(script) as k:
        run = k.run("Go")
        assert run.answer is not None and run.answer.fetchall() == [(3,)]
        assert "error: lpad makes at most 10,000,000 at once here" in script.told(1)
        assert "error: generate_series makes at most 10,000,000 at once here" in script.told(2)
        assert k.sql(f"SELECT length(repeat('x', {MOST + 1}))").fetchall() == [
            (MOST + 1,)
        ]  # the user's own is not bounded


def test_a_locked_engine_is_bounded_too() -> None:
    with kleene.connect(store=":memory:", models=kleene.FunctionModel(str, "m"), locked=True) as k:
        with pytest.raises(duckdb.Error, match="range makes at most 10,000,000 at once here"):
            k.sql(f"SELECT len(range({MOST + 1}))")
        assert k.sql("SELECT range(3)").fetchall() == [([0, 1, 2],)]
