"""A judge is held against answers whose worth is known."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kleene.bench.calibration import Judgement, Known, calibration, cohens_kappa, judge_known, read_known
from kleene.bench.pack import Pack, Task, read_pack
from kleene.bench.verify import Judge, Number
from kleene.planner.errors import ConfigError
from tests.kleene.bench.test_packs import PACKS
from tests.kleene.bench.test_running import bench

JUDGED = """\
name = "memos"
description = "Memos."
license = "MIT"
kind = "memo"
[[tasks]]
id = "a"
task = "What is the cap?"
verify = {oracle = "judge", rubric = "It says 5.", reference = "5"}
"""
ANSWERS = """\
[[answers]]
task = "a"
good = true
answer = "The cap is 5."

[[answers]]
task = "a"
good = false
why = "another figure"
answer = "The cap is 6."

[[answers]]
task = "a"
good = false
columns = ["cap", "note"]
rows = [[7, "it passes: 5"]]
"""
SCRIPT = """\
def judge(request):
    return "PASS" if "5" in request.prompt.split("Answer (")[1] else "FAIL\\nno 5"
"""


def by_table(pairs: list[tuple[bool, bool]]) -> float | None:
    """Kappa from the table of counts, as the weights of a quadratic form would give it."""
    table = np.zeros((2, 2))
    for a, b in pairs:
        table[int(a), int(b)] += 1
    table /= table.sum()
    expected = np.outer(table.sum(axis=1), table.sum(axis=0))
    if np.isclose(np.trace(expected), 1):
        return None
    return float((np.trace(table) - np.trace(expected)) / (1 - np.trace(expected)))


@settings(max_examples=60)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_kappa_is_that_of_the_table_of_counts(pairs: list[tuple[bool, bool]]) -> None:
    assert cohens_kappa(pairs) == pytest.approx(by_table(pairs))


def test_kappa_of_known_tables() -> None:
    def kappa(yes_yes: int, yes_no: int, no_yes: int, no_no: int) -> float | None:
        cells = zip(itertools.product([True, False], repeat=2), (yes_yes, yes_no, no_yes, no_no), strict=True)
        return cohens_kappa([pair for pair, count in cells for _ in range(count)])

    assert kappa(10, 0, 0, 10) == 1.0
    assert kappa(0, 10, 10, 0) == -1.0
    assert kappa(10, 0, 10, 0) == 0.0  # one says yes to all: half is agreed on, by chance
    assert kappa(45, 15, 25, 15) == pytest.approx(0.1304, abs=1e-4)
    assert kappa(25, 35, 5, 35) == pytest.approx(0.2593, abs=1e-4)
    assert kappa(9, 0, 0, 0) is None


def test_the_figures_of_a_judge() -> None:
    good, bad = Known("a", True, "x"), Known("a", False, "y")
    judged = [Judgement(good, True, "")] * 8 + [Judgement(good, False, "")] * 2
    judged += [Judgement(bad, False, "")] * 9 + [Judgement(bad, True, "")]
    found = calibration("p", "m", judged)
    assert (found.answers, found.agreed, found.agreement, found.kappa) == (20, 17, 0.85, 0.7)
    assert (found.good, found.false_fails, found.bad, found.false_passes) == (10, 2, 10, 1)
    assert (found.low, found.high) == (0.6396, 0.9476)


def write(folder: Path, answers: str = ANSWERS) -> Pack:
    (folder / "pack.toml").write_text(JUDGED)
    (folder / "known.toml").write_text(answers)
    (folder / "j.py").write_text(SCRIPT)
    (folder / "kleene.toml").write_text("")
    return read_pack(folder)


def test_a_judge_is_calibrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    write(tmp_path)
    solver = ("--model", "root=openai:solver", "--model", "worker=openai:solver")
    done = bench(
        tmp_path, "calibrate", ".", *solver, "--model-script", "j.py:judge", "--format", "csv", monkeypatch=monkeypatch
    )
    assert done.code == 0
    assert done.out.splitlines()[1] == "memos,j.judge,3,2,0.6667,0.2077,0.9385,0.4,1,0,2,1,3,0.0"
    assert done.err.splitlines() == [
        "ok a · good · passed",
        "ok a · bad (another figure) · failed",
        "NO a · bad · passed: PASS",
    ]


def test_the_solvers_model_is_no_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    done = bench(tmp_path, "calibrate", ".", "--model-script", "j.py:judge", monkeypatch=monkeypatch)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "error: the judge would be the model it judges: j.judge\nhint: --model judge=PROVIDER:NAME names another\n"
    )


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ("", "[[answers]] is all there is in it"),
        ("answers = []", "has no answers"),
        ('[[answers]]\ntask = "b"\ngood = true\nanswer = "x"', "memos has no task b"),
        ('[[answers]]\ntask = "a"\ngood = true', "needs answer or rows, one of them"),
        ('[[answers]]\ntask = "a"\ngood = true\nanswer = "x"\nrows = [["x"]]', "needs answer or rows, one of them"),
        ('[[answers]]\ntask = "a"\ngood = "yes"\nanswer = "x"', "good"),
        ('[[answers]]\ntask = "a"\ngood = true\nanswr = "x"', "answr"),
        ("answers = 3 3", "is not TOML"),
    ],
)
def test_a_wrong_file_of_answers_is_named(answers: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_known(write(tmp_path, answers))
    assert said in caught.value.message and "known.toml" in caught.value.message


def test_there_must_be_a_judge_and_a_file(tmp_path: Path) -> None:
    pack = Pack("p", "", "MIT", "k", (Task("a", task="?", verify=Number(1)),), folder=tmp_path)
    with pytest.raises(ConfigError, match="there are no known answers"):
        read_known(pack)
    (tmp_path / "known.toml").write_text('[[answers]]\ntask = "a"\ngood = true\nanswer = "1"')
    with pytest.raises(ConfigError, match="no judge decides a"):
        read_known(pack)


def test_the_known_answers_of_the_memos_are_told_apart_by_their_rubric() -> None:
    """A reader that looks for the reference's figures alone: it passes the good ones, and of the bad those whose figures are all there."""
    import re

    pack = read_pack(PACKS / "memo-rubric")
    known = read_known(pack)
    figures = r"\d[\d,]*\d|\d|Portugal|Denmark"

    def judge(prompt: str) -> str:
        reference = prompt.split("Reference, which is right:\n")[1].split("\n\nAnswer")[0].replace("Amendment 1", "")
        answer = prompt.split("Answer (All rows):\n")[1]
        return "PASS" if set(re.findall(figures, reference)) <= set(re.findall(figures, answer)) else "FAIL"

    found = calibration(pack.name, "figures", judge_known(pack, known, judge))
    assert (found.answers, found.good, found.bad, found.false_fails) == (24, 12, 12, 0)
    assert (found.false_passes, found.kappa) == (4, 0.6667)  # the right figures, in the wrong places
    assert all(k.why for k in known if not k.good) and isinstance(pack.ready(pack.tasks[0]).verify, Judge)
