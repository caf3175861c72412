"""Packs run: each attempt once, in a place of its own, and again after a kill; results are summed up."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import pytest

import kleene
from kleene.bench.attempt import Options, attempt, set_up
from kleene.bench.generators import GENERATORS
from kleene.bench.pack import Pack, Source, Task, read_pack
from kleene.bench.report import summarise, wilson
from kleene.bench.results import FIELDS, ResultsFile, Row, line_of, read_rows
from kleene.bench.runner import Choice
from kleene.bench.verify import Judge
from kleene.planner.errors import ConfigError
from kleene.tools.sandbox import Sandbox
from tests.kleene.bench.reader import answer
from tests.kleene.cli.doubles import Done, invoke
from tests.kleene.tools.work import needs_sandbox

PUZZLES = """\
name = "puzzles"
description = "Sums."
license = "MIT"
kind = "sums"
"""
SOLVE = r"""
import re, time

def solve(request):
    divisor = re.search(r"that (\d+) divides", str(request.messages))[1]
    with open("asked", "a") as log:
        log.write(divisor + "\n")
    time.sleep(PAUSE)
    numbers = "SELECT unnest(CAST(string_split(text, ', ') AS BIGINT[])) AS n FROM ctx"
    return f"```sql\nFINAL(SELECT sum(n) FROM ({numbers}) WHERE n % {divisor} = 0)\n```"
"""


def puzzles(folder: Path, count: int, *, pause: float = 0.0) -> None:
    tasks = "".join(
        f'[[tasks]]\nid = "p{n}"\nfrom = {{generator = "puzzle", dial = 0.5, seed = {n}}}\n' for n in range(count)
    )
    (folder / "pack.toml").write_text(PUZZLES + tasks)
    (folder / "m.py").write_text(SOLVE.replace("PAUSE", str(pause)))


def bench(folder: Path, *argv: str, monkeypatch: pytest.MonkeyPatch) -> Done:
    monkeypatch.chdir(folder)
    return invoke("bench", *argv, real=True)


def options(model: Any, mode: str = "relational", **more: Any) -> Options:
    def open_engine(**given: Any) -> Any:
        return kleene.connect(models=model, **given)

    return Options(mode, open_engine, **more)


def of(name: str, dial: float, seed: int) -> Pack:
    return Pack("p", "", "MIT", "k", (Task("t", source=Source(name, dial, seed)),))


def compared(request: Any) -> str:
    """A judge that takes nothing but the reference's own words."""
    reference = request.prompt.partition("which is right:\n")[2].partition("\n\n")[0]
    return "PASS" if f"memo: {reference}" in request.prompt else "FAIL\nother words"


@needs_sandbox
@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_the_reference_statement_gives_the_truth(name: str, seed: int, tmp_path: Path) -> None:
    pack = of(name, {"logbook": 0.35, "repo": 0.2}.get(name, 1.0), seed)
    ready = pack.ready(pack.tasks[0])
    set_up(ready, tmp_path, Sandbox())
    models = {"worker": kleene.FunctionModel(answer, name="reader"), "judge": kleene.FunctionModel(compared, name="j")}
    made = attempt(ready, 1, tmp_path, options(models))
    assert (made.outcome, made.verdict.solved) == ("final", True), made.verdict.detail
    assert (made.usage.requests > 0) == (name in ("contracts", "corpus", "logbook", "memo", "statements"))


