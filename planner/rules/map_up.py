"""map_up: a call that an item of FROM computes is made where it is read.

    SELECT s FROM (SELECT x, f(y) AS a FROM q) t WHERE a AND p
      = SELECT s FROM (SELECT x, y AS b FROM q) t WHERE f(t.b) AND p

Then it is a condition, an argument or a value of the block that needs it: ``stage`` puts what drops rows before it, ``limit_stop`` counts the
rows that pass. A CTE that is read once is an item of FROM. Side conditions: the item is a plain query of named columns (its LIMIT and WHERE
stay), without groups, DISTINCT and windows over calls; the block around has none either, and names the columns that it reads (``*`` is
spelled out over one source); no query in the call, nothing volatile, no call on demand; under an outer join, the value is NULL
where its columns are. Saves the calls of the rows that the block drops: 4 in place of 200 for ``WHERE a LIMIT 2``.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext
from kleene.planner.calls import aggregates, all_in, calls_in, copied, has_call, has_own, has_query, holds, released
from kleene.planner.dialect import function_name, spreads
from kleene.planner.scopes import Opaque, describe_block
from kleene.planner.strict import strict
from kleene.planner.volatile import any_volatile

CARRIED = "kleene_m"


def map_up(plan: CallPlan, context: PlanContext) -> CallPlan:
    root = exp.Tuple(expressions=[copied(plan.tree)])
    changed = False
    for select in reversed(all_in(root, exp.Select)):  # inner blocks first: what comes up may go on
        if has_call(select) and not _collects(select):
            for item in _items(select):
                changed |= _rewrite(select, item, plan, context)
    tree = released(root)
    return plan.changed(tree, "map_up").with_depends() if changed else plan


def _collects(select: exp.Select) -> bool:
    """The block's rows are not its sources' rows, or it sees them beside each other."""
    clauses = ("group", "having", "qualify", "windows", "distinct", "laterals", "sample")
    windowed = any(has_own(e, exp.Window) for e in select.expressions)
    return windowed or aggregates(select) or any(select.args.get(k) for k in clauses)


def _items(select: exp.Select) -> list[exp.Expr]:
    from_ = select.args.get("from_")
    joins = select.args.get("joins") or []
    if from_ is None or any(j.method for j in joins):  # NATURAL, ASOF and their kin read columns by themselves
        return []
    return [from_.this, *(j.this for j in joins)]


def _rewrite(select: exp.Select, item: exp.Expr, plan: CallPlan, context: PlanContext) -> bool:
    body = _body(item)
    name = item.alias_or_name
    if body is None or not name or body.args.get("distinct") or aggregates(body) or not _reads_by_name(select, name):
        return False
    maps = {e.alias.lower(): e for e in body.expressions if isinstance(e, exp.Alias) and _may_move(e, plan)}
    named = [e.alias_or_name.lower() for e in body.expressions]
    if not maps or not all(named) or "*" in named or len(set(named)) < len(named) or spreads(body):
        return False
    if any(
        isinstance(n, exp.Column) and not n.table and n.name.lower() in maps
        for k in ("where", "order", "qualify", "windows", "expressions")
        for part in _parts(body, k)
        for n in part.walk()
    ):
        return False  # its own clauses read the answer by its name
    outer = any(j.side or j.kind in ("ANTI", "FULL") for j in select.args.get("joins") or [])
    if outer and not all(strict(e.this) for e in maps.values()):
        return False
    _spell_star(select, name, [e.alias_or_name for e in body.expressions])
    reads = _reads(select, item, name, maps.keys(), context)
    if reads is None:
        return False
    if isinstance(item, exp.Table):
        _open(item)
    carried: dict[str, exp.Expr] = {}
    lifted = {n: _lifted(e.this, carried, name) for n, e in maps.items() if any(r.name.lower() == n for r in reads)}
    for read in reads:
        value = copied(lifted[read.name.lower()])
        if read.parent is select and read.arg_key == "expressions":
            value = exp.alias_(value, read.name, quoted=True)
        read.replace(value)
    kept = [e for e in body.expressions if e.alias_or_name.lower() not in maps]  # what nobody reads is not computed
    made = [*kept, *(exp.alias_(copied(v), n) for n, v in carried.items())]
    body.set("expressions", made or [exp.alias_(exp.Literal.number(1), CARRIED)])
    return True


def _body(item: exp.Expr) -> exp.Select | None:
    """The query of a FROM item: a subquery's, or that of a CTE which only this item reads."""
    if isinstance(item, exp.Subquery):
        alias = item.args.get("alias")
        columns = isinstance(alias, exp.TableAlias) and alias.args.get("columns")
        plain = not columns and not any(item.args.get(k) for k in ("pivots", "sample", "joins", "with_"))
        return item.this if plain and isinstance(item.this, exp.Select) else None
    cte = _cte(item)
    return cte.this if cte is not None and isinstance(cte.this, exp.Select) else None


