"""A statement that is run again is planned again only where what its plan was made from has changed."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import kleene
from tests.kleene.engines import CountingModel, engine


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[kleene.Engine, CountingModel]]:
    con = duckdb.connect()
    with engine(CountingModel(lambda prompt: prompt.split(" ")[0] if prompt[0] in "ab" else "true"), con) as (k, model):
        k.con.execute("CREATE TABLE t AS SELECT i, 'v' || i AS v FROM range(4) r(i)")
        k.con.execute("CREATE TABLE u AS SELECT i, 'w' || i AS w FROM range(4) r(i)")
        k.sql("SET memo = off")
        k.sql("CREATE FUNCTION f(x TEXT) RETURNS TEXT AS PROMPT 'a {x}'")
        k.sql("CREATE FUNCTION ok(x TEXT) RETURNS BOOLEAN AS PROMPT 'is {x}'")
        yield k, model


def test_a_declaration_a_setting_and_a_rule_make_another_plan(world: tuple[kleene.Engine, CountingModel]) -> None:
    k, model = world
    sql = "SELECT f(v) FROM t WHERE ok(v) AND i > 1 ORDER BY i"
    model.take()
    for _ in range(2):
        assert k.sql(sql).fetchall() == [("a",), ("a",)]
        assert model.take() == 4
    k.sql("CREATE OR REPLACE FUNCTION f(x TEXT) RETURNS TEXT AS PROMPT 'b {x}'")
    assert k.sql(sql).fetchall() == [("b",), ("b",)]
    k.sql("SET rules.stage = off")
    try:
        assert "stage" not in k.explain(sql).rules
        assert k.sql(sql).fetchall() == [("b",), ("b",)]
    finally:
        k.sql("RESET rules.stage")
    k.sql("DROP FUNCTION f")
    with pytest.raises((kleene.KleeneError, duckdb.Error), match="there is no function f"):
        k.sql(sql)
    k.sql("CREATE FUNCTION f(x TEXT) RETURNS TEXT AS PROMPT 'a {x}'")


def test_a_changed_table_makes_another_plan(world: tuple[kleene.Engine, CountingModel]) -> None:
    """Which columns a join carries through its stages is in the plan."""
    k, _ = world
    sql = "SELECT * FROM t JOIN u ON t.i = u.i WHERE ok(t.v || u.w) AND t.i > 2"
    for _ in range(2):
        assert k.sql(sql).fetchall() == [(3, "v3", 3, "w3")]
    k.con.execute("ALTER TABLE u ADD COLUMN more INT DEFAULT 7")
    assert k.sql(sql).fetchall() == [(3, "v3", 3, "w3", 7)]
    k.con.execute("CREATE OR REPLACE TABLE u AS SELECT 'w' || i AS w, i FROM range(4) r(i)")
    assert k.sql(sql).fetchall() == [(3, "v3", "w3", 3)]
    with k.con.cursor() as other:
        other.execute("ALTER TABLE t RENAME COLUMN v TO body")
        with pytest.raises(kleene.KleeneError):
            k.sql(sql)
        other.execute("ALTER TABLE t RENAME COLUMN body TO v")
    assert k.sql(sql).fetchall() == [(3, "v3", "w3", 3)]


def test_parameters_clocks_and_prepared_statements_are_those_of_the_run(
    world: tuple[kleene.Engine, CountingModel],
) -> None:
    k, _ = world
    assert [k.sql("SELECT ok(v), i FROM t WHERE i = ?", [i]).fetchall() for i in (1, 2)] == [[(True, 1)], [(True, 2)]]
    times = [k.sql("SELECT now() AS n, ok('x') FROM t LIMIT 1").fetchall()[0][0] for _ in range(2)]
    assert times[0] < times[1]
    k.sql("PREPARE p AS SELECT ok(v), i FROM t WHERE i = $1")
    assert [k.sql("EXECUTE p(1)").fetchall(), k.sql("EXECUTE p(3)").fetchall()] == [[(True, 1)], [(True, 3)]]
    k.sql("PREPARE p AS SELECT i, ok(v) FROM t WHERE i = $1")
    assert k.sql("EXECUTE p(1)").fetchall() == [(1, True)]


def test_statements_of_one_text_and_of_two_are_told_apart(world: tuple[kleene.Engine, CountingModel]) -> None:
    k, _ = world
    for _ in range(2):
        assert k.sql("SELECT f('x'); SELECT ok('x')").fetchall() == [(True,)]
        assert k.sql("SELECT ok('x'); SELECT f('x')").fetchall() == [("a",)]
        with pytest.raises(kleene.KleeneError) as caught:
            k.sql("SELECT 1; SELECT ok('x', 'y')")
        assert caught.value.span is not None and caught.value.span.start > 9
