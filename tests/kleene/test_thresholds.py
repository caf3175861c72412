"""The statistics of CALIBRATE: its bounds hold for every small case exactly, and over thousands of drawn ones within binomial error."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray

from kleene.thresholds import (
    Goal,
    Thresholds,
    binomial_tail,
    choose,
    hypergeometric_tail,
    hypergeometric_tails,
    precision_p,
    quantiles,
    recall_p,
    recall_threshold,
)

Draw = Callable[[Generator], tuple[NDArray[np.float64], NDArray[np.bool_]]]


def missed(scores: NDArray[np.float64], truth: NDArray[np.bool_], found: Thresholds, goal: Goal) -> bool:
    """The cascade with these thresholds is below one of the goals."""
    accepted = scores >= found.high if found.high is not None else np.zeros(len(scores), bool)
    rejected = scores < found.low if found.low is not None else np.zeros(len(scores), bool)
    said = accepted | (~rejected & truth)
    right = int((said & truth).sum())
    return right < goal.precision * said.sum() or right < goal.recall * truth.sum()


# -- exactly -----------------------------------------------------------------------------------------------------------------------------


def test_tails_are_those_of_counting() -> None:
    for total, good, drawn in itertools.product(range(1, 9), range(9), range(9)):
        if good > total or drawn > total:
            continue
        for least in range(drawn + 2):
            ways = sum(math.comb(good, k) * math.comb(total - good, drawn - k) for k in range(max(0, least), drawn + 1))
            exact = Fraction(ways, math.comb(total, drawn))
            assert hypergeometric_tail(total, good, drawn, least) == pytest.approx(float(exact), abs=1e-12)
            many = hypergeometric_tails(np.array([total, total]), np.array([good, good]), drawn, least)
            assert many == pytest.approx([float(exact)] * 2, abs=1e-12)


def test_tails_of_many_terms_lose_none() -> None:
    assert binomial_tail(5000, 0.9, 2500) == pytest.approx(1.0)
    assert hypergeometric_tail(20_000, 18_000, 5000, 2500) == pytest.approx(1.0)
    assert 0 < binomial_tail(5000, 0.5, 2600) < 0.01


def test_the_binomial_tail_stands_for_every_larger_population() -> None:
    for recall, drawn in itertools.product((0.5, 0.8, 0.95), (10, 25, 60)):
        totals = np.arange(drawn, 500)
        above = np.ceil(recall * totals).astype(np.int64) - 1
        for least in range(math.ceil(drawn * recall + 1), drawn + 1):
            assert (
                hypergeometric_tails(totals, above, drawn, least).max() <= binomial_tail(drawn, recall, least) + 1e-12
            )


@pytest.mark.parametrize("failure", [0.15, 0.35])
def test_every_sample_of_every_small_population_together_keep_recall(failure: float) -> None:
    goal = Goal(recall=0.7, confidence=1 - 2 * failure)
    scores = np.array([0.1, 0.2, 0.2, 0.4, 0.5, 0.6, np.nan])
    firsts = [np.array(f) for f in itertools.combinations(range(7), 5)]
    useful = 0
    for bits in range(2**7):
        truth = np.array([bits >> i & 1 for i in range(7)], dtype=bool)
        failures = 0
        for first in firsts:
            low = recall_threshold(scores, first, truth[first], goal)
            useful += low is not None and bool((scores < low).any())
            kept = truth.sum() - (0 if low is None else (truth & (scores < low)).sum())
            failures += bool(kept < goal.recall * truth.sum())
        assert failures <= failure * len(firsts)
    assert useful > 0


def test_a_sample_of_all_rows_decides_with_certainty() -> None:
    assert recall_p(kept=9, positives=10, below=0, unseen=0, recall=0.9) == 0
    assert recall_p(kept=8, positives=10, below=0, unseen=0, recall=0.9) == 1
    assert precision_p(size=10, seen=10, right=9, drawn=0, hits=0, precision=0.9) == 0
    assert precision_p(size=10, seen=10, right=8, drawn=0, hits=0, precision=0.9) == 1
    scores, truth = np.arange(10) / 10, np.arange(10) >= 5
    found = choose(scores, Goal(1.0, 1.0, 0.999), 10, 0, lambda rows: truth[rows])
    assert (found.low, found.high, found.in_band, found.sampled) == (0.5, 0.5, 0, 10)
    assert (found.sample_precision, found.sample_recall) == (1.0, 1.0)


# -- over many draws -----------------------------------------------------------------------------------------------------------------------


def overlapping(rate: float, n: int = 240) -> Draw:
    def draw(rng: Generator) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        truth = rng.random(n) < rate
        return np.clip(rng.normal(np.where(truth, 0.65, 0.35), 0.15), 0, 1), truth

    return draw


def at_the_edge(rng: Generator) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Every region is true just short of the goal: whatever is accepted fails."""
    truth = np.arange(240) % 10 < 8
    return rng.random(240), truth


def tied(rng: Generator) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    truth = rng.random(240) < 0.4
    return np.round(np.clip(rng.normal(np.where(truth, 0.7, 0.3), 0.2), 0, 1) * 4) / 4, truth


