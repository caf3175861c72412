"""Ask before a statement that may be dear; where nobody can be asked, refuse it."""

from __future__ import annotations

from kleene.cli.invocation import EngineLike, Invocation, PlanLike
from kleene.planner.errors import Refused


def confirm(engine: EngineLike, text: str, inv: Invocation) -> None:
    """Raise ``Refused`` if the statement's estimate is above the threshold and nobody agrees to it.

    With ``--yes`` or a budget nothing is asked and nothing is estimated: the budget itself refuses before it is spent.
    """
    if inv.args.yes or inv.budget is not None:
        return
    plan = engine.explain(text)
    dollars, threshold = plan.estimate.dollars, threshold_of(engine)
    if dollars <= threshold:
        return
    cost = cost_of(plan)
    if not inv.terminal.can_ask:
        raise Refused(
            f"this statement may cost {cost}; above ${threshold:.2f} it needs a budget or --yes",
            plan=plan,
            dimension="dollars",
            needed=dollars,
            remaining=threshold,
            hint=f"add --budget-dollars {ceiling(dollars):.2f}, or --yes; python -m kleene explain shows where it goes",
        )
    if not inv.terminal.ask(f"This statement may cost {cost}. Run it?"):
        raise Refused("not run", plan=plan, dimension="dollars", needed=dollars, remaining=threshold)


def threshold_of(engine: EngineLike) -> float:
    """The session's ``confirm.dollars``, which a statement may have set."""
    return float(engine.state.settings.confirm_dollars)


def cost_of(plan: PlanLike) -> str:
    calls = plan.estimate.calls
    return f"${plan.estimate.dollars:.2f} ({calls:,} call{'' if calls == 1 else 's'})"


def ceiling(dollars: float) -> float:
    """A budget that leaves room: twice the estimate, in whole cents.

    >>> ceiling(0.123)
    0.25
    """
    return -(-dollars * 200 // 1) / 100
