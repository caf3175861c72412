from __future__ import annotations

from pathlib import Path

import pytest

from kleene.planner.errors import NoModel
from kleene.planner.specs import BudgetLimits, Usage
from tests.kleene.cli.doubles import Engine, Run, answer, invoke

ANSWER = answer("SELECT 'the seller' AS party")


def test_the_answer_is_printed_and_the_run_named() -> None:
    engine = Engine(
        result=Run(answer=ANSWER, usage=Usage(requests=3, input_tokens=900, output_tokens=100, seconds=2.04))
    )
    done = invoke("run", "Who pays?", "--budget-calls", "9", engine=engine)
    assert (done.code, done.out, done.err) == (
        0,
        '{"party":"the seller"}\n',
        "run r1 · 3 requests · 1.0k tokens · 2.0 s\n",
    )


def test_the_task_and_its_options_reach_the_engine(tmp_path: Path) -> None:
    (tmp_path / "task.md").write_text("Who pays?", encoding="utf-8")
    engine = Engine(result=Run(answer=ANSWER))
    argv = [
        "--context",
        "a.txt",
        "--context",
        "b.txt",
        "--data",
        "m.csv",
        "--max-turns",
        "5",
        "--check",
        "true",
        "--budget-dollars",
        "2",
    ]
    invoke("run", f"@{tmp_path}/task.md", *argv, engine=engine)
    assert engine.asked == ["Who pays?"]
    assert engine.run_options == {
        "context": ["a.txt", "b.txt"],
        "data": ["m.csv"],
        "max_turns": 5,
        "check": "true",
    }


ENDS = [
    (Run(answer=ANSWER), 0, ""),
    (
        Run(answer=ANSWER, forced=True, outcome="turns_exhausted"),
        1,
        "error: the turns ran out before an answer\nhint: go on with python -m kleene resume --last\n"
        "error: the answer was forced: it was asked for after the run had ended\n",
    ),
    (
        Run(outcome="turns_exhausted"),
        1,
        "error: the turns ran out before an answer\nhint: go on with python -m kleene resume --last\n",
    ),
    (
        Run(outcome="budget_exhausted"),
        3,
        "error: the budget ran out before an answer\nhint: python -m kleene resume --last --budget-dollars X (or --budget-calls N) goes on with more\n",
    ),
    (Run(outcome="failed", error="401 Unauthorized"), 1, "error: the run failed: 401 Unauthorized\n"),
    (
        Run(outcome="failed", error="no key", cause=NoModel("no key", hint="set one")),
        4,
        "error: the run failed: no key\nhint: set one\n",
    ),
    (Run(outcome="cancelled"), 130, "error: cancelled\n"),
]


@pytest.mark.parametrize(
    ("run", "code", "err"), ENDS, ids=["final", "forced", "turns", "budget", "failed", "no model", "cancelled"]
)
def test_each_outcome_has_its_exit_code_and_words(run: Run, code: int, err: str) -> None:
    done = invoke("run", "task", "--budget-calls", "9", engine=Engine(result=run))
    assert (done.code, done.err) == (code, err + "run r1\n")
    assert done.out == ('{"party":"the seller"}\n' if run.answer else "")


def test_a_run_without_a_model_ends_before_it_begins() -> None:
    engine = Engine()
    done = invoke("run", "task", engine=engine)
    assert (done.code, done.out, engine.asked) == (4, "", [])
    assert done.err.startswith("error: no model is configured")


def test_a_run_without_a_budget_has_a_dollar_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-0123456789")
    engine = Engine(result=Run(answer=ANSWER))
    done = invoke("run", "task", engine=engine)
    assert engine.options["budget"] == BudgetLimits(dollars=1.0)
    assert done.err == "note: no budget given: at most $1.00 (--budget-dollars X changes it)\nrun r1\n"


def test_a_run_on_an_unpriced_model_has_calls_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
    engine = Engine(result=Run(answer=ANSWER))
    done = invoke("run", "task", "--model", "openai:in-house", engine=engine)
    assert engine.options["budget"] == BudgetLimits(calls=200)
    assert done.err.startswith(
        "note: no budget given and in-house has no price: at most 200 calls (--budget-calls N changes it)\n"
    )


def test_a_wall_alone_is_no_budget(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("def answer(request):\n    return ''\n", encoding="utf-8")
    engine = Engine(result=Run(answer=ANSWER, notes=("the context is empty",)))
    done = invoke("run", "task", "--budget-wall", "60", "--model-script", f"{tmp_path}/m.py:answer", engine=engine)
    assert engine.options["budget"] == BudgetLimits(dollars=1.0, wall=60.0)
    assert done.err.endswith("note: the context is empty\nrun r1\n")


def test_a_models_script_is_run_once(tmp_path: Path) -> None:
    script = tmp_path / "m.py"
    script.write_text(
        f"with open({str(tmp_path / 'count')!r}, 'a') as f:\n    f.write('x')\n\ndef answer(request):\n    return ''\n",
        encoding="utf-8",
    )
    engine = Engine(result=Run(answer=ANSWER))
    invoke("run", "task", "--model-script", f"{script}:answer", engine=engine)
    assert (tmp_path / "count").read_text(encoding="utf-8") == "x"
    assert engine.options["budget"] == BudgetLimits(dollars=1.0)
