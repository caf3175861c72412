"""What ``any_stop`` and ``limit_stop`` share: finding the call to ask in waves, and marking it and the condition it serves."""

from __future__ import annotations

import attrs
from sqlglot import exp

from kleene.planner.callplan import CallPlan, StopSpec
from kleene.planner.calls import (
    Call,
    Ready,
    Seen,
    all_of,
    any_of,
    calls_in,
    conjuncts,
    copied,
    has_call,
    is_not,
    unparen,
)
from kleene.planner.dialect import CallSQL, is_aggregate
from kleene.planner.guarded import NotReadable, readiness
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
    first = next(
        (c for c in _asked_first(lowest) if plan.site(c.site).demand is None and c.args.get("stop") is None), None
    )
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
    other = _partner(plan, first) if spec.rows is not None and not spec.ordered and not spec.distinct else None
    for call in list(calls_in(where)):
        if call.site in (first.site, other.site if other is not None else None) and not _in_query(call, where):
            call.set("stop", spec.number)
            call.set("group", copied(group) if other is None else _side(call, first, other))
            call.set("order", copied(order))
    partner = None if other is None else other.site
    return attrs.evolve(plan, stops=(*plan.stops, attrs.evolve(spec, site=first.site, partner=partner)))


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


def _side(call: Call | Ready, first: Call, other: Call) -> exp.Expr:
    """The other side's argument, behind a mark for the side that this is."""
    mark, partner = ("1:", other) if call.site == first.site else ("2:", first)
    return exp.DPipe(this=exp.Literal.string(mark), expression=exp.Paren(this=copied(partner.expressions[0])))


def _asked_first(select: exp.Select) -> list[Call]:
    """The calls of a block's WHERE that need no other call's answer for their arguments, in the order of evaluation."""
    where = select.args["where"]
    return [
        c
        for c in calls_in(where)
        if isinstance(c, Call) and not any(has_call(a) for a in c.expressions) and not _in_query(c, where)
    ]


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
    text = exp.DataType.build("VARCHAR", dialect=CallSQL)
    values = [exp.Cast(this=copied(c), to=copied(text)) for c in columns]
    return exp.Cast(this=exp.Array(expressions=values), to=text)
