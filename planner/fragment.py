"""Which fragment of SQL a statement is in: what its evaluation may cost beside its calls, and which laws hold for it.

CQ (conjunctive queries: selections, projections, inner joins), UCQ (with unions and OR), FO (with negation of queries: NOT EXISTS, EXCEPT,
outer joins), aggregate (with groups, windows or a LIMIT), REC (with recursion, linear where every term reads itself once). Each holds those
before it. A call is an atom, as a comparison is, and so is its negation.
"""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.calls import aggregates, all_in, conjuncts, has_own, holds, nodes


def fragment_of(tree: exp.Expr) -> str:
    """The fragment with its reason, as ``FO (NOT EXISTS negates a query)``."""
    for name, reason in (
        ("REC", _recursive(tree)),
        ("aggregate", _aggregate(tree)),
        ("FO", _negated(tree)),
        ("UCQ", _united(tree)),
    ):
        if reason:
            return f"{name} ({reason})"
    joined = any(select.args.get("joins") for select in all_in(tree, exp.Select))
    return "CQ (inner joins and conditions that all hold)" if joined else "CQ (conditions that all hold)"


def _recursive(tree: exp.Expr) -> str:
    told = ""
    for with_ in all_in(tree, exp.With):
        for cte in with_.expressions if with_.args.get("recursive") else ():
            body = cte.this
            name = cte.alias.lower()
            reads = _reads(body, name)
            if not reads:
                continue
            times = max(_reads(branch, name) for branch in _branches(body))
            if times > 1:
                return f"not linear: {cte.alias} reads itself {times} times in a term"
            told = told or f"linear: {cte.alias} reads itself once"
    return told


def _branches(body: exp.Expr) -> list[exp.Expr]:
    while isinstance(body, exp.Subquery):
        body = body.this
    return _branches(body.left) + _branches(body.right) if isinstance(body, exp.Union) else [body]


def _reads(body: exp.Expr, name: str) -> int:
    return sum(t.name.lower() == name and not t.args.get("db") for t in all_in(body, exp.Table))


def _aggregate(tree: exp.Expr) -> str:
    for node in nodes(tree):
        if isinstance(node, exp.Limit | exp.Fetch):
            return "LIMIT counts rows"
        if isinstance(node, exp.Select):
            if node.args.get("group"):
                return "GROUP BY"
            if aggregates(node):
                return "an aggregate over all rows"
            if node.args.get("qualify") or any(has_own(e, exp.Window) for e in node.expressions):
                return "a window"
            distinct = node.args.get("distinct")
            if distinct is not None and distinct.args.get("on") is not None:
                return "DISTINCT ON keeps one row of a group"
    return ""


def _negated(tree: exp.Expr) -> str:
    for node in nodes(tree):
        if isinstance(node, exp.Except):
            return "EXCEPT negates a query"
        if isinstance(node, exp.All):
            return "ALL negates a query"
        if isinstance(node, exp.Join) and (node.side or node.kind == "ANTI"):
            return f"{node.side or node.kind} JOIN asks for rows without a partner"
        if isinstance(node, exp.Not):
            inner = node.this.unnest()
            if isinstance(inner, exp.Exists):
                return "NOT EXISTS negates a query"
            if isinstance(inner, exp.In) and inner.args.get("query"):
                return "NOT IN negates a query"
            if holds(inner, exp.Query):
                return "NOT negates a query"
    return ""


def _united(tree: exp.Expr) -> str:
    for node in nodes(tree):
        if isinstance(node, exp.Union):
            return "UNION ALL" if not node.args.get("distinct") else "UNION"
        if isinstance(node, exp.Where) and any(isinstance(c, exp.Or) for c in conjuncts(node.this)):
            return "OR in a condition"
    return ""


__all__ = ["fragment_of"]
