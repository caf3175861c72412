"""The rewrites of a plan, in order. Each is one file with its law in the docstring and a switch of its name (``SET rules.NAME = off``)."""

from __future__ import annotations

from kleene.planner.callplan import CallPlan, PlanContext, Rule
from kleene.planner.rules.constants import constants
from kleene.planner.rules.freeze import freeze
from kleene.planner.rules.guard import guard
from kleene.planner.rules.stage import stage

RULES: tuple[Rule, ...] = (
    freeze,  # first: a clock that became a literal no longer stops the others
    stage,  # before guard: what a stage separates needs no guard, and stages copy nothing
    guard,
    constants,  # last: it hides arguments in a CTE that the others could not read
)


def apply(plan: CallPlan, context: PlanContext) -> CallPlan:
    for rule in RULES:
        if context.settings.rule_is_on(rule.__name__):
            plan = rule(plan, context)
    return plan


__all__ = ["RULES", "apply", "constants", "freeze", "guard", "stage"]
