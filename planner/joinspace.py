"""The search behind rule ``join_order``: in which order conditions with calls are asked over parts that are not joined yet.

A *part* is a set of relations that conditions without calls join; a *condition* reads some of the parts and is asked once for each distinct
argument. Asking it merges the parts that it reads: what is left of them is their product, less what it drops. After a set P of conditions a
combination of values of the parts T survives with the probability

    S(T, P) = product of rate(q) for q in P over T alone  *  product over branches B of 1 - (1 - s(B) S(F(B), rest of B))^n(B)

A branch is what conditions of P connect outside of T; s(B) is the product of the rates of those that touch T, F(B) the further parts that
these read, n(B) the combinations of values of F(B), and the rest of B the conditions that do not touch T: a combination stays if any partner
of it passes and survives in turn. (The probability that a chain of semi-joins keeps a row, with independent answers.) A condition c asked
after P costs price(c) * arguments(c) * S(parts of c, P), which depends on the set P and not on its order. So the least cost over all orders is
found by dynamic programming over sets of conditions, 2^n in place of n!; a set is not looked at where its cost, and the least that must
still follow, exceed that of an order which is known (branch and bound; as 1 - (1 - x)^n >= x, the least of c is arguments(c) times the
rates of all others).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

MAX_SEARCHED = 11
"""Conditions up to which all sets are searched: as many as connect twelve relations. Of more the next is always the one that asks least."""

LIKE = 1.001
"""What costs at most so many times the best is as good, if it was written so."""


@attrs.frozen
class Condition:
    """``parts``: bits of the parts it reads; ``arguments``: how many distinct ones there are where nothing is dropped; ``price``: of one
    argument, in calls; ``rate``: the share that passes."""

    parts: int
    arguments: float
    price: float = 1.0
    rate: float = 0.5


@attrs.frozen
class Part:
    """``rows`` of it, and how many ``values`` its columns in conditions take together."""

    rows: float
    values: float


@attrs.frozen
class Order:
    """Conditions by index, in the order of asking: ``asked`` has the arguments expected for each, ``calls`` their price, ``rows`` the rows
    that conditions look at."""

    conditions: tuple[int, ...]
    asked: tuple[float, ...]
    calls: float
    rows: float


@attrs.frozen
class Space:
    """How much there was to search: ``orders`` of all conditions, sets of them whose steps were ``priced``, and sets ``pruned`` by the bound."""

    orders: int
    priced: int
    pruned: int


@attrs.define
class Search:
    """Finds the order of least calls, among these of least rows, among these the one written first."""

    parts: Sequence[Part]
    conditions: Sequence[Condition]
    _shares: dict[tuple[int, int], float] = attrs.field(init=False, factory=dict)
    _clusters: dict[int, list[tuple[int, float]]] = attrs.field(init=False, factory=dict)

    def best(self) -> tuple[Order, Space]:
        """The order, and how much was searched."""
        count = len(self.conditions)
        orders = math.factorial(count)
        found = min(map(self.cheapest_first, range(count)), key=_rank_of)
        if count > MAX_SEARCHED:
            return found, Space(orders, count * count, 0)
        least = [self._least(c) for c in range(count)]
        priced = pruned = 0
        level: dict[int, _Reached] = {0: (0.0, 0.0, ())}
        for _ in range(count):
            above: dict[int, _Reached] = {}
            for done, (calls, rows, order) in level.items():
                left = [c for c in range(count) if not done >> c & 1]
                if calls + sum(least[c] for c in left) > found.calls * (1 + 1e-9):
                    pruned += 1
                    continue
                priced += 1
                for c in left:
                    own = self.asked(c, done) * self.conditions[c].price
                    new = (calls + own, rows + self._rows(c, done), (*order, c))
                    known = above.get(done | 1 << c)
                    if known is None or _rank(new) < _rank(known):
                        above[done | 1 << c] = new
            level = above
        best = min(level.values(), key=_rank, default=None)
        if best is not None and _rank(best) <= _rank_of(found):
            found = self.priced(best[2])
        written = self.priced(range(count))
        if written.calls <= found.calls * LIKE and written.rows <= found.rows * LIKE:
            found = written
        return found, Space(orders, priced, pruned)

    def _least(self, condition: int) -> float:
        """What a condition costs at least, whatever was asked before."""
        if any(part.values < 1 for part in self.parts):
            return 0.0
        own = self.conditions[condition]
        return own.price * own.arguments * math.prod(c.rate for c in self.conditions) / own.rate if own.rate else 0.0

    def cheapest_first(self, first: int) -> Order:
        """The order that begins with ``first``, and in which the next condition is always the one that asks least."""
        order = [first]
        while len(order) < len(self.conditions):
            done = sum(1 << c for c in order)
            left = [c for c in range(len(self.conditions)) if c not in order]
            order.append(min(left, key=lambda c: self.asked(c, done) * self.conditions[c].price))
        return self.priced(order)

    def priced(self, order: Sequence[int]) -> Order:
        """What a given order asks."""
        done, calls, rows = 0, 0.0, 0.0
        asked = []
        for c in order:
            asked.append(self.asked(c, done))
            calls += asked[-1] * self.conditions[c].price
            rows += self._rows(c, done)
            done |= 1 << c
        return Order(tuple(order), tuple(asked), calls, rows)

    def asked(self, condition: int, done: int) -> float:
        """The distinct arguments expected of a condition after a set of others."""
        own = self.conditions[condition]
        return own.arguments * self._survives(own.parts, done)

    def _survives(self, kept: int, done: int) -> float:
        """S(T, P) above. Branches that do not touch T count too: where nothing is left of them nothing is asked."""
        key = (kept, done)
        if key not in self._shares:
            self._shares[key] = self._share(kept, done)
        return self._shares[key]

    def _share(self, kept: int, done: int) -> float:
        share = 1.0
        branches: list[tuple[int, int]] = []  # parts outside of T, and the conditions that connect them
        for c in _bits(done):
            condition = self.conditions[c]
            mask = condition.parts & ~kept
            if not mask:
                share *= condition.rate
                continue
            inside, apart = 1 << c, []
            for branch in branches:
                if branch[0] & mask:
                    mask, inside = mask | branch[0], inside | branch[1]
                else:
                    apart.append(branch)
            branches = [*apart, (mask, inside)]
        for mask, inside in branches:
            touching = sum(1 << c for c in _bits(inside) if self.conditions[c].parts & kept)
            front, rate = 0, 1.0
            for c in _bits(touching):
                front |= self.conditions[c].parts & ~kept
                rate *= self.conditions[c].rate
            front = front or mask & -mask
            share *= _any_of(self._values(front), rate * self._survives(front, inside & ~touching))
        return share

    def _values(self, mask: int) -> float:
        return math.prod(self.parts[p].values for p in _bits(mask))

    def _rows(self, condition: int, done: int) -> float:
        """The rows that a condition looks at: the product of what is left of the parts that it reads."""
        mask = self.conditions[condition].parts
        rate = 1.0
        for cluster, passes in self._merged(done):
            if cluster & self.conditions[condition].parts:
                mask |= cluster
                rate *= passes
        return rate * math.prod(self.parts[p].rows for p in _bits(mask))

    def _merged(self, done: int) -> list[tuple[int, float]]:
        """The parts that conditions have merged, with the share of their product that passes."""
        if not done:
            return []
        if done not in self._clusters:
            last = done & -done
            condition = self.conditions[last.bit_length() - 1]
            mask, rate, apart = condition.parts, condition.rate, []
            for cluster in self._merged(done & ~last):
                if cluster[0] & condition.parts:
                    mask, rate = mask | cluster[0], rate * cluster[1]
                else:
                    apart.append(cluster)
            self._clusters[done] = [*apart, (mask, rate)]
        return self._clusters[done]


_Reached = tuple[float, float, tuple[int, ...]]
"""Calls, rows, and the conditions in their order."""


def _rank(found: _Reached) -> tuple[float, float]:
    """Least calls, then least rows; what rounding alone tells apart is equal."""
    return (float(f"{found[0]:.9g}"), float(f"{found[1]:.9g}"))


def _rank_of(order: Order) -> tuple[float, float]:
    return _rank((order.calls, order.rows, order.conditions))


def _any_of(count: float, rate: float) -> float:
    """The probability that any of so many passes."""
    if rate >= 1.0:
        return 1.0 if count > 0 else 0.0
    return -math.expm1(count * math.log1p(-rate))


def _bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


__all__ = ["MAX_SEARCHED", "Condition", "Order", "Part", "Search", "Space"]
