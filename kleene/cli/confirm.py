"""Ask before a statement that may be dear; where nobody can be asked, refuse it."""

from __future__ import annotations

from kleene.cli.invocation import EngineLike, Invocation, PlanLike
from kleene.planner.errors import Refused

THRESHOLD_DOLLARS = 0.10


def confirm(engine: EngineLike, text: str, inv: Invocation) -> None:
    """Raise ``Refused`` if the statement's estimate is above the threshold and nobody agrees to it.

    With ``--yes`` or a budget nothing is asked and nothing is estimated: the budget itself refuses before it is spent.
    """
    if inv.args.yes or inv.budget is not None:
        return
    plan = engine.explain(text)
    dollars = getattr(plan.estimate, "dollars", None)
    if dollars is None or dollars <= THRESHOLD_DOLLARS:
        return
    cost = cost_of(plan)
    if not inv.terminal.can_ask:
        raise Refused(
            f"this statement may cost {cost}; above ${THRESHOLD_DOLLARS:.2f} it needs a budget or --yes",
            plan=plan,
            dimension="dollars",
            needed=dollars,
            remaining=THRESHOLD_DOLLARS,
            hint=f"add --budget-dollars {ceiling(dollars):.2f}, or --yes; python -m kleene explain shows where it goes",
        )
    if not inv.terminal.ask(f"This statement may cost {cost}. Run it?"):
        raise Refused("not run", plan=plan, dimension="dollars", needed=dollars, remaining=THRESHOLD_DOLLARS)


def cost_of(plan: PlanLike) -> str:
    calls = getattr(plan.estimate, "calls", None)
    return f"${plan.estimate.dollars:.2f}" + (f" ({calls:,.0f} call{'' if calls == 1 else 's'})" if calls else "")


def ceiling(dollars: float) -> float:
    """A budget that leaves room: twice the estimate, in whole cents.

    >>> ceiling(0.123)
    0.25
    """
    return -(-dollars * 200 // 1) / 100
