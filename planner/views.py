"""Views whose definition makes calls: a statement that reads one is planned with the definition in its place.

DuckDB keeps a view's text with the plain names of our functions, which it would call row by row, whatever the statement around it needs. Put
where it is read, the calls are the statement's own: they are priced, guarded, staged and stopped with all others. A view keeps its columns'
names, and one of the plain names of its text means what it means to the statement, so the view stays as it is (and its calls are made on
demand) where the statement has a CTE of such a name, or names columns by schema.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from kleene.planner.calls import E, all_in, copied, nodes
from kleene.planner.catalog import Catalog
from kleene.planner.dialect import CallSQL, spreads

DEEPEST = 32  # views over views
NAMED = re.compile(r'(\w+)"?\s*\(')
PLACE = ("start", "end", "close")


@attrs.frozen
class View:
    """A view that its name alone finds. ``sql`` is its CREATE VIEW as DuckDB keeps it, ``columns`` are the names of its columns."""

    name: str
    sql: str
    columns: tuple[str, ...]


def names_read(tree: exp.Expr) -> frozenset[str]:
    """The names, in lower case, that a tree reads without a schema."""
    return frozenset(t.name.lower() for t in all_in(tree, exp.Table) if _is_plain(t))


def makes_calls(views: Sequence[View], catalog: Catalog) -> bool:
    """One of the views makes calls, by itself or through others."""
    return bool(_calling({v.name.lower(): v for v in views}, catalog))


def opened(tree: exp.Expr, views: Sequence[View], catalog: Catalog) -> exp.Expr:
    """The tree with the views that make calls, by themselves or through others, replaced by what they stand for; else the same tree."""
    known = {v.name.lower(): v for v in views}
    calling = _calling(known, catalog)
    if not calling & names_read(tree) or any(c.args.get("db") is not None for c in all_in(tree, exp.Column)):
        return tree
    root = exp.Tuple(expressions=[copied(tree)])
    hidden = {c.alias.lower() for c in all_in(root, exp.CTE)}
    for _ in range(DEEPEST):
        places = [t for t in all_in(root, exp.Table) if _may_open(t) and t.name.lower() in calling - hidden]
        if not places:
            break
        for place in places:
            name = place.name.lower()
            body = _body(known[name])
            if body is None or names_read(body) & hidden:
                hidden.add(name)
                continue
            place.replace(_in_place_of(place, known[name], body))
    found = root.expressions[0]
    found.pop()
    return found  # type: ignore[no-any-return]


def _calling(known: dict[str, View], catalog: Catalog) -> set[str]:
    """The views that make calls."""
    words = {name: frozenset(re.findall(r"\w+", view.sql.lower())) for name, view in known.items()}
    found = {n for n, v in known.items() if any(catalog.function(f) is not None for f in NAMED.findall(v.sql))}
    while more := {n for n in known.keys() - found if words[n] & found}:
        found |= more
    return found


def _is_plain(table: exp.Table) -> bool:
    return isinstance(table.this, exp.Identifier) and not table.args.get("db")


def _may_open(table: exp.Table) -> bool:
    """It is read in a FROM, as a whole."""
    read = isinstance(table.parent, exp.From | exp.Join) and table.arg_key == "this"
    return read and _is_plain(table) and not any(table.args.get(k) for k in ("pivots", "sample", "joins", "laterals"))


def _body(view: View) -> exp.Query | None:
    """The view's query with its columns' names, None where it cannot be read."""
    try:
        made = sqlglot.parse_one(view.sql.rstrip().rstrip(";"), read=CallSQL)
    except SqlglotError:
        return None
    query = made.expression if isinstance(made, exp.Create) else None
    if not isinstance(query, exp.Query):
        return None
    unplaced(query)
    for from_ in all_in(query, exp.From):
        _flatten(from_)
    return query if view.columns else None


def unplaced(tree: E) -> E:
    """The tree, changed in place, without places in the text that it was read from, which is not the statement's (``elsewhere``)."""
    for node in nodes(tree):
        if node.meta_get("start") is not None:
            node.meta["elsewhere"] = True
            for key in PLACE:
                node.meta.pop(key, None)
    return tree


def _flatten(from_: exp.From) -> None:
    """``FROM (a JOIN b ..), c``, as DuckDB writes joins, without the parentheses."""
    item, block = from_.this, from_.parent
    if not isinstance(item, exp.Subquery) or not isinstance(item.this, exp.Table) or item.args.get("alias"):
        return
    table = item.this
    joins = table.args.get("joins") or []
    table.set("joins", None)
    from_.set("this", table)
    if block is not None:
        block.set("joins", [*joins, *(block.args.get("joins") or [])])


def _in_place_of(table: exp.Table, view: View, body: exp.Query) -> exp.Subquery:
    """The body under the name that the view has here; where its columns are not named in it, with their names beside."""
    alias = table.args.get("alias")
    name = alias.this if isinstance(alias, exp.TableAlias) and alias.this is not None else table.this
    columns = list(alias.args.get("columns") or []) if isinstance(alias, exp.TableAlias) else []
    if not columns and not _name_items(body, view):
        columns = [exp.to_identifier(c, quoted=True) for c in view.columns]
    return exp.Subquery(this=body, alias=exp.TableAlias(this=copied(name), columns=columns or None))


def _name_items(body: exp.Query, view: View) -> bool:
    """Name the body's own columns as the view does, in place; FALSE where they cannot be told apart."""
    if not isinstance(body, exp.Select) or len(body.expressions) != len(view.columns):
        return False
    if any(isinstance(i, exp.Star) or isinstance(i.this, exp.Star) or spreads(i) for i in body.expressions):
        return False
    for item, column in zip(list(body.expressions), view.columns, strict=True):
        if not isinstance(item, exp.Alias | exp.Column) or item.alias_or_name.lower() != column.lower():
            value = item.this if isinstance(item, exp.Alias) else item
            item.replace(exp.alias_(copied(value), column, quoted=True))
    return True


__all__ = ["View", "makes_calls", "names_read", "opened", "unplaced"]
