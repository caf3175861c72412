from __future__ import annotations

from pathlib import Path

import pytest

from kleene.planner.specs import Usage
from tests.kleene.cli.doubles import Engine, Run, answer, invoke

ANSWER = answer("SELECT 'the seller' AS party")


def test_the_answer_is_printed_and_the_run_named() -> None:
    engine = Engine(
        result=Run(answer=ANSWER, usage=Usage(requests=3, input_tokens=900, output_tokens=100, seconds=2.04))
    )
    done = invoke("run", "Who pays?", engine=engine)
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
        "--max-depth",
        "0",
        "--check",
        "true",
    ]
    invoke("run", f"@{tmp_path}/task.md", *argv, engine=engine)
    assert engine.asked == ["Who pays?"]
    assert engine.run_options == {
        "context": ["a.txt", "b.txt"],
        "data": ["m.csv"],
        "max_turns": 5,
        "max_depth": 0,
        "check": "true",
    }


ENDS = [
    (Run(answer=ANSWER), 0, ""),
    (
        Run(answer=ANSWER, forced=True, outcome="turns_exhausted"),
        1,
        "error: the turns ran out before an answer\nhint: raise --max-turns\n"
        "error: the answer was forced: it was asked for after the run had ended\n",
    ),
    (Run(outcome="turns_exhausted"), 1, "error: the turns ran out before an answer\nhint: raise --max-turns\n"),
    (
        Run(outcome="budget_exhausted"),
        3,
        "error: the budget ran out before an answer\nhint: raise --budget-dollars or --budget-calls\n",
    ),
    (Run(outcome="failed", error="401 Unauthorized"), 1, "error: the run failed: 401 Unauthorized\n"),
    (Run(outcome="cancelled"), 130, "error: cancelled\n"),
]


@pytest.mark.parametrize(
    ("run", "code", "err"), ENDS, ids=["final", "forced", "turns", "budget", "failed", "cancelled"]
)
def test_each_outcome_has_its_exit_code_and_words(run: Run, code: int, err: str) -> None:
    done = invoke("run", "task", engine=Engine(result=run))
    assert (done.code, done.err) == (code, err + "run r1\n")
    assert done.out == ('{"party":"the seller"}\n' if run.answer else "")
