"""A block whose groups hold no call: its grouping and aggregates move into a block below, and the rest stands over one row a group."""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.callplan import PlanContext
from kleene.planner.calls import (
    aggregates,
    all_in,
    all_of,
    conjuncts,
    copied,
    has_call,
    has_query,
    holds,
    released,
    unparen,
)
from kleene.planner.dialect import CallSQL, spreads
from kleene.planner.scopes import Opaque, output_names

NAME = "kleene_groups"
AROUND = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
PLACES = ("expressions", "order")


def over_groups(select: exp.Select, context: PlanContext) -> exp.Select:
    """Put FROM, WHERE, GROUP BY, the aggregates and the conditions of HAVING without calls, in place, below the rest, and give that block.

    Raises ``Opaque``, with the block unchanged, where a call stands in what would move, or something cannot be computed from the groups.
    """
    if not aggregates(select) or any(select.args.get(k) for k in ("qualify", "windows", "laterals", "sample")):
        raise Opaque
    where, having, order = (select.args.get(k) for k in ("where", "having", "order"))
    conditions = conjuncts(having.this) if having is not None else []
    over = [*select.expressions, *conditions, *([order] if order is not None else [])]
    if has_call(where) or any(
        has_query(node) or holds(node, exp.Star, exp.Lambda) or spreads(node) for node in _bare(over)
    ):
        raise Opaque
    keys = keys_of(select)
    kept = [c for c in conditions if not has_call(c)]
    left = [c for c in conditions if has_call(c)]
    aliases = frozenset(e.alias.lower() for e in select.expressions if isinstance(e, exp.Alias))
    if any(n in aliases for k in keys for n in _unqualified(k)) or any(
        n in aliases for c in kept for n in _unqualified(c)
    ):
        raise Opaque
    columns = _Columns(keys, windows=not left)
    plain = all(isinstance(i, exp.Alias | exp.Column) for i in select.expressions)
    names = [i.alias_or_name for i in select.expressions] if plain else list(output_names(select, context.relations))
    if len(names) != len(select.expressions):
        raise Opaque
    items = [
        exp.alias_(columns.read(item.this if isinstance(item, exp.Alias) else item, frozenset()), name, quoted=True)
        for item, name in zip(select.expressions, names, strict=True)
    ]
    conditions_above = [columns.read(c, aliases) for c in left]
    order_above = None if order is None else columns.read(order, aliases)
    if any(n in aliases for e in columns.items for n in _unqualified(e.this)):
        raise Opaque
    below = exp.Select(expressions=columns.items or [exp.alias_(exp.Literal.number(1), "c0")])
    for key in ("from_", "joins", "where", "group"):
        below.set(key, select.args.get(key))
        select.set(key, None)
    if keys:
        below.set("group", exp.Group(expressions=[copied(k) for k in keys]))
    if kept:
        below.set("having", exp.Having(this=all_of([copied(c) for c in kept])))
    select.set("having", None)
    select.set("expressions", items)
    select.set("order", order_above)
    select.set("from_", exp.From(this=exp.Subquery(this=below, alias=exp.TableAlias(this=exp.to_identifier(NAME)))))
    if conditions_above:
        select.set("where", exp.Where(this=all_of(conditions_above)))
    return below


def _bare(over: list[exp.Expr]) -> list[exp.Expr]:
    """The expressions without their ``count(*)``."""
    found = []
    for node in over:
        root = exp.Tuple(expressions=[copied(node)])
        for count in all_in(root, exp.Count):
            if isinstance(count.this, exp.Star):
                count.replace(exp.null())
        found.append(released(root))
    return found


def keys_of(select: exp.Select) -> list[exp.Expr]:
    """What the block groups by, positions and aliases spelled out. Raises ``Opaque`` where that cannot be told, or a key holds a call."""
    group = select.args.get("group")
    if group is None:
        return []
    if any(value for key, value in group.args.items() if key != "expressions"):
        raise Opaque  # ROLLUP and its kin: a key may be NULL that is not
    items = [e.this if isinstance(e, exp.Alias) else e for e in select.expressions]
    aliases = {e.alias.lower(): e.this for e in select.expressions if isinstance(e, exp.Alias)}
    found = []
    for key in map(unparen, group.expressions):
        if isinstance(key, exp.Literal):
            position = int(key.name) - 1 if not key.is_string and key.name.isdigit() else -1
            if not 0 <= position < len(items):
                raise Opaque
            key = items[position]
        elif isinstance(key, exp.Column) and not key.table and key.name.lower() in aliases:
            named = aliases[key.name.lower()]
            if named != key:
                raise Opaque  # a column of the sources or the alias: which is meant cannot be told
            key = named
        if isinstance(key, exp.Cube | exp.Rollup | exp.GroupingSets | exp.Tuple) or has_call(key) or has_query(key):
            raise Opaque
        found.append(copied(unparen(key)))
    return found


def _unqualified(node: exp.Expr) -> set[str]:
    return {c.name.lower() for c in all_in(node, exp.Column) if not c.table}


class _Columns:
    """The columns of the block below, made as they are needed."""

    def __init__(self, keys: list[exp.Expr], *, windows: bool):
        self.items: list[exp.Alias] = []
        self._keys = keys
        self._windows = windows
        self._names: dict[str, str] = {}

    def read(self, node: exp.Expr, own: frozenset[str]) -> exp.Expr:
        """The expression over the columns; ``own`` names, the select list's, are left as they are."""
        root = exp.Tuple(expressions=[copied(node)])
        self._replace(root)
        if any(_aggregates(n) for n in all_in(root, exp.AggFunc)):
            raise Opaque  # one with calls, which sees the rows
        for column in all_in(root, exp.Column):
            if column.table != NAME and (column.table or column.name.lower() not in own):
                raise Opaque
        return released(root)

    def _replace(self, node: exp.Expr) -> None:
        for child in list(node.iter_expressions()):
            if self._moves(child):
                child.replace(self._column(child))
            else:
                self._replace(child)

    def _moves(self, node: exp.Expr) -> bool:
        if node in self._keys:
            return True
        if has_call(node):
            return False
        if isinstance(node, exp.Window):
            if not self._windows or node.args.get("alias"):
                raise Opaque
            return True
        inner = node
        while isinstance(inner, AROUND):
            inner = inner.this
        return isinstance(inner, exp.AggFunc)

    def _column(self, node: exp.Expr) -> exp.Column:
        text = node.sql(CallSQL)
        if text not in self._names:
            self._names[text] = f"c{len(self._names) + 1}"
            self.items.append(exp.Alias(this=copied(node), alias=exp.to_identifier(self._names[text])))
        return exp.column(self._names[text], table=NAME)


def _aggregates(node: exp.Expr) -> bool:
    while isinstance(node.parent, AROUND):
        node = node.parent
    return not isinstance(node.parent, exp.Window) or node.arg_key != "this"


__all__ = ["keys_of", "over_groups"]
