"""A statement that is run to count its calls: every argument that the whole statement may need is reached in one run.

DuckDB joins two labels that are not known by a hash table that stays empty, and then never looks at the other side: run by run that is right,
for labels that stay unknown join nothing. But a count would take 3 of 1,003 calls for all. So unknown labels count as different texts:

    ON f(x) = g(y)             ->  ON COALESCE(f(x), 'l') = COALESCE(g(y), 'r')
    f(x) IN (SELECT g(y) ..)   ->  COALESCE(f(x), 'l') IN (SELECT COALESCE(g(y), 'r') ..)        where only TRUE matters

as VARCHAR, so that it holds for labels of any type. No pair more is joined by it.
"""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.calls import conjuncts, copied, has_call

LEFT, RIGHT = "kleene: unknown on the left", "kleene: unknown on the right"


def reach_both_sides(root: exp.Expr) -> None:
    """Rewrite, in place, the equalities of a tree whose sides are both calls and decide what DuckDB looks at."""
    for join in list(root.find_all(exp.Join)):
        on = join.args.get("on")
        for part in conjuncts(on) if on is not None else []:
            if isinstance(part, exp.EQ) and has_call(part.this) and has_call(part.expression):
                part.set("this", _told(part.this, LEFT))
                part.set("expression", _told(part.expression, RIGHT))
    for found in list(root.find_all(exp.In)):
        items = _items(found.args.get("query"))
        if len(items) == 1 and has_call(items[0]) and has_call(found.this) and not _denied(found):
            found.set("this", _told(found.this, LEFT))
            value = items[0].this if isinstance(items[0], exp.Alias) else items[0]
            value.replace(_told(value, RIGHT))


def _items(query: exp.Expr | None) -> list[exp.Expr]:
    inner = query.this if isinstance(query, exp.Subquery) else query
    return inner.expressions if isinstance(inner, exp.Select) else []


def _denied(node: exp.Expr) -> bool:
    """Whether the node's being FALSE or unknown makes a difference in its block: below NOT, CASE and the like."""
    parent = node.parent
    while parent is not None and not isinstance(parent, exp.Where | exp.Join):
        if not isinstance(parent, exp.And | exp.Or | exp.Paren):
            return True
        parent = parent.parent
    return parent is None


def _told(value: exp.Expr, unknown: str) -> exp.Expr:
    text = exp.Cast(this=copied(value), to=exp.DataType.build("VARCHAR"))
    return exp.Coalesce(this=text, expressions=[exp.Literal.string(unknown)])


__all__ = ["reach_both_sides"]
