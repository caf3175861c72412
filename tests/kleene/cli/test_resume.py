"""``run`` and ``resume`` on the real engine with a scripted model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kleene.cli.doubles import Done, invoke

MODEL = """\
TURNS = ["SELECT count(*) AS n FROM ctx", "CREATE TABLE t AS SELECT llm_bool('odd? ' || text) AS odd FROM ctx", "FINAL FROM (SELECT count(*) AS n FROM t WHERE odd)"]


def solve(request):
    if request.path is None:
        with open("asked", "a") as file:
            file.write("x")
        return "true"
    return "```sql\\n" + TURNS[int(request.path.rpartition("/")[2]) - 1] + "\\n```"


def prose(request):
    return "I would rather not."


def declines(request):
    raise ValueError("no such host")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.py").write_text(MODEL, encoding="utf-8")
    (tmp_path / "notes.md").write_text("one\n\ntwo\n\nthree", encoding="utf-8")
    return tmp_path


def kleene(*argv: str, model: str = "solve") -> Done:
    return invoke(*argv, "--model-script", f"m.py:{model}", "--budget-calls", "20", real=True)


def test_a_run_is_answered_from_its_context(folder: Path) -> None:
    done = kleene("run", "How many are odd?", "--context", "notes.md")
    assert (done.code, done.out) == (0, '{"n":3}\n'), done.err
    assert (folder / "asked").read_text() == "xxx"


def test_a_run_out_of_turns_says_how_to_go_on_and_goes_on(folder: Path) -> None:
    done = kleene("run", "How many are odd?", "--context", "notes.md", "--max-turns", "2")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(
        "error: the turns ran out before an answer: no FINAL in 2 turns\nhint: go on with python -m kleene resume --last\nrun "
    )
    run_id = done.err.splitlines()[-1].split()[1]
    done = kleene("resume", run_id)
    assert (done.code, done.out) == (0, '{"n":3}\n'), done.err
    assert (folder / "asked").read_text() == "xxx"
    runs = json.loads(kleene("runs").out)
    assert (runs["run"], runs["outcome"], runs["turns"]) == (run_id, "final", 3)
    again = kleene("resume", run_id)
    assert (again.code, again.out) == (2, "")
    assert again.err.startswith(f"error: run {run_id} has its answer\nhint: ")


def test_a_run_out_of_budget_goes_on_with_more(folder: Path) -> None:
    done = invoke(
        "run", "Go", "--context", "notes.md", "--budget-calls", "1", "--model-script", "m.py:solve", real=True
    )
    assert done.code == 3
    done = invoke("resume", "--last", "--model-script", "m.py:solve", real=True)
    assert done.code == 3
    done = kleene("resume", "--last")
    assert (done.code, done.out) == (0, '{"n":3}\n'), done.err


def test_nothing_to_resume_is_a_usage_error(folder: Path) -> None:
    done = kleene("resume", "--last")
    assert (done.code, done.err) == (
        2,
        "error: there is no run to resume\nhint: python -m kleene runs lists what ran\n",
    )


def test_resume_wants_a_run(folder: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        kleene("resume")
    assert ended.value.code == 2


def test_a_model_that_writes_prose_fails_the_run(folder: Path) -> None:
    done = kleene("run", "Go", model="prose")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(
        "error: the run failed: 3 turns in a row without SQL to run; of the last one, the reply has no SQL fence\nrun "
    )


def test_a_model_that_cannot_be_reached_fails_the_run(folder: Path) -> None:
    done = kleene("run", "Go", model="declines")
    assert done.code == 1
    assert "no such host" in done.err


def test_tables_are_kept_for_another_run(folder: Path) -> None:
    done = kleene("run", "How many?", "--context", "notes.md", "--keep")
    run_id = done.err.splitlines()[-1].split()[1]
    (folder / "n.py").write_text(
        "def use(request):\n    return '```sql\\nFINAL FROM (SELECT count(*) AS rows FROM t)\\n```'\n"
    )
    done = invoke("run", "Use", "--from", run_id, "--model-script", "n.py:use", "--budget-calls", "5", real=True)
    assert (done.code, done.out) == (0, '{"rows":3}\n'), done.err
