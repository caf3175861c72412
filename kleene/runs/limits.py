"""What a run may spend where nobody said: $1, or 200 calls where the model has no price."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from kleene.planner.errors import KleeneError
from kleene.planner.specs import BudgetLimits

if TYPE_CHECKING:
    from kleene.executor import Executor

DEFAULT_BUDGET = BudgetLimits(dollars=1.0)
DEFAULT_UNPRICED_BUDGET = BudgetLimits(calls=200)
MAX_DEPTH = 2
"""Levels of children below the session that answers the task."""


def budget_of(engine: Executor, budget: BudgetLimits | None) -> tuple[BudgetLimits, tuple[str, ...]]:
    """The run's limits and what to say about them. Where the engine itself has a budget, the run draws on that."""
    if budget is not None:
        return budget, ()
    left = engine.ledger.remaining()
    if left.calls is not None or left.tokens is not None or left.dollars is not None:
        return BudgetLimits(), ()
    try:
        routes = [engine.services.handler.route(alias) for alias in ("root", "worker")]
    except KleeneError:
        return DEFAULT_BUDGET, ()
    if any(r.price is None for r in routes):
        return DEFAULT_UNPRICED_BUDGET, ("no budget was given and the model has no price: this run has 200 calls",)
    return DEFAULT_BUDGET, ("no budget was given: this run has $1",)


def capped(limits: BudgetLimits, left: BudgetLimits) -> BudgetLimits:
    """In each dimension the lower of the two: what can really be spent, to be kept for a resumed run."""

    def lower(name: str) -> float | None:
        both = [v for v in (getattr(limits, name), getattr(left, name)) if v is not None]
        return min(both) if both else None

    return BudgetLimits(**{f.name: lower(f.name) for f in attrs.fields(BudgetLimits)})  # type: ignore[arg-type]
