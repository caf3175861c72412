"""What a query block's names refer to: its sources, their columns, and the references that a rewrite has to carry along."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from sqlglot import exp

from kleene.planner.callplan import Relations
from kleene.planner.calls import Call, KeptRows, Ready, Round, Route, Seen, carrier_kind, carrier_type, copied, nodes
from kleene.planner.dialect import CallSQL

HIDDEN = frozenset({"rowid", "rownum", "filename", "file_row_number"})
OURS = (Call, Ready, Route, Seen, Round, KeptRows, exp.Placeholder, exp.Parameter)


class Opaque(Exception):
    """The block cannot be understood well enough to be rewritten; it keeps its shape."""


@attrs.frozen
class Source:
    """One item of FROM: its name and columns (empty where its columns are not visible, as right of a semi join)."""

    name: str
    columns: tuple[str, ...]

    def has(self, column: str) -> bool:
        return column.lower() in {c.lower() for c in self.columns}


@attrs.frozen
class Block:
    """A SELECT's sources, the columns of ``*``, and the names of its output columns (None: not asked)."""

    sources: tuple[Source, ...]
    star: tuple[str, ...]

    def source(self, name: str) -> Source | None:
        return next((s for s in self.sources if s.name.lower() == name.lower()), None)

    def owners(self, column: str) -> list[Source]:
        return [s for s in self.sources if s.has(column)]


def items_of(select: exp.Select) -> list[exp.Expr]:
    """The FROM items of a block in written order. Raises ``Opaque`` where there is none."""
    from_ = select.args.get("from_")
    if from_ is None:
        raise Opaque
    return [from_.this, *(j.this for j in select.args.get("joins") or [])]


def single_source(select: exp.Select) -> str | None:
    """The name of the block's only source, None where it has several or a nameless one."""
    items = items_of(select)
    if len(items) != 1 or select.args.get("laterals"):
        return None
    return items[0].alias_or_name or None


def describe_block(select: exp.Select, relations: Relations) -> Block:
    """Ask the database for the columns of every source. Raises ``Opaque`` where it cannot bind them (a correlated FROM, say)."""
    items = items_of(select)
    if select.args.get("laterals"):
        raise Opaque
    names = [i.alias_or_name for i in items]
    if not all(names) or len({n.lower() for n in names}) != len(names):
        raise Opaque
    return _described_at_once(select, names, relations) or _described_one_by_one(select, names, relations)


def _described_at_once(select: exp.Select, names: list[str], relations: Relations) -> Block | None:
    """One question for all sources: ``SELECT *, 0 AS <mark>, a.*, 0 AS <mark>, b.*``. None where a source shows no columns (a semi join's)."""
    mark = "kleene_next_source"
    wanted: list[exp.Expr] = [exp.Star()]
    for name in names:
        wanted.append(exp.alias_(exp.Literal.number(0), mark))
        wanted.append(_columns_of(name))
    found = _describe(select, wanted, relations)
    if found is None:
        return None
    parts: list[list[str]] = [[]]
    for column in found:
        if column.startswith(mark):
            parts.append([])
        else:
            parts[-1].append(column)
    if len(parts) != len(names) + 1:
        return None
    sources = [Source(name, tuple(columns)) for name, columns in zip(names, parts[1:], strict=True)]
    return Block(tuple(sources), tuple(parts[0]))


def _described_one_by_one(select: exp.Select, names: list[str], relations: Relations) -> Block:
    star = _describe(select, [exp.Star()], relations)
    if star is None:
        raise Opaque
    sources = [Source(name, _describe(select, [_columns_of(name)], relations) or ()) for name in names]
    return Block(tuple(sources), star)


def _columns_of(name: str) -> exp.Column:
    return exp.Column(this=exp.Star(), table=exp.to_identifier(name, quoted=True))


