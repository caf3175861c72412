"""The planner's one door: a parsed statement to a plan."""

from __future__ import annotations

import attrs

from kleene.planner.callplan import CallPlan, PlanContext, Relations
from kleene.planner.catalog import Catalog
from kleene.planner.resolve import resolve
from kleene.planner.rules import apply
from kleene.planner.settings import Settings
from kleene.planner.statements import Statement
from kleene.planner.waiting import waits


def plan(statement: Statement, catalog: Catalog, settings: Settings, relations: Relations) -> CallPlan | None:
    """The plan of a statement, None when it makes no call and DuckDB may have its text unchanged.

    Raises ``PlanError``. Asks ``relations`` for column names where a block over joins is rewritten, never runs anything.
    """
    resolved = resolve(statement, catalog, settings)
    if resolved is None:
        return None
    made = apply(resolved, PlanContext(settings, relations))
    below = waits(made.tree) if len(made.sites) > 1 else {}
    return attrs.evolve(made, sites=tuple(attrs.evolve(s, waits=below.get(s.number, s.waits)) for s in made.sites))
