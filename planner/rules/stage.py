"""stage: the pure part of a block runs first, one projection below the calls of its WHERE; each call conjunct is one stage.

    SELECT s FROM q WHERE p AND f(x) AND g(y)
      = SELECT s FROM (SELECT * FROM (SELECT .. FROM q WHERE p) WHERE f(x)) WHERE g(y)

DuckDB pushes a UDF predicate below joins and sorts of its own block but not through a projection, while pure predicates do go through one:
so this is cheap-first, short-circuit and placement above joins and semi-joins, in one form that copies nothing. Side conditions: the call
is a conjunct of WHERE; every reference to the block's sources can be carried through the projection (else ``guard`` serves). Over one source
the stage keeps the source's name, so that no reference changes; over joins the columns used above get names of their own. Saves the calls
of all rows that pure conjuncts, joins, semi-joins and earlier call conjuncts drop. Call conjuncts run as written, but those that read fewer
relations first.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext
from kleene.planner.calls import Call, all_in, all_of, conjuncts, copied, has_call, has_query, holds
from kleene.planner.dialect import CallSQL, function_name, spreads
from kleene.planner.scopes import HIDDEN, Block, Opaque, describe_block, items_of, output_names, single_source
from kleene.planner.stopping import exists_body
from kleene.planner.volatile import any_volatile


def stage(plan: CallPlan, context: PlanContext) -> CallPlan:
    if not any(has_call(where) for where in all_in(plan.tree, exp.Where)):
        return plan
    tree = copied(plan.tree)
    changed = False
    # Outer blocks first: an inner block is described with the calls of its surroundings replaced, so the order does not matter to it.
    for select in all_in(tree, exp.Select):
        where = select.args.get("where")
        if where is None or not has_call(where) or any(plan.site(c.site).demand for c in all_in(where, Call)):
            continue
        if exists_body(select) is not None and context.settings.rule_is_on("any_stop"):
            continue  # any_stop watches the whole condition in one place; guard narrows it there
        try:
            changed |= _stage_block(select, context)
        except Opaque:
            continue
    return plan.changed(tree, "stage") if changed else plan


def _stage_block(select: exp.Select, context: PlanContext) -> bool:
    parts = conjuncts(select.args["where"].this)
    calls = [p for p in parts if has_call(p) and holds(p, exp.Column)]
    # A call of constants is one row's worth: it stays with the pure conjuncts, which guard it (rule guard) better than a projection does.
    pure = [p for p in parts if p not in calls]
    if not calls:
        raise Opaque
    joined = len(items_of(select)) > 1
    if not pure and not joined and len(calls) == 1:
        return False  # nothing below could drop a row
    if any(any_volatile(p) for p in parts):
        raise Opaque
    # Cheap conjuncts first is free; among calls, those in queries (EXISTS, IN) come last: they cost a call per inner row.
    calls.sort(key=lambda p: has_query(p))
    name = single_source(select)
    if name is not None and not joined:
        _over_one_source(select, name, pure, calls)
    else:
        over_joins(select, pure, calls, context)
    return True


# -- one source: the stage takes its name ------------------------------------------------------------------------------------------------


def _over_one_source(select: exp.Select, name: str, pure: list[exp.Expr], calls: list[exp.Expr]) -> None:
    _check_references(select, pure)
    item = select.args["from_"].this
    query = exp.Select(expressions=[exp.Star()])
    query.set("from_", exp.From(this=copied(item)))
    if pure:
        query.set("where", exp.Where(this=all_of([copied(p) for p in pure])))
    alias = exp.TableAlias(this=exp.to_identifier(name, quoted=_quoted(item)))
    for call in calls[:-1]:
        query = _filtered(query, alias, call)
    select.set("from_", exp.From(this=exp.Subquery(this=query, alias=copied(alias))))
    select.set("where", exp.Where(this=copied(calls[-1])))


def _filtered(query: exp.Select, alias: exp.TableAlias, condition: exp.Expr) -> exp.Select:
    outer = exp.Select(expressions=[exp.Star()])
    outer.set("from_", exp.From(this=exp.Subquery(this=query, alias=copied(alias))))
    outer.set("where", exp.Where(this=copied(condition)))
    return outer


def _quoted(item: exp.Expr) -> bool:
    alias = item.args.get("alias")
    identifier = alias.this if isinstance(alias, exp.TableAlias) else item.this
    return bool(isinstance(identifier, exp.Identifier) and identifier.args.get("quoted"))


def _check_references(select: exp.Select, pure: list[exp.Expr]) -> None:
    """Nothing above needs what a subquery does not have: hidden columns, schema-qualified names, select aliases used in pure conjuncts."""
    for column in all_in(select, exp.Column):
        if column.args.get("db") is not None or column.name.lower() in HIDDEN:
            raise Opaque
    aliases = {e.alias.lower() for e in select.expressions if isinstance(e, exp.Alias)}
    for part in pure:
        for column in all_in(part, exp.Column):
            if not column.table and column.name.lower() in aliases:
                raise Opaque


# -- joins: the columns used above get names ---------------------------------------------------------------------------------------------


class _Carrier:
    """Gives every carried column a name in the stage's projection."""

    def __init__(self, block: Block, stage_name: str):
        self.block = block
        self.stage_name = stage_name
        self.items: list[exp.Expr] = []
        self._names: dict[str, str] = {}

    def carry(self, column: exp.Expr) -> exp.Column:
        text = column.sql(CallSQL).lower()
        if text not in self._names:
            self._names[text] = f"c{len(self._names) + 1}"
            self.items.append(exp.alias_(copied(column), self._names[text]))
        return exp.column(self._names[text], table=self.stage_name)

    def resolve(self, column: exp.Column) -> exp.Column | None:
        """The carried form of a reference, None where it is not one to the block's sources. Raises ``Opaque`` where that is unclear."""
        if column.args.get("db") is not None or column.name.lower() in HIDDEN:
            raise Opaque
        if column.table:
            if self.block.source(column.table) is not None:
                return self.carry(column)
            if self.block.owners(column.table):
                raise Opaque  # a struct column's field
            return None
        return self.carry(column) if self.block.owners(column.name) else None