def test_a_pack_is_run_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    puzzles(tmp_path, 2)
    model = ("--model-script", "m.py:solve")
    done = bench(
        tmp_path, "run", ".", *model, "--repeats", "2", "--jobs", "2", "--record", "said", monkeypatch=monkeypatch
    )
    assert (done.code, done.out) == (0, "")
    results = tmp_path / ".kleene" / "bench" / "puzzles-frozen.csv"
    rows = list(read_rows(results))
    assert Counter((r.task, r.repeat) for r in rows) == {(f"p{n}", r): 1 for n in range(2) for r in (1, 2)}
    assert {(r.solved, r.outcome, r.calls, r.turns, r.valid, r.statements, r.model) for r in rows} == {
        (True, "final", 1, 1, 1, 1, "m.solve")
    }
    assert len((tmp_path / "asked").read_text().splitlines()) == 4, "a repeat is not answered from another's memo"
    assert sorted(p.name for p in (tmp_path / "said").iterdir()) == [
        *(f"p{n}.{r}.jsonl" for n in range(2) for r in (1, 2)),
        "results.csv",
    ]

    again = ("--repeats", "2", "--replay", "said", "--results", "replayed.csv")
    assert bench(tmp_path, "run", ".", *again, monkeypatch=monkeypatch).code == 0
    replayed = list(read_rows(tmp_path / "replayed.csv"))
    assert sorted((r.task, r.repeat, r.calls, r.tokens, r.solved) for r in replayed) == sorted(
        (r.task, r.repeat, r.calls, r.tokens, r.solved) for r in rows
    )
    assert len((tmp_path / "asked").read_text().splitlines()) == 4

    said = bench(tmp_path, "report", str(results), "--format", "csv", monkeypatch=monkeypatch).out.splitlines()
    assert said[0].startswith("pack,mode,model,attempts,solved,review,pass_rate,low,high,calls_per_task,")
    assert said[1].startswith("puzzles,frozen,m.solve,4,4,0,1.0,0.5101,1.0,1.0,")

    refused = bench(tmp_path, "run", ".", *model, monkeypatch=monkeypatch)
    assert (refused.code, refused.err) == (
        2,
        f"error: there are results in {results.relative_to(tmp_path)}\n"
        "hint: --resume goes on with them; --results FILE begins others\n",
    )


def test_a_run_that_was_cut_off_goes_on_without_running_a_task_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    puzzles(tmp_path, 2)
    run = ("run", ".", "--model-script", "m.py:solve", "--results", "r.csv")
    results = tmp_path / "r.csv"
    assert bench(tmp_path, *run, monkeypatch=monkeypatch).code == 0
    heading, first, _ = results.read_text().splitlines(keepends=True)
    results.write_text(heading + first + 'puzzles,abc,"torn')
    done = bench(tmp_path, *run, "--resume", monkeypatch=monkeypatch)
    assert (done.code, "1 attempts, 1 were there before" in done.err) == (0, True)
    assert results.read_text().startswith(heading + first)
    assert [r.task for r in read_rows(results)] == ["p0", "p1"]
    assert len((tmp_path / "asked").read_text().splitlines()) == 3


