"""constants: a call whose arguments are literals is asked when a row needs it, not when DuckDB plans.

    f('x') = f((SELECT a1 FROM kleene_constants))    kleene_constants AS MATERIALIZED (SELECT 'x' AS a1)

DuckDB folds a function of constants while it plans, whatever guard stands around it, so that a branch never taken would be paid for. Side
conditions: a query (writes always evaluate their VALUES), not inside a lambda (no subquery may stand there). Saves the call of every
constant in a branch that no row takes.
"""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext
from kleene.planner.calls import calls_in, copied, nodes
from kleene.planner.dialect import CallSQL, function_name
from kleene.planner.strict import STRICT_NAMES

NAME = "kleene_constants"
LITERAL = (
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.Placeholder,
    exp.Parameter,
    exp.Cast,
    exp.TryCast,
    exp.DataType,
    exp.DataTypeParam,
    exp.DPipe,
    exp.Paren,
    exp.Neg,
    exp.Binary,
    exp.Coalesce,
    exp.Identifier,
)


def constants(plan: CallPlan, context: PlanContext) -> CallPlan:
    if plan.kind != "query" or not isinstance(plan.tree, exp.Query):
        return plan
    if not any(_constant(n) and _foldable(n) for n in calls_in(plan.tree)):
        return plan
    tree = copied(plan.tree)
    columns: dict[str, str] = {}
    items: list[exp.Expr] = []
    for call in [n for n in calls_in(tree) if _constant(n) and _foldable(n)]:
        for argument in list(call.expressions):
            text = argument.sql(CallSQL)
            if text not in columns:
                columns[text] = f"a{len(columns) + 1}"
                items.append(exp.alias_(argument.copy(), columns[text]))
            value = exp.Select(expressions=[exp.column(columns[text])]).from_(NAME)
            argument.replace(exp.Subquery(this=value))
    if not items:
        return plan
    cte = exp.CTE(
        this=exp.Select(expressions=items),
        alias=exp.TableAlias(this=exp.to_identifier(NAME)),
        materialized=True,
    )
    with_ = tree.args.get("with_")
    if with_ is None:
        tree.set("with_", exp.With(expressions=[cte]))
    else:
        with_.set("expressions", [cte, *with_.expressions])
    return plan.changed(tree, "constants")


def _constant(call: exp.Expr) -> bool:
    """All arguments are made of literals, parameters and row-wise operations on them alone: an aggregate of literals depends on rows."""
    return bool(call.expressions) and all(_literal(node) for a in call.expressions for node in nodes(a))


def _literal(node: exp.Expr) -> bool:
    return isinstance(node, LITERAL) or function_name(node) in STRICT_NAMES


def _foldable(call: exp.Expr) -> bool:
    """There is a row or a branch that may not need it, and a subquery may stand in its place."""
    if call.find_ancestor(exp.Lambda, exp.Comprehension) is not None:
        return False
    block = call.find_ancestor(exp.Select)
    if block is None:
        return False
    return (
        block.args.get("from_") is not None or call.find_ancestor(exp.Case, exp.Or, exp.And, exp.Coalesce) is not None
    )
