"""quantified: IN, ANY and ALL over a body with calls become the EXISTS that they are where only TRUE matters.

    WHERE x IN (SELECT y FROM r WHERE p)           = WHERE EXISTS (SELECT 1 FROM r WHERE x = y AND p)        = ANY; any other operator alike
    WHERE x <> ALL (SELECT y FROM r WHERE p)       = WHERE NOT EXISTS (SELECT 1 FROM r WHERE (x <> y) IS NOT TRUE AND p)          NOT IN alike
    WHERE NOT x > ALL (SELECT y FROM r WHERE p)    = WHERE EXISTS (SELECT 1 FROM r WHERE NOT (x > y) AND p)

A WHERE drops what is unknown like what is false. NOT IN over a body that reads nothing from outside would become a join without an equality:
it is three instead, of which the first is an equality,

    WHERE x NOT IN (q) = WHERE NOT EXISTS (q WHERE x = y) AND NOT EXISTS (q WHERE y IS NULL) AND NOT EXISTS (q WHERE x IS NULL)

Side conditions: a conjunct of WHERE; x one pure value without queries, whose columns are the block's own and not hidden by the body's; the
body is a plain filter with one value, without LIMIT or volatile parts. Saves the calls of the rows that do not have the value, and, with
``any_stop``, of those behind the first one that decides: 249 in place of 800 for 40 values with 20 rows each.
"""

from __future__ import annotations

import attrs
from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext
from kleene.planner.calls import (
    all_in,
    all_of,
    conjuncts,
    copied,
    has_call,
    has_query,
    holds,
    is_not,
    paren,
    released,
    unparen,
)
from kleene.planner.scopes import Block, Opaque, describe_block
from kleene.planner.stopping import plain
from kleene.planner.volatile import any_volatile, copyable

COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


@attrs.frozen
class Quantified:
    """``left operator ANY (body)``, or ALL (``every``), ``denied`` by a NOT around it."""

    left: exp.Expr
    operator: type[exp.Expr]
    every: bool
    denied: bool
    body: exp.Select


def quantified(plan: CallPlan, context: PlanContext) -> CallPlan:
    if not any(has_call(n) for n in all_in(plan.tree, exp.In, exp.Any, exp.All)):
        return plan
    root = exp.Tuple(expressions=[copied(plan.tree)])
    changed = False
    for select in all_in(root, exp.Select):
        where = select.args.get("where")
        if where is None:
            continue
        parts = conjuncts(where.this)
        found = [(p, made) for p in parts if (made := _exists(p, select, context)) is not None]
        if found:
            changed = True
            where.set("this", all_of([next((m for q, m in found if q is p), p).copy() for p in parts]))
    tree = released(root)
    return plan.changed(tree, "quantified") if changed else plan


def _exists(conjunct: exp.Expr, select: exp.Select, context: PlanContext) -> exp.Expr | None:
    """What the conjunct is as EXISTS, None where it is none of these or not to be rewritten."""
    found = _read(conjunct)
    if found is None or not _is_filter(found.body) or not copyable(found.left) or has_query(found.left):
        return None
    left = _from_outside(found.left, found.body, select, context)
    if left is None:
        return None
    item = found.body.expressions[0]
    value = item.this if isinstance(item, exp.Alias) else item
    compared = found.operator(this=paren(left), expression=paren(value.copy()))
    inner = exp.Paren(this=compared)
    if found.every == found.denied:  # some row for which it is TRUE, or FALSE
        return _body(found.body, exp.Not(this=inner) if found.denied else compared)
    if (found.every and found.operator is exp.NEQ) or (found.denied and found.operator is exp.EQ):
        equal = exp.EQ(this=paren(left.copy()), expression=paren(value.copy()))
        tests: list[exp.Expr] = [equal, _is_null(value), _is_null(left)]
        if _reads_outside(found.body, context):
            # Already joined by what it reads: one copy will do.
            tests = [is_not(equal, False)]
        return all_of([exp.Not(this=_body(found.body, test)) for test in tests])
    return exp.Not(this=_body(found.body, is_not(compared, not found.denied)))


