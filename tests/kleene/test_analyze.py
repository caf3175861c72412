"""EXPLAIN ANALYZE: estimates beside what happened, on every operator."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import duckdb
import pytest

import kleene
from kleene.planner.errors import KleeneError
from tests.kleene.engines import CountingModel, engine


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[kleene.Engine, CountingModel]]:
    with engine() as (k, model):
        k.con.execute("CREATE TABLE t AS SELECT range::INT AS i, 'x' || range % 30 AS v FROM range(100)")
        k.con.execute("CREATE TABLE u AS SELECT range::INT AS j, 'y' || range AS w FROM range(20)")
        k.con.execute("CREATE TABLE kept (i INT, b BOOLEAN)")
        k.sql("CREATE FUNCTION f(v TEXT) RETURNS BOOLEAN AS PROMPT 'Is {v} f?'")
        k.sql("CREATE FUNCTION g(v TEXT) RETURNS BOOLEAN AS PROMPT 'Is {v} g?'")
        k.sql("SET measure_ms = 60_000")  # a busy machine must not stop the count
        yield k, model


def shown(k: kleene.Engine, sql: str) -> str:
    """The plan without the times, which are the machine's."""
    text = str(k.sql("EXPLAIN ANALYZE " + sql).plan)
    return re.sub(r", \d+ ms(?=\n|$)|, \d+\.\d\d s(?=\n|$)", "", text)


def test_a_filter_and_a_chain(world: tuple[kleene.Engine, CountingModel]) -> None:
    k, model = world
    model.take()
    assert shown(k, "SELECT i FROM t WHERE i > 3 AND f('a' || v)") == (
        "σ f('a' || v)  ~4 → 48 rows\n"
        "  #1 f('a' || v)  [λ worker]  30 → 30 calls, ~2610 → 135 tok, $0 → $0.0000\n"
        "  scan t: (i > 3)  ~20 → 96 rows\n"
        "estimated: 30 calls, ~2610 tok, $0\n"
        "actual: 48 rows, 30 calls, 0 from memo, 135 tok, $0.0000\n"
        "rules: stage"
    )
    assert model.take() == 30
    assert shown(k, "SELECT i, llm(v || ' is') AS said FROM t WHERE f('a' || v) ORDER BY i LIMIT 2").splitlines()[
        :6
    ] == [
        "sort i ASC  ~2 → 2 rows",
        "  π i, llm(v || ' is')  ~2 → 2 rows",
        "    #1 llm(v || ' is')  [λ worker]  ≈ 2 → 2 calls, ~174 → 6 tok, $0 → $0.0000",
        "    top 2 by i ASC  ~2 → 2 rows",
        "      σ f('a' || v)  ~20 → 8 rows",
        "        #2 f('a' || v)  [λ worker]  ≈ 0 → 0 calls, 4 → 3 from memo",
    ]


def test_a_condition_in_an_order_of_its_own_reads_as_it_was_written(world: tuple[kleene.Engine, CountingModel]) -> None:
    k, _ = world
    lines = shown(k, "SELECT i FROM t WHERE f('o' || v) AND (g(v) OR i < 3)").splitlines()
    assert lines[0].startswith("σ f('o' || v) AND (g(v) OR i < 3)  ~20 → ")
    assert lines[1].startswith("  #1 f('o' || v)  [λ worker]  30 → 30 calls")
    assert any(line.startswith("order: #1 (") for line in lines)


def test_writes_joins_groups_recursion_and_nothing(world: tuple[kleene.Engine, CountingModel]) -> None:
    k, model = world
    assert shown(k, "INSERT INTO kept SELECT i, f('i' || v) FROM t").startswith(
        "insert  1 row\n"
        "  π i, f('i' || v)  ~100 → 100 rows\n"
        "    #1 f('i' || v)  [λ worker]  30 → 30 calls, ~2610 → 135 tok, $0 → $0.0000\n"
    )
    assert k.con.execute("SELECT count(*), count(b) FROM kept").fetchone() == (100, 100)
    joined = shown(k, "SELECT g('j' || t.v) AS c, count(*) AS n FROM t JOIN u ON t.i = u.j GROUP BY ALL")
    assert "    #1 g('j' || t.v)  [λ worker]  20 → 20 calls" in joined and "    ⋈ i = j  ~20 → 20 rows\n" in joined
    grown = shown(
        k, "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5 AND f('r' || n)) FROM r"
    )
    assert grown.startswith("μ r  ") and "#1 f('r' || n)  [λ worker]  ? → " in grown
    model.take()
    assert shown(k, "SELECT i FROM t WHERE false AND f('n' || v)") == (
        "no rows  0 rows\n"
        "#1 f('n' || v)  [λ worker]  0 → 0 calls\n"
        "estimated: 0 calls, ~0 tok, $0\n"
        "actual: 0 rows, 0 calls, 0 from memo, 0 tok, $0.0000\n"
        "rules: stage"
    )
    assert model.take() == 0


