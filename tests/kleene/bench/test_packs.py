"""The packs that come with the project: they are read, their tasks can be solved, and doing nothing solves none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kleene
from kleene.bench.attempt import attempt, set_up
from kleene.bench.oracles import Place, decide
from kleene.bench.oracles.answer import Answer
from kleene.bench.pack import read_pack
from kleene.tools.base import Work
from kleene.tools.jail import Jail
from kleene.tools.sandbox import Sandbox
from kleene.tools.shell import run_command
from tests.kleene.bench.reader import answer
from tests.kleene.bench.test_generators import HOLDS, generate
from tests.kleene.bench.test_running import options
from tests.kleene.tools.work import needs_sandbox

PACKS = Path(__file__).resolve().parents[3] / "tasks" / "packs"
COUNTS = {
    "coding": 12,
    "finance-synthetic": 20,
    "legal-synthetic": 20,
    "logbook-hard": 30,
    "memo-rubric": 20,
    "oolong-like": 20,
    "terminal": 6,
}


def test_every_pack_is_here() -> None:
    assert {p.parent.name: len(read_pack(p.parent).tasks) for p in PACKS.glob("*/pack.toml")} == COUNTS


@pytest.mark.parametrize("name", [n for n in COUNTS if n not in ("coding", "terminal")])
def test_a_generated_pack_holds_what_its_generator_gives(name: str) -> None:
    pack = read_pack(PACKS / name)
    assert pack.name == name
    contexts = set()
    for task in pack.tasks:
        assert task.source is not None
        ready, made = pack.ready(task), generate(task.source.generator, task.source.dial, task.source.seed)
        assert (ready.task, ready.context, ready.verify) == (made.task, made.context, made.verify)
        assert ready.sql is not None and HOLDS[task.source.generator](made)
        contexts.add(ready.context)
    assert len(contexts) == len(pack.tasks)


# A way to do each task of the shell, as a person would: its output is the answer.
BY_HAND = {
    "create-file": "echo 'hello, world' > greeting.txt",
    "count-lines": "find notes -name '*.txt' -exec cat {} + | wc -l",
    "rename-logs": 'for f in logs/*.log; do mv "$f" "${f%.log}.txt"; done',
    "count-todo": "grep -rh TODO --include='*.py' src | wc -l",
    "sum-column": "grep ^north sales.csv | awk -F, '{s += $NF} END {print s}'",
    "write-json": 'echo \'{"name": "Bruno", "born": 1958}\' > oldest.json',
}


@needs_sandbox
@pytest.mark.parametrize("id_", BY_HAND)
def test_a_task_of_the_shell_is_solved_by_hand_and_not_by_nothing(id_: str, tmp_path: Path) -> None:
    pack = read_pack(PACKS / "terminal")
    ready = pack.ready(next(task for task in pack.tasks if task.id == id_))
    set_up(ready, tmp_path, Sandbox())
    assert decide(ready.verify, ready.task, Answer(("a",), (("done",),)), Place(tmp_path)).solved is False
    done = run_command(Sandbox(), Work(Jail.of(tmp_path)), BY_HAND[id_]).finished
    assert (done.status, done.stderr) == (0, "")
    assert decide(ready.verify, ready.task, Answer(("a",), ((done.stdout.strip(),),)), Place(tmp_path)).solved


@needs_sandbox
def test_a_reference_of_the_shell_takes_any_name(tmp_path: Path) -> None:
    """Of the six references, which tests/kleene/bench/test_recordings.py runs, the one that hands names to a command."""
    pack = read_pack(PACKS / "terminal")
    assert all(task.sql for task in pack.tasks)
    ready = next(pack.ready(task) for task in pack.tasks if task.id == "rename-logs")
    names = ["it's $HOME `x`.log", "-n.log", "ü\\n.log.log", "log", "b.txt"]
    (tmp_path / "logs" / "deep.log").mkdir(parents=True)
    for name in names:
        (tmp_path / "logs" / name).write_text(name)
    attempt(ready, 1, tmp_path, options(kleene.FunctionModel(answer)))
    renamed = ["it's $HOME `x`.txt", "-n.txt", "ü\\n.log.txt", "log", "b.txt"]
    found = {p.name: p.read_text() for p in (tmp_path / "logs").iterdir() if p.is_file()}
    assert found == dict(zip(renamed, names, strict=True))
    assert (tmp_path / "logs" / "deep.log").is_dir()


DONE = Answer(("done",), (("yes",),))


@needs_sandbox
@pytest.mark.parametrize(
    "project", ["days", *(pytest.param(p, marks=pytest.mark.slow) for p in ("ledger", "stock", "words"))]
)
def test_a_project_is_solved_step_by_step_and_not_by_the_step_before(project: str, tmp_path: Path) -> None:
    """Nobody solves a step before the next begins: then the solution of the pack stands in its place."""
    pack = read_pack(PACKS / "coding")
    module = f"{project}.py"
    for step, task in enumerate((t for t in pack.tasks if t.id.startswith(project)), 1):
        ready = pack.ready(task)
        place = Place(tmp_path, pack=ready.folder)
        set_up(ready, tmp_path, Sandbox())
        before = None if step == 1 else (PACKS / "coding" / project / f"solution_{step - 1}.py").read_bytes()
        assert (tmp_path / module).read_bytes() == before if before else not (tmp_path / module).exists()
        assert decide(ready.verify, ready.task, DONE, place).solved is False
        # Without the hidden tests, which a command of the model cannot read, the task can be checked and solved.
        shutil.copyfile(PACKS / "coding" / project / f"solution_{step}.py", tmp_path / module)
        assert ready.check is not None
        checked = run_command(Sandbox(), Work(Jail.of(tmp_path)), f'test -z "$PACK" && {ready.check}').finished
        assert checked.status == 0, checked.stderr
        assert decide(ready.verify, ready.task, DONE, place).solved is True
        (tmp_path / module).write_bytes(before or b"")
    assert not list(tmp_path.rglob("hidden*")) and not list(tmp_path.rglob("solution*"))


@needs_sandbox
def test_a_module_that_ends_the_tests_has_not_passed_them(tmp_path: Path) -> None:
    pack = read_pack(PACKS / "coding")
    ready = pack.ready(pack.tasks[0])
    (tmp_path / "ledger.py").write_text("import os\nos._exit(0)\n")
    assert decide(ready.verify, ready.task, DONE, Place(tmp_path, pack=ready.folder)).solved is False
