"""rounds: a recursive query tells its rounds, and ends at MAXRECURSION or the cap.

    WITH RECURSIVE r AS (a UNION ALL SELECT s FROM r WHERE p) = ... WHERE p AND (SELECT kleene_round(count(*)) FROM r)

The subquery runs once a round and sees the round's delta. TRUE lets the round go on; at MAXRECURSION n it is FALSE, at ``recursion_limit`` it is an
error that names the round and the frontier. Side conditions: the statement makes calls or says MAXRECURSION (others are DuckDB's alone); the
recursive term is one SELECT. Saves nothing; it bounds what a recursion may ask, and shows it while it runs.
"""

from __future__ import annotations

import attrs
from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext, RoundSpec
from kleene.planner.calls import Round, copied, holds
from kleene.planner.errors import PlanError
from kleene.planner.statements import max_recursion


def rounds(plan: CallPlan, context: PlanContext) -> CallPlan:
    if not holds(plan.tree, exp.With):
        return plan
    tree = copied(plan.tree)
    found: list[RoundSpec] = []
    for with_ in tree.find_all(exp.With):
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
            condition = exp.Subquery(this=query)
            where = term.args.get("where")
            term.set(
                "where",
                exp.Where(
                    this=condition if where is None else exp.And(this=exp.Paren(this=where.this), expression=condition)
                ),
            )
    return plan if not found else attrs.evolve(plan, tree=tree, rounds=tuple(found))


def _term(cte: exp.CTE) -> exp.Select | None:
    """The recursive term where it is one SELECT, parenthesised or not."""
    body = cte.this
    if not isinstance(body, exp.SetOperation):
        return None
    term = body.expression
    while isinstance(term, exp.Subquery | exp.Paren):
        term = term.this
    name = cte.alias.lower()
    if not isinstance(term, exp.Select) or not any(t.name.lower() == name for t in term.find_all(exp.Table)):
        return None
    return term
