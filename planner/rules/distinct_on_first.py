"""distinct_on_first: DISTINCT ON chooses its rows before the calls of the select list are made.

    SELECT DISTINCT ON (g) g, f(x) FROM q WHERE p ORDER BY k
      = SELECT g, f(x) FROM (SELECT DISTINCT ON (g) * FROM q WHERE p ORDER BY k) q ORDER BY k

Side conditions: one named source; no grouping, window or aggregate; no call in DISTINCT ON or ORDER BY; no position, ALL or alias there.
Saves the calls of all rows that are not the first of their group.
"""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext
from kleene.planner.calls import aggregates, all_in, copied, has_call, has_own
from kleene.planner.dialect import function_name
from kleene.planner.scopes import HIDDEN, Opaque, single_source
from kleene.planner.volatile import any_volatile


def distinct_on_first(plan: CallPlan, context: PlanContext) -> CallPlan:
    if not any(_applies(s) for s in all_in(plan.tree, exp.Select)):
        return plan
    tree = copied(plan.tree)
    for select in [s for s in all_in(tree, exp.Select) if _applies(s)]:
        _rewrite(select)
    return plan.changed(tree, "distinct_on_first")


def _applies(select: exp.Select) -> bool:
    distinct = select.args.get("distinct")
    if distinct is None or distinct.args.get("on") is None or not any(has_call(e) for e in select.expressions):
        return False
    try:
        name = single_source(select)
    except Opaque:
        return False
    if name is None or any(select.args.get(k) for k in ("group", "having", "qualify", "windows", "with_", "sample")):
        return False
    order = select.args.get("order")
    keys = [*distinct.args["on"].expressions, *(o.this for o in (order.expressions if order is not None else []))]
    aliases = {e.alias.lower() for e in select.expressions if isinstance(e, exp.Alias)}
    if aggregates(select) or any(has_own(e, exp.Window) or any_volatile(e) for e in select.expressions):
        return False
    if any(has_call(k) or isinstance(k, exp.Literal | exp.Var) or _names(k) & (aliases | {"all"}) for k in keys):
        return False
    if any(c.args.get("db") is not None or c.name.lower() in HIDDEN for c in all_in(select, exp.Column)):
        return False
    return not any(function_name(n) in ("unnest", "columns") for e in select.expressions for n in e.walk())


def _names(node: exp.Expr) -> set[str]:
    return {c.name.lower() for c in all_in(node, exp.Column) if not c.table}


def _rewrite(select: exp.Select) -> None:
    name = single_source(select)
    assert name is not None
    inner = exp.Select(expressions=[exp.Star()])
    order = select.args.get("order")
    for key in ("distinct", "from_", "where", "limit", "offset"):
        value = select.args.get(key)
        select.set(key, None)
        inner.set(key, value)
    if order is not None:
        inner.set("order", order.copy())
    alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    select.set("from_", exp.From(this=exp.Subquery(this=inner, alias=alias)))
