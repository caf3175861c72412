"""What ``any_stop`` and ``limit_stop`` share: finding the call to ask in waves, and marking it and the condition it serves."""

from __future__ import annotations

import attrs
from sqlglot import exp

from kleene.planner.callplan import CallPlan, StopSpec, leaves
from kleene.planner.calls import (
    Call,
    Ready,
    Route,
    Seen,
    all_of,
    any_of,
    calls_in,
    carrier_kind,
    conjuncts,
    copied,
    has_call,
    is_not,
    nodes,
    unparen,
)
from kleene.planner.dialect import is_aggregate
from kleene.planner.guarded import NotReadable, readiness
from kleene.planner.routing import as_written, under
from kleene.planner.volatile import copyable


def levels(select: exp.Select) -> list[exp.Select] | None:
    """The block and the stages below it that hold calls, outermost first; None where calls stand anywhere but in their WHERE."""
    found = [select]
    while True:
        current = found[-1]
        if any(has_call(part) for part in _parts(current)):
            return None
        source = current.args.get("from_")
        if source is None or not has_call(source):
            return found
        inner = source.this
        if current.args.get("joins") or not isinstance(inner, exp.Subquery) or not isinstance(inner.this, exp.Select):
            return None
        if _more_than_a_filter(inner.this):
            return None
        found.append(inner.this)


def _parts(select: exp.Select) -> list[exp.Expr]:
    """The clauses in which a call would forbid a stop: all but FROM, WHERE and the select list."""
    keys = (
        "joins",
        "group",
        "having",
        "qualify",
        "windows",
        "order",
        "distinct",
        "limit",
        "offset",
        "with_",
        "laterals",
    )
    found: list[exp.Expr] = []
    for key in keys:
        value = select.args.get(key)
        found.extend(value if isinstance(value, list) else [value] if value is not None else [])
    return found


def _more_than_a_filter(select: exp.Select) -> bool:
    keys = ("group", "having", "qualify", "windows", "order", "distinct", "limit", "offset", "with_", "sample")
    return any(select.args.get(key) for key in keys) or any(has_call(e) for e in select.expressions)


def exists_body(select: exp.Select) -> exp.Exists | None:
    """The EXISTS whose body the block is, where a true row of it decides: filters and inner joins only."""
    parent = select.parent
    while isinstance(parent, exp.Subquery | exp.Paren):
        parent = parent.parent
    if not isinstance(parent, exp.Exists) or not plain(select):
        return None
    return None if any(select.args.get(key) for key in ("limit", "offset", "with_")) else parent


def plain(select: exp.Select) -> bool:
    """A block of filters and projections only: no grouping, window, DISTINCT, sample, or aggregate."""
    keys = ("group", "having", "qualify", "windows", "distinct", "sample", "laterals")
    if any(select.args.get(key) for key in keys):
        return False
    return not any(is_aggregate(n) or isinstance(n, exp.Window) for e in select.expressions for n in e.walk())


def mark(
    plan: CallPlan,
    blocks: list[exp.Select],
    group: exp.Expr,
    order: exp.Expr,
    spec: StopSpec,
    *,
    undecided_passes: bool = False,
) -> CallPlan | None:
    """Mark, in place, the first call of the lowest block as asked in waves, and the WHERE of the outermost as what is counted. The
    plan with the stop, None where no call can be asked in waves (all inside queries, or on demand).

    ``undecided_passes``: a row that is not decided yet passes uncounted, so that a NOT EXISTS around it is not true too early.
    """
    top, lowest = blocks[0], blocks[-1]
    first = next((c for c in _asked_first(lowest) if plan.site(c.site).demand is None and stop_around(c) is None), None)
    if first is None or top.args.get("where") is None:
        return None
    parts = conjuncts(top.args["where"].this)
    pure = [copied(p) for p in parts if not has_call(p)]
    calls = [copied(p) for p in parts if has_call(p)]
    if not calls:
        return None
    counted = counted_with(pure, calls)
    if counted is None:
        return None
    condition = all_of(counted)
    passes: exp.Expr = Seen(this=spec.number, expression=copied(condition), group=copied(group), order=copied(order))
    if undecided_passes:
        try:
            ready = readiness(all_of(calls))
        except NotReadable:
            return None
        if ready is not None:
            passes = exp.Paren(this=any_of([passes, is_not(ready, True)]))
    top.set("where", exp.Where(this=all_of([*pure, passes])))
    where = lowest.args["where"]
    routes = [n for n in nodes(where) if isinstance(n, Route) and not _in_query(n, where)]
    waved: list[Call | Ready | Route] = [r for r in routes if any(c.site == first.site for c in calls_in(r))]
    other = _partner(plan, first) if spec.rows is not None and not spec.ordered and not spec.distinct else None
    if other is not None and waved:
        # Which argument decides most pairs is known to the stop alone: a row that asks by itself would ask for all of its partners.
        plan = plan.unrouted({_number(r) for r in waved if isinstance(r, Route)})
        for route in routes:
            if any(route is one for one in waved):
                route.replace(as_written(route, None))
        waved = []
    if not waved:
        both = {first.site} if other is None else {first.site, other.site}
        waved = [c for c in list(calls_in(where)) if c.site in both and not _in_query(c, where)]
    for node in waved:
        under(node, spec.number, group if other is None else _side(node, first, other), order)
    numbers = {_number(node) for node in waved if isinstance(node, Route)}
    watched = tuple(attrs.evolve(r, stop=spec.number) if r.number in numbers else r for r in plan.routes)
    partner = None if other is None else other.site
    stop = attrs.evolve(spec, site=first.site, partner=partner)
    return attrs.evolve(plan, stops=(*plan.stops, stop), routes=watched)


