"""limit_lateral: a LIMIT over rows that calls make asks for no more calls than it needs rows.

    SELECT s FROM t, LATERAL f(x) AS e WHERE p LIMIT n  =  SELECT s FROM t, LATERAL f(x) AS e WHERE p AND seen(p) LIMIT n

``seen`` counts the rows that come out; the first wave is one call, the next ones as many as the calls so far let expect. Side conditions: the
LATERAL is the last item of FROM, an inner one, a list unnested that is NULL until its call is answered, and holds the only calls of the block;
one call in it, with arguments from the rows before it; p is copyable; no ORDER BY, no DISTINCT; the block runs once. Saves the calls of all rows beyond the n-th: 2 in place of 100 for LIMIT 8
over four items each.
"""

from __future__ import annotations

import attrs
from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext, StopSpec
from kleene.planner.calls import (
    Ready,
    Seen,
    all_in,
    all_of,
    calls_in,
    carrier_kind,
    conjuncts,
    copied,
    has_call,
    holds,
    released,
)
from kleene.planner.dialect import function_name
from kleene.planner.rules.limit_stop import outer_joined, runs_once, wanted
from kleene.planner.stopping import plain
from kleene.planner.strict import strict
from kleene.planner.volatile import copyable


def limit_lateral(plan: CallPlan, context: PlanContext) -> CallPlan:
    if not holds(plan.tree, exp.Limit) or not holds(plan.tree, exp.Lateral):
        return plan
    root = exp.Tuple(expressions=[copied(plan.tree)])
    marked = plan
    for select in all_in(root, exp.Select):
        rows = wanted(select)
        if rows is not None and runs_once(select):
            marked = _stopped(marked, select, rows)
    tree = released(root)
    return plan if marked is plan else marked.changed(tree, "limit_lateral")


def _stopped(plan: CallPlan, select: exp.Select, rows: int) -> CallPlan:
    lateral = _last_lateral(select)
    if lateral is None or not plain(select) or select.args.get("order") or outer_joined(select):
        return plan
    calls = list(calls_in(lateral))
    sites = {c.site for c in calls}
    if len(sites) != 1 or len(list(calls_in(select))) != len(calls):
        return plan
    site = plan.site(calls[0].site)
    arguments = calls[0].expressions
    outside = [c for a in arguments for c in all_in(a, exp.Column)]
    made = _made(lateral)
    if site.demand is not None or made is None or any(has_call(a) for a in arguments):
        return plan
    if not outside or any(not c.table and c.name.lower() == made.name.lower() for c in outside):
        return plan
    where = select.args.get("where")
    kept = [] if where is None else conjuncts(where.this)
    if not all(copyable(p) for p in kept):
        return plan
    # What is counted must be known where the rows come out only: it reads both sides of the join.
    both = exp.Anonymous(this="hash", expressions=[*(c.copy() for c in outside), made])
    place = exp.Cast(this=both, to=carrier_kind("VARCHAR"))
    none = exp.Literal.string("")
    spec = StopSpec(len(plan.stops) + 1, site.number, rows=rows, fan=True)
    condition = all_of([p.copy() for p in kept]) if kept else exp.true()
    seen = Seen(this=spec.number, expression=condition, group=none, order=place)
    select.set("where", exp.Where(this=all_of([*(p.copy() for p in kept), seen])))
    for call in calls:
        call.set("stop", spec.number)
        call.set("group", none.copy())
        call.set("order", none.copy())
    return attrs.evolve(plan, stops=(*plan.stops, spec))


def _last_lateral(select: exp.Select) -> exp.Lateral | None:
    joins = select.args.get("joins") or []
    last = joins[-1] if joins else None
    if last is None or last.side or last.args.get("on") is not None or last.args.get("using"):
        return None
    item = last.this
    return item if isinstance(item, exp.Lateral) and item.alias and has_call(item) else None


def _made(lateral: exp.Lateral) -> exp.Column | None:
    """The column of the rows that a LATERAL makes, where it makes none until its call is answered."""
    query = lateral.this.this if isinstance(lateral.this, exp.Subquery) else None
    named = lateral.args["alias"].args.get("columns")
    if not isinstance(query, exp.Select) or named or any(v for k, v in query.args.items() if k != "expressions"):
        return None
    item = query.expressions[0]
    if len(query.expressions) != 1 or not isinstance(item, exp.Alias) or function_name(item.this) != "unnest":
        return None
    rows = item.this.expressions[0]
    waits = (
        isinstance(rows, exp.Case) and rows.args.get("default") is None and isinstance(rows.args["ifs"][0].this, Ready)
    )
    if not waits and not strict(rows):
        return None
    return exp.column(item.args["alias"].copy(), table=lateral.args["alias"].this.copy())
