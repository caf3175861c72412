"""The rewrites of a plan, in order. Each is one file with its law in the docstring and a switch of its name (``SET rules.NAME = off``)."""

from __future__ import annotations

from kleene.planner.callplan import CallPlan, PlanContext, Rule
from kleene.planner.rules.any_stop import any_stop
from kleene.planner.rules.constants import constants
from kleene.planner.rules.distinct_on_first import distinct_on_first
from kleene.planner.rules.freeze import freeze
from kleene.planner.rules.guard import guard
from kleene.planner.rules.inner_guard import inner_guard
from kleene.planner.rules.limit_stop import limit_stop
from kleene.planner.rules.pick_first import pick_first
from kleene.planner.rules.pull_up import pull_up
from kleene.planner.rules.qualify_first import qualify_first
from kleene.planner.rules.semi_first import semi_first
from kleene.planner.rules.set_first import set_first
from kleene.planner.rules.stage import stage
from kleene.planner.rules.top_n_first import top_n_first

RULES: tuple[Rule, ...] = (
    freeze,  # first: a clock that became a literal no longer stops the others
    pull_up,  # the rules that move pure work below calls: before stage, which separates what they brought together
    set_first,
    distinct_on_first,
    pick_first,
    qualify_first,
    semi_first,
    stage,  # before guard: what a stage separates needs no guard, and stages copy nothing
    guard,
    inner_guard,  # after guard: it reads the conditions that guard has put around subqueries
    any_stop,  # after the guards: the stops watch the guarded conditions as they stand
    limit_stop,
    top_n_first,
    constants,  # last: it hides arguments in a CTE that the others could not read
)


def apply(plan: CallPlan, context: PlanContext) -> CallPlan:
    for rule in RULES:
        if context.settings.rule_is_on(rule.__name__):
            plan = rule(plan, context)
    return plan


__all__ = ["RULES", "apply"]
