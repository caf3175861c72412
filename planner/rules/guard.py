"""guard: a call is asked only on rows where its place in the expression is reached, left to right, with what is known.

    p AND c            = p AND CASE WHEN p THEN c END                 p pure, in a filter (a row is kept only when all is TRUE)
    p AND c            = p AND CASE WHEN p IS NOT FALSE THEN c END    p pure, anywhere else
    p OR c             = p OR CASE WHEN p IS NOT TRUE THEN c END
    CASE WHEN c ..     = CASE WHEN D(c) THEN CASE WHEN c .. END END   a branch below holds calls
    COALESCE(c, d)     = COALESCE(c, CASE WHEN R(c) THEN d END)       d holds calls
    g(c)               = CASE WHEN R(g(c)) THEN g(c) END              g is not strict, a whole item of the select list
    f(g(c))            = CASE WHEN R(g(c)) THEN f(g(c)) END           g is not strict

where c, d hold calls, R is readiness and D(c) is "it is decided whether c is TRUE" (``planner.guarded``). The condition of a CASE branch is a
filter. Once every lookup answers both sides are equal. Side conditions: only pure,
stable expressions without queries are copied; conditions of outer joins never guard a WHERE (each clause is guarded by its own conjuncts
alone); a window or aggregate is never copied into another clause; conditions nested deeper than the
text can bear stay as they are. Saves the calls of rows that the condition drops: DuckDB evaluates a
UDF before a computed predicate (5,000 calls where 500 rows pass), but a CASE branch only for its rows.
"""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext
from kleene.planner.calls import copied, has_call, nodes, shape
from kleene.planner.groups import hide, show
from kleene.planner.guarded import strictly, tame, truth_of


def guard(plan: CallPlan, context: PlanContext) -> CallPlan:
    tree = copied(plan.tree)
    root = exp.Tuple(expressions=[tree])
    hidden: list[exp.Expr] = []
    blocks = [n for n in nodes(tree) if isinstance(n, (exp.Select, exp.Update, exp.Delete))]
    for block in blocks:
        if isinstance(block, exp.Select):
            hide(block, hidden)
    for block in reversed(blocks):  # inner blocks first: what is copied around them holds them guarded
        _block(block)
    show(root, [strictly(e) if tame(e) else e for e in hidden])
    tree = root.expressions[0]
    tree.pop()
    return plan if shape(tree) == shape(plan.tree) else plan.changed(tree, "guard")


def _block(block: exp.Expr) -> None:
    for key in ("where", "having", "qualify"):
        clause = block.args.get(key)
        if clause is not None and has_call(clause) and tame(clause):
            clause.set("this", truth_of(clause.this))
    for join in block.args.get("joins") or []:
        on = join.args.get("on")
        if on is not None and has_call(on) and tame(on):
            join.set("on", truth_of(on))
    if isinstance(block, exp.Select):
        for key in ("expressions", "group", "order", "windows", "distinct"):
            value = block.args.get(key)
            for node in value if isinstance(value, list) else [value]:
                if node is not None and has_call(node) and tame(node):
                    _item(node)
    elif isinstance(block, exp.Update):
        for assignment in block.expressions:
            if has_call(assignment):
                _item(assignment.expression)


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and isinstance(node.this, exp.Star)


def _item(node: exp.Expr) -> None:
    """Guard one item of a clause in place. The whole of it is NULL until it is ready, so that no run fails on a value that is not its own
    (``coalesce(f(x), '?')::INT``): inside a user's transaction that would cost the transaction."""
    if isinstance(node, exp.Alias | exp.Ordered):
        if has_call(node.this):
            node.this.replace(strictly(node.this))
        return
    if isinstance(node, exp.Group | exp.Order | exp.Distinct | exp.Tuple | exp.Star) or _is_star(node):
        # Lists of items, and a star with REPLACE: no expression may stand around them.
        for child in list(node.iter_expressions()):
            if has_call(child):
                _item(child)
        return
    node.replace(strictly(node))
