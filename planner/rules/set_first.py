"""set_first: EXCEPT and INTERSECT run before the calls around them and in their branches.

    SELECT .. FROM (A EXCEPT B) s WHERE f(s.x)        = SELECT .. FROM (SELECT * FROM (A EXCEPT B)) s WHERE f(s.x)
    (SELECT x FROM q WHERE f(x)) INTERSECT B          = SELECT * FROM ((SELECT x FROM q) INTERSECT B) s WHERE f(s.x)
    (SELECT x FROM q WHERE f(x)) EXCEPT B             = SELECT * FROM ((SELECT x FROM q) EXCEPT B) s WHERE f(s.x)

DuckDB pushes a call below a set operation that it stands on, but not through the projection. Whether a row passes depends on its columns
alone, so ALL is the same. Side conditions: the branch is a plain filter; its call reads only columns that the branch puts out, and the set
operation leaves their types as they are; nothing is volatile; calls in both branches of an INTERSECT both move, of an EXCEPT only the left
ones. Saves the calls of all rows that the other branch removes.
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
from kleene.planner.rules.pull_up import CLAUSES
from kleene.planner.scopes import bound
from kleene.planner.volatile import any_volatile

SETS = (exp.Except, exp.Intersect)


def set_first(plan: CallPlan, context: PlanContext) -> CallPlan:
    if plan.tree.find(*SETS) is None:
        return plan
    root = exp.Tuple(expressions=[copied(plan.tree)])
    changed = False
    for number, operation in enumerate(reversed(all_in(root, *SETS)), start=1):
        filtered = _filters(operation, f"kleene_set_{number}", context) if has_call(operation) else None
        if filtered is not None:
            changed = True
        elif _called_around(operation):
            changed = True
            _wrap(operation)
    tree = root.expressions[0]
    tree.pop()
    return plan.changed(tree, "set_first") if changed else plan


def _called_around(operation: exp.Expr) -> bool:
    """The operation is the only FROM item of a block whose WHERE holds calls."""
    place = operation.parent
    if not isinstance(place, exp.Subquery) or not isinstance(place.parent, exp.From):
        return False
    block = place.parent.parent
    return isinstance(block, exp.Select) and has_call(block.args.get("where")) and not block.args.get("joins")


def _wrap(operation: exp.Expr) -> None:
    place = operation.parent
    assert isinstance(place, exp.Subquery)
    operation.pop()
    outer = exp.Select(expressions=[exp.Star()])
    outer.set(
        "from_", exp.From(this=exp.Subquery(this=operation, alias=exp.TableAlias(this=exp.to_identifier("kleene_set"))))
    )
    place.set("this", outer)


def _filters(operation: exp.Expr, name: str, context: PlanContext) -> exp.Select | None:
    """Replace the operation by a filter over it, where call conjuncts of its branches can stand there."""
    if any(operation.args.get(k) for k in ("order", "limit", "offset", "with_", "by_name")):
        return None
    branches = [operation.this, operation.expression] if isinstance(operation, exp.Intersect) else [operation.this]
    moved: list[tuple[exp.Select, list[exp.Expr], list[exp.Expr]]] = []
    columns = bound(operation, context.relations)
    if columns is None or len({c.lower() for c, _ in columns}) != len(columns):
        return None
    for branch in branches:
        select = branch.unnest() if isinstance(branch, exp.Subquery) else branch
        if not isinstance(select, exp.Select) or not has_call(select.args.get("where")) or not _plain(select):
            continue
        types = bound(select, context.relations)
        if types is None or len(types) != len(columns) or any(isinstance(e, exp.Star) for e in select.expressions):
            continue
        shown = _shown(select, [c for c, _ in columns], [a == b for (_, a), (_, b) in zip(types, columns, strict=True)])
        kept: list[exp.Expr] = []
        above: list[exp.Expr] = []
        for conjunct in conjuncts(select.args["where"].this):
            new = _above(conjunct, shown, name) if has_call(conjunct) and not has_query(conjunct) else None
            (kept if new is None else above).append(conjunct.copy() if new is None else new)
        if above:
            moved.append((select, kept, above))
    if not moved:
        return None
    for select, kept, _ in moved:
        select.set("where", exp.Where(this=all_of(kept)) if kept else None)
    outer = exp.Select(expressions=[exp.Star()])
    operation.replace(outer)
    alias = exp.TableAlias(this=exp.to_identifier(name))
    inner = exp.Select(expressions=[exp.Star()])
    inner.set("from_", exp.From(this=exp.Subquery(this=operation, alias=alias.copy())))
    outer.set("from_", exp.From(this=exp.Subquery(this=inner, alias=alias)))
    outer.set("where", exp.Where(this=all_of([a for _, _, above in moved for a in above])))
    return outer


def _plain(select: exp.Select) -> bool:
    if any(select.args.get(k) for k in CLAUSES) or aggregates(select):
        return False
    return not any(has_own(e, exp.Window) or any_volatile(e) for e in (*select.expressions, select.args["where"]))


def _shown(select: exp.Select, names: list[str], same: list[bool]) -> dict[str, str]:
    shown: dict[str, str] = {}
    for item, name, is_same in zip(select.expressions, names, same, strict=True):
        column = item.this if isinstance(item, exp.Alias) else item
        if is_same and isinstance(column, exp.Column) and not isinstance(column.this, exp.Star):
            shown[column.sql(CallSQL).lower()] = name
    return shown


def _above(conjunct: exp.Expr, shown: dict[str, str], name: str) -> exp.Expr | None:
    root = exp.Tuple(expressions=[conjunct.copy()])
    if holds(root, exp.Lambda, exp.Comprehension, exp.Star):
        return None
    for column in all_in(root, exp.Column):
        label = shown.get(column.sql(CallSQL).lower())
        if label is None:
            return None
        column.replace(exp.column(exp.to_identifier(label, quoted=True), table=exp.to_identifier(name)))
    return released(root)
