"""semi_first: inside IN (SELECT .. f ..) only the values are asked for that the block around could look up.

    SELECT .. FROM q WHERE p AND a IN (SELECT b FROM r WHERE f(y))
      = SELECT .. FROM q WHERE p AND a IN (SELECT b FROM r WHERE b IN (SELECT a FROM q WHERE p) AND f(y))

For NOT IN a row of r also stays where b is NULL (it makes every answer NULL) or where some a is NULL (NULL NOT IN an empty set is TRUE).
Side conditions: the IN is a conjunct of WHERE; the block around has one table, whose columns are all that a and p read; the body is a plain
filter of its own with pure b; what is copied is pure, stable and without queries. Saves the calls of the rows whose value is not looked up.
"""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext
from kleene.planner.calls import (
    aggregates,
    all_in,
    all_of,
    any_of,
    conjuncts,
    copied,
    has_call,
    has_own,
    has_query,
    holds,
    paren,
    released,
)
from kleene.planner.rules.pull_up import CLAUSES
from kleene.planner.scopes import Block, Opaque, describe_block, items_of
from kleene.planner.volatile import any_volatile, copyable


def semi_first(plan: CallPlan, context: PlanContext) -> CallPlan:
    if not any(has_call(i.args.get("query")) for i in all_in(plan.tree, exp.In)):
        return plan
    root = exp.Tuple(expressions=[copied(plan.tree)])
    changed = False
    for select in all_in(root, exp.Select):
        where = select.args.get("where")
        if where is not None and any(_body(c) is not None for c in conjuncts(where.this)):
            changed |= _narrow(select, context)
    tree = released(root)
    return plan.changed(tree, "semi_first") if changed else plan


def _body(conjunct: exp.Expr) -> tuple[exp.In, exp.Select, bool] | None:
    """The IN of a conjunct, its body with calls, and whether it is denied; None for all other conjuncts."""
    denied = isinstance(conjunct, exp.Not)
    test = conjunct.this if denied else conjunct
    while isinstance(test, exp.Paren):
        test = test.this
    query = test.args.get("query") if isinstance(test, exp.In) else None
    body = query.unnest() if isinstance(query, exp.Subquery) else query
    if not isinstance(test, exp.In) or not isinstance(body, exp.Select) or has_call(test.this):
        return None
    where = body.args.get("where")
    if where is None or not has_call(where) or len(body.expressions) != 1 or body.args.get("from_") is None:
        return None
    if any(body.args.get(k) for k in CLAUSES) or aggregates(body) or any_volatile(body):
        return None
    item = body.expressions[0]
    if has_call(item) or has_own(item, exp.Window) or has_query(item) or holds(item, exp.Star):
        return None
    return test, body, denied


def _narrow(select: exp.Select, context: PlanContext) -> bool:
    try:
        items = items_of(select)
        block = describe_block(select, context.relations)
    except Opaque:
        return False
    if len(items) != 1 or not isinstance(items[0], exp.Table) or any(items[0].args.get(k) for k in ("joins", "sample")):
        return False
    parts = conjuncts(select.args["where"].this)
    kept = [p for p in parts if not has_call(p) and copyable(p) and _reads_only(p, block)]
    changed = False
    for found in [b for b in map(_body, parts) if b is not None]:
        test, body, denied = found
        if not copyable(test.this) or not _reads_only(test.this, block):
            continue
        own = body.expressions[0]
        value = own.this if isinstance(own, exp.Alias) else own
        looked_up = _looked_up(items[0], test.this, kept)
        matches: exp.Expr = exp.In(this=paren(value.copy()), query=exp.Subquery(this=looked_up))
        if denied:
            nulls = _looked_up(items[0], test.this, [*kept, _is_null(test.this)])
            matches = exp.Paren(this=any_of([matches, _is_null(value), exp.Exists(this=nulls)]))
        body.set("where", exp.Where(this=all_of([matches, *(c.copy() for c in conjuncts(body.args["where"].this))])))
        changed = True
    return changed


def _looked_up(table: exp.Expr, value: exp.Expr, kept: list[exp.Expr]) -> exp.Select:
    query = exp.Select(expressions=[value.copy()])
    query.set("from_", exp.From(this=table.copy()))
    if kept:
        query.set("where", exp.Where(this=all_of([k.copy() for k in kept])))
    return query


def _is_null(value: exp.Expr) -> exp.Expr:
    return exp.Is(this=paren(value.copy()), expression=exp.Null())


def _reads_only(node: exp.Expr, block: Block) -> bool:
    """Every column of the expression is one of the block's only source."""
    if holds(node, exp.Star, exp.Lambda, exp.AggFunc):
        return False
    source = block.sources[0]
    return all(
        c.args.get("db") is None and source.has(c.name) and (not c.table or c.table.lower() == source.name.lower())
        for c in all_in(node, exp.Column)
    )