Whole = Callable[[exp.Expr], bool]


def _columns_only(node: exp.Expr) -> bool:
    return False


def over_joins(
    select: exp.Select,
    pure: list[exp.Expr],
    calls: list[exp.Expr],
    context: PlanContext,
    whole: Whole = _columns_only,
) -> exp.Select:
    """Put FROM and the pure conjuncts, in place, one projection below the rest of the block, and give that projection's block.

    Columns are carried through it, and what is ``whole`` is computed in it. Raises ``Opaque``, with the block unchanged.
    """
    _check_liftable(select, pure, calls)
    block = describe_block(select, context.relations)
    # A condition on one relation has at most its rows as arguments, one on two relations their product: the narrow ones go first.
    calls = sorted(calls, key=lambda call: len(_reads(call, block)))
    lifted = lift(select, pure, calls, block, context, whole)
    query = lifted.inner
    for call in lifted.calls[:-1]:
        query = _filtered(query, lifted.alias, call)
    select.set("from_", exp.From(this=exp.Subquery(this=query, alias=copied(lifted.alias))))
    select.set("where", exp.Where(this=lifted.calls[-1]) if lifted.calls else None)
    return lifted.inner


@attrs.frozen
class Lifted:
    """What ``lift`` took out of a block: its FROM and pure conjuncts as a projection ``inner`` of the columns used above, the ``calls`` over
    those columns, and the name that they use for the projection."""

    inner: exp.Select
    calls: list[exp.Expr]
    alias: exp.TableAlias