def _number(route: Route) -> int:
    return int(route.args["this"])


def counted_with(pure: list[exp.Expr], calls: list[exp.Expr]) -> list[exp.Expr] | None:
    """The conjuncts that a counted row must pass: DuckDB may count before it looks at the pure conditions beside, so those that do not
    guard the calls already are asked again; None where one of them must not be."""
    beside = [p for p in pure if not all(_is_guarded(c, p) for c in calls)]
    return [*(copied(p) for p in beside), *calls] if all(copyable(p) for p in beside) else None


def _is_guarded(condition: exp.Expr, pure: exp.Expr) -> bool:
    condition = unparen(condition)
    if not isinstance(condition, exp.Case) or condition.this is not None or condition.args.get("default") is not None:
        return False
    return unparen(pure) in [unparen(p) for p in conjuncts(condition.args["ifs"][0].this)]


def _partner(plan: CallPlan, call: Call) -> Call | None:
    """The other call of a comparison ``g(a) = g(b)``, which is TRUE or FALSE only where both are answered."""
    parent = call.parent
    if not isinstance(parent, exp.EQ | exp.NEQ) or not isinstance(parent.this, Call):
        return None
    other = parent.expression if parent.this is call else parent.this
    if not isinstance(other, Call) or other.site == call.site or other.args.get("stop") is not None:
        return None
    one, two = plan.site(call.site), plan.site(other.site)
    alike = one.spec == two.spec and one.arity == two.arity == 1 and two.demand is None
    return other if alike and not any(has_call(a) for a in other.expressions) else None


def _side(call: Call | Ready | Route, first: Call, other: Call) -> exp.Expr:
    """The other side's argument, behind a mark for the side that this is."""
    mark, partner = ("1:", other) if not isinstance(call, Route) and call.site == first.site else ("2:", first)
    return exp.DPipe(this=exp.Literal.string(mark), expression=exp.Paren(this=copied(partner.expressions[0])))


def _asked_first(select: exp.Select) -> list[Call]:
    """The calls of a block's WHERE that need no other call's answer for their arguments, in the order of evaluation: of a route that of its
    formula."""
    where = select.args["where"]
    found: dict[int, Call | Ready] = {}
    for call in calls_in(where):
        route = call.find_ancestor(Route)
        operands = [call] if route is None else [route.expressions[unit] for unit in leaves(route.meta["formula"])]
        found.update((id(c), c) for operand in operands for c in calls_in(operand))
    return [
        c
        for c in found.values()
        if isinstance(c, Call) and not any(has_call(a) for a in c.expressions) and not _in_query(c, where)
    ]


def stop_around(call: Call | Ready) -> int | None:
    """The number of the stop that asks a call in waves, by itself or with its route; None where there is none."""
    route = call.find_ancestor(Route)
    stop = (call if route is None else route).args.get("stop")
    return None if stop is None else int(stop)


def _in_query(node: exp.Expr, root: exp.Expr) -> bool:
    parent = node.parent
    while parent is not None and parent is not root:
        if isinstance(parent, exp.Query):
            return True
        parent = parent.parent
    return False


def as_text(columns: list[exp.Expr]) -> exp.Expr:
    """Several values as one text that tells all their combinations apart; the empty text for none."""
    if not columns:
        return exp.Literal.string("")
    text = carrier_kind("VARCHAR")
    values = [exp.Cast(this=copied(c), to=copied(text)) for c in columns]
    return exp.Cast(this=exp.Array(expressions=values), to=text)
