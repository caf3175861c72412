"""What a plan says of the order in which conditions over several relations are asked (rule ``join_order``)."""

from __future__ import annotations

from typing import Any

import attrs
from sqlglot import exp

from kleene.planner.errors import number
from kleene.planner.joinspace import Order, Space

SHOWN = 2  # other orders in EXPLAIN


@attrs.frozen
class Asked:
    """One condition: its ``text`` as the user wrote it, the ``sites`` inside, the ``relations`` that are joined before it is asked, how many
    distinct ``arguments`` it has where nothing is dropped, and the ``rate`` that passes, None where it is not known; ``learned`` from so many
    answers to earlier statements, 0 where it was seen in this one."""

    text: str
    sites: tuple[int, ...]
    relations: tuple[str, ...]
    arguments: float
    rate: float | None = None
    learned: int = 0

    @property
    def label(self) -> str:
        return "+".join(f"#{site}" for site in self.sites)

    def passes(self) -> str:
        """The rate in words."""
        source = f" learned from {number(self.learned)}" if self.learned else ""
        return f"{self.label} {100 * (self.rate or 0):.0f} %{source}"


@attrs.frozen
class JoinSpec:
    """The order of one block. ``conditions`` are as written, ``order`` and the ``others``, cheapest first, refer to them. ``counted``: the
    arguments are real, else rows are assumed. ``sample`` is a query for the pass rates (condition, rows, those that pass), None where
    they are known or the order does not matter so much; ``least`` the arguments of the condition that has fewest."""

    relations: int
    conditions: tuple[Asked, ...]
    order: Order
    others: tuple[Order, ...]
    space: Space
    counted: bool
    sample: exp.Expr | None = None

    @property
    def least(self) -> int:
        return int(min(condition.arguments for condition in self.conditions))

    def expected(self, site: int) -> float | None:
        """The calls that a site is expected to make, None where it stands elsewhere too."""
        found = [
            a for c, a in zip(self.order.conditions, self.order.asked, strict=True) if site in self.conditions[c].sites
        ]
        return found[0] if len(found) == 1 else None

    def lines(self) -> list[str]:
        """For EXPLAIN: the order and what it rests on, others with their prices, and how much there was to search."""
        said = ", then ".join(
            f"{self.conditions[c].label} over {', '.join(self.conditions[c].relations)}" for c in self.order.conditions
        )
        found = [f"join order: {said}: {_calls(self.order.calls)}  ({self._why()})"]
        if self.others:
            told = "; ".join(f"{self._short(other)} {_calls(other.calls)}" for other in self.others[:SHOWN])
            found[0] += f"; else {told}"
        space = self.space
        found.append(
            f"plan space: {self.relations} relations, {number(space.orders)} orders of {len(self.conditions)} conditions, "
            f"{number(space.priced)} subsets priced, {number(space.pruned)} pruned"
        )
        return found

    def _short(self, order: Order) -> str:
        return ", ".join(self.conditions[c].label for c in order.conditions)

    def _why(self) -> str:
        if not self.counted:
            return "1,000 rows assumed of each relation"
        counts = [number(int(self.conditions[c].arguments)) for c in self.order.conditions]
        told = f"{', '.join(counts[:-1])} and {counts[-1]} arguments" if len(counts) > 1 else f"{counts[0]} arguments"
        if self.sample is not None:
            return f"{told}; a sample of each will show its pass rate"
        known = [c for c in self.conditions if c.rate is not None]
        if known:
            rates = ", ".join(c.passes() for c in known)
            return f"{told}; pass rates {rates}"
        return f"{told}; pass rate 0.5 assumed"

    def to_dict(self) -> dict[str, Any]:
        """For EXPLAIN (FORMAT json)."""
        return {
            "relations": self.relations,
            "conditions": [
                {
                    "condition": c.text,
                    "sites": list(c.sites),
                    "relations": list(c.relations),
                    "arguments": round(c.arguments),
                    "pass_rate": c.rate,
                }
                for c in self.conditions
            ],
            "order": _priced(self.order),
            "alternatives": [_priced(other) for other in self.others],
            "orders": self.space.orders,
            "subsets_priced": self.space.priced,
            "subsets_pruned": self.space.pruned,
            "counted": self.counted,
        }


def _priced(order: Order) -> dict[str, Any]:
    return {
        "conditions": [c + 1 for c in order.conditions],
        "calls": round(order.calls, 2),
        "rows": round(order.rows, 2),
    }


def _calls(value: float) -> str:
    return f"≈ {number(round(value))} calls"


__all__ = ["Asked", "JoinSpec"]
