"""``oolong``: the scores of OOLONG (Bertsch et al., 2025). A number that is off by e scores 0.75^e, all other kinds 0 or 1."""

from __future__ import annotations

from kleene.bench.oracles.answer import Answer, Verdict, normal, number_of
from kleene.bench.verify import Oolong


def oolong(verify: Oolong, answer: Answer) -> Verdict:
    """The first cell of the first row. Any of ``gold`` is right (there are several on a tie); a number counts as solved only at a score of 1."""
    cell = answer.rows[0][0] if answer.rows and answer.rows[0] else None
    if verify.kind == "number":
        found, gold = number_of(cell), number_of(verify.gold[0])
        error = None if found is None or gold is None else min(float(abs(found - gold)), 1000.0)
        score = 0.0 if error is None else 0.75**error
    else:
        score = 1.0 if cell is not None and _words(cell) in {_words(g) for g in verify.gold} else 0.0
    detail = "" if score == 1.0 else f"{str(cell)[:60]} instead of {' or '.join(verify.gold)}"
    return Verdict(score == 1.0, detail, score)


def _words(value: object) -> str:
    return " ".join(str(normal(value)).split())