def test_json_and_the_trace_have_every_node(world: tuple[kleene.Engine, CountingModel]) -> None:
    k, model = world
    model.take()
    result = k.sql("EXPLAIN (ANALYZE, FORMAT json) SELECT i, f('t' || v) AS b FROM t WHERE i > 50")
    found = json.loads("\n".join(row[0] for row in result.fetchall()))
    assert [(n["operator"], n["parent"], n["rows"]) for n in found["nodes"]] == [("π", None, 49), ("scan", 0, 49)]
    (site,) = found["nodes"][0]["sites"]
    assert (site["estimated_calls"], site["calls"], model.take()) == (30, 30, 30)
    assert found["actual"]["calls"] == 30 and found["rows"] == 49 and found["fragment"].startswith("CQ")
    rows = k.sql(
        "SELECT node, parent, operator, detail, est_rows, rows, est_calls, calls, memo_hits, seconds IS NOT NULL "
        "FROM trace_operators WHERE statement = (SELECT max_by(statement, recorded_at) FROM trace_operators) ORDER BY node"
    ).fetchall()
    assert rows[0][:4] == (0, None, "π", "i, f('t' || v)") and rows[0][5:] == (49, 30.0, 30, 0, True)
    assert rows[1][:4] == (1, 0, "scan", "t: (i > 50)") and rows[1][6:] == (None, None, None, True)


def test_the_users_profiling_is_as_it_was_and_their_transaction_goes_on(
    world: tuple[kleene.Engine, CountingModel],
) -> None:
    k, _ = world
    settings = "SELECT current_setting('enable_profiling'), current_setting('profiling_coverage')"
    before = k.con.execute(settings).fetchall()
    k.con.execute("BEGIN")
    k.con.execute("CREATE TABLE mine AS SELECT 1 AS a")
    assert "scan t" in shown(k, "SELECT i FROM t WHERE f('b' || v)")
    assert k.con.execute("SELECT a FROM mine").fetchall() == [(1,)]
    k.con.execute("ROLLBACK")
    with pytest.raises((KleeneError, duckdb.Error)):
        k.sql("EXPLAIN ANALYZE SELECT CAST(v AS INT) FROM t WHERE f('c' || v)")
    assert k.con.execute(settings).fetchall() == before


def test_lookups_in_duckdbs_texts_become_calls_again() -> None:
    with engine() as (k, _):
        k.con.execute("CREATE TABLE t AS SELECT '(a, ''b'' ]' || i AS v, i FROM range(3) r(i)")
        k.sql("CREATE FUNCTION f(a TEXT, b TEXT) RETURNS BOOLEAN AS PROMPT '{a} {b}?'")
        text = shown(k, "SELECT i FROM t WHERE f(v, 'it''s (, ' || i) IS NOT NULL AND (i < 2 OR f('x', v))")
        assert "kleene_" not in text and "f(v, 'it''s (, ' || i)" in text


def test_tools_tell_their_uses_and_statements_without_calls_their_total(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    with engine(workspace=tmp_path) as (k, _):
        text = shown(k, "SELECT l.text FROM files('*.txt') f, LATERAL lines(f.path) l WHERE llm_bool(l.text || '?')")
        assert "[tool]  1 → 1 use" in text and "2 → 2 calls" in text, text


def test_a_statement_is_planned_once_for_its_analysis() -> None:
    """Planning counts the rows of a join: what its rows are computed by tells how often."""
    con = duckdb.connect()
    times = 0

    def tick(value: int) -> int:
        nonlocal times
        times += value == 0
        return value

    def taken() -> int:
        nonlocal times
        now, times = times, 0
        return now

    con.create_function("tick", tick, ["BIGINT"], "BIGINT", side_effects=False)
    with engine(con=con) as (k, _):
        k.sql("CREATE FUNCTION f(v TEXT) RETURNS BOOLEAN AS PROMPT 'Is {v} f?'")
        k.sql("SET memo = off")
        sql = "SELECT a.i FROM (SELECT tick(i) AS i FROM range(3) r(i)) a, (SELECT i FROM range(3) r(i)) b WHERE f('a' || a.i) AND f('b' || b.i)"
        k.sql(f"EXPLAIN {sql}")
        planned_and_counted = taken()
        k.sql(sql)
        planned_and_run = taken()
        k.sql(f"EXPLAIN ANALYZE {sql}")
        assert taken() == planned_and_counted + planned_and_run - 1
