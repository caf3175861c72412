"""Every function listed as another dialect's is unknown to DuckDB, and every example is a statement of DuckDB's that a model may run."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from kleene.planner.errors import PolicyError
from kleene.planner.foreign import EXAMPLES, OTHER_ARGUMENTS, in_duckdb
from kleene.planner.policy import check_model, load_allow_list
from kleene.planner.statements import parse

ALLOWED = load_allow_list()
ROW = """(SELECT '17/05/2024' AS s, 2 AS n, DATE '2024-05-17' AS d, [2, 1] AS l, '{"a": [1, 2]}'::JSON AS j)"""


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def test_duckdb_has_none_of_them(con: duckdb.DuckDBPyConnection) -> None:
    there = {n for (n,) in con.execute("SELECT DISTINCT lower(function_name) FROM duckdb_functions()").fetchall()}
    assert not there & EXAMPLES.keys()
    assert there >= OTHER_ARGUMENTS.keys() - {"position"}


@pytest.mark.parametrize("way", sorted({w for ways in [*EXAMPLES.values(), *OTHER_ARGUMENTS.values()] for w in ways}))
def test_every_example_is_a_statement_that_a_model_may_run(way: str, con: duckdb.DuckDBPyConnection) -> None:
    sql = f"SELECT count(*) {way}" if way.startswith("FROM") else f"SELECT {way} FROM {ROW} AS one"
    (statement,) = parse(sql)
    check_model(statement, functions=(), tables=lambda _: False, allow_list=ALLOWED)
    try:
        con.execute(sql)
    except duckdb.ConversionException:
        assert "CAST(s AS INTEGER)" in way  # s is no number


@pytest.mark.parametrize("name", ["ifnull", "NVL", "to_char", "regexp_count", "date_format"])
def test_a_model_is_told_how_duckdb_writes_it(name: str) -> None:
    (statement,) = parse(f"SELECT {name}(a) FROM t")
    with pytest.raises(PolicyError) as caught:
        check_model(statement, functions={"llm"}, tables=lambda _: True, allow_list=ALLOWED)
    assert caught.value.hint == in_duckdb(name)


def test_a_far_name_is_not_guessed() -> None:
    (statement,) = parse("SELECT sentiment_of(a) FROM t")
    with pytest.raises(PolicyError) as caught:
        check_model(statement, functions={"llm"}, tables=lambda _: True, allow_list=ALLOWED)
    assert caught.value.hint == "SHOW FUNCTIONS lists Kleene's functions and tools."
