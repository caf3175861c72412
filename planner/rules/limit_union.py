"""limit_union: a LIMIT over UNION ALL asks one branch after the other, and no more once the rows are there.

    SELECT s FROM q WHERE f(x)  UNION ALL  SELECT t FROM r WHERE g(y)   LIMIT n
      = SELECT s FROM q WHERE seen(f(x))  UNION ALL  SELECT t FROM r WHERE seen(g(y))   LIMIT n

``seen`` counts what passes in all branches together; a branch asks in waves (``limit_stop``) when those before it have nothing left to ask.
Side conditions: those of ``limit_stop`` for each branch that is counted (others are left as they are, which costs calls, never rows); no
ORDER BY and no DISTINCT over the whole; the union is the statement, or all of the FROM of a block without WHERE. Saves the calls of all
rows beyond the n-th: about 15 in place of 200 for LIMIT 5 where a third passes.
"""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext, StopSpec
from kleene.planner.calls import all_in, copied, has_call, has_query, holds, released
from kleene.planner.rules.limit_stop import outer_joined, runs_once, wanted
from kleene.planner.stopping import levels, mark, plain


def limit_union(plan: CallPlan, context: PlanContext) -> CallPlan:
    if not holds(plan.tree, exp.Limit) or not holds(plan.tree, exp.Union):
        return plan
    root = exp.Tuple(expressions=[copied(plan.tree)])
    marked = plan
    for query in all_in(root, exp.Union, exp.Select):
        rows = wanted(query)
        branches = _branches(query)
        if rows is not None and len(branches) > 1 and runs_once(query):
            marked = _stopped(marked, branches, rows)
    tree = released(root)
    return plan if marked is plan else marked.changed(tree, "limit_union")


def _branches(query: exp.Query) -> list[exp.Select]:
    """The blocks whose rows, all of them, the LIMIT of a query cuts; none where it does not cut a UNION ALL only."""
    if query.args.get("order") or query.args.get("with_"):
        return []
    if isinstance(query, exp.Union):
        return _operands(query)
    source = query.args.get("from_")
    inner = source.this if source is not None else None
    if not isinstance(query, exp.Select) or query.args.get("where") or query.args.get("joins") or not plain(query):
        return []
    if any(has_call(e) for e in query.expressions) or not isinstance(inner, exp.Subquery):
        return []
    union = inner.this
    bare = isinstance(union, exp.Union) and not any(union.args.get(k) for k in ("limit", "offset", "order", "with_"))
    return _operands(union) if bare and not inner.args.get("sample") else []


def _operands(union: exp.Union) -> list[exp.Select]:
    if union.args.get("distinct") or union.args.get("by_name"):
        return []
    found: list[exp.Select] = []
    for side in (union.this, union.expression):
        query = side.unnest() if isinstance(side, exp.Subquery) else side
        if isinstance(query, exp.Union) and not any(query.args.get(k) for k in ("limit", "offset", "order", "with_")):
            inner = _operands(query)
            if not inner:
                return []
            found += inner
        elif isinstance(query, exp.Select):
            found.append(query)
        else:
            return []
    return found


def _stopped(plan: CallPlan, branches: list[exp.Select], rows: int) -> CallPlan:
    first = len(plan.stops) + 1
    none = exp.Literal.string("")
    marked = plan
    for branch in branches:
        where = branch.args.get("where")
        if where is None or not has_call(where) or has_query(where) or not plain(branch) or outer_joined(branch):
            continue
        if any(branch.args.get(k) for k in ("limit", "offset", "with_")) or any(
            has_call(e) for e in branch.expressions
        ):
            continue
        blocks = levels(branch)
        if blocks is None or any(outer_joined(b) for b in blocks):
            continue
        spec = StopSpec(len(marked.stops) + 1, 0, rows=rows, shared=first)
        marked = mark(marked, blocks, none, none.copy(), spec) or marked
    return marked