def _read(conjunct: exp.Expr) -> Quantified | None:
    node, denied = unparen(conjunct), False
    operator: type[exp.Expr]
    while isinstance(node, exp.Not):
        node, denied = unparen(node.this), not denied
    if isinstance(node, exp.In):
        left, operator, every, query = node.this, exp.EQ, False, node.args.get("query")
    elif isinstance(node, COMPARISONS) and isinstance(node.expression, exp.Any | exp.All):
        left, operator, every, query = node.this, type(node), isinstance(node.expression, exp.All), node.expression.this
    else:
        return None
    body = unparen(query) if query is not None else None
    body = body.unnest() if isinstance(body, exp.Subquery) else body
    if not isinstance(body, exp.Select) or not has_call(body) or has_call(left) or isinstance(unparen(left), exp.Tuple):
        return None
    return Quantified(left, operator, every, denied, body)


def _is_filter(body: exp.Select) -> bool:
    """The body is filters and inner joins over one value, and nothing in it refers to that value by its name."""
    if len(body.expressions) != 1 or body.args.get("from_") is None or not plain(body) or any_volatile(body):
        return False
    if any(body.args.get(key) for key in ("limit", "offset", "with_", "order")):
        return False
    item = body.expressions[0]
    if holds(item, exp.Star, exp.Columns) or has_query(item):
        return False
    name = item.alias.lower() if isinstance(item, exp.Alias) else ""
    where = body.args.get("where")
    return not name or where is None or all(c.name.lower() != name for c in all_in(where, exp.Column))


def _from_outside(value: exp.Expr, body: exp.Select, select: exp.Select, context: PlanContext) -> exp.Expr | None:
    """The value with every column named by its source, so that it means the same inside the body; None where it cannot."""
    copy = exp.Paren(this=value.copy())
    hidden = {item.alias_or_name.lower() for block in all_in(body, exp.Select) for item in _items(block)}
    block: Block | None = None
    for column in all_in(copy, exp.Column):
        if column.args.get("db") is not None or isinstance(column.this, exp.Star):
            return None
        if not column.table:
            try:
                block = block or describe_block(select, context.relations)
            except Opaque:
                return None
            owners = block.owners(column.name)
            if len(owners) != 1:
                return None
            column.set("table", exp.to_identifier(owners[0].name, quoted=True))
        if column.table.lower() in hidden:
            return None
    return unparen(copy.this).copy()


def _reads_outside(body: exp.Select, context: PlanContext) -> bool:
    """The body reads a column of a block around it, or may."""
    own = {item.alias_or_name.lower() for block in all_in(body, exp.Select) for item in _items(block)}
    if any(c.table and c.table.lower() not in own for c in all_in(body, exp.Column)):
        return True
    try:
        block = describe_block(body, context.relations)
    except Opaque:
        return True
    return any(not c.table and not block.owners(c.name) for c in all_in(body, exp.Column))


def _items(select: exp.Select) -> list[exp.Expr]:
    from_ = select.args.get("from_")
    return [] if from_ is None else [from_.this, *(j.this for j in select.args.get("joins") or [])]


def _body(body: exp.Select, test: exp.Expr) -> exp.Exists:
    made = copied(body)
    made.set("expressions", [exp.Literal.number(1)])
    where = made.args.get("where")
    kept = [] if where is None else conjuncts(where.this)
    pure = [c.copy() for c in kept if not has_call(c)]
    calls = [c.copy() for c in kept if has_call(c)]
    parts = [*pure, *calls, paren(test)] if has_call(test) else [paren(test), *pure, *calls]
    made.set("where", exp.Where(this=all_of(parts)))
    return exp.Exists(this=made)


def _is_null(value: exp.Expr) -> exp.Expr:
    return exp.Is(this=paren(value.copy()), expression=exp.Null())
