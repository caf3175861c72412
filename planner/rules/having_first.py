"""having_first: the calls of HAVING are asked over groups, one row each, or before there are groups.

    SELECT s FROM q GROUP BY k HAVING p AND f(a)  =  SELECT s FROM (SELECT k, a FROM q GROUP BY k HAVING p) WHERE f(a)
    SELECT s FROM q GROUP BY k HAVING f(k) AND p  =  SELECT s FROM q WHERE f(k) GROUP BY k HAVING p

The first where no group or aggregate holds a call: what is said of WHERE (its order, its LIMIT) then holds for HAVING. The second where one
does: these calls are asked only for the groups that pass. DuckDB moves such a condition by itself, but not out of a guard.

Side conditions: of the first those of ``planner.grouping``; of the second a GROUP BY of plain expressions without calls, a condition that
reads only these, no query or volatile part in it, and no condition without calls in HAVING, which may drop the group for nothing. Saves the
calls of HAVING behind a LIMIT or behind a better condition, and those of the aggregates of groups that the condition drops.
"""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext
from kleene.planner.calls import all_in, all_of, conjuncts, copied, has_call, has_query, holds, released
from kleene.planner.grouping import keys_of, over_groups
from kleene.planner.scopes import Opaque, single_source
from kleene.planner.volatile import any_volatile


def having_first(plan: CallPlan, context: PlanContext) -> CallPlan:
    if not any(has_call(having) for having in all_in(plan.tree, exp.Having)):
        return plan
    root = exp.Tuple(expressions=[copied(plan.tree)])
    changed = False
    for select in all_in(root, exp.Select):
        having = select.args.get("having")
        if not has_call(having) or any(any_volatile(e) for e in (*select.expressions, having)):
            continue
        try:
            over_groups(select, context)
            changed = True
        except Opaque:
            changed |= _into_where(select)
    tree = released(root)
    return plan.changed(tree, "having_first") if changed else plan


def _into_where(select: exp.Select) -> bool:
    parts = conjuncts(select.args["having"].this)
    try:
        keys, single = keys_of(select), single_source(select) is not None
    except Opaque:
        return False
    if not keys or not all(map(has_call, parts)):
        return False
    moved = [p for p in parts if not has_query(p) and _reads_only(p, keys, single=single)]
    if not moved:
        return False
    where = select.args.get("where")
    around = conjuncts(where.this) if where is not None else []
    select.set("where", exp.Where(this=all_of([copied(p) for p in (*around, *moved)])))
    left = [copied(p) for p in parts if not any(p is m for m in moved)]
    select.set("having", exp.Having(this=all_of(left)) if left else None)
    return True


def _reads_only(condition: exp.Expr, keys: list[exp.Expr], *, single: bool) -> bool:
    """Nothing but the keys decides it; over a ``single`` source a column is the same with its table and without."""
    rest = exp.Tuple(expressions=[copied(condition)])
    known = [copied(key) for key in keys]
    if single:
        for column in (c for node in (rest, *known) for c in all_in(node, exp.Column)):
            column.set("table", None)
    for node in [n for n in rest.walk() if n in known]:
        node.replace(exp.null())
    return not holds(rest, exp.Column, exp.AggFunc, exp.Window, exp.Star)


__all__ = ["having_first"]
