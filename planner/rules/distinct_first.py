"""distinct_first: chains of calls over many rows run once for each distinct argument, and their answers are joined back.

    SELECT g(f(x)) FROM q  =  SELECT (SELECT v FROM (SELECT a, g(f(a)) AS v FROM (SELECT DISTINCT x AS a FROM q)) WHERE a IS NOT DISTINCT FROM x) FROM q

It saves time, not calls: each run looks up every call of a chain for every row, and a chain of n calls takes n + 1 runs. Six calls over the
5,000,000 rows of a join look up 200,000,000 values; over the 50 arguments that are distinct among them, almost none. The plan keeps both
texts (``CallPlan.compact``); rows are counted (``SET distinct_rows`` says
how many it takes) and the first run shows the arguments; 20 rows for each is where the second text is used. Side conditions: the
outermost block, calls in its select list alone, no LIMIT or QUALIFY, nothing that is random or depends on the order of rows; the chain
stands where every row reaches it (no CASE, AND, FILTER). Joining back loses the order of the rows, so it is done only where DuckDB promises
none that could be seen: under an aggregate, DISTINCT or ORDER BY, or over joins, whose rows it gives in any order with several threads.
"""

from __future__ import annotations

import attrs
from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext
from kleene.planner.calls import Call, aggregates, all_in, copied, has_call, holds, nodes
from kleene.planner.dialect import function_name
from kleene.planner.specs import Volatility
from kleene.planner.strict import STRICT_NAMES, STRICT_NODES
from kleene.planner.volatile import is_suspicious, is_volatile

AROUND: tuple[type[exp.Expr], ...] = (
    exp.Alias,
    exp.Cast,
    exp.Distinct,
    *STRICT_NODES,
)  # all rows that reach one of these reach what it holds
OPAQUE = (exp.Query, exp.AggFunc, exp.Window, exp.Lambda, exp.Comprehension, exp.Star, exp.Case, exp.Connector)
SPREAD = ("columns", "unnest")
ELSEWHERE = ("from_", "joins", "where", "group", "having", "order", "distinct", "windows", "with_")


def distinct_first(plan: CallPlan, context: PlanContext) -> CallPlan:
    if not any(site.depends for site in plan.sites) or not isinstance(plan.tree, exp.Select) or not _fits(plan):
        return plan
    tree = copied(plan.tree)
    grouped = aggregates(tree)
    changed = False
    for item in list(tree.expressions):
        for call in _chains(item, reached=not grouped):
            changed |= _narrow(tree, call)
    if not changed:
        return plan
    narrowed = attrs.evolve(plan, tree=tree, rules=(*plan.rules, "distinct_first"))
    return attrs.evolve(plan, compact=narrowed, rows=_counted(plan.tree))


def _counted(block: exp.Select) -> exp.Select:
    count = exp.Select(expressions=[exp.Count(this=exp.Star(), big_int=True)])
    for key in ("with_", "from_", "where"):
        if block.args.get(key) is not None:
            count.set(key, copied(block.args[key]))
    count.set("joins", [copied(j) for j in block.args.get("joins") or []])
    return count


def _fits(plan: CallPlan) -> bool:
    """The block may be read twice, calls stand in its select list alone, and nobody can see the order of its rows."""
    block = plan.tree
    assert isinstance(block, exp.Select)
    if any(block.args.get(key) for key in ("limit", "offset", "qualify", "sample", "laterals")):
        return False
    if block.args.get("from_") is None or any(s.demand or s.volatility is Volatility.VOLATILE for s in plan.sites):
        return False
    with_ = block.args.get("with_")
    if with_ is not None and with_.args.get("recursive"):
        return False
    for key in ELSEWHERE:
        value = block.args.get(key)
        if any(has_call(v) for v in (value if isinstance(value, list) else [value])):
            return False
    if any(is_volatile(n) or is_suspicious(n) for n in nodes(block)):
        return False
    distinct = block.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        return False
    return bool(aggregates(block) or distinct or block.args.get("order") or block.args.get("joins"))


def _chains(node: exp.Expr, *, reached: bool) -> list[Call]:
    """The outermost calls over other calls in a select item that every row reaches; in a grouped block only those in aggregates."""
    if isinstance(node, Call):
        plain = not any(isinstance(n, OPAQUE) or function_name(n) in SPREAD for n in nodes(node))
        return [node] if reached and plain and any(has_call(a) for a in node.expressions) else []
    if isinstance(node, exp.AggFunc):
        reached = True
    elif not isinstance(node, AROUND) and function_name(node) not in STRICT_NAMES:
        return []
    return [call for child in node.iter_expressions() for call in _chains(child, reached=reached)]


def _narrow(block: exp.Select, call: Call) -> bool:
    """Replace a chain, in place, by a look into its values over distinct arguments; False where it has no argument to read."""
    arguments: list[exp.Expr] = []
    value = exp.Tuple(expressions=[copied(call)])
    _take_arguments(value, arguments)
    if not arguments or any(_is_alias(block, c) for a in arguments for c in all_in(a, exp.Column)):
        return False
    names = [f"kleene_a{i}" for i in range(1, len(arguments) + 1)]
    rows = exp.Select(expressions=[exp.alias_(copied(a), n) for a, n in zip(arguments, names, strict=True)])
    rows.set("distinct", exp.Distinct())
    for key in ("from_", "where"):
        if block.args.get(key) is not None:
            rows.set(key, copied(block.args[key]))
    rows.set("joins", [copied(j) for j in block.args.get("joins") or []])
    chain = exp.Select(expressions=[*(exp.column(n) for n in names), exp.alias_(value.expressions[0], "kleene_value")])
    chain.set("from_", exp.From(this=_named(rows, "kleene_rows")))
    look = exp.Select(expressions=[exp.column("kleene_value")])
    look.set("from_", exp.From(this=_named(chain, "kleene_chain")))
    same: list[exp.Expr] = [
        exp.NullSafeEQ(this=exp.column(n), expression=copied(a)) for a, n in zip(arguments, names, strict=True)
    ]
    look.set("where", exp.Where(this=exp.and_(*same, copy=False)))
    call.replace(exp.Subquery(this=look))
    return True


def _take_arguments(node: exp.Expr, arguments: list[exp.Expr]) -> None:
    """Replace, in place, the largest parts without calls that read columns by the names of the chain's arguments."""
    for child in list(node.iter_expressions()):
        if has_call(child):
            _take_arguments(child, arguments)
        elif holds(child, exp.Column):
            if child not in arguments:
                arguments.append(copied(child))
            child.replace(exp.column(f"kleene_a{arguments.index(child) + 1}"))


def _is_alias(block: exp.Select, column: exp.Column) -> bool:
    """The name of another select item, which a subquery cannot read; an item that is a column under its own name is no matter."""
    if column.table:
        return False
    items = [e for e in block.expressions if isinstance(e, exp.Alias) and e.alias.lower() == column.name.lower()]
    return any(not isinstance(e.this, exp.Column) or e.this.name.lower() != column.name.lower() for e in items)


def _named(query: exp.Select, name: str) -> exp.Subquery:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(name)))


__all__ = ["distinct_first"]