def with_gaps(rng: Generator) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    scores, truth = overlapping(0.4)(rng)
    scores[rng.random(240) < 0.2] = np.nan
    scores[rng.random(240) < 0.05] = np.inf
    return scores, truth


def hidden(rng: Generator) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Just too many of the true rows lie where the proxy is sure of the opposite."""
    truth = np.arange(240) < 80
    scores = np.where(truth, 0.9, 0.2) + rng.random(240) / 20
    scores[:17] = rng.random(17) / 20
    return scores, truth


DRAWS: dict[str, Draw] = {
    "overlapping": overlapping(0.4),
    "few positives": overlapping(0.05),
    "no positives": overlapping(0.0),
    "all positive": overlapping(1.0),
    "at the edge": at_the_edge,
    "constant scores": lambda rng: (np.full(240, 0.5), rng.random(240) < 0.8),
    "anti-correlated": lambda rng: (lambda s, t: (1 - s, t))(*overlapping(0.5)(rng)),
    "ties": tied,
    "unscored rows": with_gaps,
    "hidden positives": hidden,
    "no scores": lambda rng: (np.full(240, np.nan), rng.random(240) < 0.5),
}
GOAL = Goal(recall=0.8, precision=0.8, confidence=0.8)
TRIALS = 400


def failures(draw: Draw, chooser: Callable[..., Thresholds], sample: int = 80) -> tuple[int, float]:
    """How many of ``TRIALS`` draws miss a goal, and the mean share of rows that is not asked."""
    bad, spared = 0, 0.0
    for trial in range(TRIALS):
        scores, truth = draw(np.random.default_rng(trial))
        found = chooser(scores, GOAL, sample, 10_000 + trial, lambda rows, truth=truth: truth[rows])
        bad += missed(scores, truth, found, GOAL)
        spared += (found.accepted + found.rejected) / len(scores) / TRIALS
    return bad, spared


def most_failures() -> int:
    """Of trials that each fail with probability 1 - confidence, more than this happen less than once in 10,000 times."""
    rate = 1 - GOAL.confidence
    return next(k for k in range(TRIALS) if binomial_tail(TRIALS, rate, k + 1) < 1e-4)


@pytest.mark.parametrize("name", DRAWS)
def test_goals_are_missed_no_oftener_than_promised(name: str) -> None:
    bad, _ = failures(DRAWS[name], choose)
    assert bad <= most_failures()


def test_thresholds_spare_calls_where_the_proxy_tells() -> None:
    _, spared = failures(DRAWS["overlapping"], choose)
    assert spared > 0.5


def point_estimates(
    scores: NDArray[np.float64], goal: Goal, sample: int, seed: int, label: Callable[..., NDArray[np.bool_]]
) -> Thresholds:
    """What CALIBRATE must not do: take the thresholds that keep the goals in the sample itself."""
    first = np.random.default_rng(seed).permutation(len(scores))[:sample]
    labels, values = label(first), scores[first]
    high = next((s for s in np.sort(values) if labels[values >= s].mean() >= goal.precision), None)
    kept = np.sort(values[labels])
    low = float(kept[int((1 - goal.recall) * len(kept))]) if len(kept) else None
    return Thresholds(low, None if high is None else float(high), 0, 0, 0, sample, None, None)


@pytest.mark.parametrize("name", ["at the edge", "hidden positives"])
def test_point_estimates_would_be_caught(name: str) -> None:
    bad, _ = failures(DRAWS[name], point_estimates)
    assert bad > most_failures()


def test_a_wrong_answer_for_every_row_claims_nothing() -> None:
    found = choose(np.linspace(0, 1, 500), GOAL, 100, 1, lambda rows: np.zeros(len(rows), bool))
    assert (found.low, found.high, found.in_band) == (None, None, 500)
    assert (found.sample_precision, found.sample_recall) == (None, None)


def test_the_same_scores_and_seed_ask_the_same_rows() -> None:
    scores, truth = overlapping(0.5)(np.random.default_rng(3))
    asked: list[list[int]] = [[], []]
    for rows_of_run in asked:
        choose(scores, GOAL, 60, 9, lambda rows, into=rows_of_run: (into.extend(rows.tolist()), truth[rows])[1])
    assert asked[0] == asked[1] and len(set(asked[0])) == len(asked[0]) <= 60


def test_a_large_population_is_quick_and_keeps_its_goals() -> None:
    scores, truth = overlapping(0.3, n=200_000)(np.random.default_rng(5))
    found = choose(scores, Goal(), 300, 5, lambda rows: truth[rows])
    assert found.low is not None and not missed(scores, truth, found, Goal())


def test_quantiles_keep_the_spread_of_the_scores() -> None:
    assert quantiles(np.array([])) == ()
    assert quantiles(np.array([0.5, np.nan, 0.1])) == (0.1, 0.5, None)
    many = quantiles(np.arange(1000) / 1000)
    assert len(many) == 101 and many[0] == 0 and many[-1] == 0.999
