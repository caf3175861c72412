"""on_to_where: a call in the ON of an inner join is a condition like those of WHERE.

    SELECT .. FROM q JOIN r ON p AND f(q.x, r.y) WHERE g(q.z)  =  SELECT .. FROM q JOIN r ON p WHERE g(q.z) AND f(q.x, r.y)

There the other rules choose which of the calls comes first; in ON it would be asked for every pair before a condition of WHERE could drop
its row. Side conditions: another condition of the block has a call, else ``guard`` serves ON as it is; no RIGHT, FULL or positional join
comes after (it would make rows for those that the condition drops); every column of the condition is qualified, so that it means the same
beside all sources; nothing is volatile, and no query stands in the condition or the select list. Saves the calls of all pairs whose rows the other
conditions drop: 11 in place of 18 where 2 of 5 mails pass and each is compared with 3 products.
"""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext
from kleene.planner.calls import all_in, all_of, conjuncts, copied, has_call, has_query, holds
from kleene.planner.rules.order import movable


def on_to_where(plan: CallPlan, context: PlanContext) -> CallPlan:
    if not any(_conditions(select) > 1 for select in all_in(plan.tree, exp.Select)):
        return plan
    tree = copied(plan.tree)
    changed = False
    for select in all_in(tree, exp.Select):
        if _conditions(select) > 1 and not any(has_query(item) for item in select.expressions):
            changed |= _block(select, plan)
    return plan.changed(tree, "on_to_where") if changed else plan


def _conditions(select: exp.Select) -> int:
    """How many conjuncts of the block's WHERE and ONs hold calls; 0 where no ON does."""
    within = [sum(map(has_call, conjuncts(join.args["on"]))) for join in _joins(select) if join.args.get("on")]
    where = select.args.get("where")
    around = sum(map(has_call, conjuncts(where.this))) if where is not None else 0
    return around + sum(within) if any(within) else 0


def _joins(select: exp.Select) -> list[exp.Join]:
    return select.args.get("joins") or []


def _block(select: exp.Select, plan: CallPlan) -> bool:
    joins = _joins(select)
    from_ = select.args.get("from_")
    if from_ is None:
        return False
    sources = [from_.this.alias_or_name.lower()]
    moved: list[exp.Expr] = []
    for position, join in enumerate(joins):
        sources.append(join.this.alias_or_name.lower())
        on = join.args.get("on")
        if on is None or not _inner(join) or not all(_keeps(later) for later in joins[position + 1 :]):
            continue
        parts = conjuncts(on)
        found = [part for part in parts if movable(part, plan) and _is_qualified(part, sources)]
        if not found:
            continue
        moved += [copied(part) for part in found]
        left = [copied(part) for part in parts if not any(part is one for one in found)]
        join.set("on", all_of(left) if left else None)
        if not left:
            join.set("kind", "CROSS")
    if not moved:
        return False
    where = select.args.get("where")
    own = [copied(part) for part in conjuncts(where.this)] if where is not None else []
    select.set("where", exp.Where(this=all_of([*own, *moved])))
    return True


def _inner(join: exp.Join) -> bool:
    return not join.side and not join.method and join.kind in ("", "INNER") and not join.args.get("using")


def _keeps(later: exp.Join) -> bool:
    """A join that makes no row up for one that the condition has dropped."""
    return (
        later.side not in ("RIGHT", "FULL")
        and later.method not in ("ASOF", "POSITIONAL")
        and later.kind != "POSITIONAL"
    )


def _is_qualified(part: exp.Expr, sources: list[str]) -> bool:
    """Its columns mean the same beside all sources."""
    return not holds(part, exp.Star) and all(
        not column.args.get("db") and sources.count(column.table.lower()) == 1 for column in all_in(part, exp.Column)
    )


__all__ = ["on_to_where"]
