"""Child sessions: rlm, spawn and their asynchronous kin."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kleene
from kleene.planner.specs import BudgetLimits
from kleene.udfs.events import SessionFinished, SessionStarted
from tests.kleene.scripted import Events, Script, engine, sql
from tests.patience import AT_ONCE_S, PATIENCE_S

NOTES = "alpha one\n\nbeta two\n\nmore alpha here"
EACH = sql("SELECT ordinal, answer, detail FROM ctx CROSS JOIN LATERAL rlm('First word?', ctx.text) r ORDER BY ordinal")
FIRST_WORD = sql("FINAL FROM (SELECT split_part(text, ' ', 1) AS word, length(text) AS n FROM ctx)")


def last(run: Any) -> Any:
    assert run.answer is not None, run.error
    return run.answer.fetchall()


def test_each_distinct_row_has_a_child_with_its_own_context() -> None:
    script = Script(EACH, sql("FINAL(1)"), children=[FIRST_WORD])
    events = Events()
    with engine(script, on_event=events) as k:
        run = k.run("Go", context=NOTES)
        assert script.told(1).startswith(
            "ordinal BIGINT | answer VARCHAR | detail JSON\n"
            '1 | alpha | {"word":"alpha","n":9}\n2 | beta | {"word":"beta","n":8}\n3 | more | {"word":"more","n":15}\n3 rows\n3 calls, '
        )
        assert run.usage.requests == 5
    started = [e for e in events if isinstance(e, SessionStarted) and e.parent]
    assert [(e.parent, e.depth, e.role, e.task) for e in started] == [(run.run_id, 1, "self", "First word?")] * 3
    assert len(script.child_paths) == 3
    assert {r.alias for r in script.asked(script.child_paths[0])} == {"worker"}


def test_children_of_the_same_task_and_context_are_one_and_remembered() -> None:
    same = "SELECT answer FROM (VALUES (1), (2)) t(i) CROSS JOIN LATERAL rlm('First word?', 'one word') r"
    script = Script(sql(same), sql(f"{same} WHERE i = 2"), sql("FINAL(1)"), children=[FIRST_WORD])
    with engine(script) as k:
        first = k.run("Go")
        second = k.run("Go once more")
    assert "one\none\n2 rows\n1 call, " in script.told(1)
    assert "one\n1 row\n0 calls, 1 from memo, " in script.told(2)
    assert (first.usage.requests, second.usage.requests) == (4, 3)
    assert len(script.child_paths) == 1


def test_a_relation_is_the_childs_table_with_its_types() -> None:
    call = "SELECT answer, detail FROM rlm('Sum?', (SELECT i, DATE '2026-01-01' + i::INTEGER AS day, [i] AS l FROM range(3) t(i) ORDER BY i DESC))"
    script = Script(
        sql(call),
        sql("FINAL(1)"),
        children=[sql("FINAL FROM (SELECT sum(i) AS s, max(day) AS d, list(l) AS l, min(typeof(day)) AS t FROM ctx)")],
    )
    with engine(script) as k:
        k.run("Go")
    assert '3 | {"s":3,"d":"2026-01-03","l":[[2],[1],[0]],"t":"DATE"}' in script.told(1)
    assert "- ctx: 3 rows, from the session that asked." in script.asked(script.child_paths[0])[0].messages[0].text


@pytest.mark.parametrize(
    ("context", "ctx"),
    [
        ("(SELECT string_agg(text, chr(10) || chr(10) ORDER BY ordinal) FROM ctx)", "3"),
        ("(SELECT 'x' AS a WHERE false)", "0"),
        ("(SELECT ordinal FROM ctx WHERE ordinal = 1)", "1"),
    ],
    ids=["one-text", "empty", "one-number"],
)
def test_a_relation_of_one_text_is_that_text(context: str, ctx: str) -> None:
    script = Script(
        sql(f"FINAL FROM (SELECT answer FROM rlm('Count', {context}))"),
        children=[sql("FINAL FROM (SELECT count(*) FROM ctx)")],
    )
    with engine(script) as k:
        assert last(k.run("Go", context=NOTES)) == [(ctx,)]


def test_a_null_task_or_context_makes_no_child() -> None:
    script = Script(
        sql(
            "FINAL FROM (SELECT count(r.answer), count(*) FROM ctx LEFT JOIN LATERAL rlm('q', NULL::VARCHAR) r ON true)"
        ),
        children=[FIRST_WORD],
    )
    with engine(script) as k:
        assert last(k.run("Go", context=NOTES)) == [(0, 3)]
    assert script.child_paths == []


def test_a_child_inherits_functions_and_sees_no_tables_of_its_parent() -> None:
    script = Script(
        sql(
            "CREATE FUNCTION twice(x TEXT) RETURNS TEXT AS SQL (SELECT x || x); CREATE TABLE t AS SELECT 1 AS a; SELECT answer FROM rlm('q', 'c')"
        ),
        sql("FINAL(1)"),
        children=[sql("SELECT * FROM t"), sql("FINAL FROM (SELECT twice(text) FROM ctx)")],
    )
    with engine(script) as k:
        k.run("Go")
    assert "answer VARCHAR\ncc\n1 row" in script.told(1)
    child = script.child_paths[0]
    assert script.told(1, child).startswith("error: there is no table t here")
    assert "twice(x TEXT)" in script.asked(child)[0].system


def test_an_agents_prompt_model_effort_turns_and_tables_are_its_childs() -> None:
    script = Script(
        sql(
            "CREATE AGENT reviewer MODEL 'proxy' EFFORT 'high' TURNS 3 TABLES (facts) PROMPT 'Be strict.'; "
            "CREATE TABLE facts AS SELECT 7 AS a; SELECT answer, session FROM spawn('reviewer', 'Look')"
        ),
        sql("FINAL(1)"),
        children=[sql("SELECT a FROM facts; DELETE FROM facts"), sql("FINAL FROM (SELECT a FROM facts)")],
    )
    with engine(script) as k:
        run = k.run("Go")
    child = script.child_paths[0]
    first = script.asked(child)[0]
    assert (first.alias, first.options.effort) == ("proxy", "high")
    assert first.system.endswith("Be strict.")
    assert "You have 3 turns." in first.system
    assert "\nYou are a child session at depth 1 of 2: your FINAL goes to the session that asked." in first.system
    assert "the table facts cannot be written" in script.told(1, child)
    assert f"7 | {run.run_id}.{child.rpartition('/')[2]}" in script.told(1)


def test_a_typed_agent_gives_its_columns_and_nothing_else_is_taken() -> None:
    script = Script(
        sql(
            "CREATE AGENT check RETURNS (verdict BOOLEAN, evidence TEXT); "
            "SELECT verdict, evidence, detail FROM spawn('check', 'Is it so?', 'yes it is') WHERE verdict"
        ),
        sql("FINAL(1)"),
        children=[
            sql("FINAL('yes')"),
            sql("FINAL FROM (SELECT text AS evidence, 'maybe' AS verdict FROM ctx)"),
            sql("FINAL FROM (SELECT text AS evidence, 'true' AS verdict FROM ctx)"),
        ],
    )
    with engine(script) as k:
        k.run("Go")
    child = script.child_paths[0]
    assert (
        script.asked(child)[0]
        .messages[0]
        .text.endswith("Your FINAL has the columns verdict BOOLEAN, evidence TEXT.\n\nReply with SQL.")
    )
    assert (
        "its columns must be verdict BOOLEAN, evidence TEXT; they are answer VARCHAR\nit has no column verdict"
        in script.told(1, child)
    )
    assert (
        "its columns must be verdict BOOLEAN, evidence TEXT; they are evidence VARCHAR, verdict VARCHAR"
        in script.told(2, child)
    )
    assert (
        'verdict BOOLEAN | evidence VARCHAR | detail JSON\ntrue | yes it is | {"evidence":"yes it is","verdict":"true"}\n1 row'
        in script.told(1)
    )


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        (
            "SELECT * FROM spawn('verfier', 'x')",
            "error: there is no agent verfier\nline 1: SELECT * FROM spawn('verfier', 'x')\n",
        ),
        ("SELECT * FROM spawn('x')", "error: spawn takes 2 to 3 arguments, 1 given"),
        ("SELECT rlm('x')", "error: rlm returns rows and stands in FROM"),
        ("SELECT * FROM await('nobody')", "error: there is no child nobody\nhint: spawn_async gives a handle"),
        ("SELECT * FROM send('parent', 'hi')", "error: this session has no parent"),
        (
            "CREATE FUNCTION rlm(x TEXT) RETURNS TEXT AS SQL (SELECT x)",
            "error: rlm is a built-in function and cannot be replaced",
        ),
        ("CREATE AGENT self PROMPT 'x'", "error: "),
        ("CREATE AGENT a TABLES (nothing); SELECT * FROM spawn('a', 'x')", "-- 1 of 2"),
    ],
)
def test_a_wrong_call_of_a_session_is_told_before_a_child_is_paid(statement: str, error: str) -> None:
    script = Script(sql(statement), sql("FINAL(1)"), children=[FIRST_WORD])
    with engine(script) as k:
        run = k.run("Go")
    assert run.outcome == "final"
    assert script.told(1).startswith(error)
    assert script.child_paths == []
    if "TABLES" in statement:
        assert "error: the agent a reads the table nothing, which is not there" in script.told(1)


def test_a_child_that_never_ends_gives_a_null_answer_and_says_why() -> None:
    script = Script(
        sql("CREATE AGENT brief TURNS 2; SELECT answer, detail FROM spawn('brief', 'Go on')"),
        sql("FINAL(1)"),
        children=[sql("SELECT 1"), sql("SELECT 2"), sql("SELECT 3")],
    )
    with engine(script) as k:
        k.run("Go")
        second = k.run("Go again")
    told = script.told(1)
    assert 'NULL | {"outcome":"turns_exhausted","error":"no FINAL in 2 turns","turns":3,"calls":3,"tokens":' in told
    assert second.usage.requests == 5  # not remembered: it may fare better


def test_the_report_of_a_child_out_of_turns_is_marked_forced() -> None:
    script = Script(
        sql("CREATE AGENT brief TURNS 1; SELECT answer, detail FROM spawn('brief', 'Go on')"),
        sql("FINAL(1)"),
        children=[sql("SELECT 1"), sql("FINAL('so far')")],
    )
    with engine(script) as k:
        k.run("Go")
    assert 'so far | {"answer":"so far","forced":true,"outcome":"turns_exhausted"}' in script.told(1)
    assert (
        script.asked(script.child_paths[0])[1]
        .messages[-1]
        .text.endswith(
            "You have no turns left. Answer now with what you know: one ```sql fence that holds only FINAL('...') or FINAL FROM (a query over your tables)."
        )
    )


def test_a_child_that_eats_its_slice_still_reports_what_it_has() -> None:
    script = Script(
        sql("SELECT answer, detail FROM rlm('Go', 'c')"),
        sql("FINAL(1)"),
        children=lambda request: (
            sql("FINAL('partial')") if "budget is used up" in request.messages[-1].text else sql("SELECT 1")
        ),
    )
    events = Events()
    with engine(script, on_event=events) as k:
        run = k.run("Go", budget=BudgetLimits(calls=9))
    assert run.outcome == "final"
    assert 'partial | {"answer":"partial","forced":true,"outcome":"budget_exhausted"}' in script.told(1)
    child = next(e for e in events if isinstance(e, SessionFinished) and e.forced)
    assert (child.outcome, child.calls) == ("budget_exhausted", 4)  # (9 - 1) // 2: a slice, its last call held back
    assert run.usage.requests == 6


def test_siblings_share_what_remains_and_never_exceed_it() -> None:
    script = Script(
        sql("SELECT i, answer, detail FROM range(3) t(i) CROSS JOIN LATERAL rlm('Go ' || i) r ORDER BY i"),
        sql("FINAL(1)"),
        children=lambda request: sql(f"SELECT {request.path[-1]}"),
    )
    events = Events()
    with engine(script, on_event=events) as k:
        run = k.run("Go", budget=BudgetLimits(calls=21))
    ends = [e for e in events if isinstance(e, SessionFinished) and e.session != run.run_id]
    assert [(e.outcome, e.calls) for e in ends] == [("budget_exhausted", 5)] * 3  # 20 // (3 + 1)
    assert run.usage.requests == 17


def test_children_that_cannot_each_have_a_call_are_refused_before_any_runs() -> None:
    script = Script(
        sql("SELECT * FROM range(9) t(i), LATERAL rlm('Go ' || i) r"), sql("FINAL(1)"), children=[FIRST_WORD]
    )
    with engine(script) as k:
        run = k.run("Go", budget=BudgetLimits(calls=6))
    assert script.told(1).startswith("error: refused before sending: the statement needs 9 calls and 5 remain")
    assert (run.outcome, script.child_paths) == ("final", [])


def test_a_role_caps_the_slice_of_its_children() -> None:
    script = Script(
        sql("CREATE AGENT small BUDGET (calls 2); SELECT detail FROM spawn('small', 'x')"),
        sql("FINAL(1)"),
        children=lambda request: sql(f"SELECT {request.path[-1]}"),
    )
    with engine(script) as k:
        k.run("Go", budget=BudgetLimits(calls=50))
    assert '"outcome":"budget_exhausted"' in script.told(1)
    assert '"calls":2' in script.told(1)


def test_depth_ends_in_a_clear_error_and_is_not_offered() -> None:
    def child(request: Any) -> str:
        depth = request.path.count("/") - 1
        done = len(request.messages) > 1
        return sql(f"FINAL('from depth {depth}')") if done else sql("SELECT answer FROM rlm('deeper')")

    script = Script(sql("FINAL FROM (SELECT answer FROM rlm('deep'))"), children=child)
    with engine(script) as k:
        assert last(k.run("Go")) == [("from depth 1",)]
    one, two = script.child_paths
    assert "answer VARCHAR\nfrom depth 2\n1 row" in script.told(1, one)
    assert script.told(1, two).startswith(
        "error: this session is at the deepest level (2): it cannot have children\nhint: do it here, with SQL and llm()\n"
    )
    assert "rlm(" in script.asked(one)[0].system
    assert "rlm(" not in script.asked(two)[0].system


def test_a_child_may_ask_what_it_was_asked() -> None:
    def child(request: Any) -> str:
        return sql("FINAL('done')") if len(request.messages) > 1 else sql("SELECT answer FROM rlm('same', 'text')")

    script = Script(sql("FINAL FROM (SELECT answer FROM rlm('same', 'text'))"), children=child)
    with engine(script) as k:
        assert last(k.run("Go")) == [("done",)]


def test_children_run_at_the_same_time_up_to_eight() -> None:
    now, most, lock = [0], [0], threading.Lock()

    def slow(request: Any) -> str:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.15)
        with lock:
            now[0] -= 1
        return sql("FINAL(1)")

    script = Script(
        sql("SELECT count(*) FROM range(12) t(i), LATERAL rlm('Go ' || i) r"), sql("FINAL(1)"), children=slow
    )
    with engine(kleene.FunctionModel(script, threads=True)) as k:
        k.run("Go")
    assert 2 <= most[0] <= 8


def test_cancel_ends_the_children_and_leaks_nothing() -> None:
    asked, over = threading.Event(), threading.Event()

    def slow(_: Any) -> str:
        asked.set()
        over.wait(PATIENCE_S)
        return sql("FINAL(1)")

    script = Script(sql("SELECT * FROM range(6) t(i), LATERAL rlm('Go ' || i) r"), children=slow)
    events = Events()
    with engine(kleene.FunctionModel(script, threads=True), on_event=events) as k:
        threading.Thread(target=lambda: (asked.wait(10), k.cancel())).start()
        started = time.perf_counter()
        run = k.run("Go")
        assert time.perf_counter() - started < AT_ONCE_S
        over.set()
        assert run.outcome == "cancelled"
    started_names = {e.session for e in events if isinstance(e, SessionStarted)}
    assert started_names == {e.session for e in events if isinstance(e, SessionFinished)}
    assert [t.name for t in threading.enumerate() if t.name.startswith("kleene")] == []


def test_the_wall_ends_the_children_too() -> None:
    over = threading.Event()

    def slow(_: Any) -> str:
        over.wait(PATIENCE_S)
        return sql("FINAL(1)")

    script = Script(sql("SELECT * FROM rlm('Go')"), children=slow)
    with engine(kleene.FunctionModel(script, threads=True)) as k:
        started = time.perf_counter()
        run = k.run("Go", budget=BudgetLimits(wall=1.0))
        assert time.perf_counter() - started < AT_ONCE_S
        over.set()
    assert run.outcome == "budget_exhausted"


def test_a_child_whose_provider_fails_gives_a_row_that_says_so() -> None:
    script = Script(
        sql("SELECT answer, detail FROM rlm('Go')"), sql("FINAL(1)"), children=[ValueError("the model is gone")]
    )
    with engine(script) as k:
        run = k.run("Go")
    assert run.outcome == "final"
    assert 'NULL | {"outcome":"failed","error":"' in script.told(1)
    assert "the model is gone" in script.told(1)


def test_asynchronous_children_are_started_awaited_and_written_to() -> None:
    go = threading.Event()

    def child(request: Any) -> str:
        if len(request.messages) == 1:
            go.wait(10)
            return sql("SELECT text, from_session FROM inbox(); SELECT * FROM send('parent', 'working')")
        return sql("FINAL FROM (SELECT 'got ' || text FROM inbox())")

    def second(_: Any) -> str:
        return sql("SELECT delivered FROM h, LATERAL send(handle, 'hurry') s")

    def third(_: Any) -> str:
        go.set()
        return sql(
            "SELECT answer FROM h, LATERAL await(h.handle) a; SELECT text FROM inbox(); SELECT text FROM inbox('nobody')"
        )

    script = Script(
        sql("CREATE TABLE h AS SELECT handle FROM spawn_async('mapper', 'Work')"),
        second,
        third,
        sql("FINAL(1)"),
        children=child,
    )
    with engine(kleene.FunctionModel(script, threads=True)) as k:
        run = k.run("Go")
    assert run.outcome == "final"
    assert "delivered BOOLEAN\ntrue\n" in script.told(2)
    assert "answer VARCHAR\ngot hurry\n1 row" in script.told(3)
    assert "text VARCHAR\nworking\n1 row" in script.told(3)
    assert script.told(3).rstrip().find("text VARCHAR\n0 rows") > 0
    assert "hurry | parent" in script.told(1, script.child_paths[0])


def test_an_asynchronous_child_ends_with_its_parent() -> None:
    over = threading.Event()

    def slow(_: Any) -> str:
        over.wait(PATIENCE_S)
        return sql("SELECT 1")

    script = Script(sql("SELECT handle FROM spawn_async('mapper', 'Work')"), sql("FINAL('bye')"), children=slow)
    events = Events()
    with engine(kleene.FunctionModel(script, threads=True), on_event=events) as k:
        started = time.perf_counter()
        assert last(k.run("Go")) == [("bye",)]
        assert time.perf_counter() - started < AT_ONCE_S
        over.set()
    assert sorted(e.outcome for e in events if isinstance(e, SessionFinished)) == ["cancelled", "final"]
    assert [t.name for t in threading.enumerate() if t.name.startswith("kleene-child")] == []


def test_explain_estimates_children_from_past_ones_and_starts_none() -> None:
    script = Script(
        sql("EXPLAIN SELECT * FROM spawn('judge', 'x')"),
        sql("SELECT answer FROM spawn('judge', 'y')"),
        sql("EXPLAIN SELECT * FROM range(3) t(i), LATERAL spawn('judge', 'x' || i) s"),
        sql("FINAL(1)"),
        children=[sql("SELECT 1"), sql("FINAL(2)")],
    )
    with engine(script) as k:
        k.run("Go")
    assert script.told(1).startswith(
        "#1 spawn('judge', 'x')  [ρ judge]  ≈ 12 calls, ~24000 tok, $0  (1 child session, at most 12 calls a child of judge)\ntotal: ≈ 12 calls"
    )
    assert "[ρ judge]  ≈ 6 calls, " in script.told(3)
    assert "(3 child sessions, as 1 past child of judge)" in script.told(3)
    assert len(script.child_paths) == 1


def test_a_person_may_ask_a_child_too() -> None:
    script = Script(children=[FIRST_WORD])
    script._root = (FIRST_WORD,)
    with engine(script) as k:
        assert k.sql("SELECT answer FROM rlm('First word?', 'hello world')").fetchall() == [("hello",)]
        assert k.sql("SELECT answer FROM rlm('First word?', 'hello world')").usage.memo_hits == 1
        assert k.sql("SELECT depth, role, outcome FROM trace_sessions").fetchall() == [(1, "self", "final")]


def test_standard_roles_are_listed_and_may_be_replaced() -> None:
    script = Script(
        sql("CREATE AGENT judge PROMPT 'Mine.'; SELECT answer FROM spawn('judge', 'x')"),
        sql("FINAL(1)"),
        children=[sql("FINAL(1)")],
    )
    with engine(script) as k:
        names = [row[0] for row in k.sql("SHOW AGENTS").fetchall()]
        k.run("Go")
    assert names == ["judge", "mapper", "planner", "proposer", "self", "verifier"]
    assert script.asked(script.child_paths[0])[0].system.endswith("Mine.")


def test_a_final_too_large_for_a_parent_is_not_taken() -> None:
    script = Script(
        sql("SELECT answer FROM rlm('x')"),
        sql("FINAL(1)"),
        children=[sql("FINAL FROM (SELECT * FROM range(20000))"), sql("FINAL('few')")],
    )
    with engine(script) as k:
        k.run("Go")
    assert "answer VARCHAR\nfew\n" in script.told(1)
    assert "it has 20,000 rows; at most 10,000 go to the session that asked: aggregate them" in script.told(
        1, script.child_paths[0]
    )


def test_the_rows_of_a_child_are_strict_json() -> None:
    script = Script(
        sql("SELECT detail FROM rlm('x')"),
        sql("FINAL(1)"),
        children=[
            sql(
                "FINAL FROM (SELECT 'nan'::DOUBLE AS a, NULL AS b, 1.50::DECIMAL(5,2) AS c, {'x': [1]} AS d, 'ü\"' AS e)"
            )
        ],
    )
    with engine(script) as k:
        k.run("Go")
    line = script.told(1).splitlines()[1]
    assert json.loads(line) == {"a": "nan", "b": None, "c": "1.50", "d": {"x": [1]}, "e": 'ü"'}


def test_children_with_children_write_one_store() -> None:
    def child(request: Any) -> str:
        if request.path.count("/") == 3 or len(request.messages) > 1:
            return sql("CREATE TABLE t AS SELECT 1 AS a; FINAL FROM t")
        return sql(
            "SELECT count(answer) FROM range(2) t(i), LATERAL rlm('sub ' || i || ' of "
            + request.messages[0].text[6:11].strip()
            + "') r"
        )

    script = Script(
        sql("FINAL FROM (SELECT count(*), count(answer) FROM range(6) t(i), LATERAL rlm(format('{:04d}', i)) r)"),
        children=child,
    )
    with engine(script) as k:
        assert last(k.run("Go", budget=BudgetLimits())) == [(6, 6)]
        assert k.sql("SELECT error FROM trace_statements WHERE error IS NOT NULL").fetchall() == []
    depths = Counter(p.count("/") for p in script.child_paths)
    assert depths == {1: 6, 2: 12}


WITH_TABLES = (
    "CREATE TABLE t AS SELECT i, llm('say ' || i || ' of ' || (SELECT text FROM ctx)) AS a FROM range(3) r(i); "
    "CREATE VIEW v AS FROM t; UPDATE t SET a = upper(a) WHERE i = 1; CREATE OR REPLACE TABLE u AS FROM v; DROP TABLE u"
)


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_hundreds_of_children_in_one_store_conflict_and_leak_nothing(tmp_path: Path) -> None:
    times = [0]

    def root(_: Any) -> str:
        times[0] += 1
        count = 200 if times[0] == 1 else 8
        context = f"'text {times[0]} ' || i"
        return sql(
            f"FINAL FROM (SELECT count(answer), min(answer), max(answer) FROM range({count}) t(i), LATERAL rlm('Go', {context}) r)"
        )

    def child(request: Any) -> str:
        return sql(WITH_TABLES) if len(request.messages) == 1 else sql("FINAL FROM (SELECT string_agg(i) FROM v)")

    script = Script(root, children=child, calls=lambda prompt: prompt)
    memory = []
    with engine(script, store=tmp_path / "run.duckdb") as k:
        for _ in range(51):
            count = 8 if times[0] else 200
            assert last(k.run("Go", budget=BudgetLimits())) == [(count, "0,1,2", "0,1,2")]
            script.turns.clear()
            script.prompts.clear()
            memory.append(resident_mb())
        assert k.sql("SELECT error FROM trace_statements WHERE error IS NOT NULL").fetchall() == []
        with k.services.store.cursor() as con:
            left = "SELECT count(*) FROM duckdb_functions() WHERE function_name LIKE 'kleene%' UNION ALL SELECT count(*) FROM duckdb_schemas() WHERE schema_name LIKE 's\\_%' ESCAPE '\\'"
            assert con.execute(left).fetchall() == [(0,), (0,)]
    assert [t.name for t in threading.enumerate() if t.name.startswith("kleene")] == []
    assert max(memory[-5:]) < max(memory[5:10]) + 30, memory


def test_a_child_waits_for_the_answers_in_its_relation() -> None:
    script = Script(
        sql(
            "FINAL FROM (SELECT answer FROM rlm('Join', (SELECT llm('Loud: ' || text) AS t FROM ctx ORDER BY ordinal)))"
        ),
        children=[sql("FINAL FROM (SELECT string_agg(t, '+') FROM ctx)")],
        calls=str.upper,
    )
    with engine(script) as k:
        assert last(k.run("Go", context=NOTES)) == [("LOUD: ALPHA ONE+LOUD: BETA TWO+LOUD: MORE ALPHA HERE",)]
    assert len(script.child_paths) == 1


@pytest.mark.parametrize("context", ["''", "E' \\n'"])
def test_an_empty_context_starts_no_child(context: str) -> None:
    script = Script(
        sql(f"SELECT r.answer, r.detail FROM rlm('Sum up', {context}) r"),
        sql(
            "CREATE AGENT judgy RETURNS (verdict BOOLEAN); "
            f"SELECT s.verdict, s.detail, s.session FROM spawn('judgy', 'Sum up', {context}) s"
        ),
        sql("FINAL(1)"),
        children=[sql("FINAL('read')")],
    )
    with engine(script) as k:
        run = k.run("Go")
    assert run.usage.requests == 3
    assert script.child_paths == []
    assert 'NULL | {"outcome":"not asked","error":"its context is empty"}\n1 row' in script.told(1)
    assert 'NULL | {"outcome":"not asked","error":"its context is empty"} | NULL\n1 row' in script.told(2)


def test_the_texts_beside_an_empty_one_have_their_children() -> None:
    script = Script(
        sql(
            "FINAL FROM (SELECT v.t, r.answer FROM (VALUES ('a'), (''), (NULL), ('b')) v(t), LATERAL rlm('Go', v.t) r)"
        ),
        children=lambda request: sql("FINAL FROM (SELECT 'read ' || text FROM ctx)"),
    )
    with engine(script) as k:
        run = k.run("Go", budget=BudgetLimits(calls=20))
    assert run.answer is not None
    assert sorted(run.answer.fetchall(), key=str) == [("", None), ("a", "read a"), ("b", "read b")]
    assert len(script.child_paths) == 2
