"""Statements over rows that change from run to run (``random()``, a sample): the same over rows that are kept before the first run."""

from __future__ import annotations

import attrs
from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext
from kleene.planner.calls import all_in, copied, has_call, has_own, holds, nodes
from kleene.planner.resolve import changes_between_runs, unfenced
from kleene.planner.rules.freeze import freeze
from kleene.planner.rules.materialise import materialise
from kleene.planner.scopes import single_source
from kleene.planner.volatile import any_volatile, has_effect


def frozen(resolved: CallPlan, context: PlanContext) -> CallPlan | None:
    """The plan, before the other rules, over kept rows, where these hold all that changes from run to run; None where they cannot, where
    nothing changes, or where something has an effect that must be had once."""
    settings = context.settings
    if not settings.rule_is_on("freeze") or changes_between_runs(resolved.tree) is None:
        return None
    if any(has_effect(node) for node in nodes(resolved.tree)):
        return None
    kept = materialise(_drawn_first(freeze(unfenced(resolved), context)), context)
    if not kept.kept or changes_between_runs(kept.tree) is not None:
        return None
    return attrs.evolve(kept, rules=(*resolved.rules, "freeze"))


def _drawn_first(plan: CallPlan) -> CallPlan:
    """The plan with the sample of a block, and the rows of a LIMIT in a random order, chosen in a query below its calls:

    SELECT f(x) FROM q USING SAMPLE n            =  SELECT f(x) FROM (SELECT * FROM q USING SAMPLE n) q
    SELECT f(x) FROM q ORDER BY random() LIMIT n =  SELECT f(x) FROM (SELECT * FROM q ORDER BY random() LIMIT n) q
    """
    tree = copied(plan.tree)
    changed = False
    for select in all_in(tree, exp.Select):
        keys = _drawn(select)
        if keys:
            inner = exp.Select(
                expressions=[exp.Star()], **{key: select.args[key] for key in keys if select.args.get(key)}
            )
            for key in keys:
                select.set(key, None)
            name = exp.TableAlias(this=exp.to_identifier(inner.args["from_"].this.alias_or_name, quoted=True))
            select.set("from_", exp.From(this=exp.Subquery(this=inner, alias=name)))
            changed = True
    return attrs.evolve(plan, tree=tree) if changed else plan


def _drawn(select: exp.Select) -> tuple[str, ...]:
    """The clauses of a block that choose its rows by chance and can be had below its calls; none where there are none such."""
    if select.args.get("from_") is None or single_source(select) is None or has_call(select.args["from_"]):
        return ()
    where, order = select.args.get("where"), select.args.get("order")
    sampled = select.args.get("sample") is not None
    if order is not None and any_volatile(order) and select.args.get("limit") and not has_call(where):
        grouped = any(select.args.get(key) for key in ("group", "having", "qualify", "distinct", "windows"))
        aliases = {e.alias.lower() for e in select.expressions if isinstance(e, exp.Alias)}
        names = {c.name.lower() for c in all_in(order, exp.Column) if not c.table}
        plain = not grouped and not any(has_own(e, exp.AggFunc) or holds(e, exp.Window) for e in select.expressions)
        positions = any(isinstance(o.this, exp.Literal) for o in order.expressions if isinstance(o, exp.Ordered))
        if plain and not names & aliases and not has_call(order) and not positions:
            return ("from_", "where", "sample", "order", "limit", "offset")
    return ("from_", "sample") if sampled else ()


__all__ = ["frozen"]
