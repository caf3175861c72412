"""CALIBRATE: what it asks, counted at the model's side, what it promises, and when the promise ends."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kleene
from tests.kleene.engines import CountingModel, engine
from tests.kleene.scripted import Script, sql
from tests.kleene.scripted import engine as scripted

ROWS = 1000


def rule(prompt: str) -> str:
    """A row is true where its number is a multiple of 3; its score is 0.75 then, else 0.25, give or take 0.2."""
    word, number = prompt.split()[:2]
    n = int(re.sub(r"\D", "", number) or 0)
    if word == "score":
        return str(round((0.75 if n % 3 == 0 else 0.25) + (n * 7919 % 100 - 50) / 250, 3))
    if word == "blind":
        return "0.5"
    if word == "denies":
        return "0.1" if n % 3 == 1 else "0.5"
    return "true" if n % 3 == 0 else "false"


def declare(k: kleene.Engine, proxy: str = "score", more: str = "") -> None:
    k.sql(f"CREATE OR REPLACE FUNCTION g(i BIGINT) RETURNS DOUBLE AS PROMPT '{proxy} {{i}}' MODEL 'proxy'")
    k.sql(f"CREATE OR REPLACE FUNCTION f(i BIGINT) RETURNS BOOLEAN AS PROMPT 'is {{i}}' PROXY g {more}")


def result(found: kleene.Result) -> dict[str, object]:
    return dict(zip(found.columns, found.fetchall()[0], strict=True))


@pytest.fixture
def world() -> Iterator[tuple[kleene.Engine, CountingModel]]:
    with engine(CountingModel(rule)) as (k, model):
        k.sql(f"CREATE TABLE t AS SELECT i FROM range({ROWS}) r(i)")
        declare(k)
        yield k, model


def test_the_proxy_is_asked_for_all_rows_and_the_function_for_a_sample(world) -> None:
    k, model = world
    found = k.sql("CALIBRATE f SAMPLE 300 RECALL 0.9 PRECISION 0.9 CONFIDENCE 0.95 FROM (SELECT i FROM t)")
    assert sum(n for p, n in model.asked.items() if p.startswith("score")) == ROWS
    assert sum(n for p, n in model.asked.items() if p.startswith("is")) == 300
    assert found.usage.requests == model.take() == 1300
    row = result(found)
    low, high = row.pop("low"), row.pop("high")
    assert 0.45 <= low <= high <= 0.57
    assert row == {
        "function": "f",
        "proxy": "g",
        "rows": 1000,
        "asked": 300,
        "accepted": 334,
        "in_band": 0,
        "rejected": 666,
        "sample_precision": 1.0,
        "sample_recall": 1.0,
        "guarantee": "recall >= 0.9 and precision >= 0.9 with confidence 0.95 (of 1000 rows 300 were asked)",
    }
    assert found.warnings == ()
    # The cascade is priced by the scores that were seen, and its calls are remembered.
    plan = k.explain("SELECT i FROM t WHERE f(i)")
    assert plan.text == (
        "#1 g for f(i)  [λ proxy]  0 calls, 1000 from memo\n"
        "#2 f(i)  [λ worker]  ≈ 0 calls  (between the thresholds: 0% of the scores seen by CALIBRATE; at most 700)\n"
        "total: ≈ 0 calls, ~0 tok, $0\n"
        f"cascade f by g: true from {high:g}, false below {low:g}; "
        "recall >= 0.9 and precision >= 0.9 with confidence 0.95 (of 1000 rows 300 were asked)\n"
        "fragment: CQ (conditions that all hold)\n"
        "rules: cascade, guard"
    )
    assert len(k.sql("SELECT i FROM t WHERE f(i)")) == 334 and model.take() == 0
    # The same rows in another order draw the same sample.
    again = k.sql("CALIBRATE f SAMPLE 300 FROM (SELECT i FROM t ORDER BY i DESC)")
    assert model.take() == 0 and result(again)["high"] == high


def test_explain_says_what_it_would_ask_at_most(world) -> None:
    k, model = world
    text = k.sql("EXPLAIN CALIBRATE f SAMPLE 100 FROM (SELECT i FROM t)").plan
    assert text == (
        "#1 g  [λ proxy]  1000 calls, ~86990 tok, $0\n"
        "#2 f (a sample of 100)  [λ worker]  ≈ 100 calls, ~8600 tok, $0  "
        "(at most: 75 rows drawn from all, 25 above the threshold)\n"
        "total: ≈ 1100 calls, ~95590 tok, $0"
    )
    assert model.calls == 0
    assert k.explain("CALIBRATE f SAMPLE 5000 FROM (SELECT i FROM t)").exact
    assert k.explain("CALIBRATE f SAMPLE 5000 FROM (SELECT i FROM t)").estimate.calls == 2 * ROWS
    (line,) = [r[0] for r in k.sql("EXPLAIN ANALYZE CALIBRATE f SAMPLE 100 FROM (SELECT i FROM t)").fetchall()]
    assert re.match(r"actual: 1 row, (\d+) calls, 0 from memo, ", line)[1] == str(model.calls)
    assert ROWS + 75 <= model.calls <= ROWS + 100


def test_a_sample_that_tells_too_little_leaves_every_row_to_the_function(world) -> None:
    k, model = world
    found = k.sql("CALIBRATE f SAMPLE 20 FROM (SELECT i FROM t)")
    row = result(found)
    assert (row["low"], row["high"], row["in_band"]) == (None, None, ROWS)
    assert row["guarantee"] == f"no thresholds: {row['asked']} of 1000 rows were asked, too few to tell"
    assert found.warnings == (
        f"no thresholds of g keep both goals as far as the sample tells ({row['asked']} of 1000 rows were asked): "
        "f is asked for every row; a larger SAMPLE tells more",
    )
    model.take()
    plan = k.explain("SELECT i FROM t WHERE f(i)")
    assert f"cascade f by g: every row is asked; {row['guarantee']}" in plan.text
    assert len(k.sql("SELECT i FROM t WHERE f(i)")) == 334
    assert {p.split()[0] for p in model.asked} == {"is"} and model.calls == ROWS - row["asked"]


def test_one_side_alone_may_be_supported(world) -> None:
    k, model = world
    found = k.sql("CALIBRATE f SAMPLE 300 RECALL 1 FROM (SELECT i FROM t)")
    row = result(found)
    assert row["low"] is None and row["high"] is not None and row["rejected"] == 0
    assert found.warnings == (
        "no row is rejected by g: the sample does not show that recall stays at 1 (300 of 1000 rows were asked)",
    )
    model.take()
    assert len(k.sql("SELECT i FROM t WHERE f(i)")) == 334
    assert 0 < model.calls < ROWS - row["accepted"]
    declare(k, "denies")
    found = k.sql("CALIBRATE f SAMPLE 300 FROM (SELECT i FROM t)")
    row = result(found)
    assert (row["low"], row["high"], row["rejected"]) == (0.5, None, 333)
    assert found.warnings == (
        f"no row is accepted by g: the sample does not show that precision stays at 0.9 ({row['asked']} of 1000 rows were asked)",
    )


def test_a_blind_proxy_decides_nothing(world) -> None:
    k, _ = world
    declare(k, "blind")
    row = result(k.sql("CALIBRATE f SAMPLE 400 FROM (SELECT i FROM t)"))
    assert (row["accepted"], row["in_band"], row["rejected"]) == (0, ROWS, 0)


@pytest.mark.parametrize(
    "change",
    [
        "CREATE OR REPLACE FUNCTION g(i BIGINT) RETURNS DOUBLE AS PROMPT 'score  {i}' MODEL 'proxy'",
        "CREATE OR REPLACE FUNCTION g(i BIGINT) RETURNS DOUBLE AS SQL (SELECT i / 1000)",
        "CREATE OR REPLACE FUNCTION f(i BIGINT) RETURNS BOOLEAN AS PROMPT 'is  {i}' PROXY g",
        "CREATE OR REPLACE FUNCTION f(i BIGINT) RETURNS BOOLEAN AS PROMPT 'is {i}' MODEL 'judge' PROXY g",
        "SET effort = 'high'",
        "SET temperature = 0.5",
        "SET model.default = 'root'",
    ],
)
def test_another_question_or_model_ends_the_guarantee_and_the_same_brings_it_back(change: str) -> None:
    models = {a: kleene.FunctionModel(CountingModel(rule), name=a) for a in ("root", "worker", "proxy", "judge")}
    with kleene.connect(models=models, store=":memory:") as k:
        k.sql("CREATE TABLE t AS SELECT i FROM range(150) r(i)")
        declare(k)
        k.sql("CALIBRATE f FROM (SELECT i FROM t)")
        held = k.explain("SELECT f(i) FROM t").text
        assert "with confidence 0.95" in held
        k.sql(change)
        assert "true from 0.8, false below 0.2; declared, nothing is guaranteed" in k.explain("SELECT f(i) FROM t").text
        for key in ("effort", "temperature", "model.default"):
            k.sql(f"RESET {key}")
        declare(k)
        assert "with confidence 0.95" in k.explain("SELECT f(i) FROM t").text


def test_thresholds_come_back_in_a_new_process(tmp_path: Path) -> None:
    store = tmp_path / "s.duckdb"
    with engine(CountingModel(rule), store=store) as (k, _):
        k.sql(f"CREATE TABLE t AS SELECT i FROM range({ROWS}) r(i)")
        declare(k)
        first = result(k.sql("CALIBRATE f FROM (SELECT i FROM t)"))
    with engine(CountingModel(rule), store=store) as (k, model):
        k.sql(f"CREATE TABLE t AS SELECT i FROM range({ROWS}) r(i)")
        declare(k)
        assert f"true from {first['high']:g}, false below {first['low']:g}; {first['guarantee']}" in (
            k.explain("SELECT f(i) FROM t").text
        )
        assert k.sql("SELECT function, proxy, low, high, n, rows, recall, confidence FROM calibrations").fetchall() == [
            ("f", "g", first["low"], first["high"], 300, ROWS, 0.9, 0.95)
        ]
        # Thresholds that are declared are what they say; what CALIBRATE saw prices them.
        declare(k, more="THRESHOLDS (0.3, 0.7)")
        text = k.explain("SELECT f(i + 2000) FROM t").text
        assert "true from 0.7, false below 0.3; declared, nothing is guaranteed" in text
        share = float(re.search(r"between the thresholds: (\d+)% of the scores seen by CALIBRATE", text)[1]) / 100
        wanted = sum(0.3 <= float(rule(f"score {i}")) < 0.7 for i in range(ROWS)) / ROWS
        assert abs(share - wanted) < 0.02 and model.calls == 0


def test_no_budget_is_spent_on_half_a_calibration() -> None:
    with engine(CountingModel(rule), budget=kleene.Budget(calls=1200)) as (k, model):
        k.sql(f"CREATE TABLE t AS SELECT i FROM range({ROWS}) r(i)")
        declare(k)
        with pytest.raises(kleene.Refused) as caught:
            k.sql("CALIBRATE f SAMPLE 300 FROM (SELECT i FROM t)")
        assert caught.value.message == "refused before sending: the statement needs 1300 calls and 1200 remain"
        assert model.calls == 0
        k.sql("CALIBRATE f SAMPLE 200 FROM (SELECT i FROM t)")
        assert model.calls == 1200
        k.sql("CALIBRATE f SAMPLE 200 FROM (SELECT i FROM t)")  # all of it is remembered
        assert model.calls == 1200


def test_rows_without_arguments_or_scores_are_never_decided_by_the_proxy() -> None:
    def gaps(prompt: str) -> str:
        n = int(prompt.split()[1])
        return "?" if prompt.startswith("score") and n % 7 == 0 else rule(prompt)

    with engine(CountingModel(gaps)) as (k, _):
        k.sql(f"CREATE TABLE t AS SELECT CASE WHEN i % 10 > 0 THEN i END AS i FROM range({ROWS}) r(i)")
        declare(k)
        row = result(k.sql("CALIBRATE f SAMPLE 400 FROM (SELECT i FROM t)"))
        unscored = sum(i % 7 == 0 for i in range(ROWS) if i % 10)
        assert row["rows"] == 900 and row["in_band"] >= unscored and row["accepted"] > 0
        truth = {i for i in range(ROWS) if i % 10 and i % 3 == 0}
        got = {i for (i,) in k.sql("SELECT i FROM t WHERE f(i)").fetchall()}
        assert len(got & truth) >= 0.9 * len(truth) and len(got & truth) >= 0.9 * len(got)


def test_duplicates_count_as_rows_and_are_asked_once(world) -> None:
    k, model = world
    k.sql("CREATE TABLE d AS SELECT i % 40 AS i FROM range(2000) r(i)")
    row = result(k.sql("CALIBRATE f SAMPLE 500 FROM (SELECT i FROM d)"))
    assert row["rows"] == 2000 and row["asked"] >= 375
    assert model.calls <= 80 and max(model.asked.values()) == 1


def test_any_query_gives_the_rows(world) -> None:
    k, _ = world
    k.sql("CREATE FUNCTION pair(a TEXT, n INT) RETURNS DOUBLE AS SQL (SELECT n / 100.0)")
    k.sql(
        "CREATE FUNCTION both(word TEXT, number INT) RETURNS BOOLEAN AS PROMPT 'is {number} \u201c{word}\u201d' PROXY pair"
    )
    for query, rows in [
        ("(SELECT '\u00e9\u4e2d', i FROM t WHERE i < $1)", 50),
        ("(FROM (VALUES ('a', 1), ('b', 2), ('c', 3)))", 3),
        ("(SELECT 'x', i FROM t WHERE i < 30 UNION ALL SELECT 'y', i FROM t WHERE i < 20)", 50),
        ("(WITH q AS (SELECT * FROM t LIMIT 10) SELECT 'w', i FROM q ORDER BY 2)", 10),
        ("(SELECT llm('is ' || i), i FROM t WHERE i < 5)", 5),
    ]:
        found = k.sql(f"CALIBRATE both FROM {query}", [50] if "$1" in query else None)
        assert result(found)["rows"] == rows
    assert k.explain("CALIBRATE both FROM (SELECT llm('new ' || i), i FROM t WHERE i < 5)").estimate.calls >= 5


def test_thresholds_are_kept_to_the_last_digit() -> None:
    with engine(CountingModel(rule)) as (k, _):
        k.sql("CREATE TABLE t AS SELECT i FROM range(200) r(i)")
        k.sql(
            "CREATE FUNCTION g(i BIGINT) RETURNS DOUBLE AS SQL (SELECT CASE WHEN i % 3 = 0 THEN 1 ELSE -1 END * (0.1 + i / 3.0) / 7)"
        )
        k.sql("CREATE FUNCTION f(i BIGINT) RETURNS BOOLEAN AS PROMPT 'is {i}' PROXY g")
        row = result(k.sql("CALIBRATE f SAMPLE 200 RECALL 1 PRECISION 1 FROM (SELECT i FROM t)"))
        assert (row["in_band"], row["accepted"]) == (0, 67)
        assert k.sql("SELECT count(*) FROM t WHERE f(i)").fetchall() == [(67,)]


@pytest.mark.parametrize("score", ["'nan'::DOUBLE", "'inf'::DOUBLE", "'-inf'::DOUBLE"])
def test_scores_that_are_no_finite_number_are_decided_as_they_were_calibrated(score: str) -> None:
    with engine(CountingModel(rule)) as (k, _):
        k.sql("CREATE TABLE t AS SELECT i FROM range(90) r(i)")
        k.sql(
            f"CREATE FUNCTION g(i BIGINT) RETURNS DOUBLE AS SQL (SELECT CASE WHEN i % 3 = 0 THEN {score} ELSE 0.5 END)"
        )
        k.sql("CREATE FUNCTION f(i BIGINT) RETURNS BOOLEAN AS PROMPT 'is {i}' PROXY g")
        row = result(k.sql("CALIBRATE f SAMPLE 90 FROM (SELECT i FROM t)"))
        assert row["rows"] == 90 and not any(isinstance(v, float) and math.isnan(v) for v in row.values())
        assert {i for (i,) in k.sql("SELECT i FROM t WHERE f(i)").fetchall()} == {i for i in range(90) if i % 3 == 0}


def test_a_call_of_the_sample_that_fails_leaves_no_thresholds(world) -> None:
    k, model = world

    def broken(prompt: str) -> str:
        if prompt == "is 3":
            raise ConnectionError("down")
        return rule(prompt)

    model._rule = broken
    k.sql("SET on_error = 'null'")
    with pytest.raises(kleene.CallFailed, match="calls of the sample failed: no thresholds were chosen"):
        k.sql("CALIBRATE f SAMPLE 2000 FROM (SELECT i FROM t)")
    assert "declared, nothing is guaranteed" in k.explain("SELECT f(i) FROM t").text
    model._rule = rule
    model.take()
    assert result(k.sql("CALIBRATE f SAMPLE 2000 FROM (SELECT i FROM t)"))["in_band"] == 0
    assert model.calls == 1  # what was paid for is kept


def test_it_is_one_statement_of_the_trace_and_works_in_a_transaction(world) -> None:
    k, _ = world
    text = "CALIBRATE f SAMPLE 100 FROM (SELECT i FROM t)"
    k.sql("BEGIN")
    k.sql("DELETE FROM t WHERE i >= 500")
    assert result(k.sql(text))["rows"] == 500
    k.sql("ROLLBACK")
    assert k.sql("SELECT calls, rows FROM trace_statements WHERE sql = $1", [text]).fetchall() == [(600, 1)]


def test_a_model_may_calibrate_for_its_session_alone() -> None:
    script = Script(
        sql(
            "CREATE TABLE t AS SELECT i FROM range(400) r(i);"
            "CREATE FUNCTION g(i BIGINT) RETURNS DOUBLE AS PROMPT 'score {i}';"
            "CREATE FUNCTION f(i BIGINT) RETURNS BOOLEAN AS PROMPT 'is {i}' PROXY g;"
            "CALIBRATE f SAMPLE 200 RECALL 0.8 PRECISION 0.8 FROM (SELECT i FROM t)"
        ),
        sql("CALIBRATE f FROM (SELECT i FROM elsewhere)"),
        sql("EXPLAIN SELECT i FROM t WHERE f(i)"),
        sql("FINAL FROM (SELECT count(*) FROM t WHERE f(i))"),
        calls=lambda prompt: str(0.9 - int(prompt.split()[1]) % 3 / 3) if prompt.startswith("score") else rule(prompt),
    )
    with scripted(script) as k:
        run = k.run("Count them.", budget=kleene.Budget(calls=2000))
        assert run.answer is not None and run.answer.fetchall() == [(134,)]
        assert "recall >= 0.8 and precision >= 0.8 with confidence 0.95" in script.told(1)
        assert "error: " in script.told(2) and "elsewhere" in script.told(2)
        assert "recall >= 0.8 and precision >= 0.8" in script.told(3)
        assert k.sql("SELECT count(*) FROM calibrations").fetchall() == [(0,)]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        (
            "CALIBRATE f FROM t2",
            "error: the query has 2 columns, f takes 1\nline 1: CALIBRATE f FROM t2\n                  ^\n"
            "hint: select its arguments in order: f(i BIGINT) -> BOOLEAN",
        ),
        (
            "CALIBRATE g FROM t",
            "error: g has no proxy to calibrate\nline 1: CALIBRATE g FROM t\n                  ^\n"
            "hint: CREATE OR REPLACE FUNCTION g(...) RETURNS BOOLEAN AS PROMPT '...' PROXY g",
        ),
        (
            "CALIBRATE ff FROM t",
            "error: there is no function ff\nline 1: CALIBRATE ff FROM t\n                  ^^\nhint: did you mean f?",
        ),
        (
            "CALIBRATE f SAMPLE 1 FROM t",
            "error: SAMPLE must be a whole number of at least 2, not 1\nline 1: CALIBRATE f SAMPLE 1 FROM t\n                           ^\n"
            "hint: CALIBRATE FUNCTION name [SAMPLE 300] [RECALL 0.9] [PRECISION 0.9] [CONFIDENCE 0.95] FROM (SELECT ...)",
        ),
        (
            "CALIBRATE f CONFIDENCE 1 FROM t",
            "error: CONFIDENCE must be between 0 and 1, without both, not 1\nline 1: CALIBRATE f CONFIDENCE 1 FROM t\n"
            "                               ^\n"
            "hint: CALIBRATE FUNCTION name [SAMPLE 300] [RECALL 0.9] [PRECISION 0.9] [CONFIDENCE 0.95] FROM (SELECT ...)",
        ),
        (
            "CALIBRATE v FROM t",
            "error: v is VOLATILE: its answers change\nline 1: CALIBRATE v FROM t\n                  ^\n"
            "hint: declare it IMMUTABLE or STABLE",
        ),
        (
            "CALIBRATE f FROM (SELECT i FROM t WHERE i < 0)",
            "error: g gives 0 of 0 rows a score, too few to calibrate\n"
            "hint: FROM a query with more rows whose arguments are not NULL",
        ),
    ],
)
def test_wrong_calibrations_say_what_to_do(world, statement: str, error: str) -> None:
    k, model = world
    k.sql("CREATE TABLE t2 AS SELECT i, i AS j FROM t")
    k.sql("CREATE FUNCTION v(i BIGINT) RETURNS BOOLEAN AS PROMPT '{i}' VOLATILE PROXY g")
    with pytest.raises(kleene.KleeneError) as caught:
        k.sql(statement)
    assert caught.value.render() == error
    assert model.calls == 0
