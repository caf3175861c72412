"""The scripts about sessions, with a scripted model."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"script_{name}", ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


MODEL = """\
def solve(request):
    turn = int(request.path.rpartition("/")[2])
    if "MADISON alone" in request.messages[0].text:
        table = "federalist_paper" if turn == 1 else "federalist_papers"
        sql = f"FINAL FROM (SELECT no FROM {table} WHERE author = 'MADISON' ORDER BY length(text) DESC LIMIT 1)"
    else:
        sql = "FINAL('I do not know')"
    return f"```sql\\\\n{sql}\\\\n```"
""".replace("\\\\n", "\\n")


def test_a_folder_of_tasks_is_run_and_summed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "m.py"
    model.write_text(MODEL, encoding="utf-8")
    argv = ["--model-script", f"{model}:solve", "--only", "longest-of-madison", "--only", "operating-income-change"]
    assert script("eval_sessions").main(argv) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:4] for line in lines[1:3]] == [
        ["longest-of-madison", "solved", "2", "2"],
        ["operating-income-change", "final", "1", "1"],
    ]
    assert lines[3].startswith("1 of 2 solved ")
    assert lines[3].endswith("2/3 (67% at the first try)")


@pytest.mark.parametrize(
    ("rows", "check", "expected", "right"),
    [
        ([[" Harbor ", 63]], "rows", [["harbor", 63.0]], True),
        ([["b"], ["a"]], "rows", [["a"], ["b"]], True),
        ([["a"]], "rows", [["a"], ["a"]], False),
        ([["about $1,234.50"]], "number", [[1234.5]], True),
        ([["-3"]], "number", [[3]], False),
        ([["none"]], "number", [[3]], False),
        ([], "number", [[3]], False),
        ([[1, "Yes"], [2, "no"], [3, "no"], [4, "no"]], "share", [[1, "yes"], [2, "no"], [3, "no"], [4, "no"]], True),
        ([[1, "yes"], [2, "no"], [3, "no"]], "share", [[1, "yes"], [2, "no"], [3, "no"], [4, "no"]], False),
        ([[n, "no"] for n in range(9)], "share", [[1, "no"], [2, "no"]], False),
        ([], "share", [[1, "no"]], False),
    ],
)
def test_answers_are_compared_by_what_they_say(rows: list[Any], check: str, expected: list[Any], right: bool) -> None:
    module = script("eval_sessions")
    assert (
        module.is_right(rows, module.Task("t", "", (), (), expected, check, 0.8 if check == "share" else 0.01)) is right
    )


def test_a_part_of_the_prefix_can_be_left_out(tmp_path: Path) -> None:
    model = tmp_path / "m.py"
    model.write_text(
        "from pathlib import Path\n"
        f"def solve(request):\n    Path({str(tmp_path / 'seen')!r}).write_text(request.system)\n    return '```sql\\nFINAL(1)\\n```'\n",
        encoding="utf-8",
    )
    argv = ["--model-script", f"{model}:solve", "--only", "letters-to-a-shop"]
    module = script("eval_sessions")
    texts = []
    for left_out in ([], ["--without", "# How to work", "--without", "Agents:", "--without", "- NULL in"]):
        module.main([*argv, *left_out])
        texts.append((tmp_path / "seen").read_text(encoding="utf-8"))
    whole, part = texts
    assert all(begins in whole for begins in ("\n# How to work\nLook first", "\nAgents:\n- self", "\n- NULL in gives"))
    assert not any(begins in part for begins in ("# How to work", "Look first", "Agents:", "- self", "- NULL in"))
    assert part.startswith(whole[: whole.index("- NULL in")]) and part.endswith(whole[whole.index("\n\nBudget:") :])


def test_every_task_has_its_files_and_an_answer() -> None:
    tasks = script("eval_sessions").read_tasks(ROOT / "tasks" / "eval")
    assert len(tasks) >= 10
    for task in tasks:
        assert task.text
        assert task.expected
        assert all(path.exists() for path in (*task.context, *task.data, *task.files)), task.name
        json.dumps(task.expected)


def test_the_prefix_is_reported_by_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert script("prompt_report").main([]) == 0
    lines = [line.rsplit(None, 1) for line in capsys.readouterr().out.splitlines()]
    counted = {name: int(number.replace(",", "")) for name, number in lines}
    assert list(counted) == ["who and how to reply", "language", "how to work", "what there is", "budget", "in all"]
    assert counted["in all"] < 2_000


def test_the_harder_tasks_are_those_of_their_generator() -> None:
    module = script("gen_eval_tasks")
    assert len(module.TASKS) >= 6
    for name in module.TASKS:
        folder = ROOT / "tasks" / "eval" / name
        written = {path.name: path.read_text("utf-8") for path in folder.iterdir()}
        assert written == module.files_of(name), f"{name}: run python scripts/gen_eval_tasks.py"


def test_a_wrong_answer_to_a_harder_task_is_not_taken() -> None:
    module = script("eval_sessions")
    for name in script("gen_eval_tasks").TASKS:
        task = module.read_task(ROOT / "tasks" / "eval" / name)
        assert module.is_right([list(map(str, row)) for row in task.expected], task)
        assert not module.is_right([[*task.expected[0][:-1], 0], *task.expected[1:]], task)
        assert not module.is_right([], task)
