"""Runs that go on: after a turn cap, a budget, a cancel, and after kill -9 at any point, without paying again and with the same answer."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kleene
from kleene.planner.errors import ConfigError
from kleene.planner.specs import BudgetLimits
from kleene.session.feedback import CheckResult
from tests.kleene import resumable
from tests.kleene.scripted import Script, engine, sql

PROGRAM = Path(resumable.__file__)
NOTES = resumable.NOTES
IN_FLIGHT = 8
"""Requests that the run has on their way at once, at most: one for each note."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, set[str]]:
    """The answer of a run that nothing stopped, and what its model was asked."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with resumable.open_engine(folder) as k:
        run = k.run("Work", context=NOTES)
        assert run.outcome == "final", run.error
        assert run.answer is not None
        prompts = asked(folder)
        assert len(prompts) == len(set(prompts)) > 2 * IN_FLIGHT
        return run.answer.fetchall(), set(prompts)


def asked(folder: Path) -> list[str]:
    """What the model was asked, in order; nothing where it was not asked yet."""
    file = folder / "asked"
    return file.read_text("utf-8").splitlines() if file.exists() else []


def killed_at(folder: Path, *points: str) -> list[int]:
    """Kill a process of the run at each point; how much had been asked in all at each kill."""
    kills = []
    for point in points:
        done = subprocess.run(
            [sys.executable, str(PROGRAM), str(folder), point],
            cwd=PROGRAM.parents[2],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == -9, done.stderr
        kills.append(len(asked(folder)))
    return kills


def goes_on(folder: Path) -> Any:
    """The rows of the answer, once the run has gone on to its end."""
    with resumable.open_engine(folder) as k:
        run = k.resume()
        assert run.outcome == "final", run.error
        assert run.answer is not None
        return run.answer.fetchall()


def paid_again(prompts: list[str], kills: list[int]) -> list[str]:
    """What was asked after a kill though it was answered well before it: not among the last requests, those in flight."""
    return [p for kill in kills for p in prompts[kill:] if p in prompts[: max(0, kill - IN_FLIGHT)]]


def test_what_was_paid_again_is_found() -> None:
    assert paid_again(["a", *"bcdefghi", "a"], [9]) == ["a"]
    assert paid_again(["a", *"bcdefghi", "i"], [9]) == []


def test_a_killed_run_goes_on_without_paying_again(tmp_path: Path, undisturbed: tuple[Any, set[str]]) -> None:
    kills = killed_at(tmp_path, "answer:15")
    assert goes_on(tmp_path) == undisturbed[0]
    assert set(asked(tmp_path)) == undisturbed[1]
    assert paid_again(asked(tmp_path), kills) == []


@pytest.mark.slow
def test_a_run_killed_again_and_again_still_ends_the_same(tmp_path: Path, undisturbed: tuple[Any, set[str]]) -> None:
    kills = killed_at(tmp_path, "ask:4", "answer:12")
    assert goes_on(tmp_path) == undisturbed[0]
    assert set(asked(tmp_path)) == undisturbed[1]
    assert paid_again(asked(tmp_path), kills) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [f"turn:{n}" for n in range(1, 10)]
    + [f"statement:{n}" for n in range(1, 20, 2)]
    + [f"begun:{n}" for n in range(2, 20, 2)]
    + [f"ask:{n}" for n in range(1, 30, 3)]
    + [f"answer:{n}" for n in range(1, 30, 3)],
)
def test_a_run_killed_anywhere_goes_on(point: str, tmp_path: Path, undisturbed: tuple[Any, set[str]]) -> None:
    kills = killed_at(tmp_path, point)
    assert goes_on(tmp_path) == undisturbed[0]
    assert set(asked(tmp_path)) == undisturbed[1]
    assert paid_again(asked(tmp_path), kills) == []


def test_a_run_goes_on_after_its_turn_cap() -> None:
    script = Script(
        sql("CREATE TABLE t AS SELECT 1 AS a"),
        sql("INSERT INTO t VALUES (2)"),
        sql("FINAL FROM (SELECT sum(a) FROM t)"),
    )
    with engine(script) as k:
        first = k.run("Go", max_turns=1)
        second = k.resume(first.run_id)
        third = k.resume()
        assert (first.outcome, second.outcome, third.outcome) == ("turns_exhausted", "turns_exhausted", "final")
        assert (second.run_id, second.turns, third.turns) == (first.run_id, 2, 3)
        assert third.answer is not None
        assert third.answer.fetchall() == [(3,)]
        assert third.usage.requests == 3
    systems = {r.system for r in script.turns}
    assert len(systems) == 1
    assert [m.text for m in script.asked()[2].messages[:2]] == [m.text for m in script.asked()[1].messages[:2]]


def test_further_turns_may_be_said() -> None:
    script = Script(sql("SELECT 1"), sql("SELECT 2"), sql("SELECT 3"), sql("FINAL(1)"))
    with engine(script) as k:
        k.run("Go", max_turns=1)
        assert k.resume(max_turns=2).outcome == "turns_exhausted"
        assert k.resume(max_turns=1).outcome == "final"


def test_a_run_goes_on_with_a_larger_budget_what_it_spent_included() -> None:
    script = Script(sql("SELECT 1"), sql("SELECT 2"), sql("FINAL(1)"))
    with engine(script) as k:
        first = k.run("Go", budget=BudgetLimits(calls=1))
        assert (first.outcome, first.turns) == ("budget_exhausted", 1)
        again = k.resume()
        assert (again.outcome, again.turns, again.usage.requests) == ("budget_exhausted", 1, 1)
        larger = k.resume(budget=BudgetLimits(calls=3))
        assert (larger.outcome, larger.usage.requests) == ("final", 3)
    assert "· 2/3 calls ·" in script.told(2)


def test_a_cancelled_statement_runs_again_and_pays_for_what_was_not_answered() -> None:
    started = threading.Event()

    def call(prompt: str) -> str:
        if prompt == "slow" and not started.is_set():
            started.set()
            time.sleep(1)
        return prompt

    script = Script(
        sql(
            "CREATE TABLE t AS SELECT 1 AS a; INSERT INTO t SELECT 2 FROM (SELECT llm(p) AS x FROM (VALUES ('quick'), ('slow')) v(p)) WHERE x = 'slow'"
        ),
        sql("FINAL FROM (SELECT sum(a) FROM t)"),
        calls=call,
    )
    with engine(kleene.FunctionModel(script, threads=True)) as k:
        threading.Thread(target=lambda: (started.wait(10), time.sleep(0.2), k.cancel())).start()
        assert k.run("Go").outcome == "cancelled"
        run = k.resume()
        assert run.answer is not None
        assert run.answer.fetchall() == [(3,)]
    assert Counter(script.prompts) == {"quick": 1, "slow": 2}
    assert [r.path for r in script.turns] == ["root/1", "root/2"]


def test_settings_functions_agents_and_limits_come_back() -> None:
    script = Script(
        sql(
            "CREATE FUNCTION twice(x TEXT) RETURNS TEXT AS SQL (SELECT x || x); CREATE AGENT mine TURNS 1 RETURNS (a INT) PROMPT 'p'; "
            "SET max_tokens = 77; SET budget.calls = 5; SET rules.guard = off"
        ),
        sql("SELECT twice('a'); SELECT llm('x'); SELECT * FROM spawn('mine', 'y'); SET budget.calls = 6"),
        sql("FINAL(1)"),
        children=[sql("FINAL(1)")],
    )
    with engine(script) as k:
        k.run("Go", max_turns=1, budget=BudgetLimits(calls=9))
        seen: list[Any] = []
        script._calls = lambda prompt: seen.append(prompt) or "ok"  # type: ignore[func-returns-value]
        run = k.resume(max_turns=2)
        assert run.outcome == "final"
        assert k.sql("SELECT count(*) FROM trace_calls").fetchone() is not None
    told = script.told(2)
    assert "aa" in told
    assert "budget.calls can only be lowered here: 6 > 5" in told
    assert "a INTEGER | detail JSON | session VARCHAR" in told
    assert seen == ["x"]


def test_a_function_as_check_must_be_given_again() -> None:
    def check(answer: Any) -> CheckResult:
        return CheckResult(answer.rows == [(2,)])

    with engine(Script(sql("FINAL(1)"), sql("FINAL(2)"))) as k:
        run = k.run("Go", max_turns=1, check=check)
        assert run.outcome == "turns_exhausted"
        with pytest.raises(ConfigError, match="had a function as its check"):
            k.resume(run.run_id)
        assert k.resume(run.run_id, check=check).outcome == "final"


def test_what_cannot_be_resumed_is_said() -> None:
    with engine(Script(sql("FINAL(1)"))) as k:
        with pytest.raises(ConfigError, match="there is no run to resume"):
            k.resume()
        run = k.run("Go")
        with pytest.raises(ConfigError, match=f"run {run.run_id} has its answer"):
            k.resume(run.run_id)
        with pytest.raises(ConfigError, match="there is no run 2026"):
            k.resume("2026")


def test_prompts_hidden_from_the_trace_do_not_stop_a_resume() -> None:
    script = Script(sql("SELECT 42 AS a"), sql("SELECT result FROM turns"), sql("FINAL(1)"))
    with engine(script) as k:
        k.sql("SET trace_text = off")
        k.run("Go", max_turns=1)
        assert k.resume(max_turns=2).outcome == "final"
    assert "a INTEGER" in script.asked()[1].messages[2].text
    assert "42" in script.told(2)