def behind_alias(value: exp.Expr, aliases: Mapping[str, exp.Expr]) -> bool:
    """A name in the value may be one of the select list's ``aliases`` (rule ``aliases`` leaves none): a block below has no such name."""
    names = {c.name.lower() for c in nodes(value) if isinstance(c, exp.Column) and not c.table} & aliases.keys()
    return any(not isinstance(aliases[n], exp.Column) or aliases[n].name.lower() != n for n in names)


def output_names(select: exp.Select, relations: Relations) -> tuple[str, ...]:
    """The names of a block's output columns as DuckDB gives them. Raises ``Opaque`` where it cannot bind the block."""
    bare = copied(select)
    for key in ("order", "limit", "offset", "where", "qualify", "with_"):
        bare.set(key, None)
    names = _bind(bare, ctes_around(select), relations)
    if names is None:
        raise Opaque
    return names


def _describe(select: exp.Select, wanted: list[exp.Expr], relations: Relations) -> tuple[str, ...] | None:
    probe = exp.Select(expressions=wanted)
    probe.set("from_", copied(select.args["from_"]))
    probe.set("joins", [copied(j) for j in select.args.get("joins") or []])
    return _bind(probe, ctes_around(select), relations)


def ctes_around(select: exp.Expr) -> list[exp.CTE]:
    """The CTEs visible in the block, outermost first."""
    found: list[list[exp.CTE]] = []
    node: exp.Expr | None = select
    while node is not None:
        with_ = node.args.get("with_")
        if isinstance(with_, exp.With):
            found.append(list(with_.expressions))
        if isinstance(node, exp.CTE) and isinstance(node.parent, exp.With):
            # A CTE sees the ones before it; a recursive one also itself.
            siblings = node.parent.expressions
            upto = siblings.index(node) + (1 if node.parent.args.get("recursive") else 0)
            found.append(list(siblings[:upto]))
            node = node.parent.parent
            node = node.parent if node is not None else None
            continue
        node = node.parent
    return [cte for group in reversed(found) for cte in group]


def _bind(query: exp.Select, ctes: list[exp.CTE], relations: Relations) -> tuple[str, ...] | None:
    query = copied(query)
    seen: dict[str, exp.CTE] = {}
    for cte in ctes:
        seen[cte.alias.lower()] = cte
    if seen:
        query.set("with_", exp.With(expressions=[copied(c) for c in seen.values()], recursive=True))
    described = relations.describe(without_calls(query).sql(CallSQL, copy=False))
    return None if described is None else tuple(name for name, _ in described)


def bound(query: exp.Expr, relations: Relations) -> tuple[tuple[str, str], ...] | None:
    """Names and DuckDB types of a query's columns, None where it cannot be bound where it stands (it is correlated, say)."""
    copy = copied(query)
    ctes: dict[str, exp.CTE] = {c.alias.lower(): c for c in ctes_around(query)}
    own = copy.args.get("with_")
    if own is not None:
        ctes.update({c.alias.lower(): c for c in own.expressions})
    if ctes:
        copy.set("with_", exp.With(expressions=[copied(c) for c in ctes.values()], recursive=True))
    return relations.describe(without_calls(copy).sql(CallSQL, copy=False))


def without_calls(tree: exp.Expr) -> exp.Expr:
    """The tree with every call and parameter replaced by a NULL of its type, and what else only emission can spell by what it stands for: it
    binds without any of our functions and tables."""
    root = exp.Tuple(expressions=[copied(tree)])
    while found := [n for n in nodes(root) if isinstance(n, OURS)]:
        for node in found:
            node.replace(_bindable(node))
    result = root.expressions[0]
    result.pop()
    return result  # type: ignore[no-any-return]


def _bindable(node: exp.Expr) -> exp.Expr:
    if isinstance(node, KeptRows):
        return exp.Subquery(this=copied(node.query))
    if isinstance(node, Seen):
        return exp.Paren(this=node.expression)
    if isinstance(node, Round):
        return exp.true()
    if isinstance(node, exp.Placeholder | exp.Parameter):
        return exp.Null()
    kind = carrier_type(node) if isinstance(node, Call) else "BOOLEAN"
    return exp.Cast(this=exp.Null(), to=carrier_kind(kind))
