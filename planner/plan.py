"""The planner's one door: a parsed statement to a plan."""

from __future__ import annotations

import attrs

from kleene.planner.callplan import CallPlan, PlanContext, Relations
from kleene.planner.catalog import Catalog
from kleene.planner.resolve import resolve
from kleene.planner.rules import apply
from kleene.planner.rules.rounds import rounds
from kleene.planner.settings import Settings
from kleene.planner.statements import Statement
from kleene.planner.waiting import waits


def plan(statement: Statement, catalog: Catalog, settings: Settings, relations: Relations) -> CallPlan | None:
    """The plan of a statement, None when it makes no call and DuckDB may have its text unchanged.

    Raises ``PlanError``. Asks ``relations`` for column names where a block over joins is rewritten, never runs anything.
    """
    made = _plan(statement, catalog, settings, relations)
    if made is None or "classify_join" not in made.rules:
        return made
    # A label a row or a predicate a pair: which is cheaper depends on the rows, and is counted before the first call.
    pairs = attrs.evolve(settings, rules_off=settings.rules_off | {"classify_join"})
    other = _plan(statement, catalog, pairs, relations)
    return made if other is None else attrs.evolve(made, alternatives=(other,))


def _plan(statement: Statement, catalog: Catalog, settings: Settings, relations: Relations) -> CallPlan | None:
    resolved = resolve(statement, catalog, settings)
    if resolved is None:
        return None
    context = PlanContext(settings, relations)
    made = rounds(apply(resolved, context), context)
    below = waits(made.tree) if len(made.sites) > 1 else {}
    return attrs.evolve(made, sites=tuple(attrs.evolve(s, waits=below.get(s.number, s.waits)) for s in made.sites))