@pytest.mark.slow
def test_a_killed_run_goes_on_without_running_a_task_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    puzzles(tmp_path, 4, pause=0.3)
    run = ("run", ".", "--model-script", "m.py:solve", "--results", "r.csv")
    process = subprocess.Popen([sys.executable, "-m", "kleene", "bench", *run], cwd=tmp_path, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    results, finished = tmp_path / "r.csv", 0
    while finished < 1 and time.monotonic() < deadline:
        time.sleep(0.02)
        finished = results.read_text().count("\n") - 1 if results.exists() else 0
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    before = list(read_rows(results))
    assert 1 <= len(before) < 4
    with open(results, "a") as file:
        file.write('puzzles,abc,"torn')  # a row that the kill cut off
    asked = len((tmp_path / "asked").read_text().splitlines())
    done = bench(tmp_path, *run, "--resume", monkeypatch=monkeypatch)
    assert done.code == 0
    after = list(read_rows(results))
    assert after[: len(before)] == before
    assert [r.task for r in after] == [f"p{n}" for n in range(4)]
    assert len((tmp_path / "asked").read_text().splitlines()) - asked == 4 - len(before)
    assert f"{4 - len(before)} attempts, {len(before)} were there before" in done.err


def test_a_model_that_is_down_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    puzzles(tmp_path, 3)
    (tmp_path / "m.py").write_text(
        "import kleene.udfs.protocols as p\n\ndef solve(request):\n    raise p.ProviderError('auth', 'the key is wrong')\n"
    )
    done = bench(tmp_path, "run", ".", "--model-script", "m.py:solve", "--results", "r.csv", monkeypatch=monkeypatch)
    assert done.code == 1
    assert done.err.startswith("error: task p0: not one reply came from the model: ")
    assert "the key is wrong" in done.err
    assert list(read_rows(tmp_path / "r.csv")) == []


@needs_sandbox
def test_an_episode_goes_on_in_its_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pack.toml").write_text(
        PUZZLES
        + '[[tasks]]\nid = "a"\ntask = "one"\nallow = ["shell"]\nsetup = ["echo 1 > n"]\nverify = {oracle = "shell", command = "test -f one"}\n'
        + '[[tasks]]\nid = "b"\ncontinues = "a"\ntask = "two"\nallow = ["shell"]\nsetup = ["cat n >> m"]\ncheck = "test -f two"\n'
        + 'verify = {oracle = "shell", command = "test -f one && test -f two && test -f m"}\n'
    )
    (tmp_path / "m.py").write_text(
        "def solve(request):\n    return \"```sql\\nCALL shell('touch one two');\\nFINAL('done')\\n```\"\n"
    )
    script = ("--model-script", "m.py:solve", "--results", "r.csv")
    done = bench(tmp_path, "run", ".", *script, monkeypatch=monkeypatch)
    assert done.code == 0
    assert [(r.task, r.solved, r.turns) for r in read_rows(tmp_path / "r.csv")] == [("a", True, 1), ("b", True, 1)]
    lines = (tmp_path / "r.csv").read_text().splitlines(keepends=True)
    (tmp_path / "r.csv").write_text("".join(lines[:2]))
    assert bench(tmp_path, "run", ".", *script, "--resume", monkeypatch=monkeypatch).code == 0
    assert [r.task for r in read_rows(tmp_path / "r.csv")] == ["a", "b"]


def test_the_judge_is_never_the_solver(tmp_path: Path) -> None:
    def solver(request: Any) -> str:
        return "```sql\nFINAL('as known')\n```"

    def judging(request: Any) -> str:
        return "PASS" if "as known" in request.prompt else "FAIL"

    pack = Pack("p", "", "MIT", "k", (Task("t", task="?", verify=Judge("as known")),))
    ready = pack.ready(pack.tasks[0])
    alone = kleene.FunctionModel(solver, name="solver")
    with pytest.raises(ConfigError, match="the judge would be the model it judges: solver"):
        attempt(ready, 1, tmp_path, options(alone, "frozen"))
    both = {"root": alone, "worker": alone, "judge": kleene.FunctionModel(judging, name="other")}
    made = attempt(ready, 1, tmp_path, options(both, "frozen"))
    assert (made.verdict.solved, made.usage.requests, made.model) == (True, 1, "solver")


def test_a_sample_is_the_same_each_time_and_takes_whole_episodes() -> None:
    tasks = tuple(Task(f"t{n}", continues=f"t{n - 1}" if n % 3 == 2 else None) for n in range(30))
    pack = Pack("p", "", "MIT", "k", tasks)
    one = Choice(sample=5, seed=1).of(pack)
    assert one == Choice(sample=5, seed=1).of(pack) != Choice(sample=5, seed=2).of(pack)
    assert len(one) == 5 and all(episode in pack.episodes() for episode in one)
    assert [t.id for e in Choice(limit=4).of(pack) for t in e] == ["t0", "t1", "t2", "t3"]
    assert Choice(limit=0).of(pack) == []
    assert Choice(sample=99).of(pack) == list(pack.episodes())


ROW = Row(
    pack="p", digest="d", mode="frozen", model="m", task="t", repeat=1, kind="k", difficulty=800.0, solved=True, score=0.1 + 0.2, outcome="final",
    detail='a, "b"\nc', calls=2, input_tokens=10, output_tokens=5, dollars=1e-7, seconds=1.5, turns=1, valid=1, statements=2,
)  # fmt: skip


