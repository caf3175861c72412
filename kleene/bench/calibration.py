"""How far a judge can be trusted: it is asked about answers whose worth is known.

    [[answers]]
    task = "memo-01"
    good = false
    why = "the cap is the one that was rejected"
    answer = "Liability is capped at EUR 150,000 ..."

The file ``known.toml`` in a pack's folder. ``answer`` is the one cell of the answer, or ``columns`` and ``rows`` are the whole of it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import attrs
import cattrs

from kleene.bench.oracles import Place, decide
from kleene.bench.oracles.answer import Answer
from kleene.bench.oracles.judge import JudgeModel
from kleene.bench.pack import Pack
from kleene.bench.report import wilson
from kleene.bench.verify import Judge, Redline
from kleene.planner.errors import ConfigError, did_you_mean

KNOWN = "known.toml"


@attrs.frozen
class Known:
    """An answer to a task of the pack and whether it is right; ``why`` says what is wrong with it."""

    task: str
    good: bool
    answer: str | None = None
    columns: tuple[str, ...] = ("answer",)
    rows: tuple[tuple[Any, ...], ...] | None = None
    why: str = ""

    @property
    def given(self) -> Answer:
        return Answer(self.columns, ((self.answer,),) if self.rows is None else self.rows)


@attrs.frozen
class Judgement:
    """What the judge said of a known answer: ``passed``, and its words."""

    known: Known
    passed: bool
    said: str

    @property
    def agrees(self) -> bool:
        return self.passed == self.known.good


@attrs.frozen
class Calibration:
    """How far a judge agrees: ``low`` and ``high`` bound the agreement (Wilson, 95 %). ``kappa`` is the agreement beyond chance, None where chance
    alone would agree on all. ``false_passes`` of ``bad`` answers were passed, ``false_fails`` of ``good`` ones were not."""

    pack: str
    judge: str
    answers: int
    agreed: int
    agreement: float
    low: float
    high: float
    kappa: float | None
    good: int
    false_fails: int
    bad: int
    false_passes: int


def read_known(pack: Pack, file: Path | None = None) -> tuple[Known, ...]:
    """The known answers of a pack. Raises ``ConfigError`` that names the place: no such file, a misspelt field, a task that is not of the pack or
    has no judge."""
    path = file or pack.folder / KNOWN
    try:
        body = tomllib.loads(path.read_text("utf-8"))
    except OSError:
        raise ConfigError(
            f"there are no known answers {path}", hint="docs/bench.md says what is in such a file"
        ) from None
    except ValueError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_structure_hook(bool, _bool)
    converter.register_structure_hook(str, _text)
    converter.register_structure_hook_func(lambda kind: kind is Any, lambda value, _: value)
    try:
        if set(body) != {"answers"}:
            raise ValueError("[[answers]] is all there is in it")
        found = tuple(converter.structure(item, Known) for item in body["answers"])
    except (cattrs.BaseValidationError, TypeError, ValueError) as error:
        problem = cattrs.transform_error(error)[0] if isinstance(error, cattrs.BaseValidationError) else str(error)
        raise ConfigError(f"{path}: {problem}", hint="each has task, good, and answer or columns and rows") from None
    _check(pack, path, found)
    return found


def _bool(value: Any, _: Any) -> bool:
    if type(value) is not bool:
        raise TypeError("true or false is needed")
    return value


def _text(value: Any, _: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is needed")
    return value


def _check(pack: Pack, path: Path, found: tuple[Known, ...]) -> None:
    tasks = {task.id: task for task in pack.tasks}
    if not found:
        raise ConfigError(f"{path} has no answers")
    for known in found:
        if known.task not in tasks:
            near = did_you_mean(known.task, tasks)
            hint = f"did you mean {near}?" if near else "task is the id of a task of the pack"
            raise ConfigError(f"{path}: {pack.name} has no task {known.task}", hint=hint)
        if (known.answer is None) == (known.rows is None):
            raise ConfigError(f"{path}: an answer to {known.task} needs answer or rows, one of them")
        if any(len(row) != len(known.columns) for row in known.rows or ()):
            raise ConfigError(f"{path}: a row of an answer to {known.task} has not as many values as it has columns")
        if not isinstance(pack.ready(tasks[known.task]).verify, Judge | Redline):
            raise ConfigError(f"{path}: no judge decides {known.task}", hint="known answers are for tasks with a judge")


def judge_known(
    pack: Pack, known: Iterable[Known], judge: JudgeModel, *, on_judged: Callable[[Judgement], None] = lambda _: None
) -> list[Judgement]:
    """Ask the judge about each, as an attempt's answer is judged."""
    tasks = {task.id: task for task in pack.tasks}
    found = []
    for answer in known:
        ready = pack.ready(tasks[answer.task])
        verdict = decide(ready.verify, ready.task, answer.given, Place(pack.folder, judge=judge))
        judged = Judgement(answer, verdict.solved is True, verdict.detail)
        on_judged(judged)
        found.append(judged)
    return found


def calibration(pack: str, judge: str, judged: Iterable[Judgement]) -> Calibration:
    """The figures of at least one judgement."""
    found = list(judged)
    agreed = sum(j.agrees for j in found)
    low, high = wilson(agreed, len(found))
    good = [j for j in found if j.known.good]
    bad = [j for j in found if not j.known.good]
    chance = cohens_kappa([(j.known.good, j.passed) for j in found])
    return Calibration(
        pack=pack,
        judge=judge,
        answers=len(found),
        agreed=agreed,
        agreement=round(agreed / len(found), 4),
        low=round(low, 4),
        high=round(high, 4),
        kappa=None if chance is None else round(chance, 4),
        good=len(good),
        false_fails=sum(not j.passed for j in good),
        bad=len(bad),
        false_passes=sum(j.passed for j in bad),
    )


def cohens_kappa(pairs: Iterable[tuple[bool, bool]]) -> float | None:
    """(observed - chance) / (1 - chance) of two raters' pairs of words, where chance is how often they would agree if each said yes as often as it
    does, whatever the item (J. Cohen, "A Coefficient of Agreement for Nominal Scales", Educational and Psychological Measurement 20, 1960). None
    where chance is 1: both always say the same one word.

    >>> round(cohens_kappa([(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15), 6)
    0.4
    """
    found = list(pairs)
    total = len(found)
    observed = sum(a == b for a, b in found) / total
    first, second = sum(a for a, _ in found) / total, sum(b for _, b in found) / total
    chance = first * second + (1 - first) * (1 - second)
    return None if chance == 1.0 else (observed - chance) / (1 - chance)
