"""What plots and curves show, as numbers: one pass over the rows, points by pack, mode and model."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import attrs

from kleene.bench.results import Row

WINDOW = 5
Key = tuple[str, str, str]
"""Pack, mode and model."""

SPARKS = "▁▂▃▄▅▆▇█"


@attrs.frozen
class Step:
    """An attempt in the order of the results: ``rate`` of the last ``WINDOW`` that were decided, ``dollars`` of all up to it."""

    pack: str
    mode: str
    model: str
    attempt: int
    task: str
    solved: bool | None
    rate: float | None
    solved_so_far: int
    dollars_so_far: float


def curve(rows: Iterable[Row]) -> list[Step]:
    """The steps of each pack, mode and model, numbered from 1."""
    recent: dict[Key, deque[bool]] = {}
    sums: dict[Key, tuple[int, int, float]] = {}
    steps = []
    for row in rows:
        key = (row.pack, row.mode, row.model)
        last = recent.setdefault(key, deque(maxlen=WINDOW))
        if row.solved is not None:
            last.append(row.solved)
        count, solved, dollars = sums.get(key, (0, 0, 0.0))
        sums[key] = count, solved, dollars = count + 1, solved + (row.solved is True), dollars + row.dollars
        rate = round(sum(last) / len(last), 4) if last else None
        steps.append(Step(*key, count, row.task, row.solved, rate, solved, round(dollars, 6)))
    return steps


def sparkline(rates: Iterable[float | None]) -> str:
    """
    >>> sparkline([0.0, 0.5, 1.0, None])
    '▁▅█ '
    """
    return "".join(" " if rate is None else SPARKS[min(7, int(rate * 8))] for rate in rates)


def q_error(estimate: int, actual: int) -> float:
    """By what factor an estimate is off, either way: 1 is exact (G. Moerkotte, T. Neumann and G. Steidl, "Preventing Bad Plans by Bounding the
    Impact of Cardinality Estimation Errors", VLDB 2009). Less than one call counts as one.

    >>> q_error(50, 100), q_error(100, 50), q_error(0, 0), q_error(0, 3)
    (2.0, 2.0, 1.0, 3.0)
    """
    a, b = max(1, estimate), max(1, actual)
    return max(a / b, b / a)
