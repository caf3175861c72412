"""``SET pilot``: EXPLAIN asks a few of the statement's own arguments to learn how many calls the others will be."""

from __future__ import annotations

import statistics
import zlib

import pytest

import kleene
from tests.kleene.engines import CountingModel, engine

STATEMENTS = [
    "SELECT i FROM t WHERE f(v) AND g(v)",
    "SELECT i FROM t WHERE g(v) AND f(v)",
    "SELECT i, llm('C ' || v) AS c FROM t WHERE f(v)",
    "SELECT i FROM t WHERE f(v) OR g(v)",
    "SELECT i FROM t WHERE g(v) ORDER BY i LIMIT 5",
    "SELECT i, f(llm('C ' || v)) AS b FROM t",
    "SELECT CASE WHEN f(v) THEN g(v) ELSE h(v) END AS b FROM t",
    "SELECT u.j FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.i % 20 = u.j AND f(t.v || u.w))",
    "SELECT u.j FROM u WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.i % 20 = u.j AND g(t.v || u.w))",
    "SELECT t.i FROM t JOIN u ON t.i % 20 = u.j WHERE f(t.v) AND h(u.w)",
    "SELECT g(v) AS b, count(*) AS n FROM t WHERE f(v) GROUP BY ALL",
    "SELECT i FROM t WHERE llm('C ' || v) = 'red' AND f(v)",
    "SELECT a.i FROM t a JOIN t b ON a.i = b.i + 1 WHERE f(a.v) AND h(b.v || a.v)",
]


def rule(prompt: str) -> str:
    """30 % f, 10 % g, 50 % h; one of three colours."""
    share = zlib.crc32(prompt.encode()) % 100
    if prompt.startswith("C "):
        return ("red", "green", "blue")[share % 3]
    return str(share < {"F": 30, "G": 10, "H": 50}[prompt[0]]).lower()


def opened(k: kleene.Engine, sort: str = "") -> None:
    """The tables and functions; each ``sort`` of prompts is unknown to the engine, and so is how many of them pass."""
    k.con.execute("CREATE OR REPLACE TABLE t AS SELECT range::INT AS i, 'x' || range AS v FROM range(200)")
    k.con.execute("CREATE OR REPLACE TABLE u AS SELECT range::INT AS j, 'y' || range AS w FROM range(20)")
    for name in "FGH":
        k.sql(f"CREATE OR REPLACE FUNCTION {name.lower()}(v TEXT) RETURNS BOOLEAN AS PROMPT '{name}{sort} {{v}}'")
    k.sql("SET measure_ms = 60_000")


def test_estimates_behind_calls_come_near_what_is_asked() -> None:
    ratios = []
    with engine(CountingModel(rule)) as (k, model):
        k.sql("SET pilot = 20")
        for number, sql in enumerate(STATEMENTS):
            opened(k, str(number))
            sql = sql.replace("'C '", f"'C {number} '")
            expected = k.explain(sql).estimate.calls
            assert 0 < model.take() <= 60
            k.sql(sql).fetchall()
            ratios.append(expected / model.take())
    assert 0.8 <= statistics.median(ratios) <= 1.25, ratios
    near = [r for r in ratios if 0.5 <= r <= 2.0]
    assert len(near) >= len(ratios) - 2, ratios


@pytest.mark.parametrize("sql", [STATEMENTS[0], STATEMENTS[2], STATEMENTS[6]])
def test_what_a_pilot_asked_is_not_paid_again(sql: str) -> None:
    with engine(CountingModel(rule)) as (k, model):
        opened(k)
        rows = k.sql(sql).fetchall()
        needed = set(model.asked)
    with engine(CountingModel(rule)) as (k, model):
        opened(k)
        k.sql("SET pilot = 10")
        k.explain(sql)
        assert k.sql(sql).fetchall() == rows
        assert max(model.asked.values()) == 1
        assert len(set(model.asked) - needed) <= 30


def test_it_is_said_and_nothing_is_asked_without_it() -> None:
    with engine(CountingModel(rule)) as (k, model):
        opened(k)
        sql = "SELECT i, llm('C ' || v) AS c FROM t WHERE f(v)"
        assert "pass rate 0.5 assumed" in k.explain(sql).text
        assert model.calls == 0
        k.sql("SET pilot = 20")
        assert k.explain(sql).text == (
            "#1 llm('C ' || v)  [λ worker]  ≈ 72 calls, 8 from memo, ~6192 tok, $0  (behind #2: by a pilot of 20)\n"
            "#2 f(v)  [λ worker]  180 calls, 20 from memo, ~15480 tok, $0\n"
            "total: ≈ 252 calls, ~21672 tok, $0\n"
            "fragment: CQ (conditions that all hold)"
        )


def test_a_pilot_over_nothing_with_nulls_and_in_a_transaction() -> None:
    with engine(CountingModel(rule)) as (k, model):
        opened(k)
        k.sql("SET pilot = 20")
        assert k.explain("SELECT llm('C ' || v) FROM t WHERE i < 0 AND f(v)").estimate.calls == 0
        k.con.execute("CREATE TABLE n (v VARCHAR)")
        k.con.execute("INSERT INTO n VALUES (NULL), ('a'), ('a'), ('')")
        assert model.calls == 0
        k.explain("SELECT g(v) FROM n WHERE f(v)")
        assert model.take() <= 6
        k.con.execute("BEGIN")
        k.explain("INSERT INTO n SELECT llm('C ' || v) FROM t WHERE f(v)")
        k.con.execute("COMMIT")
        assert model.calls == 0


def test_the_budget_holds_for_it_too() -> None:
    with engine(CountingModel(rule)) as (k, model):
        opened(k)
        k.sql("SET pilot = 20")
        k.sql("SET budget.calls = 5")
        with pytest.raises(kleene.KleeneError):
            k.explain("SELECT llm('C ' || v) FROM t WHERE f(v)")
        assert model.calls <= 5
