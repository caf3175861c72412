"""qualify_first: the pure part of QUALIFY runs before the calls of QUALIFY and of the select list.

    SELECT s, h(y) FROM q QUALIFY p AND f(x) = SELECT s, h(b) FROM (SELECT s, x AS a, y AS b FROM q QUALIFY p) WHERE f(a)

A window cannot be copied into a guard, and DuckDB evaluates all of QUALIFY, and what the select list computes, for every row. Side
conditions: no call in a window, an aggregate or a group, and none in a query; where calls stand in the select list, each item has a name; no
DISTINCT; output names are unique; nothing is volatile. ORDER BY and LIMIT stay above. Saves the calls of all rows that p drops.
"""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext
from kleene.planner.calls import all_in, all_of, conjuncts, copied, has_call, holds, released
from kleene.planner.dialect import spreads
from kleene.planner.scopes import bound
from kleene.planner.volatile import any_volatile

NAME = "kleene_qualified"


def qualify_first(plan: CallPlan, context: PlanContext) -> CallPlan:
    blocks = [s for s in all_in(plan.tree, exp.Select) if s.args.get("qualify")]
    if not any(has_call(s.args["qualify"]) or any(map(has_call, s.expressions)) for s in blocks):
        return plan
    root = exp.Tuple(expressions=[copied(plan.tree)])
    changed = False
    for select in reversed(all_in(root, exp.Select)):
        if select.args.get("qualify"):
            changed |= _rewrite(select, context)
    tree = released(root)
    return plan.changed(tree, "qualify_first") if changed else plan


def _rewrite(select: exp.Select, context: PlanContext) -> bool:
    parts = conjuncts(select.args["qualify"].this)
    pure = [p for p in parts if not has_call(p)]
    order = select.args.get("order")
    keys = [] if order is None else order.expressions
    above = [*(p for p in parts if has_call(p)), *filter(has_call, select.expressions)]
    if not pure or not above or any(select.args.get(k) for k in ("distinct", "with_")):
        return False
    if has_call(select.args.get("group")) or (select.args.get("group") and select.args["group"].args.get("all")):
        return False
    if any(holds(e, exp.Query, exp.Lambda, exp.Comprehension) or spreads(e) for e in (*above, *keys)):
        return False
    if any(map(_collects, above)):
        return False
    if any(any_volatile(e) for e in (*parts, *select.expressions)):
        return False
    columns = bound(select, context.relations)
    names = set() if columns is None else {name.lower() for name, _ in columns}
    if columns is None or len(names) != len(columns):
        return False
    carried: dict[str, exp.Expr] = {}
    conditions = [_lifted(p, carried) for p in parts if has_call(p)]
    items = _items(select, carried)
    if items is None:
        return False
    for key in keys:
        if not (isinstance(key.this, exp.Column) and not key.this.table and key.this.name.lower() in names):
            key.set("this", _lifted(key.this, carried))
    outer = exp.Select()
    for clause in ("order", "limit", "offset"):
        outer.set(clause, select.args.get(clause))
        select.set(clause, None)
    inner = select.copy()
    inner.set("qualify", exp.Qualify(this=all_of([p.copy() for p in pure])))
    kept = [e.copy() for e in select.expressions if not has_call(e)]
    inner.set("expressions", [*kept, *(exp.alias_(value, name) for name, value in carried.items())])
    if items:
        outer.set("expressions", items)
    else:
        hidden = [exp.to_identifier(name) for name in carried]
        outer.set("expressions", [exp.Star(except_=hidden) if hidden else exp.Star()])
    alias = exp.TableAlias(this=exp.to_identifier(NAME))
    outer.set("from_", exp.From(this=exp.Subquery(this=inner, alias=alias)))
    if conditions:
        outer.set("where", exp.Where(this=all_of(conditions)))
    select.replace(outer)
    return True


def _collects(node: exp.Expr) -> bool:
    """A call stands in an aggregate or a window, which has to see it for all rows."""
    return any(has_call(inner) for inner in all_in(node, exp.AggFunc, exp.Window))


def _items(select: exp.Select, carried: dict[str, exp.Expr]) -> list[exp.Expr] | None:
    """The select list over the block below; empty where no item holds a call, None where an item has no name."""
    if not any(map(has_call, select.expressions)):
        return []
    if not all(isinstance(e, exp.Alias | exp.Column) and e.alias_or_name not in ("", "*") for e in select.expressions):
        return None
    found: list[exp.Expr] = []
    for item in select.expressions:
        name = item.alias_or_name
        value = (
            _lifted(item.this, carried) if has_call(item) else exp.column(exp.to_identifier(name, quoted=True), NAME)
        )
        found.append(exp.alias_(value, name, quoted=True))
    return found


def _lifted(node: exp.Expr, carried: dict[str, exp.Expr]) -> exp.Expr:
    """The condition with each largest pure part that reads a row replaced by a column that carries it."""
    if not has_call(node):
        if not holds(node, exp.Column, exp.AggFunc, exp.Window):
            return node.copy()
        name = next((n for n, value in carried.items() if value == node), f"kleene_q{len(carried) + 1}")
        carried.setdefault(name, node.copy())
        return exp.column(name, table=NAME)
    root = exp.Tuple(expressions=[node.copy()])
    for child in list(root.expressions[0].iter_expressions()):
        if not isinstance(child, exp.DataType | exp.Identifier):
            child.replace(_lifted(child, carried))
    return released(root)
