"""A plan as one plain DuckDB statement: calls become lookup functions, tagged with the statement's number."""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.callplan import CallPlan, Site
from kleene.planner.calls import Call, Ready, calls_in, carrier_type
from kleene.planner.dialect import CallSQL
from kleene.planner.specs import Volatility


def emit(plan: CallPlan, statement: str, *, suffix: str = "", pretty: bool = False, dry: bool = False) -> str:
    """The DuckDB text of a plan. ``statement`` is the statement's number in site names, ``suffix`` the engine's on this instance.

    ``dry``: for counting; a call on demand becomes NULL, so that nothing is sent.
    """
    root = exp.Tuple(expressions=[plan.tree.copy()])
    for node in list(calls_in(root)):
        node.replace(_function(node, plan.site(node.site), statement, suffix, dry=dry))
    return str(root.expressions[0].sql(CallSQL, pretty=pretty))


def _function(node: Call | Ready, site: Site, statement: str, suffix: str, *, dry: bool) -> exp.Expr:
    name = f"kleene_ready{suffix}"
    if isinstance(node, Call):
        verb = "get"
        if site.demand is not None:
            if dry:
                return exp.Cast(this=exp.Null(), to=exp.DataType.build(carrier_type(node), dialect=CallSQL))
            verb = "row" if site.volatility is Volatility.VOLATILE else "call"
        name = f"kleene_{verb}_{site.spec.answer.carrier.value}{suffix}"
    elif site.demand is not None:
        return exp.true()  # what is asked on demand is always ready
    tag = exp.Literal.string(f"{statement}:{site.number}")
    return exp.Anonymous(this=name, expressions=[tag, *node.expressions])
