"""qualify_first: the pure part of QUALIFY runs before its calls.

    SELECT s FROM q QUALIFY p AND f(x) = SELECT s FROM (SELECT s, x AS a FROM q QUALIFY p) WHERE f(a)

A window cannot be copied into a guard, and DuckDB evaluates all of QUALIFY for every row. Side conditions: no call in the select list (it
would be made for rows that f drops) and none in a query; no DISTINCT, ORDER BY or LIMIT; output names are unique; nothing is volatile.
Saves the calls of all rows that p drops.
"""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext
from kleene.planner.calls import all_in, all_of, conjuncts, copied, has_call, has_query, holds, released
from kleene.planner.scopes import bound
from kleene.planner.volatile import any_volatile

CLAUSES = ("distinct", "order", "limit", "offset", "with_")


def qualify_first(plan: CallPlan, context: PlanContext) -> CallPlan:
    if not any(has_call(q) for q in all_in(plan.tree, exp.Qualify)):
        return plan
    root = exp.Tuple(expressions=[copied(plan.tree)])
    changed = False
    for select in reversed(all_in(root, exp.Select)):
        if has_call(select.args.get("qualify")):
            changed |= _rewrite(select, context)
    tree = released(root)
    return plan.changed(tree, "qualify_first") if changed else plan


def _rewrite(select: exp.Select, context: PlanContext) -> bool:
    parts = conjuncts(select.args["qualify"].this)
    pure = [p for p in parts if not has_call(p)]
    calls = [p for p in parts if has_call(p)]
    if not pure or any(select.args.get(k) for k in CLAUSES) or any(has_call(e) for e in select.expressions):
        return False
    if any(has_query(c) for c in calls) or any(any_volatile(e) for e in (*parts, *select.expressions)):
        return False
    columns = bound(select, context.relations)
    if columns is None or len({name.lower() for name, _ in columns}) != len(columns):
        return False
    carried: dict[str, exp.Expr] = {}
    above = [_lifted(c, carried) for c in calls]
    inner = select.copy()
    inner.set("qualify", exp.Qualify(this=all_of([p.copy() for p in pure])))
    inner.set("expressions", [*inner.expressions, *(exp.alias_(value, name) for name, value in carried.items())])
    outer = exp.Select(
        expressions=[exp.Star(except_=[exp.to_identifier(name) for name in carried]) if carried else exp.Star()]
    )
    alias = exp.TableAlias(this=exp.to_identifier("kleene_qualified"))
    outer.set("from_", exp.From(this=exp.Subquery(this=inner, alias=alias)))
    outer.set("where", exp.Where(this=all_of(above)))
    select.replace(outer)
    return True


def _lifted(node: exp.Expr, carried: dict[str, exp.Expr]) -> exp.Expr:
    """The condition with each largest pure part that reads a row replaced by a column that carries it."""
    if not has_call(node):
        if not holds(node, exp.Column, exp.AggFunc, exp.Window):
            return node.copy()
        name = next((n for n, value in carried.items() if value == node), f"kleene_q{len(carried) + 1}")
        carried.setdefault(name, node.copy())
        return exp.column(name, table="kleene_qualified")
    root = exp.Tuple(expressions=[node.copy()])
    for child in list(root.expressions[0].iter_expressions()):
        if not isinstance(child, exp.DataType | exp.Identifier):
            child.replace(_lifted(child, carried))
    return released(root)
