"""Two sets of results over the same tasks: differences by task, with bootstrap intervals over tasks and repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from kleene.bench.results import Row
from kleene.planner.errors import ConfigError

RESAMPLES = 10_000
MOST_RESAMPLES = 1_000_000
BATCH = 500
"""Resamples that are drawn together: memory is this times tasks times repeats."""

METRICS: dict[str, Callable[[Row], float | None]] = {
    "solved": lambda r: None if r.solved is None else float(r.solved),
    "calls": lambda r: float(r.calls),
    "tokens": lambda r: float(r.tokens),
    "dollars": lambda r: r.dollars,
    "seconds": lambda r: r.seconds,
}
Values = Mapping[str, Sequence[float]]
"""Task → a metric of each of its repeats."""


@attrs.frozen
class Difference:
    """A metric of the first results against the second, over the tasks of both: means of each task's mean, first minus second, with a 95 %
    interval. ``more``, ``less``, ``same``: tasks whose first mean is the larger, the smaller, the same."""

    metric: str
    tasks: int
    first: float
    second: float
    difference: float
    low: float
    high: float
    more: int
    less: int
    same: int


def compare(
    first: Iterable[Row], second: Iterable[Row], *, seed: int = 0, resamples: int = RESAMPLES
) -> list[Difference]:
    """One difference a metric. A task that waits for a person has no ``solved``. Raises ``ConfigError`` where the results are not of one pack's
    same text, or of several modes or models, or have no task in common, and for ``resamples`` that are not 1 to ``MOST_RESAMPLES``."""
    if not 1 <= resamples <= MOST_RESAMPLES:
        raise ConfigError(
            f"{resamples:,} resamples are not 1 to {MOST_RESAMPLES:,}",
            hint=f"{RESAMPLES:,} give both ends to two digits",
        )
    one, other = list(first), list(second)
    _check(one, other)
    found = []
    for name, metric in METRICS.items():
        a, b = _by_task(one, metric), _by_task(other, metric)
        tasks = [task for task in a if task in b]
        if tasks:
            found.append(_difference(name, [a[t] for t in tasks], [b[t] for t in tasks], seed, resamples))
    return found


def _check(first: list[Row], second: list[Row]) -> None:
    for rows, name in ((first, "first"), (second, "second")):
        kinds = sorted({(r.mode, r.model) for r in rows})
        if len(kinds) != 1:
            what = "no attempt" if not kinds else ", ".join(f"{mode} by {model or 'no model'}" for mode, model in kinds)
            raise ConfigError(f"the {name} results hold {what}", hint="compare takes results of one mode and one model")
    if len({(r.pack, r.digest) for r in (*first, *second)}) != 1:
        raise ConfigError("the results are of different packs, or of different texts of one", hint="run both again")
    if not {r.task for r in first} & {r.task for r in second}:
        raise ConfigError("the results have no task in common", hint="run both with the same --sample and --seed")


def _by_task(rows: Iterable[Row], metric: Callable[[Row], float | None]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for row in rows:
        value = metric(row)
        if value is not None:
            found.setdefault(row.task, []).append(value)
    return found


def _difference(
    name: str, first: Sequence[Sequence[float]], second: Sequence[Sequence[float]], seed: int, resamples: int
) -> Difference:
    means = np.array([[np.mean(a), np.mean(b)] for a, b in zip(first, second, strict=True)])
    gaps = means[:, 0] - means[:, 1]
    low, high = interval(first, second, seed=seed, resamples=resamples)
    return Difference(
        name,
        len(first),
        float(means[:, 0].mean()),
        float(means[:, 1].mean()),
        float(gaps.mean()),
        low,
        high,
        int((gaps > 0).sum()),
        int((gaps < 0).sum()),
        int((gaps == 0).sum()),
    )


def interval(
    first: Sequence[Sequence[float]],
    second: Sequence[Sequence[float]],
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> tuple[float, float]:
    """The 95 % percentile interval of the mean difference of paired tasks (B. Efron and R. J. Tibshirani, "An Introduction to the Bootstrap", 1993,
    chapter 13). Tasks are drawn with replacement, then each task's repeats on either side (A. C. Davison and D. V. Hinkley, "Bootstrap Methods
    and their Application", 1997, section 3.8). The same seed gives the same interval.

    With one task, or few, it is too narrow: nothing in the results says how other tasks would have gone.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    a, b = _padded(first), _padded(second)
    found = np.empty(resamples)
    for start in range(0, resamples, BATCH):
        count = min(BATCH, resamples - start)
        tasks = rng.integers(0, len(first), (count, len(first)))
        found[start : start + count] = (_drawn(rng, a, tasks) - _drawn(rng, b, tasks)).mean(axis=1)
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


def _padded(values: Sequence[Sequence[float]]) -> tuple[Any, Any]:
    """The repeats as one array, short rows filled up, and how many there are of each."""
    sizes = np.array([len(v) for v in values])
    table = np.zeros((len(values), sizes.max()))
    for row, found in zip(table, values, strict=True):
        row[: len(found)] = found
    return table, sizes


def _drawn(rng: np.random.Generator, values: tuple[Any, Any], tasks: Any) -> Any:
    """The means of repeats that are drawn for each of the drawn tasks."""
    table, sizes = values
    if table.shape[1] == 1:
        return table[tasks, 0]
    width, drawn = table.shape[1], sizes[tasks]
    picks = (rng.random((*tasks.shape, width)) * drawn[..., None]).astype(int)
    counted = np.arange(width) < drawn[..., None]
    return (table[tasks[..., None], picks] * counted).sum(axis=-1) / drawn
