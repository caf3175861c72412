"""rounds: a recursive query tells its rounds, and ends at MAXRECURSION or the cap.

    WITH RECURSIVE r AS (a UNION ALL SELECT s FROM r WHERE p)
      = ... SELECT s FROM (SELECT * FROM r WHERE (SELECT kleene_round(count(*)) FROM r)) AS r WHERE p

The subquery runs once a round and sees the round's delta. TRUE lets the round go on; at MAXRECURSION n it is FALSE, at ``recursion_limit`` it is an
error that names the round and the frontier. Side conditions: the statement makes calls or says MAXRECURSION (others are DuckDB's alone); the
recursive term is one SELECT. Saves nothing; it bounds what a recursion may ask, and shows it while it runs.
"""

from __future__ import annotations

import attrs
from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext, RoundSpec
from kleene.planner.calls import Round, all_in, copied, holds
from kleene.planner.errors import PlanError
from kleene.planner.statements import max_recursion


def rounds(plan: CallPlan, context: PlanContext) -> CallPlan:
    if not holds(plan.tree, exp.With):
        return plan
    tree = copied(plan.tree)
    found: list[RoundSpec] = []
    for with_ in all_in(tree, exp.With):
        for cte in with_.expressions if with_.args.get("recursive") else ():
            term = _term(cte)
            wanted = max_recursion(cte)
            if term is None:
                if wanted is not None:
                    raise PlanError(
                        f"MAXRECURSION {wanted}: {cte.alias} has no recursive term that is one SELECT",
                        hint="write it as base UNION [ALL] SELECT ... FROM the name itself",
                    )
                continue
            spec = RoundSpec(len(found) + 1, cte.alias, wanted)
            found.append(spec)
            count = exp.Count(this=exp.Star(), big_int=True)
            query = exp.Select(expressions=[Round(this=spec.number, expression=count)])
            query.set("from_", exp.From(this=exp.to_table(cte.args["alias"].this.sql())))
            _bound(term, cte.alias, exp.Subquery(this=query))
    return plan if not found else attrs.evolve(plan, tree=tree, rounds=tuple(found))


def _bound(term: exp.Select, name: str, condition: exp.Expr) -> None:
    """Let the term read only what the condition lets through. It stands in a block of its own below: beside the term's other conditions a
    subquery would keep DuckDB from pushing those below a LATERAL."""
    from_ = term.args.get("from_")
    items = [] if from_ is None else [from_.this, *(j.this for j in term.args.get("joins") or [])]
    for item in items:
        if isinstance(item, exp.Table) and item.name.lower() == name.lower() and not item.args.get("db"):
            alias = item.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name))
            source = item.copy()
            source.set("alias", None)
            inner = exp.Select(expressions=[exp.Star()])
            inner.set("from_", exp.From(this=source))
            inner.set("where", exp.Where(this=condition))
            item.replace(exp.Subquery(this=inner, alias=alias.copy()))
            return
    where = term.args.get("where")
    both = condition if where is None else exp.And(this=exp.Paren(this=where.this), expression=condition)
    term.set("where", exp.Where(this=both))


def _term(cte: exp.CTE) -> exp.Select | None:
    """The recursive term where it is one SELECT, parenthesised or not."""
    body = cte.this
    if not isinstance(body, exp.SetOperation):
        return None
    term = body.expression
    while isinstance(term, exp.Subquery | exp.Paren):
        term = term.this
    name = cte.alias.lower()
    if not isinstance(term, exp.Select) or not any(t.name.lower() == name for t in all_in(term, exp.Table)):
        return None
    return term
