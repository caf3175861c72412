"""``redline``: a redrafted clause must differ from the original and hold at least half of the reference's new words."""

from __future__ import annotations

import re

from kleene.bench.oracles.answer import Answer, Verdict
from kleene.bench.oracles.judge import JudgeModel, judge
from kleene.bench.verify import Judge, Redline

PASS = 0.5
RUBRIC = "The redline changes the original clause to the same effect as the reference does, in whatever words, and changes nothing else."


def redline(verify: Redline, task: str, answer: Answer, model: JudgeModel | None = None) -> Verdict:
    """The column ``redline`` (else the first) of the first row. With a model it decides; the score is the recall of new words either way."""
    found = str(answer.cell("redline") or "")
    if not found.strip() or found.split() == verify.original.split():
        return Verdict(False, "the clause is as it was" if found.strip() else "no redline", 0.0)
    score = recall(verify.original, verify.reference, found)
    said = f"recall of new words {score:.2f}"
    if model is None:
        return Verdict(score >= PASS, said, score)
    rubric = Judge(RUBRIC, f"Original:\n{verify.original}\n\nRedline:\n{verify.reference}")
    judged = judge(rubric, task, answer, model)
    return Verdict(judged.solved, f"{said}; {judged.detail}", score)


def recall(original: str, reference: str, found: str) -> float:
    """The share of words of four letters or more that the reference has and the original has not, which are in ``found``; 1 where there are none.

    >>> recall("The fee is due at once.", "The fee is due within thirty days.", "Within ten days the fee is due.")
    0.6666666666666666
    """
    new = _words(reference) - _words(original)
    return len(new & _words(found)) / len(new) if new else 1.0


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W\d_]{4,}", text.casefold()))
