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


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("CREATE TYPE mood AS ENUM ('a')", "Write the type where it is used: CREATE TABLE t (mood ENUM ('good', 'bad'), place STRUCT(x BIGINT, y BIGINT))"),
        ("SHOW COLUMNS FROM t", "SHOW TABLES lists the tables, DESCRIBE t shows the columns of one"),
        ("SELECT TOP 5 * FROM t", "In DuckDB: SELECT ... LIMIT n"),
        ("SELECT group_concat(a SEPARATOR ',') FROM t", "In DuckDB: string_agg(s, ', ' ORDER BY s)"),
        ("SELECT a FROM t MINUS SELECT a FROM u", "In DuckDB: SELECT ... EXCEPT SELECT ..."),
        ("SELECT `a` FROM t", 'Names are quoted as "name"'),
        ("DECLARE x INT", "There are no variables and no branches: use CTEs and CREATE TABLE t AS SELECT ..."),
        ("SELECT 1 1", "Kleene plans only what it can read; write this part in another way."),
    ],
)  # fmt: skip
def test_a_form_of_another_dialect_is_told_in_duckdbs(sql: str, hint: str) -> None:
    (statement,) = parse(sql)
    assert statement.unreadable is not None
    assert statement.unreadable.hint == hint
