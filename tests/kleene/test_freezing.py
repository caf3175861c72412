"""Rows that are drawn by chance are drawn once: their calls are made side by side, whatever random() says in the next run."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import kleene
from tests.kleene.engines import CountingModel, engine


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[kleene.Engine, CountingModel]]:
    with engine(CountingModel(lambda prompt: "true" if prompt[-1] in "02468" else "false")) as (k, model):
        k.sql("CREATE TABLE t AS SELECT i, 'v' || i AS v FROM range(3000) r(i)")
        k.sql("SET memo = off")
        k.sql("SET ondemand.calls = 0")
        for name in "fg":
            k.sql(f"CREATE FUNCTION {name}(x TEXT) RETURNS BOOLEAN AS PROMPT '{name} {{x}}'")
        yield k, model


@pytest.mark.parametrize(
    ("sql", "rows", "calls"),
    [
        ("SELECT i, f(v) AS a FROM t USING SAMPLE 40", 40, 40),
        ("SELECT i, f(v) AS a FROM t ORDER BY random() LIMIT 30 OFFSET 5", 30, 30),
        ("SELECT i, f(v) AS a FROM (SELECT * FROM t ORDER BY uuid() LIMIT 30) s ORDER BY i", 30, 30),
        ("SELECT i, f(v) AS a FROM t WHERE i IN (SELECT i FROM t USING SAMPLE 25)", 25, 25),
        (
            "WITH s AS (SELECT *, random() AS r FROM t LIMIT 20) SELECT x.i, f(x.v || x.i) AS a FROM s x JOIN s y ON x.r = y.r",
            20,
            20,
        ),
        ("SELECT i, f(v) AS a FROM t WHERE i < ? AND random() < 2", 9, 9),
    ],
)
def test_drawn_rows_stay_for_the_statement(
    world: tuple[kleene.Engine, CountingModel], sql: str, rows: int, calls: int
) -> None:
    k, model = world
    model.take()
    found = k.sql(sql, [9] if "?" in sql else None).fetchall()
    assert len(found) == len(set(found)) == rows
    assert all(answer is (i % 2 == 0) for i, answer in found)
    assert model.take() == calls
    assert k.con.execute("SELECT * FROM duckdb_tables() WHERE table_name LIKE 'kleene%'").fetchall() == []


def test_conditions_and_limits_over_drawn_rows_ask_as_over_others(world: tuple[kleene.Engine, CountingModel]) -> None:
    k, model = world
    model.take()
    found = k.sql("SELECT i FROM t USING SAMPLE 400 WHERE f(v) LIMIT 5").fetchall()
    assert len(found) == 5 and all(i % 2 == 0 for (i,) in found)
    assert 5 <= model.take() <= 40
    k.sql("CREATE OR REPLACE TABLE drawn AS SELECT i, f(v) AS a FROM t USING SAMPLE 12")
    assert model.take() == len(k.con.execute("FROM drawn").fetchall()) == 12


def test_explain_counts_other_rows(world: tuple[kleene.Engine, CountingModel]) -> None:
    k, _ = world
    plan = k.explain("SELECT i FROM t USING SAMPLE 30 WHERE f(v)")
    assert re.fullmatch(
        r"#1 f\(v\)  \[λ worker\]  ≈ 30 calls, ~25\d\d tok, \$0  \(by other rows: they change from run to run\)",
        plan.text.splitlines()[0],
    )
    assert not plan.exact and plan.rules == ("freeze",)
    assert "kleene_kept" not in plan.duckdb_sql


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT f(v || random()) FROM t LIMIT 3",
        "SELECT nextval('s'), f(v) FROM (SELECT * FROM t ORDER BY random() LIMIT 3) q",
        "UPDATE u SET v = CAST(f(v) AS VARCHAR) WHERE random() < 2",
    ],
)
def test_what_cannot_be_drawn_before_is_asked_row_by_row(world: tuple[kleene.Engine, CountingModel], sql: str) -> None:
    k, model = world
    k.con.execute("CREATE OR REPLACE SEQUENCE s")
    k.con.execute("CREATE OR REPLACE TABLE u AS FROM t LIMIT 3")
    with pytest.raises(kleene.Refused, match="on demand"):
        k.sql(sql)
    k.sql("SET ondemand.calls = 3")
    try:
        k.sql(sql)
    finally:
        k.sql("SET ondemand.calls = 0")
    assert model.take() >= 3


def test_the_rule_can_be_switched_off_and_stands_aside_in_a_transaction(
    world: tuple[kleene.Engine, CountingModel],
) -> None:
    k, _ = world
    sql = "SELECT i, f(v) FROM t USING SAMPLE 3"
    k.con.begin()
    try:
        with pytest.raises(kleene.Refused, match="on demand"):
            k.sql(sql)
    finally:
        k.con.rollback()
    k.sql("SET rules.freeze = off")
    try:
        with pytest.raises(kleene.Refused, match="on demand"):
            k.sql(sql)
    finally:
        k.sql("RESET rules.freeze")
    assert len(k.sql(sql)) == 3
