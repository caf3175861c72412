"""pull_up: a filter with calls inside a FROM item moves above the block's joins.

    SELECT .. FROM (SELECT cols FROM q WHERE p AND f(x)) s JOIN r ON j
      = SELECT .. FROM (SELECT cols FROM q WHERE p) s JOIN r ON j WHERE f(s.x)

DuckDB does not carry what a join removes down into a subquery with a call. Side conditions: the subquery is a plain filter and projection
(no grouping, DISTINCT, window, LIMIT, set operation); the call reads only columns that it puts out under their own names; the subquery is
joined so that its rows are only removed or repeated (inner, cross and semi joins, anti and left joins on its left); nothing is volatile.
Saves the calls of all rows that have no partner.
"""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext
from kleene.planner.calls import (
    aggregates,
    all_in,
    all_of,
    conjuncts,
    copied,
    has_call,
    has_own,
    has_query,
    holds,
    released,
)
from kleene.planner.dialect import CallSQL
from kleene.planner.scopes import Opaque, bound, single_source
from kleene.planner.volatile import any_volatile

CLAUSES = (
    "group",
    "having",
    "qualify",
    "windows",
    "distinct",
    "limit",
    "offset",
    "order",
    "with_",
    "sample",
    "laterals",
)


def pull_up(plan: CallPlan, context: PlanContext) -> CallPlan:
    if not any(_joined(s) for s in all_in(plan.tree, exp.Select)):
        return plan
    tree = copied(plan.tree)
    changed = False
    # Inner blocks first: what comes up from below may go on.
    for select in reversed(all_in(tree, exp.Select)):
        if _joined(select):
            changed |= _block(select, context)
    return plan.changed(tree, "pull_up") if changed else plan


def _joined(select: exp.Select) -> bool:
    items = [select.args.get("from_"), *(select.args.get("joins") or [])]
    return len(items) > 1 and any(has_call(i.this) for i in items if i is not None)


def _block(select: exp.Select, context: PlanContext) -> bool:
    joins = select.args.get("joins") or []
    items = [select.args["from_"].this, *(j.this for j in joins)]
    pulled: list[exp.Expr] = []
    for position, item in enumerate(items):
        if _only_thinned(joins, position) and isinstance(item, exp.Subquery):
            pulled += _filters_of(item, context)
    if not pulled:
        return False
    where = select.args.get("where")
    own = [c.copy() for c in conjuncts(where.this)] if where is not None else []
    select.set("where", exp.Where(this=all_of([*own, *pulled])))
    return True


def _only_thinned(joins: list[exp.Join], position: int) -> bool:
    """Every join of the block removes or repeats rows of the item at this position, and makes none up."""
    for number, join in enumerate(joins, start=1):
        if join.args.get("method") in ("ASOF", "POSITIONAL") or join.kind == "POSITIONAL":
            return False
        if join.side in ("RIGHT", "FULL") and position < number:
            return False
        if number == position and (join.side in ("LEFT", "FULL") or join.kind in ("SEMI", "ANTI")):
            return False
    return True


def _filters_of(item: exp.Subquery, context: PlanContext) -> list[exp.Expr]:
    """Take the call conjuncts out of a subquery's WHERE, as conditions on its columns; none where that cannot be done."""
    inner = item.this
    name = item.alias
    if not isinstance(inner, exp.Select) or not name or _alias_columns(item) or item.args.get("sample"):
        return []
    where = inner.args.get("where")
    if where is None or not has_call(where) or any(inner.args.get(k) for k in CLAUSES) or aggregates(inner):
        return []
    if any(has_own(e, exp.Window) or any_volatile(e) for e in (*inner.expressions, where)):
        return []
    shown = _shown(inner, context)
    kept: list[exp.Expr] = []
    moved: list[exp.Expr] = []
    for conjunct in conjuncts(where.this):
        above = _above(conjunct, shown, name) if has_call(conjunct) and not has_query(conjunct) else None
        if above is None:
            kept.append(conjunct.copy())
        else:
            moved.append(above)
    if moved:
        inner.set("where", exp.Where(this=all_of(kept)) if kept else None)
    return moved


def _alias_columns(item: exp.Subquery) -> bool:
    alias = item.args.get("alias")
    return isinstance(alias, exp.TableAlias) and bool(alias.args.get("columns"))


def _shown(inner: exp.Select, context: PlanContext) -> dict[str, exp.Expr]:
    """Column text → output identifier, for the plain columns that the block puts out under one name each."""
    if len(inner.expressions) == 1 and isinstance(inner.expressions[0], exp.Star):
        return _all_columns(inner, context)
    outputs = [e.alias_or_name.lower() for e in inner.expressions]
    shown: dict[str, exp.Expr] = {}
    for item in inner.expressions:
        column = item.this if isinstance(item, exp.Alias) else item
        if not isinstance(column, exp.Column) or not isinstance(column.this, exp.Identifier):
            continue
        label = item.args["alias"] if isinstance(item, exp.Alias) else column.this
        if isinstance(label, exp.Identifier) and outputs.count(label.name.lower()) == 1:
            shown[column.sql(CallSQL).lower()] = label
    return shown


def _all_columns(inner: exp.Select, context: PlanContext) -> dict[str, exp.Expr]:
    star = inner.expressions[0]
    try:
        name = single_source(inner)
    except Opaque:
        return {}
    columns = bound(inner, context.relations)
    if name is None or columns is None or any(star.args.get(k) for k in ("except_", "replace", "rename")):
        return {}
    shown: dict[str, exp.Expr] = {}
    for column, _ in columns:
        label = exp.to_identifier(column, quoted=True)
        for table in (None, name):
            for quoted in (False, True):
                parts = exp.column(exp.to_identifier(column, quoted=quoted), table=table)
                shown[parts.sql(CallSQL).lower()] = label
    return shown


def _above(conjunct: exp.Expr, shown: dict[str, exp.Expr], name: str) -> exp.Expr | None:
    root = exp.Tuple(expressions=[conjunct.copy()])
    if holds(root, exp.Lambda, exp.Comprehension, exp.Star):
        return None
    for column in all_in(root, exp.Column):
        if column.args.get("db") is not None:
            return None
        label = shown.get(column.sql(CallSQL).lower())
        if label is None:
            return None
        column.replace(exp.Column(this=label.copy(), table=exp.to_identifier(name, quoted=True)))
    return released(root)
