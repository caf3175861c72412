"""A run on the real engine: what a session is given, what it may do, and how it ends."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

import kleene
from kleene.config import Config
from kleene.planner.errors import ConfigError, NoModel
from kleene.planner.specs import BudgetLimits, Price
from kleene.session.feedback import CheckResult
from tests.kleene.scripted import Events, Script, engine, sql
from tests.patience import AT_ONCE_S, PATIENCE_S

NOTES = "alpha one\n\nbeta two\n\nmore alpha here"


def test_a_task_over_a_text_is_answered_with_the_rows_of_final() -> None:
    script = Script(
        sql("SELECT count(*) AS n FROM ctx WHERE text ILIKE '%alpha%'"),
        sql("FINAL FROM (SELECT ordinal, text FROM ctx WHERE llm_bool('About alpha? ' || text) ORDER BY ordinal)"),
        calls=lambda prompt: "true" if "alpha" in prompt.removeprefix("About alpha? ") else "false",
    )
    with engine(script) as k:
        run = k.run("Which paragraphs are about alpha?", context=NOTES)
        assert (run.outcome, run.forced, run.turns, run.error) == ("final", False, 2, None)
        assert run.answer is not None
        assert run.answer.columns == ("ordinal", "text")
        assert run.answer.fetchall() == [(1, "alpha one"), (3, "more alpha here")]
        assert run.usage.requests == 5
        assert script.told(1).startswith("n BIGINT\n2\n1 row\n\nturn 1/30 · 1/200 calls · ")
        assert k.sql("SELECT session, outcome, turns FROM trace_sessions").fetchall() == [(run.run_id, "final", 2)]


def test_the_first_message_holds_the_task_and_what_is_loaded() -> None:
    script = Script(sql("FINAL(1)"))
    with engine(script) as k:
        k.run("How many?", context=NOTES)
    assert script.asked()[0].messages[0].text == (
        "Task: How many?\n\nLoaded:\n- ctx: 3 rows, 32 characters, about 8 tokens, from text. One row a paragraph, in order; short enough to "
        "read whole.\n\nAll of ctx:\nordinal BIGINT | text VARCHAR\n1 | alpha one\n2 | beta two\n3 | more alpha here\n3 rows\n\nReply with SQL."
    )


def test_the_prefix_of_a_session_is_under_two_thousand_tokens() -> None:
    script = Script(sql("FINAL(1)"))
    with engine(script) as k:
        k.run("How many?", context=NOTES, tables=[])
    assert len(script.asked()[0].system) / 4 < 2_000


def test_project_instructions_are_part_of_the_first_message(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Dates are European.\n", encoding="utf-8")
    (tmp_path / "CLAUDE.md").write_text("Never read.\n", encoding="utf-8")
    script = Script(sql("FINAL(1)"))
    with engine(script, workspace=tmp_path) as k:
        k.run("When?")
    text = script.asked()[0].messages[0].text
    assert "Instructions of this project (AGENTS.md):\nDates are European." in text
    assert "Never read" not in text


def test_files_become_ctx_and_tables(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("one\n\ntwo", encoding="utf-8")
    (tmp_path / "mails.csv").write_text("id,body\n1,hello\n2,bye\n", encoding="utf-8")
    script = Script(sql("FINAL FROM (SELECT (SELECT count(*) FROM ctx) AS c, id, body FROM mails ORDER BY id)"))
    with engine(script) as k:
        run = k.run("Go", context=[tmp_path / "a.md"], data=[tmp_path / "mails.csv"])
    assert run.answer is not None
    assert run.answer.fetchall() == [(2, 1, "hello"), (2, 2, "bye")]


def test_tables_of_the_connection_are_handed_over_and_not_touched() -> None:
    script = Script(
        sql("UPDATE mails SET body = 'x'"),
        sql("CREATE TABLE copy AS FROM mails; UPDATE copy SET body = 'x'; FINAL FROM (FROM copy ORDER BY id)"),
    )
    with engine(script) as k:
        k.sql("CREATE TABLE mails AS FROM (VALUES (1, 'hello'), (2, 'bye')) t(id, body)")
        run = k.run("Go", tables=["mails"])
        assert run.answer is not None
        assert run.answer.fetchall() == [(1, "x"), (2, "x")]
        assert k.sql("SELECT body FROM mails ORDER BY id").fetchall() == [("hello",), ("bye",)]
    assert "error: the table mails cannot be written" in script.told(1)


@pytest.mark.parametrize("statement", ["DROP TABLE ctx", "CREATE OR REPLACE TABLE ctx AS SELECT 1", "DELETE FROM ctx"])
def test_what_a_session_was_given_it_cannot_lose(statement: str) -> None:
    script = Script(sql(statement), sql("FINAL FROM (SELECT count(*) FROM ctx)"))
    with engine(script) as k:
        run = k.run("Go", context=NOTES)
    assert run.answer is not None
    assert run.answer.fetchall() == [(3,)]
    assert script.told(1).startswith("error: ")


def test_a_check_before_final_keeps_it_from_ending_the_run() -> None:
    check = "SELECT error('left over') FROM kinds WHERE kind IS NULL; FINAL FROM kinds"
    script = Script(
        sql(f"CREATE TABLE kinds AS FROM (VALUES ('a'), (NULL)) t(kind); {check}"),
        sql(f"DELETE FROM kinds WHERE kind IS NULL; {check}"),
    )
    with engine(script) as k:
        run = k.run("Go")
    assert (run.outcome, run.turns) == ("final", 2)
    assert run.answer is not None and run.answer.fetchall() == [("a",)]
    assert "error: left over" in script.told(1)


def test_a_table_that_is_made_is_told_with_its_columns() -> None:
    script = Script(
        sql(
            "CREATE TABLE t AS SELECT 1 AS a, 'x' AS b; INSERT INTO t VALUES (2, 'y'); DELETE FROM t WHERE a = 1; DROP TABLE t"
        ),
        sql("FINAL(1)"),
    )
    with engine(script) as k:
        k.run("Go")
    told = [part.partition("\n")[2] for part in script.told(1).split("\n\n")[:4]]
    assert told == [
        "created table t(a INTEGER, b VARCHAR) with 1 row",
        "inserted 1 row",
        "deleted 1 row",
        "dropped table t",
    ]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("SELECT * FROM read_csv('/etc/passwd')", "error: read_csv is not available here"),
        ("SELECT * FROM memo", "error: there is no table memo here"),
        ("SELECT * FROM kleene_sessions", "error: there is no table kleene_sessions here"),
        ("SELECT * FROM main.kleene_turns", "error: main.kleene_turns is in a schema; only your own can be used"),
        ("SET memory_limit = '1GB'", "error: SET of DuckDB's settings is not available here"),
        ("SET budget.calls = 1000000", "error: budget.calls can only be lowered here: 1000000 > 20"),
        ("SET concurrency = 1000", "error: concurrency is set by whoever started this session"),
        (
            "CREATE FUNCTION llm(p TEXT) RETURNS TEXT AS SQL (SELECT p)",
            "error: llm is a built-in function and cannot be replaced",
        ),
        (
            "CREATE FUNCTION upper(p TEXT) RETURNS TEXT AS SQL (SELECT p)",
            "error: upper is the name of a function that is there already",
        ),
        ("ATTACH ':memory:' AS x", "error: ATTACH and DETACH is not available here"),
    ],
)
def test_what_a_session_must_not_do_is_an_error_of_its_statement(statement: str, error: str) -> None:
    script = Script(sql(statement), sql("FINAL('on')"))
    with engine(script) as k:
        run = k.run("Go", budget=BudgetLimits(calls=20))
    assert run.outcome == "final"
    assert script.told(1).startswith(error)


def test_sessions_of_two_runs_do_not_see_each_other() -> None:
    script = Script(sql("SELECT * FROM secret"), sql("CREATE TABLE secret AS SELECT 42 AS a"), sql("FINAL(1)"))
    with engine(script) as k:
        first, second = k.run("Go", keep=True), k.run("Go again")
        assert (first.outcome, second.outcome) == ("final", "final")
    errors = [r.messages[2].text.partition("\n")[0] for r in script.turns if r.path == "root/2"]
    assert errors == ["error: there is no table secret here"] * 2


def test_a_run_may_begin_with_the_tables_another_kept() -> None:
    make = Script(sql("CREATE TABLE facts AS SELECT 42 AS a; FINAL(1)"))
    with engine(make) as k:
        kept = k.run("Make", keep=True)
        make._root = (sql("FINAL FROM (SELECT a + 1 AS b FROM facts)"),)
        second = k.run("Use", from_run=kept.run_id)
        assert second.answer is not None
        assert second.answer.fetchall() == [(43,)]
        with pytest.raises(ConfigError, match="has no tables to begin with"):
            k.run("Use", from_run=second.run_id)


def test_a_run_that_has_its_answer_leaves_no_tables_behind() -> None:
    with engine(Script(sql("CREATE TABLE t AS SELECT 1 AS a; FINAL(1)"))) as k:
        k.run("Go", context=NOTES)
        cursor = k.services.store.cursor()
        assert cursor.execute(
            "SELECT count(*) FROM duckdb_schemas() WHERE schema_name LIKE 's\\_%' ESCAPE '\\'"
        ).fetchall() == [(0,)]
        cursor.close()


def test_memory_lasts_from_run_to_run() -> None:
    script = Script(sql("CREATE TABLE memory AS SELECT 'unit' AS key, 'EUR' AS value; FINAL(1)"))
    with engine(script) as k:
        k.run("Learn")
        script._root = (sql("FINAL FROM (SELECT value FROM memory WHERE key = 'unit')"),)
        run = k.run("Recall")
    assert run.answer is not None
    assert run.answer.fetchall() == [("EUR",)]


def test_the_statements_and_calls_of_a_session_are_its_own_in_the_trace() -> None:
    script = Script(
        sql("SELECT llm('hi')"),
        sql(
            "SELECT sql, calls FROM trace_statements WHERE finished_at IS NOT NULL; SELECT prompt FROM trace_calls WHERE statement IS NOT NULL"
        ),
        sql("FINAL(1)"),
    )
    with engine(script) as k:
        k.sql("SELECT llm('a secret')")
        k.run("Go")
    assert "SELECT llm('hi') | 1" in script.told(2)
    assert "secret" not in script.told(2)


def test_turns_can_be_read_back_as_a_table() -> None:
    script = Script(
        sql("SELECT 7 AS seven"), sql("SELECT n, sql, left(result, 14) AS result FROM turns"), sql("FINAL(1)")
    )
    with engine(script) as k:
        k.run("Go")
    assert script.told(2).startswith(
        "n BIGINT | sql VARCHAR | result VARCHAR\n1 | SELECT 7 AS seven | E'seven INTEGER\\n'\n1 row\n"
    )


def test_a_plan_is_summed_up_after_each_turn() -> None:
    script = Script(
        sql("CREATE TABLE plan AS FROM (VALUES ('look', 'doing'), ('map', 'todo')) t(step, status)"),
        sql("INSERT INTO plan VALUES ('look', 'done')"),
        sql("FINAL(1)"),
    )
    with engine(script) as k:
        k.run("Go")
    assert "\nplan: 0 of 2 done · doing: look · next: map\nGo on with SQL" in script.told(1)
    assert "\nplan: 1 of 2 done · next: map\nGo on with SQL" in script.told(2)


def test_without_a_budget_a_run_has_200_calls_where_nothing_is_priced() -> None:
    with engine(Script(sql("FINAL(1)"))) as k:
        run = k.run("Go")
    assert run.notes == ("no budget was given and the model has no price: this run has 200 calls",)


def test_without_a_budget_a_run_has_a_dollar_where_models_are_priced() -> None:
    script = Script(sql("SELECT 1"), sql("FINAL(1)"))
    with engine(
        {
            "root": kleene.FunctionModel(script, price=Price(1.0, 5.0)),
            "worker": kleene.FunctionModel(script, price=Price(1.0, 5.0)),
        }
    ) as k:
        run = k.run("Go")
    assert run.notes == ("no budget was given: this run has $1",)
    assert "/$1\nGo on" in script.told(1)


def test_the_budget_of_the_engine_bounds_its_runs() -> None:
    with engine(Script(sql("SELECT 1"), sql("SELECT 2")), budget=BudgetLimits(calls=2)) as k:
        run = k.run("Go")
    assert (run.outcome, run.turns, run.notes) == ("budget_exhausted", 2, ())
    assert run.error == "calls budget exceeded: 3 > 2"


def test_a_budget_used_up_by_a_statement_ends_the_statement_only() -> None:
    script = Script(sql("SELECT llm(text) FROM ctx"), sql("FINAL('too dear')"))
    with engine(script) as k:
        run = k.run("Go", context=NOTES, budget=BudgetLimits(calls=3))
    assert (run.outcome, run.usage.requests, script.prompts) == ("final", 2, [])
    assert script.told(1).startswith(
        "error: refused before sending: the statement needs 3 calls and 2 remain\n"
        "hint: add a filter or LIMIT, use a cheaper alias, or ask several rows with one call (BATCH 10)\n\nturn 1/30 · 1/3 calls · "
    )


def test_the_turn_cap_ends_a_run() -> None:
    with engine(Script(sql("SELECT 1"), sql("SELECT 2"))) as k:
        run = k.run("Go", max_turns=2)
    assert (run.outcome, run.turns, run.answer, run.error) == ("turns_exhausted", 2, None, "no FINAL in 2 turns")


def test_a_check_of_a_command_must_pass(tmp_path: Path) -> None:
    script = Script(sql("FINAL(1)"), lambda _: (tmp_path / "done").touch() or sql("FINAL(2)"))  # type: ignore[func-returns-value]
    with engine(script, workspace=tmp_path) as k:
        run = k.run("Go", check="ls done")
    assert run.answer is not None
    assert run.answer.fetchall() == [(2,)]
    assert script.told(1).startswith("FINAL was not accepted: the check failed. The end of its output:\nls: ")


def test_a_check_of_a_function_sees_the_rows() -> None:
    def check(answer: Any) -> CheckResult:
        return CheckResult(answer.rows == [(2,)], "two is right")

    with engine(Script(sql("FINAL(1)"), sql("FINAL(2)"))) as k:
        run = k.run("Go", check=check)
    assert run.turns == 2


def test_no_model_ends_a_run_as_failed_with_its_cause() -> None:
    with engine(None, config=Config()) as k:
        run = k.run("Go")
    assert run.outcome == "failed"
    assert isinstance(run.cause, NoModel)


def test_a_wrong_file_raises_before_anything_is_asked(tmp_path: Path) -> None:
    script = Script(sql("FINAL(1)"))
    with engine(script) as k, pytest.raises(ConfigError, match="there is no such file"):
        k.run("Go", context=[tmp_path / "nothing.txt"])
    assert script.turns == []


@pytest.mark.parametrize("where", ["turn", "statement"])
def test_cancel_ends_a_run_at_once(where: str) -> None:
    asked, over = threading.Event(), threading.Event()

    def slow(_: Any) -> str:
        asked.set()
        over.wait(PATIENCE_S)
        return "late"

    root = slow if where == "turn" else sql("SELECT llm('x')")
    script = Script(root, calls=slow)
    events = Events()
    with engine(kleene.FunctionModel(script, threads=True), on_event=events) as k:
        threading.Thread(target=lambda: (asked.wait(10), k.cancel())).start()
        started = time.perf_counter()
        run = k.run("Go")
        assert time.perf_counter() - started < AT_ONCE_S
        over.set()
        assert (run.outcome, run.answer) == ("cancelled", None)
        assert k.sql("SELECT 1").fetchall() == [(1,)]


def test_a_fault_of_the_data_is_told_and_the_session_goes_on() -> None:
    script = Script(sql("SELECT CAST('x' AS INTEGER)"), sql("SELECT 1 // 0, error('boom')"), sql("FINAL(1)"))
    with engine(script) as k:
        run = k.run("Go")
    assert run.outcome == "final"
    assert script.told(1).startswith("error: Could not convert string 'x' to INT32")


def test_what_stays_of_a_turn_that_failed_and_what_no_macro_is_are_said() -> None:
    kind = "STRUCT(want ENUM('money back', 'another one', 'an apology', 'nothing at all'), why VARCHAR)"
    script = Script(
        sql(
            f"CREATE FUNCTION f(x TEXT) RETURNS {kind} AS PROMPT '{{x}}'; CREATE TABLE t AS SELECT NULL::{kind} AS a; CREATE MACRO g(x) AS 'a' || x"
        ),
        sql("CREATE TABLE t AS SELECT 2 AS a"),
        sql("FINAL(1)"),
    )
    with engine(script) as k:
        assert k.run("Go").outcome == "final"
    told = script.told(1)
    assert "\ncreated function f(x TEXT) -> STRUCT(want ENUM('money back'…\n" in told
    assert "\ncreated table t(a STRUCT(want ENUM('money back', 'another one', 'an apology',…) with 1 row\n" in told
    assert "\nhint: Use CREATE FUNCTION name(arg TYPE) RETURNS TYPE AS SQL (SELECT ...).\n" in told
    assert "\nhint: CREATE OR REPLACE TABLE makes it anew; what was made before an error has stayed\n" in script.told(2)


def test_what_regular_expressions_and_names_cannot_be_is_told_with_what_can() -> None:
    script = Script(
        sql("SELECT regexp_extract_all('a', '.{1100}')"),
        sql("CREATE TABLE x AS SELECT 1 AS asof, 2 AS d; SELECT coalesce(asof, d) FROM x"),
        sql(f"SELECT '{'a' * 90}', 1 asof, '{'b' * 90}'"),
        sql("SELECT 1 GROUP BY , 2; SELECT 1"),
        sql("FINAL(1)"),
    )
    with engine(script) as k:
        assert k.run("Go").outcome == "final"
    assert "as a name" not in script.told(4)
    assert script.told(1).startswith(
        "error: invalid repetition size: {1100}\n"
        "hint: a repetition is at most 1000: for more around a match, substr(t, instr(t, 'x') - 500, 2000)\n"
    )
    assert '\nhint: as a name asof is written "asof": it is a keyword\n' in script.told(2)
    assert (
        f"\nline 1: …{'a' * 34}', 1 asof, '{'b' * 53}…\n" + " " * 48 + '^^^^\nhint: as a name asof is written "asof"'
        in script.told(3)
    )