def lift(
    select: exp.Select,
    pure: list[exp.Expr],
    calls: list[exp.Expr],
    block: Block,
    context: PlanContext,
    whole: Whole = _columns_only,
) -> Lifted:
    """Take FROM and WHERE out of a block, in place, and let the rest of it read the projection that the caller puts there.

    Raises ``Opaque``, with the block unchanged.
    """
    _check_liftable(select, pure, calls)
    outputs = _output_names(select, block, context)
    carrier = _Carrier(block, _free_name(select))
    aliases = {e.alias.lower() for e in select.expressions if isinstance(e, exp.Alias)}
    new_items: list[exp.Expr] = []
    for item, names in zip(select.expressions, outputs, strict=True):
        new_items.extend(_item(item, names, carrier, whole))
    new_calls = [_carried(c, carrier, frozenset(), whole) for c in calls]
    clauses = {}
    for key in ("group", "having", "qualify", "windows", "order", "distinct"):
        value = select.args.get(key)
        if value is None:
            continue
        own: set[str] | frozenset[str] = aliases if key == "order" else frozenset()
        if key == "having" and any(not c.table and c.name.lower() in aliases for c in all_in(value, exp.Column)):
            raise Opaque  # a column or an alias: that depends on what the block groups by
        clauses[key] = (
            [_carried(v, carrier, own, whole) for v in value]
            if isinstance(value, list)
            else _carried(value, carrier, own, whole)
        )

    inner = exp.Select(expressions=carrier.items or [exp.alias_(exp.Literal.number(1), "c0")])
    inner.set("from_", select.args["from_"])
    inner.set("joins", select.args.get("joins"))
    if pure:
        inner.set("where", exp.Where(this=all_of([copied(p) for p in pure])))
    select.set("joins", None)
    select.set("where", None)
    select.set("expressions", new_items)
    for key, value in clauses.items():
        select.set(key, value)
    return Lifted(inner, new_calls, exp.TableAlias(this=exp.to_identifier(carrier.stage_name)))


def _check_liftable(select: exp.Select, pure: list[exp.Expr], calls: list[exp.Expr]) -> None:
    _check_references(select, pure)
    if any(has_query(e) for e in _above(select, calls)):
        raise Opaque  # a nested query may refer to our sources by names that we would have to change


def _reads(call: exp.Expr, block: Block) -> set[str]:
    """The sources that a condition reads."""
    found: set[str] = set()
    for column in all_in(call, exp.Column):
        if column.table:
            found.add(column.table.lower())
        else:
            found.update(source.name.lower() for source in block.owners(column.name))
    return found


def _above(select: exp.Select, calls: list[exp.Expr]) -> list[exp.Expr]:
    """Everything of the block that will stand above the stage."""
    nodes = [*select.expressions, *calls]
    for key in ("group", "having", "qualify", "windows", "order", "distinct"):
        value = select.args.get(key)
        if value is not None:
            nodes.extend(value if isinstance(value, list) else [value])
    return nodes


def _output_names(select: exp.Select, block: Block, context: PlanContext) -> list[tuple[str, ...]]:
    """For each select item the names of its output columns. The database is asked only where they are not plain to see."""
    plain = [_plain_names(item, block) for item in select.expressions]
    if all(p is not None for p in plain):
        return [p for p in plain if p is not None]
    names = output_names(select, context.relations)
    result = []
    position = 0
    for item in select.expressions:
        width = 1
        if isinstance(item, exp.Star):
            width = len(block.star)
        elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            source = block.source(item.table)
            if source is None:
                raise Opaque
            width = len(source.columns)
        elif (holds(item, exp.Star) and not holds(item, exp.Count)) or any(
            function_name(n) in ("unnest", "columns") for n in item.walk()
        ):
            raise Opaque
        result.append(tuple(names[position : position + width]))
        position += width
    if position != len(names):
        raise Opaque
    return result


def _plain_names(item: exp.Expr, block: Block) -> tuple[str, ...] | None:
    if isinstance(item, exp.Alias):
        if holds(item, exp.Star) and not holds(item, exp.Count):
            return None
        return None if any(function_name(n) in ("unnest", "columns") for n in item.walk()) else (item.alias,)
    if isinstance(item, exp.Star) and not item.args:
        return block.star
    if isinstance(item, exp.Column) and not isinstance(item.this, exp.Star):
        owner = block.source(item.table) if item.table else None
        owners = [owner] if owner is not None else block.owners(item.name)
        names = {c for s in owners for c in s.columns if c.lower() == item.name.lower()}
        return (names.pop(),) if len(owners) == 1 and len(names) == 1 else None
    return None


