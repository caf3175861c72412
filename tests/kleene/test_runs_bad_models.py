"""Models that behave badly, and input that is: each ends in a clear outcome, and nothing is lost."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import kleene
from kleene.planner.errors import ConfigError
from kleene.planner.specs import BudgetLimits
from tests.kleene.scripted import Script, engine, sql
from tests.patience import AT_ONCE_S

CALLS = BudgetLimits(calls=40)


@pytest.mark.parametrize(
    ("replies", "outcome", "error", "turns"),
    [
        (
            ["I think it is four."],
            "failed",
            "3 turns in a row without SQL to run; of the last one, the reply has no SQL fence",
            3,
        ),
        ([""], "failed", "3 turns in a row without SQL to run; of the last one, the reply was empty", 3),
        (
            [sql("-- thinking")],
            "failed",
            "3 turns in a row without SQL to run; of the last one, the fence holds no statement",
            3,
        ),
        (
            [sql("SELECT nope FROM nothing")],
            "failed",
            "the same statement failed 5 times in a row: there is no table nothing here",
            5,
        ),
        ([sql("SELECT 1")], "turns_exhausted", "no FINAL in 7 turns", 7),
        (
            [kleene.Reply(sql("SELECT 1"), stop="refusal")],
            "failed",
            "the model declined the task (stop reason: refusal)",
            1,
        ),
        (
            [sql("SET budget.calls = 1000000"), sql("SET budget.calls = 3"), sql("SELECT 1")],
            "budget_exhausted",
            "calls budget exceeded: 4 > 3",
            3,
        ),
    ],
    ids=["prose", "empty", "comment", "repeats-an-error", "never-ends", "declines", "raises-then-lowers-its-budget"],
)
def test_a_bad_model_ends_in_a_clear_outcome(replies: list[Any], outcome: str, error: str, turns: int) -> None:
    with engine(Script(*replies)) as k:
        run = k.run("What is two and two?", max_turns=7, budget=CALLS)
    assert (run.outcome, run.error, run.turns, run.answer) == (outcome, error, turns, None)


def test_the_same_statements_again_are_remarked_on() -> None:
    script = Script(sql("SELECT 1"), sql("SELECT 1"), sql("FINAL(1)"))
    with engine(script) as k:
        k.run("Go")
    assert "These are the statements of your last turn again, and so are their results." in script.told(2)


def test_a_provider_that_goes_down_in_the_middle_fails_the_run_which_goes_on_when_it_is_back() -> None:
    down = [True]

    def second(_: Any) -> str:
        if down[0]:
            raise ConnectionError("connection refused")
        return sql("FINAL FROM (SELECT a FROM t)")

    script = Script(sql("CREATE TABLE t AS SELECT 5 AS a"), second)
    with engine(script) as k:
        run = k.run("Go", budget=CALLS)
        assert (run.outcome, run.turns) == ("failed", 1)
        assert "connection refused" in (run.error or "")
        down[0] = False
        run = k.resume()
        assert run.answer is not None
        assert run.answer.fetchall() == [(5,)]


def test_calls_that_fail_alike_end_the_session() -> None:
    def call(prompt: str) -> str:
        raise ConnectionError("connection refused")

    script = Script(*(sql(f"SELECT llm('{n}')") for n in range(9)), calls=call)
    with engine(script) as k:
        run = k.run("Go", budget=CALLS)
    assert (run.outcome, run.turns) == ("failed", 5)
    assert (run.error or "").startswith("5 calls in a row failed in the same way: ")


def test_a_final_of_a_million_rows_is_the_answer() -> None:
    with engine(Script(sql("FINAL FROM (SELECT range AS n FROM range(1000000))"))) as k:
        run = k.run("Go")
        assert run.answer is not None
        assert len(run.answer) == 1_000_000


def test_the_first_final_counts() -> None:
    script = Script(sql("FINAL(1); FINAL(2)"))
    with engine(script) as k:
        run = k.run("Go")
    assert run.answer is not None
    assert run.answer.fetchall() == [(1,)]


def test_a_final_behind_an_error_is_not_run() -> None:
    script = Script(sql("SELECT * FROM nothing; FINAL(1)"), sql("FINAL(2)"))
    with engine(script) as k:
        run = k.run("Go")
    assert run.answer is not None
    assert run.answer.fetchall() == [(2,)]
    assert "1 later statement was not run." in script.told(1)


def test_an_error_in_final_itself_is_told() -> None:
    script = Script(sql("FINAL FROM (SELECT nope FROM ctx)"), sql("FINAL(2)"))
    with engine(script) as k:
        run = k.run("Go", context="a")
    assert run.outcome == "final"
    assert script.told(1).startswith("error: ")


def test_a_cut_reply_is_not_run_but_asked_to_go_on() -> None:
    script = Script(kleene.Reply("```sql\nDELETE FROM", stop="length"), sql("FINAL(1)"))
    with engine(script) as k:
        assert k.run("Go").outcome == "final"
    assert script.told(1).startswith(
        "Nothing was run: the reply ended at its token limit inside its fence (4,096 tokens)."
    )


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_a_task_of_any_size_is_asked(size: int) -> None:
    script = Script(sql("FINAL(1)"))
    with engine(script) as k:
        assert k.run("x" * size, budget=CALLS).outcome == "final"
    assert script.asked()[0].messages[0].text.startswith("Task: x")


def test_an_empty_context_is_said_to_be_empty() -> None:
    script = Script(sql("FINAL FROM (SELECT count(*) FROM ctx)"))
    with engine(script) as k:
        run = k.run("Go", context="  \n")
    assert run.outcome == "final"
    assert "- note: ctx is empty: no text in text" in script.asked()[0].messages[0].text


def test_a_binary_context_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(range(256)) * 40)
    script = Script(sql("FINAL(1)"))
    with engine(script) as k, pytest.raises(ConfigError):
        k.run("Go", context=[tmp_path / "a.bin"])
    assert script.turns == []


def test_a_long_context_is_loaded_and_shown_in_part(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    with path.open("w", encoding="utf-8") as file:
        for n in range(200_000):
            file.write(f"paragraph {n} has some words in it\n\n")
    script = Script(sql("FINAL FROM (SELECT count(*), max(ordinal) FROM ctx)"))
    with engine(script) as k:
        started = time.perf_counter()
        run = k.run("Go", context=[path])
        assert time.perf_counter() - started < 10
        assert run.answer is not None
        assert run.answer.fetchall() == [(200_000, 200_000)]
    assert len(script.asked()[0].messages[0].text) < 2_000


def test_replies_that_no_text_can_hold_are_mended() -> None:
    script = Script(sql("FINAL('\ud83d\ude00 \ud83d')"))
    with engine(script) as k:
        run = k.run("Go")
    assert run.usage.seconds > 0
    assert run.answer is not None
    assert run.answer.fetchall() == [("😀 \ufffd",)]


def test_tables_of_odd_names_and_types_do_not_break_a_session() -> None:
    script = Script(
        sql(
            'CREATE TABLE "we ""ird" AS SELECT 1 AS "a b", [1,2] AS "select"; CREATE VIEW v AS FROM "we ""ird"; DESCRIBE v; SHOW TABLES; SUMMARIZE v'
        ),
        sql("INSERT INTO v VALUES (1, [2])"),
        sql('FINAL FROM (SELECT "a b" FROM v)'),
    )
    with engine(script) as k:
        run = k.run("Go")
    assert run.answer is not None
    assert run.answer.fetchall() == [(1,)]
    told = script.told(1)
    assert 'created table "we ""ird"("a b" INTEGER, "select" INTEGER[]) with 1 row' in told
    assert '\n"a b" | INTEGER | YES' in told  # DESCRIBE
    assert '\n"we ""ird"\n' in told  # SHOW TABLES
    assert '\n"select" | INTEGER[] | [1, 2]' in told  # SUMMARIZE
    assert '"a b" INTEGER' in script.asked()[1].messages[-1].text


def test_a_query_that_never_ends_is_cancelled_by_the_wall() -> None:
    script = Script(
        sql("SELECT count(*) FROM range(1000000000) a, range(1000000) b WHERE a.range * b.range = 7"), sql("FINAL(1)")
    )
    with engine(script) as k:
        started = time.perf_counter()
        run = k.run("Go", budget=BudgetLimits(wall=1.0))
        assert time.perf_counter() - started < AT_ONCE_S
    assert run.outcome == "budget_exhausted"


MALFORMED = [
    "FINAL(",
    "CALL write_file(",
    "CREATE FUNCTION f(x TEXT) RETURNS",
    "CREATE AGENT a TURNS lots",
    "SET budget.calls =",
    "EXPLAIN FINAL(",
    "CALIBRATE f",
    "SELECT * FORM t WHERE",
    "SELECT 'abc",
    "CREATE FUNCTION f(x TEXT) RETURNS TEXT AS PROMPT 'it's {x}'",
]


@pytest.mark.parametrize("wrong", MALFORMED)
def test_what_stands_before_a_malformed_statement_runs(wrong: str) -> None:
    script = Script(sql(f"CREATE TABLE kept AS SELECT 7 AS a;\n{wrong}"), sql("FINAL FROM (SELECT a FROM kept)"))
    with engine(script) as k:
        run = k.run("Go")
    assert run.answer is not None
    assert run.answer.fetchall() == [(7,)]
    told = script.told(1)
    assert told.startswith("-- 1 of ") and "created table kept(a INTEGER) with 1 row\n\n-- 2 of " in told
    assert "\nerror: " in told and "\nline 2: " in told
