"""A statement that is run to count its calls: every argument that the whole statement may need is reached in one run.

DuckDB joins two labels that are not known by a hash table that stays empty, and then never looks at the other side: run by run that is right,
for labels that stay unknown join nothing. But a count would take 3 of 1,003 calls for all. So unknown labels count as different texts:

    ON f(x) = g(y)             ->  ON COALESCE(f(x), 'l') = COALESCE(g(y), 'r')
    f(x) IN (SELECT g(y) ..)   ->  COALESCE(f(x), 'l') IN (SELECT COALESCE(g(y), 'r') ..)        where only TRUE matters

and so for ``= ANY`` and for tuples of values, as VARCHAR, so that it holds for labels of any type. No pair more is joined by it.
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
    for found in [*root.find_all(exp.In), *root.find_all(exp.EQ)]:
        among = found.args.get("query") if isinstance(found, exp.In) else found.expression
        query = among.this if isinstance(among, exp.Any) else among if isinstance(found, exp.In) else None
        left, right = _values(found.this), _items(query)
        if len(left) != len(right) or not any(map(has_call, left)) or not any(map(has_call, right)) or _denied(found):
            continue
        for one, item in zip(left, right, strict=True):
            other = item.this if isinstance(item, exp.Alias) else item
            if has_call(one) or has_call(other):
                one.replace(_told(one, LEFT))
                other.replace(_told(other, RIGHT))


def _values(node: exp.Expr) -> list[exp.Expr]:
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node]


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
