"""A statement over a view that makes calls is planned with the view's definition: the calls are counted, guarded and stopped with its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.semantics.world import World

SETUP = (
    "CREATE TABLE t AS SELECT i, i % 7 AS g, 'v' || (i % 20) AS s FROM range(200) r(i)",
    "CREATE VIEW told AS SELECT i, h(s), f(i) AS ok, g FROM t",
    "CREATE VIEW few(a, b) AS SELECT i, w(s) FROM told JOIN t USING (i) WHERE ok",
    'CREATE VIEW "Odd Name" AS SELECT i AS "Row Id", g(i) AS "Is" FROM t',
    "CREATE VIEW plain AS SELECT i FROM t WHERE i < 3",
)


@pytest.fixture
def world() -> Iterator[World]:
    with World(SETUP) as made:
        yield made


@pytest.mark.parametrize(
    ("sql", "calls"),
    [
        ("SELECT * FROM told WHERE i < 4", 8),
        ("SELECT i FROM told WHERE i < 4", 0),
        ('SELECT "h(s)" FROM told WHERE i < 4', 4),
        ("SELECT x.i FROM told x WHERE x.ok AND x.i < 6", 6),
        ("SELECT p, q FROM told x(p, q) WHERE p < 4", 4),
        ("SELECT count(*) FROM (SELECT i FROM told WHERE ok LIMIT 2)", 2),
        ("SELECT a FROM few WHERE a < 9", 9),
        ('SELECT "row id" FROM "odd name" WHERE "is" AND "row id" < 5', 5),
        ("WITH told AS (SELECT 1 AS z) SELECT * FROM told", 0),
        ("SELECT * FROM plain", 0),
        ("SELECT told.g, count(*) FROM told GROUP BY told.g HAVING told.g < 2", 0),
    ],
)
def test_the_calls_of_a_view_are_the_statements(world: World, sql: str, calls: int) -> None:
    columns = [d[0] for d in world.truth.execute(sql).description or []]
    plan = world.engine.explain(sql)
    seen = world.check(sql)
    assert (seen.count(), list(seen.columns)) == (calls, columns)
    assert not plan.exact or plan.estimate.calls == calls


def test_a_call_of_a_view_is_named_by_the_views_text(world: World) -> None:
    assert world.engine.explain("SELECT i, ok FROM told WHERE i < 4").text.startswith("#1 h(s)")


def test_a_view_is_read_as_it_is_now(world: World) -> None:
    world.check("SELECT * FROM told WHERE i < 2")
    world.setup("CREATE OR REPLACE VIEW told AS SELECT i, w(s) AS n FROM t")  # not by Kleene
    assert world.check("SELECT * FROM told WHERE i < 2").count() == 2
    world.setup("CREATE TEMP TABLE told AS SELECT 1 AS one")
    assert world.check("SELECT * FROM told").count() == 0
    world.setup("CREATE VIEW late AS SELECT i, f(i) AS ok FROM t")
    assert world.engine.explain("SELECT i FROM late WHERE ok AND i < 3").estimate.calls == 3
    assert world.check("SELECT i FROM late WHERE ok AND i < 3").count() == 3


def test_a_view_in_the_users_transaction(world: World) -> None:
    world.engine.sql("BEGIN")
    world.engine.sql("CREATE VIEW new AS SELECT h(i) AS x FROM t WHERE i < 2")
    assert world.kleene("SELECT x FROM new").count() == 2
    world.engine.sql("ROLLBACK")
    assert world.check("SELECT i, ok FROM told WHERE i < 3").count() == 3


def test_a_name_of_its_text_that_the_statement_has_for_a_cte(world: World) -> None:
    """The view means the table: its calls are made on demand, as DuckDB reads it."""
    sql = "WITH t AS (SELECT 7 AS i, 'q' AS s, 1 AS g) SELECT told.i, ok FROM told, t WHERE told.i < t.i"
    world.check(sql)


def test_a_failed_transaction_can_be_rolled_back(world: World) -> None:
    world.engine.sql("BEGIN")
    with pytest.raises(Exception, match="nope"):
        world.engine.sql("SELECT nope FROM t")
    world.engine.sql("ROLLBACK")
    world.check("SELECT i FROM told WHERE ok AND i < 3")
