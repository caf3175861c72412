"""The thresholds of a cascade, chosen from a sample with a guarantee that holds for any sample size and any scores.

The question and the way of working are those of BARGAIN (Zeighami, Shankar, Parameswaran: "Cut Costs, Not Accuracy: LLM-Powered Data
Processing with Guarantees", arXiv 2509.02896): the proxy scores all N rows, the oracle labels few of them, thresholds are tested, never
estimated, with tests that hold for finite samples, and labels are spent where the decision is. BARGAIN tests by betting; here the rows are
finite and their scores are all known, so that the exact distribution of a draw without replacement, the hypergeometric one, serves: it is
what betting bounds approach, and a sample that holds every row decides with certainty.

A cascade answers true for scores >= high, false for scores < low, and asks the oracle between. With probability at least ``confidence``
over the draw of the sample, on the rows that it was drawn from,

    precision  = true rows among those that the cascade calls true      >= goal.precision
    recall     = rows that the cascade calls true among the true ones   >= goal.recall

Each may fail with probability a = (1 - confidence) / 2; the union bound joins them. The sample is a *first* part, drawn from all rows, and
a *second*, drawn from the rows above one candidate for ``high``.

Recall. Of the m true rows in the first part, x score at least low. Given m, x is hypergeometric with K and K', the numbers of true rows and
of those that score at least low. ``low`` breaks the goal where K' < recall * K, so

    p(low) = max over K, K' = ceil(recall * K) - 1 of P(Hyp(K, K', m) >= x)

over all K that the sample leaves possible. p rises with low, so that the largest low with p(low) <= a breaks the goal with probability at
most a, whichever candidates are looked at (the scores of the first part's true rows: between two of them p does not fall). Above
``EXACT`` values of K the binomial tail P(Bin(m, recall) >= x) stands for the rest: a hypergeometric number is a sum of independent
Bernoulli ones, and from one above the mean on their tail is below the binomial's (Hoeffding, "On the distribution of the number of
successes in independent trials", 1956).

Precision. The first part picks one candidate for high; the second is drawn from what is left of the A rows that score at least high, and
tests that candidate alone: high breaks the goal where at most k = ceil(precision * A) - 1 of them are true, so

    p = P(Hyp(A - m', k - x', n) >= x)      m' and x': labelled by the first part, and true; n and x: the same of the second

and high is taken where p <= a. Rows in the band are answered by the oracle, so the precision of all that is called true is no lower.

Where a test does not pass there is no such threshold (None): its rows are asked. No claim rests on a test that failed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import attrs
import numpy as np
from numpy.typing import NDArray

EXACT = 4096  # numbers of true rows that are gone through one by one
SECOND = 4  # one label in so many is kept for the test of high
HOPELESS = 0.02  # the chance of passing below which the second part is not asked
QUANTILES = 101

Scores = NDArray[np.float64]
Rows = NDArray[np.int64]
Labels = NDArray[np.bool_]


@attrs.frozen
class Goal:
    """What a cascade must keep, each from 0 to 1. ``failure`` is the probability that either bound may be missed by."""

    recall: float = 0.9
    precision: float = 0.9
    confidence: float = 0.95

    @property
    def failure(self) -> float:
        return (1 - self.confidence) / 2


@attrs.frozen
class Thresholds:
    """``high`` None: no row is called true unasked; ``low`` None: none false. ``sample_*``: of the first part, None where it has no such rows.

    ``accepted``, ``in_band``, ``rejected`` count all rows; ``sampled`` those that were labelled.
    """

    low: float | None
    high: float | None
    accepted: int
    in_band: int
    rejected: int
    sampled: int
    sample_precision: float | None
    sample_recall: float | None


def choose(scores: Scores, goal: Goal, sample: int, seed: int, label: Callable[[Rows], Labels]) -> Thresholds:
    """Thresholds for rows with these scores (NaN: no score, such a row is always asked), labelling at most ``sample`` of them.

    ``label`` gives the oracle's answers for rows by index, an unknown one as false; it is called once or twice. The same scores and seed
    draw the same sample.
    """
    order = np.random.default_rng(seed).permutation(len(scores))
    first, rest = split(order, sample)
    labels = np.asarray(label(first), dtype=bool)
    low = recall_threshold(scores, first, labels, goal)
    high, tested = precision_threshold(scores, first, labels, rest, sample - len(first), goal, label)
    if low is not None and high is not None:
        low = min(low, high)  # recall only gains
    accepted = _at_least(scores, high)
    rejected = _below(scores, low)
    if not rejected.any():
        low = None
    counts = int(accepted.sum()), int(rejected.sum())
    said = accepted[first] | (~rejected[first] & labels)
    right = int((said & labels).sum())
    return Thresholds(
        low=low,
        high=high,
        accepted=counts[0],
        in_band=len(scores) - sum(counts),
        rejected=counts[1],
        sampled=len(first) + tested,
        sample_precision=right / int(said.sum()) if said.any() else None,
        sample_recall=right / int(labels.sum()) if labels.any() else None,
    )


def split(order: Rows, sample: int) -> tuple[Rows, Rows]:
    """The first part of the sample, and the rows that the second is drawn from, in the order of the draw."""
    if sample >= len(order):
        return order, order[:0]
    size = max(1, sample - sample // SECOND)
    return order[:size], order[size:]


def recall_threshold(scores: Scores, first: Rows, labels: Labels, goal: Goal) -> float | None:
    """The largest low that the first part of the sample supports."""
    values, unseen = scores[first], np.ones(len(scores), dtype=bool)
    unseen[first] = False
    positives = int(labels.sum())
    found = np.sort(values[labels & ~np.isnan(values)])
    unseen_scores = np.sort(scores[unseen & ~np.isnan(scores)])

    def passes(index: int) -> bool:
        low = found[index]
        kept = positives - int(np.searchsorted(found, low))
        below = int(np.searchsorted(unseen_scores, low))
        return recall_p(kept, positives, below, int(unseen.sum()), goal.recall) <= goal.failure

    taken = -1  # passes(index) never turns true again: p rises with low
    least, most = 0, len(found) - 1
    while least <= most:
        middle = (least + most) // 2
        if passes(middle):
            taken, least = middle, middle + 1
        else:
            most = middle - 1
    return None if taken < 0 else float(found[taken])


def recall_p(kept: int, positives: int, below: int, unseen: int, recall: float) -> float:
    """The largest probability, over all numbers of true rows that the sample leaves possible and that miss the goal, of keeping at least
    ``kept`` of ``positives`` sampled true rows. ``unseen`` rows were not sampled, ``below`` of them score below the threshold."""
    if kept < positives * recall:
        return 1.0
    most_below = positives - kept + below
    totals = np.arange(max(1, positives), min(positives + unseen, EXACT) + 1)
    above = np.ceil(recall * totals).astype(np.int64) - 1
    possible = (totals - above <= most_below) & (above >= kept)
    totals, above = totals[possible], above[possible]
    p = 0.0
    if len(totals):
        p = float(hypergeometric_tails(totals, above, positives, kept).max())
    if positives + unseen > EXACT:
        rest = binomial_tail(positives, recall, kept) if kept >= positives * recall + 1 else 1.0
        p = max(p, rest)
    return p


def precision_threshold(
    scores: Scores, first: Rows, labels: Labels, rest: Rows, budget: int, goal: Goal, label: Callable[[Rows], Labels]
) -> tuple[float | None, int]:
    """A high that a second part of the sample supports, and how many rows that part has."""
    candidate = _candidate(scores, first, labels, budget, goal)
    if candidate is None:
        return None, 0
    inside, unknown = scores[first] >= candidate, rest[scores[rest] >= candidate]
    seen, right = int(inside.sum()), int((inside & labels).sum())
    second = unknown[:budget]
    hits = int(np.asarray(label(second), dtype=bool).sum()) if len(second) else 0
    p = precision_p(seen + len(unknown), seen, right, len(second), hits, goal.precision)
    return (candidate if p <= goal.failure else None), len(second)


def precision_p(size: int, seen: int, right: int, drawn: int, hits: int, precision: float) -> float:
    """The largest probability of at least ``hits`` true rows in ``drawn`` of ``size`` rows, ``seen`` of them known and ``right`` of these
    true, where fewer than ``precision`` of the ``size`` are true."""
    most = (
        math.ceil(precision * size) - 1 - right
    )  # true rows among the unknown ones, at most, where the goal is missed
    if most < hits:
        return 0.0
    unknown = size - seen
    if most >= unknown:
        return 1.0
    return hypergeometric_tail(unknown, most, drawn, hits)


def _candidate(scores: Scores, first: Rows, labels: Labels, budget: int, goal: Goal) -> float | None:
    """The score of the first part that promises most accepted rows, were as many rows above it false as of those seen. None: hopeless.

    What it promises guides the choice only; what is claimed rests on the test.
    """
    scored = ~np.isnan(scores[first])
    tried, inverse = np.unique(scores[first][scored], return_inverse=True)
    seen = np.cumsum(np.bincount(inverse, minlength=len(tried))[::-1])[::-1]
    right = np.cumsum(np.bincount(inverse, labels[scored], len(tried))[::-1])[::-1].astype(np.int64)
    everything = np.sort(scores[~np.isnan(scores)])
    sizes = len(everything) - np.searchsorted(everything, tried)
    best, promise = None, 0.0
    for high, size, m, x in zip(tried.tolist(), sizes.tolist(), seen.tolist(), right.tolist(), strict=True):
        if x < goal.precision * m or size <= promise:
            continue  # below the goal, or fewer rows than another gives
        chance = _chance(size, m, x, min(budget, size - m), goal)
        if chance > HOPELESS and chance * size > promise:
            best, promise = high, chance * size
    return best


def _chance(size: int, seen: int, right: int, drawn: int, goal: Goal) -> float:
    if drawn <= 0:
        return float(precision_p(size, seen, right, 0, 0, goal.precision) <= goal.failure)
    least, most = 0, drawn + 1  # the fewest hits that pass
    while least < most:
        middle = (least + most) // 2
        if precision_p(size, seen, right, drawn, middle, goal.precision) <= goal.failure:
            most = middle
        else:
            least = middle + 1
    errors = drawn - least
    return 0.0 if errors < 0 else 1.0 - binomial_tail(drawn, (seen - right + 0.5) / (seen + 1), errors + 1)


# -- tails -----------------------------------------------------------------------------------------------------------------------------


def hypergeometric_tail(total: int, good: int, drawn: int, least: int) -> float:
    """``P(X >= least)``, X the good ones among ``drawn`` of ``total`` that hold ``good``.

    >>> round(hypergeometric_tail(10, 5, 2, 2), 6)  # 5/10 * 4/9
    0.222222
    """
    bad = total - good
    first, last = max(least, drawn - bad, 0), min(drawn, good)
    if first > last:
        return 0.0

    def log(k: int) -> float:
        return _log_choose(good, k) + _log_choose(bad, drawn - k) - _log_choose(total, drawn)

    def ratio(k: int) -> float:
        return (good - k) * (drawn - k) / ((k + 1) * (bad - drawn + k + 1))

    return _summed(first, last, (drawn + 1) * (good + 1) // (total + 2), log, ratio)


def hypergeometric_tails(totals: Rows, good: Rows, drawn: int, least: int) -> Scores:
    """``hypergeometric_tail`` for many urns, each of at least ``drawn``."""
    log = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, int(totals.max(initial=1)) + 1)))))
    hits = np.arange(max(0, least), int(min(drawn, good.max(initial=0))) + 1)[:, None]
    bad = totals - good
    valid = (hits <= good) & (drawn - hits <= bad)
    hits = np.minimum(hits, good)  # where it is not valid: any value that has a logarithm
    missed = np.clip(drawn - hits, 0, bad)
    terms = log[good] - log[hits] - log[good - hits] + log[bad] - log[missed] - log[bad - missed]
    terms += log[drawn] + log[totals - drawn] - log[totals]
    sums: Scores = np.where(valid, np.exp(np.minimum(terms, 0.0)), 0.0).sum(axis=0)
    return np.minimum(sums, 1.0, out=sums)


def binomial_tail(drawn: int, rate: float, least: int) -> float:
    """``P(X >= least)``, X successes of ``drawn`` tries that each succeed with probability ``rate``, between 0 and 1.

    >>> round(binomial_tail(2, 0.5, 1), 6)
    0.75
    """
    first = max(0, least)
    if first > drawn:
        return 0.0
    odds = rate / (1 - rate)

    def log(k: int) -> float:
        return _log_choose(drawn, k) + k * math.log(rate) + (drawn - k) * math.log1p(-rate)

    return _summed(first, drawn, int((drawn + 1) * rate), log, lambda k: (drawn - k) / (k + 1) * odds)


def _summed(first: int, last: int, mode: int, log: Callable[[int], float], ratio: Callable[[int], float]) -> float:
    """The sum of the terms from first to last, at most 1. ``log`` is a term's logarithm, ``ratio`` the next term over a term; the largest
    term is at ``mode``. It begins at the largest one of those summed, so that none is lost below the least float."""
    start = min(max(first, mode), last)
    term = total = largest = math.exp(log(start))
    for k in range(start, last):
        term *= ratio(k)
        total += term
    term = largest
    for k in range(start - 1, first - 1, -1):
        term /= ratio(k)
        total += term
    return min(1.0, total)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


# -- scores ----------------------------------------------------------------------------------------------------------------------------


def quantiles(scores: Scores) -> tuple[float | None, ...]:
    """At most ``QUANTILES`` scores in order, evenly spaced through the rows; rows without a score come last, as None."""
    if not len(scores):
        return ()
    places = np.unique(np.linspace(0, len(scores) - 1, min(QUANTILES, len(scores))).astype(np.int64))
    return tuple(None if math.isnan(s) else float(s) for s in np.sort(scores)[places])


def _at_least(scores: Scores, high: float | None) -> Labels:
    return np.zeros(len(scores), dtype=bool) if high is None else scores >= high


def _below(scores: Scores, low: float | None) -> Labels:
    return np.zeros(len(scores), dtype=bool) if low is None else scores < low
