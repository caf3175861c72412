"""The planner's one door: a parsed statement to a plan."""

from __future__ import annotations

import attrs

from kleene.planner.callplan import CallPlan, Experience, PlanContext, Relations, Rule
from kleene.planner.catalog import Catalog
from kleene.planner.freezing import frozen
from kleene.planner.resolve import resolve
from kleene.planner.rules import RULES, apply, guard, join_order
from kleene.planner.rules.rounds import rounds
from kleene.planner.settings import Settings
from kleene.planner.statements import Statement
from kleene.planner.views import names_read, opened
from kleene.planner.waiting import waits


def reordered(plan: CallPlan, context: PlanContext) -> CallPlan:
    """A plan whose joins have an order of our own (rule ``join_order``), with the order that the context's pass rates give."""
    assert plan.unjoined is not None
    return _finished(plan.unjoined, context, since=join_order)


def sampling(plan: CallPlan, context: PlanContext) -> list[CallPlan]:
    """For each join whose order rests on pass rates that are not known, a query for them over the sites of the plan. Its rows are a condition's
    index, and how many of ``SAMPLE`` of its arguments pass."""
    sites = tuple(attrs.evolve(s, waits=frozenset()) for s in plan.sites)
    return [
        apply(CallPlan(join.sample, sites, joins=(join,)), context, since=guard)
        for join in plan.joins
        if join.sample is not None
    ]


def as_written(plan: CallPlan, context: PlanContext) -> CallPlan:
    """The plan with its conditions in the order of the text, and its relations joined before the first of them."""
    if plan.unjoined is not None:
        off = attrs.evolve(context.settings, rules_off=context.settings.rules_off | {"join_order"})
        plan = _finished(plan.unjoined, attrs.evolve(context, settings=off), since=join_order)
    return plan.as_written()


def plan(
    statement: Statement,
    catalog: Catalog,
    settings: Settings,
    relations: Relations,
    learned: Experience = lambda site: None,
) -> CallPlan | None:
    """The plan of a statement, None when it makes no call and DuckDB may have its text unchanged.

    Raises ``PlanError``. ``learned`` is what is known of calls like those of a site. Asks ``relations`` for column names where a block over joins is rewritten, and for counts where its order is chosen.
    """
    context = PlanContext(settings, relations.snapshot(), learned=learned)
    made = _plan(statement, catalog, context)
    if made is None or "classify_join" not in made.rules:
        return made
    # A label a row or a predicate a pair: which is cheaper depends on the rows, and is counted before the first call.
    pairs = attrs.evolve(settings, rules_off=settings.rules_off | {"classify_join"})
    other = _plan(statement, catalog, attrs.evolve(context, settings=pairs))
    return made if other is None else attrs.evolve(made, alternatives=(other,))


def _plan(statement: Statement, catalog: Catalog, context: PlanContext) -> CallPlan | None:
    assert statement.tree is not None
    views = context.relations.views(names_read(statement.tree))
    resolved = resolve(statement, opened(statement.tree, views, catalog), catalog, context.settings)
    if resolved is None:
        return None
    kept = frozen(resolved, context)
    made = _finished(resolved, context)
    return made if kept is None else attrs.evolve(made, frozen=_finished(kept, context))


def _finished(plan: CallPlan, context: PlanContext, since: Rule = RULES[0]) -> CallPlan:
    """The plan after all rules from one on."""
    made = rounds(apply(plan, context, since=since), context)
    below = waits(made.tree) if len(made.sites) > 1 else {}
    return attrs.evolve(made, sites=tuple(attrs.evolve(s, waits=below.get(s.number, s.waits)) for s in made.sites))
