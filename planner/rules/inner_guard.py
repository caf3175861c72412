"""inner_guard: what guards a subquery from outside also guards the calls inside it.

    CASE WHEN p THEN (SELECT .. FROM q WHERE c) END
      = CASE WHEN p THEN (SELECT .. FROM q WHERE p AND CASE WHEN p THEN c END) END        c holds calls

DuckDB unnests a subquery and runs it for every outer row, whatever CASE stands around it. The subquery's value is used only where p is TRUE,
so p may be one of its conditions; the same for ELSE, where the conditions above it are not TRUE. Side conditions: p is pure, stable, without
queries, aggregates and windows, and all its columns belong to the block around (they are qualified, and left alone where the subquery has a
source of that name); the CASE stands in WHERE or in the select list of a block that does not aggregate. Saves the calls of all outer rows
for which p does not hold: ``cheap OR EXISTS (.. f ..)`` asks for the rows that are not cheap.
"""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext
from kleene.planner.calls import (
    aggregates,
    all_in,
    all_of,
    case_when,
    conjuncts,
    copied,
    has_call,
    holds,
    is_not,
    paren,
    released,
)
from kleene.planner.scopes import Block, Opaque, describe_block
from kleene.planner.volatile import copyable


def inner_guard(plan: CallPlan, context: PlanContext) -> CallPlan:
    if not any(_guarded_queries(case) for case in all_in(plan.tree, exp.Case)):
        return plan
    tree = copied(plan.tree)
    changed = False
    blocks: dict[int, Block | None] = {}
    # Inner cases first: an outer condition then travels into all that they hold.
    for case in reversed(all_in(tree, exp.Case)):
        block = _place(case)
        if block is None or not _guarded_queries(case):
            continue
        if id(block) not in blocks:
            blocks[id(block)] = _described(block, context)
        names = blocks[id(block)]
        if names is not None:
            changed |= _case(case, names)
    return plan.changed(tree, "inner_guard") if changed else plan


def _guarded_queries(case: exp.Case) -> bool:
    values = [*(b.args["true"] for b in case.args["ifs"]), case.args.get("default")]
    return any(v is not None and any(has_call(q) for q in all_in(v, exp.Query)) for v in values)


def _place(case: exp.Case) -> exp.Select | None:
    """The block whose WHERE or select list holds the CASE, None for all other places."""
    node: exp.Expr = case
    while node.parent is not None and not isinstance(node.parent, exp.Select):
        if isinstance(node.parent, exp.AggFunc | exp.Window | exp.Lambda | exp.Join):
            return None
        node = node.parent
    block = node.parent
    if not isinstance(block, exp.Select) or node.arg_key not in ("where", "expressions"):
        return None
    return None if node.arg_key == "expressions" and aggregates(block) else block


def _described(block: exp.Select, context: PlanContext) -> Block | None:
    try:
        return describe_block(block, context.relations)
    except Opaque:
        return None


def _case(case: exp.Case, block: Block) -> bool:
    if case.this is not None:
        return False
    changed = False
    above: list[exp.Expr] = []
    for branch in case.args["ifs"]:
        own = _condition(branch.this, block)
        changed |= _into(branch.args["true"], [*above, *([own] if own is not None else [])])
        if own is not None:
            above.append(is_not(copied(own), True))
    default = case.args.get("default")
    if default is not None:
        changed |= _into(default, above)
    return changed


def _condition(node: exp.Expr, block: Block) -> exp.Expr | None:
    """The condition with its columns qualified, None where it must not be copied into another block."""
    if has_call(node) or not copyable(node) or holds(node, exp.AggFunc, exp.Star):
        return None
    root = exp.Tuple(expressions=[copied(node)])
    for column in all_in(root, exp.Column):
        if column.args.get("db") is not None:
            return None
        if column.table:
            if block.source(column.table) is None:
                return None
            continue
        owners = block.owners(column.name)
        if len(owners) != 1:
            return None
        column.set("table", exp.to_identifier(owners[0].name, quoted=True))
    if not holds(root, exp.Column):
        return None
    return released(root)


def _into(value: exp.Expr, conditions: list[exp.Expr]) -> bool:
    if not conditions:
        return False
    changed = False
    for query in _outermost_queries(value):
        if has_call(query):
            for select in _selects(query):
                changed |= _narrow(select, conditions)
    return changed


def _outermost_queries(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Query):
        return [node]
    return [q for child in node.iter_expressions() for q in _outermost_queries(child)]


def _selects(query: exp.Expr) -> list[exp.Select]:
    if isinstance(query, exp.Subquery):
        return _selects(query.this)
    if isinstance(query, exp.SetOperation):
        return _selects(query.left) + _selects(query.right)
    return [query] if isinstance(query, exp.Select) else []


def _narrow(select: exp.Select, conditions: list[exp.Expr]) -> bool:
    shadowed = {s.alias_or_name.lower() for s in all_in(select, exp.Table, exp.Subquery, exp.Lateral)}
    usable = [c for c in conditions if not any(k.table.lower() in shadowed for k in all_in(c, exp.Column))]
    if not usable:
        return False
    where = select.args.get("where")
    parts = conjuncts(where.this) if where is not None else []
    pure = [copied(p) for p in parts if not has_call(p)]
    calls = [case_when(all_of([paren(copied(u)) for u in usable]), copied(p)) for p in parts if has_call(p)]
    select.set("where", exp.Where(this=all_of([*pure, *(paren(copied(u)) for u in usable), *calls])))
    return True
