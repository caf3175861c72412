"""``oolong``: the scores of OOLONG (Bertsch et al., 2025). A number that is off by e scores 0.75^e, all other kinds 0 or 1."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from kleene.bench.oracles.answer import Answer, Verdict, normal, number_of
from kleene.bench.verify import Oolong


def oolong(verify: Oolong, answer: Answer) -> Verdict:
    """The first cell of the first row. Any of ``gold`` is right (there are several on a tie); a number counts as solved only at a score of 1."""
    cell = answer.rows[0][0] if answer.rows and answer.rows[0] else None
    if verify.kind == "number":
        found = number_of(cell)
        golds = [] if found is None else [number_of(g) for g in verify.gold]
        errors = [min(float(abs(found - gold)), 1000.0) for gold in golds if found is not None and gold is not None]
        score = 0.75 ** min(errors) if errors else 0.0
    else:
        score = 1.0 if cell is not None and _words(cell) in {_words(g) for g in verify.gold} else 0.0
    detail = "" if score == 1.0 else f"{str(cell)[:60]} instead of {' or '.join(verify.gold)}"
    return Verdict(score == 1.0, detail, score)


def odd_ones(kind: str, gold: Sequence[str]) -> list[str]:
    """What cannot be a right answer of its kind: a number that is none, a date that is not YYYY-MM-DD.

    >>> odd_ones("number", ("3", "abc")), odd_ones("date", ("2024-02-29", "2023-02-29")), odd_ones("label", ("abc",))
    (['abc'], ['2023-02-29'], [])
    """
    return [g for g in gold if (kind == "number" and number_of(g) is None) or (kind == "date" and not _is_date(g))]


def _is_date(text: str) -> bool:
    try:
        return dt.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _words(value: object) -> str:
    return " ".join(str(normal(value)).split())
