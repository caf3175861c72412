"""What results come to: a line for each pack, mode and model."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable

import attrs

from kleene.bench.results import Row
from kleene.bench.series import q_error

Z = 1.959963984540054
"""The standard normal's 97.5 % point: of a two-sided interval of 95 %."""


@attrs.frozen
class Line:
    """Sums over the attempts of one pack, mode and model. ``low`` and ``high`` bound the pass rate (Wilson, 95 %), as if attempts were
    independent: with repeats of few tasks they are not, and the true interval is wider. ``review`` attempts wait for a person and count in no rate.
    ``valid_first_try`` is None where nothing was written by a model. ``estimate_q``: the median factor by which EXPLAIN's calls were off, None
    where nobody asked it (``series.q_error``)."""

    pack: str
    mode: str
    model: str
    attempts: int
    solved: int
    review: int
    pass_rate: float | None
    low: float | None
    high: float | None
    calls_per_task: float
    tokens_per_task: float
    dollars: float
    seconds_per_task: float
    valid_first_try: float | None
    estimate_q: float | None = None


def wilson(solved: int, attempts: int) -> tuple[float, float]:
    """The interval of E. B. Wilson, "Probable inference, the law of succession, and statistical inference" (JASA 22, 1927), at 95 %.

    >>> tuple(round(bound, 4) for bound in wilson(8, 10))
    (0.4902, 0.9433)
    """
    rate, z2 = solved / attempts, Z * Z
    middle = (rate + z2 / (2 * attempts)) / (1 + z2 / attempts)
    half = Z / (1 + z2 / attempts) * math.sqrt(rate * (1 - rate) / attempts + z2 / (4 * attempts * attempts))
    return max(0.0, middle - half), min(1.0, middle + half)


@attrs.define
class _Sums:
    attempts: int = 0
    solved: int = 0
    review: int = 0
    calls: int = 0
    tokens: int = 0
    dollars: float = 0.0
    seconds: float = 0.0
    valid: int = 0
    statements: int = 0
    errors: Counter[float] = attrs.field(factory=Counter)

    def add(self, row: Row) -> None:
        self.attempts += 1
        self.solved += row.solved is True
        self.review += row.solved is None
        self.calls += row.calls
        self.tokens += row.tokens
        self.dollars += row.dollars
        self.seconds += row.seconds
        self.valid += row.valid
        self.statements += row.statements
        if row.est_calls is not None:
            self.errors[q_error(row.est_calls, row.calls)] += 1


def summarise(rows: Iterable[Row]) -> list[Line]:
    """One pass over the rows; lines in the order of pack, mode and model."""
    sums: dict[tuple[str, str, str], _Sums] = {}
    for row in rows:
        sums.setdefault((row.pack, row.mode, row.model), _Sums()).add(row)
    return [_line(key, found) for key, found in sorted(sums.items())]


def _line(key: tuple[str, str, str], sums: _Sums) -> Line:
    decided = sums.attempts - sums.review
    low, high = wilson(sums.solved, decided) if decided else (None, None)
    return Line(
        *key,
        attempts=sums.attempts,
        solved=sums.solved,
        review=sums.review,
        pass_rate=_round(sums.solved / decided) if decided else None,
        low=_round(low),
        high=_round(high),
        calls_per_task=round(sums.calls / sums.attempts, 2),
        tokens_per_task=round(sums.tokens / sums.attempts, 1),
        dollars=round(sums.dollars, 6),
        seconds_per_task=round(sums.seconds / sums.attempts, 3),
        valid_first_try=_round(sums.valid / sums.statements) if sums.statements else None,
        estimate_q=_round(statistics.median(sums.errors.elements())) if sums.errors else None,
    )


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
