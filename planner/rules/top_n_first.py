"""top_n_first: the rows of a LIMIT are chosen before the calls of the select list are made.

    SELECT f(x) FROM q ORDER BY k LIMIT n  =  SELECT f(x) FROM (SELECT * FROM q ORDER BY k LIMIT n) ORDER BY k

DuckDB evaluates a select list for a whole vector (up to 2,048 rows) before a LIMIT cuts it, and below a sort for all rows. Side conditions:
no grouping, DISTINCT, window or aggregate; ORDER BY without calls; one named source (or a stage) whose columns the select list reads.
Saves the calls of all rows that the LIMIT cuts.
"""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext
from kleene.planner.calls import all_in, copied, has_call, holds
from kleene.planner.dialect import function_name
from kleene.planner.scopes import HIDDEN, Opaque, behind_alias, single_source
from kleene.planner.stopping import plain


def top_n_first(plan: CallPlan, context: PlanContext) -> CallPlan:
    if not holds(plan.tree, exp.Limit):
        return plan
    tree = copied(plan.tree)
    changed = False
    for select in all_in(tree, exp.Select):
        if select.args.get("limit") is None or has_call(select.args.get("where")) or not plain(select):
            continue
        if any(has_call(e) for e in select.expressions):
            changed |= limit_below_calls(select) is not None
    return plan.changed(tree, "top_n_first") if changed else plan


def limit_below_calls(select: exp.Select) -> exp.Select | None:
    """Move FROM, WHERE, ORDER BY and LIMIT of a block into a subquery under the source's name, in place; the new inner block, None
    (and nothing changed) where that cannot be done."""
    try:
        name = single_source(select)
    except Opaque:
        return None
    if (
        name is None
        or select.args.get("joins")
        or has_call(select.args.get("order"))
        or has_call(select.args.get("limit"))
    ):
        return None
    aliases = {e.alias.lower(): e.this for e in select.expressions if isinstance(e, exp.Alias)}
    for column in all_in(select, exp.Column):
        if column.args.get("db") is not None or column.name.lower() in HIDDEN:
            return None
    if any(function_name(n) in ("unnest", "columns") for e in select.expressions for n in e.walk()):
        return None
    order = select.args.get("order")
    inner_order = None
    if order is not None:
        inner_order = order.copy()
        for ordered in inner_order.expressions:
            key = ordered.this if isinstance(ordered, exp.Ordered) else ordered
            if isinstance(key, exp.Literal) or key.name.lower() == "all":
                return None
            if isinstance(key, exp.Column) and not key.table and key.name.lower() in aliases:
                value = aliases[key.name.lower()]
                if has_call(value):
                    return None
                key.replace(value.copy())
            elif behind_alias(key, aliases):
                return None
    item = select.args["from_"].this
    inner = exp.Select(expressions=[exp.Star()])
    inner.set("from_", exp.From(this=item.copy()))
    if select.args.get("where") is not None:
        inner.set("where", select.args["where"].copy())
    inner.set("order", inner_order)
    inner.set("limit", select.args["limit"].copy())
    if select.args.get("offset") is not None:
        inner.set("offset", select.args["offset"].copy())
    alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    select.set("from_", exp.From(this=exp.Subquery(this=inner, alias=alias)))
    for key in ("where", "limit", "offset"):
        select.set(key, None)
    return inner
