"""aliases: a name of the select list stands for its expression, a column of the sources for itself.

    SELECT f(x) AS a, g(a) AS b FROM q WHERE a ORDER BY a || 'x'
      = SELECT f(x) AS a, g(f(x)) AS b FROM q WHERE f(x) ORDER BY f(x) || 'x'

As DuckDB reads them: a column of the sources first, then an alias (in the select list one further left); an ORDER BY that is a name alone
means the alias, and stays. So a call behind a name is one to all other rules, which guard, stage and order it, and what they move into a
block below needs no name of the block above. A column that has an alias' name is qualified, for the same reason.

Side conditions: the block holds a call; the sources' columns are known; an alias that stands once; its expression is no query, not volatile,
unnests nothing, and is short. Saves the calls that a condition behind a name guards: 10 in place of 20 for ``CASE WHEN a THEN '' ELSE h(y) END``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext
from kleene.planner.calls import (
    aggregates,
    all_in,
    copied,
    has_call,
    has_own,
    has_query,
    nodes,
    paren,
    released,
    unparen,
)
from kleene.planner.dialect import CallSQL, function_name
from kleene.planner.scopes import Block, Opaque, describe_block
from kleene.planner.volatile import any_volatile

CLAUSES = ("where", "having", "qualify", "order", "windows")
LONGEST = 200  # nodes of an expression that is copied: names of names double it each time


def aliases(plan: CallPlan, context: PlanContext) -> CallPlan:
    tree = copied(plan.tree)
    changed = False
    for select in reversed(all_in(tree, exp.Select)):
        if has_call(select):
            changed |= _spell_out(select, context)
    return plan.changed(tree, "aliases").with_depends() if changed else plan


def _spell_out(select: exp.Select, context: PlanContext) -> bool:
    named = [e for e in select.expressions if isinstance(e, exp.Alias)]
    count = Counter(e.alias.lower() for e in named)
    named = [e for e in named if count[e.alias.lower()] == 1 and not _is_itself(e)]
    names = {e.alias.lower() for e in named}
    if not any(_mentions(place, names) for place in _places(select)):
        return False
    try:
        reads = select.args.get("from_") is not None
        block = describe_block(select, context.relations) if reads else Block((), ())
    except Opaque:
        return False
    # Over groups the alias may come first: DuckDB takes the column where it is grouped by.
    qualified = set() if aggregates(select) else names
    changed = False
    known: dict[str, exp.Expr] = {}
    for item in select.expressions:
        own = item
        if has_call(item) or any(has_call(known[n]) for n in known if _mentions(item, {n})):
            own = _spelled(item, known, block)
            changed |= own is not item
        if any(item is one for one in named) and _may_be_copied(own.this):
            known[own.alias.lower()] = own.this
    for key in CLAUSES:
        clause = select.args.get(key)
        if key == "order" and select.args.get("distinct"):
            continue  # it has to be what the select list says
        for place in clause if isinstance(clause, list) else [clause] if clause is not None else []:
            changed |= _replace(place, known, block, qualified)
    return changed


def _is_itself(item: exp.Alias) -> bool:
    return isinstance(item.this, exp.Column) and item.this.name.lower() == item.alias.lower()


def _may_be_copied(value: exp.Expr) -> bool:
    inner = nodes(value)
    many = (n for n in inner if isinstance(n, exp.Star) and not isinstance(n.parent, exp.Count))
    unnests = any(many) or any(function_name(n) in ("unnest", "columns") for n in inner)
    windowed = not has_call(value) and (has_own(value, exp.Window) or has_own(value, exp.AggFunc))
    return not (unnests or windowed or has_query(value) or any_volatile(value) or len(inner) > LONGEST)


def _places(select: exp.Select) -> Iterator[exp.Expr]:
    for key in ("expressions", *CLAUSES):
        value = select.args.get(key)
        yield from value if isinstance(value, list) else [value] if value is not None else []


def _own_columns(place: exp.Expr) -> Iterator[exp.Column]:
    """The columns without a table that the block itself reads; a name alone in ORDER BY is an alias as it stands."""
    todo = [place]
    while todo:
        here = todo.pop()
        if isinstance(here, exp.Query | exp.Lambda | exp.Comprehension):
            continue  # a block of its own, or one that makes names of its own
        above = here.parent.parent if isinstance(here, exp.Ordered) and isinstance(here.parent, exp.Order) else None
        if isinstance(above, exp.Select) and isinstance(unparen(here.this), exp.Column):
            continue
        if isinstance(here, exp.Column):
            if not here.table and not isinstance(here.this, exp.Star):
                yield here
            continue
        todo.extend(here.iter_expressions())


def _mentions(place: exp.Expr, names: set[str]) -> bool:
    return any(column.name.lower() in names for column in _own_columns(place))


def _spelled(item: exp.Expr, known: dict[str, exp.Expr], block: Block) -> exp.Expr:
    """What stands in the item's place. One without a name of its own keeps the one that it has by its text."""
    name = item.alias_or_name or item.sql(CallSQL, normalize_functions=False)
    holder = exp.Tuple(expressions=[copied(item)])
    if not _replace(holder, known, block):
        return item
    found = released(holder)
    found = found if isinstance(found, exp.Alias) else exp.alias_(found, name, quoted=True)
    item.replace(found)
    return found


def _replace(place: exp.Expr, known: dict[str, exp.Expr], block: Block, names: Collection[str] = ()) -> bool:
    """Put the ``known`` expressions in place of their names; columns of the sources that have one of ``names`` are qualified."""
    changed = False
    for column in list(_own_columns(place)):
        name = column.name.lower()
        owners = block.owners(name) if name in known or name in names else []
        if not owners and name in known:
            column.replace(paren(copied(known[name])))
        elif len(owners) == 1 and name in names:
            column.set("table", exp.to_identifier(owners[0].name, quoted=True))
        else:
            continue
        changed = True
    return changed


__all__ = ["aliases"]