def test_a_row_is_a_line_and_comes_back(tmp_path: Path) -> None:
    import attrs

    rows = [ROW, attrs.evolve(ROW, solved=None, score=None, detail=""), attrs.evolve(ROW, solved=False, detail="ü")]
    file = ResultsFile(tmp_path / "r.csv", pack="p", digest="d", mode="frozen", resume=False)
    with pytest.raises(ConfigError, match="another bench run writes"):
        ResultsFile(tmp_path / "r.csv", pack="p", digest="d", mode="frozen", resume=True)
    for row in rows:
        file.add(row)
        assert line_of(row).count("\n") == 1
    file.close()
    assert list(read_rows(tmp_path / "r.csv")) == [attrs.evolve(rows[0], detail='a, "b" c'), *rows[1:]]
    with pytest.raises(ConfigError, match="holds results of another text of this pack"):
        ResultsFile(tmp_path / "r.csv", pack="p", digest="e", mode="frozen", resume=True)
    with pytest.raises(ConfigError, match="holds results of p, frozen"):
        ResultsFile(tmp_path / "r.csv", pack="p", digest="d", mode="relational", resume=True)


def test_other_files_are_no_results(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ConfigError, match="holds no results of a bench"):
        list(read_rows(tmp_path / "x.csv"))


def test_a_report_counts_what_a_person_must_see_apart() -> None:
    import attrs

    rows = [
        ROW,
        attrs.evolve(ROW, solved=False, calls=4),
        attrs.evolve(ROW, solved=None),
        attrs.evolve(ROW, mode="relational", statements=0),
    ]
    frozen, relational = summarise(rows)
    assert (frozen.attempts, frozen.solved, frozen.review, frozen.pass_rate) == (3, 1, 1, 0.5)
    assert (frozen.calls_per_task, frozen.tokens_per_task, frozen.valid_first_try) == (2.67, 15.0, 0.5)
    assert relational.valid_first_try is None
    assert summarise([attrs.evolve(ROW, solved=None)])[0].pass_rate is None
    assert summarise([]) == []


@pytest.mark.parametrize("attempts", [1, 7, 40])
def test_wilsons_bounds_are_where_the_score_test_rejects(attempts: int) -> None:
    """Another way to the interval: its ends are the rates p at which the observed rate is exactly 1.96 standard errors away."""
    for solved in range(attempts + 1):
        for bound in wilson(solved, attempts):
            assert 0 <= bound <= 1
            off = abs(solved / attempts - bound) - 1.959963984540054 * math.sqrt(bound * (1 - bound) / attempts)
            assert abs(off) < 1e-7 or bound in (0.0, 1.0)


def test_a_pack_without_reference_statements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pack.toml").write_text(PUZZLES + '[[tasks]]\nid = "a"\ntask = "?"\nverify = {oracle = "human"}\n')
    assert len(read_pack(tmp_path).tasks) == 1
    done = bench(tmp_path, "run", ".", "--mode", "relational", monkeypatch=monkeypatch)
    assert done.err == "error: no task of puzzles has reference SQL\nhint: --mode frozen runs it\n"
    again = bench(tmp_path, "run", ".", "--mode", "relational", monkeypatch=monkeypatch)
    assert again.err == done.err, "a file without a row holds no results"


def test_no_more_tasks_run_at_a_time_than_a_machine_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    puzzles(tmp_path, 1)
    done = bench(tmp_path, "run", ".", "--jobs", "10_000_000", "--results", "r.csv", monkeypatch=monkeypatch)
    assert (done.code, (tmp_path / "r.csv").exists()) == (2, False)
    assert done.err.startswith("error: --jobs 10,000,000 is more than 256\nhint: ")


def test_recordings_are_kept_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    puzzles(tmp_path, 1)
    (tmp_path / "taken").write_text("")
    run = ("run", ".", "--results", "r.csv")
    for option, path, said in [
        ("--record", "taken/x", "cannot be made: Not a directory"),
        ("--record", "taken", "is no folder"),
        ("--replay", "gone", "is no folder"),
    ]:
        done = bench(tmp_path, *run, option, path, monkeypatch=monkeypatch)
        assert (done.code, (tmp_path / "r.csv").exists()) == (2, False)
        assert done.err.startswith(f"error: {option} {path} {said}\nhint: ")