def _item(item: exp.Expr, names: tuple[str, ...], carrier: _Carrier, whole: Whole) -> list[exp.Expr]:
    if isinstance(item, exp.Star):
        if item.args.get("except_") or item.args.get("replace") or item.args.get("rename"):
            raise Opaque
        columns = _star_columns(carrier.block)
        return [exp.alias_(carrier.carry(c), name, quoted=True) for c, name in zip(columns, names, strict=True)]
    if isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
        if item.this.args.get("except_") or item.this.args.get("replace") or item.this.args.get("rename"):
            raise Opaque
        source = carrier.block.source(item.table)
        assert source is not None
        columns = [_qualified(c, item.table) for c in source.columns]
        return [exp.alias_(carrier.carry(c), name, quoted=True) for c, name in zip(columns, names, strict=True)]
    carried = _carried(item, carrier, frozenset(), whole)
    if isinstance(item, exp.Alias):
        return [carried]
    return [exp.alias_(carried, names[0], quoted=True)]


def _star_columns(block: Block) -> list[exp.Column]:
    """The columns of ``*``, in order: those of all sources, or, where USING and NATURAL merge some, by their one name."""
    qualified = [_qualified(c, s.name) for s in block.sources for c in s.columns]
    if len(qualified) == len(block.star):
        return qualified
    if len({n.lower() for n in block.star}) != len(block.star):
        raise Opaque  # two columns of one name, one of them merged: which is which cannot be told
    columns = []
    for name in block.star:
        owners = block.owners(name)
        merged = exp.column(exp.to_identifier(name, quoted=True))
        columns.append(_qualified(name, owners[0].name) if len(owners) == 1 else merged)
    return columns


def _qualified(column: str, table: str) -> exp.Column:
    return exp.column(exp.to_identifier(column, quoted=True), table=exp.to_identifier(table, quoted=True))


def _carried(node: exp.Expr, carrier: _Carrier, own: frozenset[str] | set[str], whole: Whole) -> exp.Expr:
    """The node with its references to the block's sources replaced; ``own`` names are left (aliases of the select list in ORDER BY)."""
    root = exp.Tuple(expressions=[copied(node)])
    _carry_whole(root, carrier, whole)
    bound = {p.name.lower() for f in all_in(root, exp.Lambda) for p in f.expressions}
    if holds(root, exp.Comprehension) or spreads(root):
        raise Opaque
    for column in all_in(root, exp.Column):
        if isinstance(column.this, exp.Star):
            raise Opaque
        if not column.table and (_is_own(column, own, carrier.block) or column.name.lower() in bound):
            continue
        new = carrier.resolve(column)
        if new is not None:
            column.replace(new)
    result = root.expressions[0]
    result.pop()
    return result  # type: ignore[no-any-return]


def _is_own(column: exp.Column, own: frozenset[str] | set[str], block: Block) -> bool:
    """An alias in ORDER BY: as the whole key, else where no source has such a column."""
    return column.name.lower() in own and (isinstance(column.parent, exp.Ordered) or not block.owners(column.name))


def _carry_whole(node: exp.Expr, carrier: _Carrier, whole: Whole) -> None:
    """Replace, in place, the largest parts that are computed in the stage, by their columns there."""
    for child in list(node.iter_expressions()):
        if whole(child):
            child.replace(carrier.carry(child))
        else:
            _carry_whole(child, carrier, whole)


def _free_name(select: exp.Select) -> str:
    """A name for the stage that nothing inside uses."""
    root = select.root()
    used = {t.alias_or_name.lower() for t in all_in(root, exp.Table, exp.Subquery, exp.CTE)}
    number = 1
    while f"kleene_stage_{number}" in used:
        number += 1
    return f"kleene_stage_{number}"


__all__ = ["Lifted", "lift", "over_joins", "stage"]
