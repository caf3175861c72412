"""kept_side_first: a condition over the side that an outer join keeps is asked before the calls of its ON.

    SELECT s FROM q LEFT JOIN r ON f(q.x, r.y) WHERE g(q.z) = SELECT s FROM (SELECT * FROM q WHERE g(q.z)) AS q LEFT JOIN r ON f(q.x, r.y)

The join keeps every row of q, so g is asked for all of them in any case. Side conditions: an ON of the block holds a call; all joins are LEFT
JOINs, or the only one is a RIGHT JOIN; the condition holds a call, reads only columns of the kept side, by its name, and has no query or
volatile part; the conditions of WHERE without calls read only that side too (another could drop rows that g need not see). Saves the calls of
ON for the rows that g drops.
"""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext
from kleene.planner.calls import all_in, all_of, conjuncts, copied, has_call, holds
from kleene.planner.rules.order import movable
from kleene.planner.scopes import HIDDEN, Opaque, items_of


def kept_side_first(plan: CallPlan, context: PlanContext) -> CallPlan:
    tree = copied(plan.tree)
    changed = False
    for select in all_in(tree, exp.Select):
        if has_call(select.args.get("where")) and any(
            has_call(j.args.get("on")) for j in select.args.get("joins") or []
        ):
            changed |= _rewrite(select, plan)
    return plan.changed(tree, "kept_side_first") if changed else plan


def _rewrite(select: exp.Select, plan: CallPlan) -> bool:
    kept = _kept_side(select)
    hidden = any(c.args.get("db") or c.name.lower() in HIDDEN for c in all_in(select, exp.Column))
    if kept is None or hidden:
        return False
    parts = conjuncts(select.args["where"].this)
    own = [p for p in parts if _reads_only(p, kept.alias_or_name.lower())]
    moved = [p for p in own if not has_call(p) or movable(p, plan)]
    if not any(map(has_call, moved)) or not all(has_call(p) or p in moved for p in parts):
        return False
    rows = exp.Select(expressions=[exp.Star()])
    rows.set("from_", exp.From(this=copied(kept)))
    rows.set("where", exp.Where(this=all_of([copied(p) for p in moved])))
    alias = exp.TableAlias(this=exp.to_identifier(kept.alias_or_name, quoted=True))
    kept.replace(exp.Subquery(this=rows, alias=alias))
    left = [copied(p) for p in parts if p not in moved]
    select.set("where", exp.Where(this=all_of(left)) if left else None)
    return True


def _kept_side(select: exp.Select) -> exp.Expr | None:
    """The item of FROM whose rows all joins keep, None where there is none."""
    joins = select.args["joins"]
    try:
        items = items_of(select)
    except Opaque:
        return None
    names = [item.alias_or_name.lower() for item in items]
    plain = all(not j.method and j.kind in ("", "OUTER") and not j.args.get("using") for j in joins)
    if not plain or select.args.get("laterals") or not all(names) or len(set(names)) < len(names):
        return None
    if all(j.side == "LEFT" for j in joins):
        kept = items[0]
    elif len(joins) == 1 and joins[0].side == "RIGHT":
        kept = items[1]
    else:
        return None
    lateral = any(isinstance(item, exp.Lateral | exp.Unnest) for item in items)
    return None if lateral or not isinstance(kept, exp.Table | exp.Subquery) or kept.args.get("joins") else kept


def _reads_only(condition: exp.Expr, name: str) -> bool:
    columns = all_in(condition, exp.Column)
    return bool(columns) and all(c.table.lower() == name for c in columns) and not holds(condition, exp.Query)


__all__ = ["kept_side_first"]
