"""What EXPLAIN says, as text: one fixture file a statement, the statement above the line of dashes.

``pytest --update-fixtures`` writes the texts anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import kleene
from tests.kleene.engines import CountingModel, engine

FOLDER = Path(__file__).parent.parent / "fixtures" / "explain"
FIXTURES = sorted(FOLDER.glob("*.txt"))
SETUP = (
    "CREATE TABLE t AS SELECT i, i % 7 AS g, i % 10 = 0 AS cheap, 'v' || (i % 20) AS s FROM range(200) r(i)",
    "CREATE TABLE u AS SELECT i, 'u' || (i % 50) AS z FROM range(0, 200, 5) r(i)",
    "CREATE TABLE edges AS SELECT i AS a, i + 1 AS b FROM range(5) r(i)",
)


@pytest.fixture(scope="module")
def explaining() -> Iterator[tuple[kleene.Engine, CountingModel]]:
    with engine() as (k, model):
        k.sql("SET measure_ms = 60_000")  # a busy machine must not stop the count
        for statement in SETUP:
            k.sql(statement)
        yield k, model


@pytest.mark.parametrize("path", FIXTURES, ids=lambda p: p.stem)
def test_explain_says_the_same_each_time_and_sends_nothing(
    explaining: tuple[kleene.Engine, CountingModel], path: Path, update_fixtures: bool
) -> None:
    k, model = explaining
    sql, _, wanted = path.read_text().partition("\n---\n")
    found = k.explain(sql).text
    assert model.calls == 0
    if update_fixtures:
        path.write_text(f"{sql}\n---\n{found}\n")
    else:
        assert found == wanted.rstrip("\n")


def test_there_are_fixtures_of_ten_shapes() -> None:
    assert len(FIXTURES) >= 10


@pytest.mark.parametrize(
    ("sql", "calls"),
    [
        ("SELECT t.i, u.z FROM t JOIN u ON g(t.s) = g(u.z)", 30),
        ("SELECT t.i, u.z FROM u JOIN t ON t.i > 100 AND same(t.s, u.z)", 30),
        ("SELECT t.i, u.z FROM t LEFT JOIN u ON same(t.s, u.z)", 30),
        ("SELECT i FROM t WHERE g(s) IN (SELECT g(z) AS label FROM u)", 30),
        ("SELECT i FROM t WHERE n(s) IN (SELECT n(z) FROM u) OR g > 6", 30),
    ],
)
def test_both_sides_of_an_equality_are_counted_and_asked(sql: str, calls: int) -> None:
    """DuckDB does not look at one side while nothing is known of the other."""
    with engine() as (k, model):
        k.sql("SET measure_ms = 60_000")
        for statement in SETUP[:2]:
            k.sql(statement)
        k.sql("CREATE FUNCTION g(x TEXT) RETURNS TEXT AS PROMPT 'label {x}'")
        k.sql("CREATE FUNCTION n(x TEXT) RETURNS BOOLEAN AS PROMPT 'whether {x}'")
        k.sql("CREATE FUNCTION same(a TEXT, b TEXT) RETURNS BOOLEAN AS PROMPT '{a} {b}' VIA g")
        plan = k.explain(sql)
        assert (plan.estimate.calls, plan.exact, model.calls) == (calls, True, 0)
        k.sql(sql)
        assert model.calls == calls