def _cte(item: exp.Expr) -> exp.CTE | None:
    if (
        not isinstance(item, exp.Table)
        or item.args.get("db")
        or any(item.args.get(k) for k in ("pivots", "sample", "joins"))
    ):
        return None
    alias = item.args.get("alias")
    if isinstance(alias, exp.TableAlias) and alias.args.get("columns"):
        return None
    name = item.name.lower()
    root = item.root()
    found = [c for c in all_in(root, exp.CTE) if c.alias.lower() == name]
    if len(found) != 1 or sum(t.name.lower() == name for t in all_in(root, exp.Table)) != 1:
        return None
    cte = found[0]
    with_ = cte.parent
    block = item.find_ancestor(exp.Query)
    of_block = isinstance(with_, exp.With) and with_.parent is block and not with_.args.get("recursive")
    return cte if of_block and not cte.args.get("materialized") and not cte.args["alias"].args.get("columns") else None


def _open(item: exp.Table) -> None:
    """The CTE's query in the place of its name."""
    cte = _cte(item)
    assert cte is not None and isinstance(cte.parent, exp.With)
    with_ = cte.parent
    left = [c for c in with_.expressions if c is not cte]
    made = exp.Subquery(this=cte.this, alias=exp.TableAlias(this=exp.to_identifier(item.alias_or_name, quoted=True)))
    item.replace(made)
    if left:
        with_.set("expressions", left)
    elif with_.parent is not None:
        with_.parent.set("with_", None)


def _may_move(item: exp.Alias, plan: CallPlan) -> bool:
    value = item.this
    if not has_call(value) or has_query(value) or any_volatile(value) or not holds(value, exp.Column):
        return False
    if holds(value, exp.AggFunc, exp.Window, exp.Lambda, exp.Comprehension, exp.Star):
        return False
    if any(function_name(n) == "unnest" for n in value.walk()):
        return False
    return all(plan.site(c.site).demand is None for c in calls_in(value))


def _parts(select: exp.Select, key: str) -> list[exp.Expr]:
    value = select.args.get(key)
    return value if isinstance(value, list) else [value] if value is not None else []


def _reads_by_name(select: exp.Select, name: str) -> bool:
    """The block names each column that it reads, but for a ``*`` over its one source."""
    single = not select.args.get("joins")
    for item in select.expressions:
        star = item.this if isinstance(item, exp.Column) else item
        if isinstance(star, exp.Star) and (not single or any(star.args.values())):
            return False
    rest = list(select.walk(prune=lambda n: n is not select and isinstance(n, exp.Subquery | exp.CTE)))
    stars = [n for n in rest if isinstance(n, exp.Star) and not isinstance(n.parent, exp.Count)]
    top = [e.this if isinstance(e, exp.Column) else e for e in select.expressions]
    if any(not any(s is t for t in top) for s in stars) or any(function_name(n) == "columns" for n in rest):
        return False
    return not any(isinstance(n, exp.Column) and not n.table and n.name.lower() == name.lower() for n in rest)


def _spell_star(select: exp.Select, name: str, columns: list[str]) -> None:
    found: list[exp.Expr] = []
    for item in select.expressions:
        star = item.this if isinstance(item, exp.Column) else item
        if isinstance(star, exp.Star):
            found += [
                exp.column(exp.to_identifier(c, quoted=True), exp.to_identifier(name, quoted=True)) for c in columns
            ]
        else:
            found.append(item)
    select.set("expressions", found)


def _reads(
    select: exp.Select, item: exp.Expr, name: str, maps: Collection[str], context: PlanContext
) -> list[exp.Column] | None:
    """Where the block reads the maps; None where that cannot be told."""
    joins = select.args.get("joins") or []
    if any(i.name.lower() in maps for j in joins for i in j.args.get("using") or []):
        return None
    outputs = {e.alias_or_name.lower() for e in select.expressions}
    below = [i for i in _items(select) if i is item or not isinstance(i, exp.Lateral)]
    found: list[exp.Column] = []
    for column in all_in(select, exp.Column):
        elsewhere = column.table and column.table.lower() != name.lower()
        if column.name.lower() not in maps or elsewhere or any(_is_in(column, i) for i in below):
            continue
        if column.find_ancestor(exp.CTE) is not None and _is_in(column.find_ancestor(exp.CTE), select):
            continue
        if column.args.get("db") is not None or column.find_ancestor(exp.Select) is not select:
            return None  # a query inside reads it, or has such a column of its own
        if isinstance(column.parent, exp.Ordered) and not column.table and column.name.lower() in outputs:
            continue  # the output column
        found.append(column)
    bare = [c for c in found if not c.table] if joins else []
    try:
        block = describe_block(select, context.relations) if bare else None
    except Opaque:
        return None
    if block is not None and any([s.name.lower() for s in block.owners(c.name)] != [name.lower()] for c in bare):
        return None
    return found


def _is_in(node: exp.Expr | None, around: exp.Expr) -> bool:
    here = node
    while here is not None and here is not around:
        here = here.parent
    return here is around


def _lifted(node: exp.Expr, carried: dict[str, exp.Expr], name: str) -> exp.Expr:
    """The value with each largest pure part that reads a row replaced by a column that carries it."""
    if not has_call(node):
        if not holds(node, exp.Column):
            return copied(node)
        own = next((n for n, value in carried.items() if value == node), f"{CARRIED}{len(carried) + 1}")
        carried.setdefault(own, copied(node))
        return exp.column(own, table=exp.to_identifier(name, quoted=True))
    root = exp.Tuple(expressions=[copied(node)])
    for child in list(root.expressions[0].iter_expressions()):
        if not isinstance(child, exp.DataType | exp.Identifier):
            child.replace(_lifted(child, carried, name))
    return released(root)


__all__ = ["map_up"]
