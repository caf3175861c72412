"""The rewrites of a plan, in order. Each is one file with its law in the docstring and a switch of its name (``SET rules.NAME = off``)."""

from __future__ import annotations

import attrs
from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext, Rule
from kleene.planner.calls import kinds
from kleene.planner.rules.aliases import aliases
from kleene.planner.rules.any_stop import any_stop
from kleene.planner.rules.constants import constants
from kleene.planner.rules.distinct_first import distinct_first
from kleene.planner.rules.distinct_on_first import distinct_on_first
from kleene.planner.rules.freeze import freeze
from kleene.planner.rules.guard import guard
from kleene.planner.rules.having_first import having_first
from kleene.planner.rules.inner_guard import inner_guard
from kleene.planner.rules.join_order import join_order
from kleene.planner.rules.kept_side_first import kept_side_first
from kleene.planner.rules.limit_lateral import limit_lateral
from kleene.planner.rules.limit_stop import limit_stop
from kleene.planner.rules.limit_union import limit_union
from kleene.planner.rules.map_up import map_up
from kleene.planner.rules.materialise import materialise
from kleene.planner.rules.on_to_where import on_to_where
from kleene.planner.rules.order import order
from kleene.planner.rules.pick_first import pick_first
from kleene.planner.rules.pull_up import pull_up
from kleene.planner.rules.qualify_first import qualify_first
from kleene.planner.rules.quantified import quantified
from kleene.planner.rules.semi_first import semi_first
from kleene.planner.rules.set_first import SETS, set_first
from kleene.planner.rules.stage import stage
from kleene.planner.rules.top_n_first import top_n_first

RULES: tuple[Rule, ...] = (
    freeze,  # first: a clock that became a literal no longer stops the others
    aliases,  # before all that look for calls: some stand behind a name
    map_up,  # after aliases, for its reason: what a block reads of one below is a call of its own
    distinct_first,  # before all others: they go on with both of its texts
    pull_up,  # the rules that move pure work below calls: before stage, which separates what they brought together
    on_to_where,  # after pull_up: conditions that came up from below and those of ON are one list
    set_first,
    distinct_on_first,
    pick_first,
    qualify_first,
    having_first,
    kept_side_first,
    quantified,  # before semi_first: what is an EXISTS asks for less
    semi_first,
    join_order,  # before order, which goes on within what is asked together
    order,  # before stage: what it brings together is one condition to all that follow
    stage,  # before guard: what a stage separates needs no guard, and stages copy nothing
    guard,
    inner_guard,  # after guard: it reads the conditions that guard has put around subqueries
    any_stop,  # after the guards: the stops watch the guarded conditions as they stand
    limit_stop,
    limit_union,
    limit_lateral,
    top_n_first,
    constants,  # last: it hides arguments in a CTE that the others could not read
)
# Applied to a finished plan by whoever runs it, when a run was slow: not a part of planning.
LATE: tuple[Rule, ...] = (materialise,)
# What a tree must hold for a rule to have anything to do: one walk finds it for all rules.
NEEDS: dict[Rule, tuple[type[exp.Expr], ...]] = {
    aliases: (exp.Alias,),
    map_up: (exp.Subquery, exp.CTE),
    pull_up: (exp.Join,),
    on_to_where: (exp.Join,),
    set_first: SETS,
    distinct_on_first: (exp.Distinct,),
    qualify_first: (exp.Qualify,),
    having_first: (exp.Having,),
    kept_side_first: (exp.Join,),
    quantified: (exp.In, exp.Any, exp.All),
    semi_first: (exp.In,),
    join_order: (exp.Join,),
    order: (exp.Where,),
    stage: (exp.Where,),
    inner_guard: (exp.Case,),
    any_stop: (exp.Exists,),
    limit_stop: (exp.Limit,),
    limit_union: (exp.Union,),
    limit_lateral: (exp.Lateral,),
    top_n_first: (exp.Limit,),
}


def apply(plan: CallPlan, context: PlanContext, *, since: Rule = RULES[0]) -> CallPlan:
    """The plan after all rules from one on."""
    return _apply(plan, context, RULES[RULES.index(since) :])


def _apply(plan: CallPlan, context: PlanContext, rules: tuple[Rule, ...]) -> CallPlan:
    held, known = kinds(plan.tree), plan
    for position, rule in enumerate(rules):
        if plan is not known:
            held, known = kinds(plan.tree), plan
        if context.settings.rule_is_on(rule.__name__) and (rule not in NEEDS or not held.isdisjoint(NEEDS[rule])):
            plan = rule(plan, context)
            if rule is distinct_first and plan.compact is not None:
                plan = attrs.evolve(plan, compact=_apply(plan.compact, context, rules[position + 1 :]))
    return plan


__all__ = ["LATE", "RULES", "apply", "guard", "join_order"]
