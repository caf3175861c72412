"""``exact``: the same rows as often, in any order. Column names do not count, the order of cells does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from kleene.bench.oracles.answer import Answer, Verdict, normal, shown
from kleene.bench.verify import Exact


def exact(verify: Exact, answer: Answer) -> Verdict:
    expected, found = _multiset(verify.rows), _multiset(answer.rows)
    if expected == found:
        return Verdict(True)
    return Verdict(False, f"{shown(answer.rows)} instead of {shown(verify.rows)}")


def _multiset(rows: Iterable[Iterable[Any]]) -> Counter[tuple[str | None, ...]]:
    return Counter(tuple(normal(value) for value in row) for row in rows)