def test_the_mode_that_learns_is_not_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    puzzles(tmp_path, 1)
    done = bench(tmp_path, "run", ".", "--mode", "learning", "--results", "r.csv", monkeypatch=monkeypatch)
    assert (done.code, (tmp_path / "r.csv").exists()) == (2, False)
    assert done.err == (
        "error: the mode learning is not built yet\nhint: --mode frozen runs the same tasks without a playbook\n"
    )


def test_the_reference_is_held_against_what_explain_says(tmp_path: Path) -> None:
    pack = of("contracts", 0.5, 1)
    made = attempt(pack.ready(pack.tasks[0]), 1, tmp_path, options(kleene.FunctionModel(answer, name="reader")))
    assert made.estimated.planned == made.estimated.bare == made.usage.requests > 0


def test_the_plain_agent_is_a_mode(tmp_path: Path) -> None:
    def solver(request: Any) -> Any:
        from kleene.udfs.protocols import Reply, ToolUse

        assert [t.name for t in request.tools] == ["query", "ask", "final"], "an empty workspace has no files to read"
        return Reply("", uses=(ToolUse("1", "final", '{"rows": [["as known"]]}'),))

    pack = Pack("p", "", "MIT", "k", (Task("t", task="?", verify=Judge("as known")),))
    both = {
        "root": kleene.FunctionModel(solver, name="solver"),
        "worker": kleene.FunctionModel(solver, name="solver"),
        "judge": kleene.FunctionModel(lambda r: "PASS" if "as known" in r.prompt else "FAIL", name="other"),
    }
    made = attempt(pack.ready(pack.tasks[0]), 1, tmp_path, options(both, "plain"))
    assert (made.verdict.solved, made.usage.requests, made.model, made.valid, made.statements) == (
        True,
        1,
        "solver",
        1,
        1,
    )

    def down(request: Any) -> Any:
        raise kleene.udfs.protocols.ProviderError("auth", "the key is wrong")  # type: ignore[attr-defined]

    from kleene.planner.errors import CallFailed

    with pytest.raises(CallFailed, match=r"task t: not one reply came from the model: .*the key is wrong"):
        attempt(pack.ready(pack.tasks[0]), 1, tmp_path, options(kleene.FunctionModel(down), "plain"))


def test_a_reference_that_fails_on_its_data_is_an_attempt_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = '[[tasks]]\nid = "{}"\ntask = "?"\nsql = "{}"\nverify = {{oracle = "exact", rows = [[1]]}}\n'
    statements = {"a": "SELECT 'abc'::INT", "b": "SELECT error('boom')", "c": "SELECT 1"}
    (tmp_path / "pack.toml").write_text(PUZZLES + "".join(task.format(*item) for item in statements.items()))
    (tmp_path / "m.py").write_text("def solve(request):\n    return 'x'\n")
    script = ("--mode", "relational", "--model-script", "m.py:solve", "--results", "r.csv")
    bench(tmp_path, "run", ".", *script, monkeypatch=monkeypatch)
    rows = list(read_rows(tmp_path / "r.csv"))
    assert [(r.task, r.solved, r.outcome) for r in rows] == [
        ("a", False, "failed"),
        ("b", False, "failed"),
        ("c", True, "final"),
    ]
    assert rows[0].detail.startswith("Conversion Error") and "boom" in rows[1].detail


def test_results_out_of_range_are_no_rows(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text(",".join(FIELDS) + "\n" + line_of(attrs.evolve(ROW, detail="x" * 200_000)))
    with pytest.raises(ConfigError, match="cannot be read: field larger"):
        list(read_rows(tmp_path / "wide.csv"))
    for calls in (10**400, -(10**400)):
        (tmp_path / "far.csv").write_text(",".join(FIELDS) + "\n" + line_of(attrs.evolve(ROW, calls=calls)))
        with pytest.raises(ConfigError, match="line 2: no row of results"):
            list(read_rows(tmp_path / "far.csv"))
