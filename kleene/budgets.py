"""Checks a budget that a caller gives, before anything is spent under it."""

from __future__ import annotations

from typing import Any

import attrs

from kleene.planner.errors import ConfigError
from kleene.planner.specs import BudgetLimits

WHOLE = ("calls", "tokens", "depth")


def checked(budget: object) -> BudgetLimits | None:
    """The budget as given, None for none. Raises ``ConfigError`` for another type, and for a limit that is no number of at least 0."""
    if budget is None:
        return None
    if not isinstance(budget, BudgetLimits):
        raise ConfigError(
            f"budget is of type {type(budget).__name__}, not a kleene.Budget", hint="budget=kleene.Budget(dollars=2)"
        )
    limit: Any
    for name, limit in attrs.asdict(budget).items():  # of any type, whatever is declared
        if limit is None:
            continue
        is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
        if not is_number or not limit >= 0 or (name in WHOLE and not isinstance(limit, int)):
            kind = "a whole number" if name in WHOLE else "a number"
            raise ConfigError(
                f"budget.{name} must be {kind} of at least 0, not {limit!r}", hint="leave it out for no limit"
            )
    return budget
