"""materialise: what a statement computes without calls is computed once, and kept in temp tables while the statement runs.

    SELECT f(x) FROM q  =  SELECT f(x) FROM kept        kept = the rows of q, q without calls

It saves time, not calls: each run of the fixed point computes its pure blocks again, and six nested calls take seven runs. A statement whose
pure part takes P then costs 2 P (the first run, and filling the tables) in place of (depth + 1) P. The kept rows also do not change from run
to run, as an unordered ``string_agg`` or a LIMIT may. So this rule is not part of planning: the runner applies it when the first run took
``SET materialise_ms`` or more, when more than one further run may follow, or when arguments were seen to change; quick statements never
pay for it.

Kept are: subqueries, CTEs, operands of set operations and the anchor of a recursion without calls; of a block with calls its FROM, the
conjuncts of its WHERE without calls, its GROUP BY and aggregates where no call stands in them. Side conditions: a query or CREATE TABLE AS
(a write reads what it changes); every read of the statement is kept, or none, all at once in one transaction, for a table read at one moment
and another read later are rows that never were together; no block is kept that reads columns of an outer one (that part of it is kept which
does not); no hidden columns (``rowid``), which a temp table does not have. Temp tables keep the order of rows.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
from sqlglot import exp

from kleene.planner.callplan import CallPlan, Kept, PlanContext
from kleene.planner.calls import (
    Call,
    KeptRows,
    Ready,
    Round,
    Seen,
    aggregates,
    all_in,
    all_of,
    conjuncts,
    copied,
    has_call,
    holds,
    nodes,
    released,
)
from kleene.planner.dialect import function_name, spreads
from kleene.planner.grouping import over_groups
from kleene.planner.rules.stage import over_joins
from kleene.planner.scopes import HIDDEN, Opaque, bound, ctes_around, items_of
from kleene.planner.volatile import any_volatile

OURS = (Call, Ready, Seen, Round)
LAZY = (exp.Case, exp.If, exp.Coalesce, exp.Connector, exp.Lambda, exp.Filter, exp.Query)
LIGHT = (exp.Cast, exp.TryCast, exp.Concat, exp.DPipe)


def materialise(plan: CallPlan, context: PlanContext) -> CallPlan:
    created = isinstance(plan.tree, exp.Create) and isinstance(plan.tree.expression, exp.Query)
    if plan.kept or not (created or (plan.kind == "query" and isinstance(plan.tree, exp.Query))):
        return plan
    if not has_call(plan.tree):
        return plan  # nothing reads its answers: there is no second run
    root = exp.Tuple(expressions=[copied(plan.tree)])
    top = root.expressions[0]
    try:
        kept = _Keeper(root, context).keep_all(top.expression if created else top)
    except Opaque:
        return plan
    return attrs.evolve(plan.changed(released(root), "materialise"), kept=kept, compact=None, rows=None)


class _Keeper:
    """Changes one statement in place, and gathers what it keeps."""

    def __init__(self, root: exp.Expr, context: PlanContext):
        self._root = root
        self._context = context
        self._kept: list[Kept] = []
        self._uses: list[list[exp.CTE]] = []
        self._ctes = all_in(root, exp.CTE)
        names = [c.alias.lower() for c in self._ctes]
        if len(set(names)) != len(names):
            raise Opaque
        self._impure = self._impure_names()
        self._mentioned = self._mentioned_names()

    def keep_all(self, query: exp.Expr) -> tuple[Kept, ...]:
        for column in all_in(self._root, exp.Column):
            if column.args.get("db") is not None or column.name.lower() in HIDDEN:
                raise Opaque
        self._cover(query)
        # A CTE after those that read it: what is bound there has to see the CTEs before it as they were written.
        for cte in reversed(self._ctes):
            if cte.alias.lower() in self._impure:
                self._cover(cte.this)
        behind = {id(cte): self._ctes_of(cte) for cte in self._ctes}  # now: one that is dropped has none around it
        self._drop_unread()
        around = query.parent  # the query itself may be kept by now
        assert around is not None
        targets = around.args.get("this") if isinstance(around, exp.Create) else None
        left = [t for t in all_in(around, exp.Table) if not (isinstance(targets, exp.Expr) and _is_inside(t, targets))]
        if not self._kept or any(map(self._is_read, left)):
            raise Opaque
        return self._with_their_ctes(behind)

    # -- what is pure ------------------------------------------------------------------------------------------------------------------

    def _impure_names(self) -> frozenset[str]:
        impure: set[str] = set()
        while True:
            more = {
                c.alias.lower() for c in self._ctes if holds(c.this, *OURS) or any(n in impure for n in _tables(c.this))
            }
            if more <= impure:
                return frozenset(impure)
            impure |= more

    def _is_pure(self, node: exp.Expr | None) -> bool:
        return node is None or not (holds(node, *OURS) or any(n in self._impure for n in _tables(node)))

    def _stands_alone(self, query: exp.Expr) -> bool:
        """The query has no call and reads no column of a block around it."""
        return self._is_pure(query) and bound(query, self._context.relations) is not None

    def _is_read(self, table: exp.Table) -> bool:
        """The table is the database's, or a function's, not a CTE's."""
        return not _is_plain(table) or table.name.lower() not in {c.alias.lower() for c in self._ctes}

    def _mentioned_names(self) -> frozenset[str] | None:
        """Every name of the statement, None where columns may be meant without being named."""
        tree = self._root
        starred = any(_is_shown(star) for star in all_in(tree, exp.Star))
        natural = any(j.args.get("method") for j in all_in(tree, exp.Join))
        if starred or natural or spreads(tree):
            return None
        rows = {t.alias_or_name.lower() for t in all_in(tree, exp.Table)}
        if any(not c.table and c.name.lower() in rows for c in all_in(tree, exp.Column)):
            return None  # a table's name as a value is its whole row
        return frozenset(i.name.lower() for i in all_in(tree, exp.Identifier))

    # -- covering a query --------------------------------------------------------------------------------------------------------------

    def _cover(self, query: exp.Expr) -> None:
        """Replace, in place, every read inside by one of kept rows. Raises ``Opaque`` where that cannot be done."""
        while isinstance(query, exp.Subquery | exp.Paren):
            if query.args.get("joins"):
                raise Opaque
            query = query.this
        if not any(self._reads(t) for t in all_in(query, exp.Table)):
            return
        if isinstance(query, exp.Query) and self._stands_alone(query):
            query.replace(self._keep(query))
        elif isinstance(query, exp.SetOperation):
            self._cover(query.left)
            self._cover(query.right)
        elif isinstance(query, exp.Select):
            self._cover_block(query)
        else:
            raise Opaque

    def _reads(self, table: exp.Table) -> bool:
        """Reads the database, itself or through a CTE without calls."""
        if self._is_read(table):
            return True
        name = table.name.lower()
        body = next(c.this for c in self._ctes if c.alias.lower() == name)
        return name not in self._impure and any(
            t.name.lower() != name and self._reads(t) for t in all_in(body, exp.Table)
        )

    def _cover_block(self, block: exp.Select) -> None:
        if block.args.get("laterals"):
            raise Opaque
        if block.args.get("from_") is not None:
            items = items_of(block)
            joins = block.args.get("joins") or []
            if all(self._is_pure(node) for node in (*items, *joins)):
                self._keep_sources(block)
            else:
                for item in items:
                    self._cover_item(item)
        for query in _queries(block):
            self._cover(query)

    def _cover_item(self, item: exp.Expr) -> None:
        if isinstance(item, exp.Subquery | exp.Lateral) and isinstance(item.this, exp.Query):
            self._cover(item.this)
        elif isinstance(item, exp.Table) and self._reads(item):
            if item.args.get("joins") or not self._is_pure(item):  # a PIVOT with calls
                raise Opaque
            self._keep_item(item, [])

    # -- keeping -----------------------------------------------------------------------------------------------------------------------

    def _keep_sources(self, block: exp.Select) -> None:
        """Keep what a block computes before its first call."""
        single = len(items_of(block)) == 1
        where = block.args.get("where")
        parts = conjuncts(where.this) if where is not None else []
        pure = self._alone_in(block, [p for p in parts if self._is_pure(p)])
        calls = [p for p in parts if p not in pure]
        item = items_of(block)[0]
        if single and isinstance(item, exp.Subquery) and not pure and not aggregates(block):
            self._cover(item.this)
            return
        if any(self._is_pure(c) or holds(c, Seen) for c in calls):
            # What joins it to the block around it, or counts its rows, stays where it is: in a block of its own DuckDB would move it, and the calls
            # would be asked for rows that the condition drops.
            self._keep_item_beside(block, item, pure, calls, single=single)
            return
        try:
            below = over_groups(block, self._context) if not calls else None
        except Opaque:
            below = None
        try:
            below = below or over_joins(block, pure, calls, self._context, self._whole(block, calls))
        except Opaque:
            self._keep_item_beside(block, item, pure, calls, single=single)
            return
        self._replace_bound(below)

    def _keep_item_beside(
        self, block: exp.Select, item: exp.Expr, pure: list[exp.Expr], calls: list[exp.Expr], *, single: bool
    ) -> None:
        """Keep the block's one FROM item with the conditions that read it alone; the others stay in the block."""
        if not single:
            raise Opaque
        self._keep_item(item, pure)
        block.set("where", exp.Where(this=all_of([copied(c) for c in calls])) if calls else None)

    def _alone_in(self, block: exp.Select, conditions: list[exp.Expr]) -> list[exp.Expr]:
        """The conditions that read the block's own sources only."""

        def binds(chosen: list[exp.Expr]) -> bool:
            probe = exp.Select(expressions=[exp.Literal.number(1)])
            probe.set("from_", copied(block.args["from_"]))
            probe.set("joins", [copied(j) for j in block.args.get("joins") or []])
            probe.set("where", exp.Where(this=all_of([copied(c) for c in chosen])))
            probe.parent = block  # for the CTEs around it
            return bound(probe, self._context.relations) is not None

        if not conditions or binds(conditions):
            return conditions
        return [c for c in conditions if binds([c])]

    def _whole(self, block: exp.Select, calls: list[exp.Expr]) -> Callable[[exp.Expr], bool]:
        """What is computed once besides columns: windows, and arguments that take work and that every row reaches."""
        aliases = {e.alias.lower() for e in block.expressions if isinstance(e, exp.Alias)}
        plain = not calls and not aggregates(block)
        limited = any(block.args.get(k) for k in ("limit", "offset", "qualify", "distinct"))

        def whole(node: exp.Expr) -> bool:
            if not plain or has_call(node) or not holds(node, exp.Column) or any_volatile(node):
                return False
            if any(not c.table and c.name.lower() in aliases for c in all_in(node, exp.Column)):
                return False
            if isinstance(node, exp.Window):
                return not node.args.get("alias") and not block.args.get("qualify")  # QUALIFY has to find its windows
            heavy = any(isinstance(n, exp.Func) and not isinstance(n, LIGHT) for n in nodes(node))
            return heavy and not limited and isinstance(node.parent, Call | Ready) and _is_reached(node)

        return whole

    def _keep_item(self, item: exp.Expr, pure: list[exp.Expr]) -> None:
        """Keep one FROM item, in place, under its own name."""
        rows = exp.Select(expressions=[exp.Star()])
        rows.set("from_", exp.From(this=copied(item)))
        if pure:
            rows.set("where", exp.Where(this=all_of([copied(p) for p in pure])))
        rows.parent = item.parent  # for the CTEs around it
        around = exp.Subquery(this=rows)
        name = _name_of(item)
        if name is not None:
            around.set("alias", exp.TableAlias(this=name))
        item.replace(around)
        self._replace_bound(rows)

    def _replace_bound(self, query: exp.Select) -> None:
        if bound(query, self._context.relations) is None:
            raise Opaque
        query.replace(self._keep(query))

    def _keep(self, query: exp.Expr) -> exp.Select:
        self._uses.append(self._ctes_of(query))
        self._kept.append(Kept(len(self._kept) + 1, self._narrowed(query)))
        return _rows_of(self._kept[-1])

    def _narrowed(self, query: exp.Expr) -> exp.Expr:
        """A copy that reads the columns which the statement names, in place of ``*``: DuckDB would not compute the others either."""
        narrow = copied(query)
        stars = isinstance(query, exp.Select) and [type(e) for e in query.expressions] == [exp.Star]
        if self._mentioned is None or not stars or query.args.get("distinct") or query.expressions[0].args:
            return narrow
        columns = bound(query, self._context.relations) or ()
        if len({c.lower() for c, _ in columns}) < len(columns):
            return narrow
        named = [c for c, _ in columns if c.lower() in self._mentioned] or [c for c, _ in columns[:1]]
        narrow.set("expressions", [exp.column(exp.to_identifier(c, quoted=True)) for c in named])
        return narrow

    # -- CTEs --------------------------------------------------------------------------------------------------------------------------

    def _ctes_of(self, query: exp.Expr) -> list[exp.CTE]:
        """The CTEs around a query that it reads, in order."""
        around = ctes_around(query)
        names, before = _tables(query), None
        while names != before:
            before = names
            names = names.union(*(_tables(c.this) for c in around if c.alias.lower() in names))
        return [c for c in around if c.alias.lower() in names]

    def _with_their_ctes(self, behind: dict[int, list[exp.CTE]]) -> tuple[Kept, ...]:
        """What is kept with the CTEs that it reads; one that several read is kept itself, before them."""
        shared: list[exp.CTE] = []
        for cte in self._ctes:
            if sum(any(c is cte for c in uses) for uses in self._uses) > 1:
                shared.append(cte)
        first: dict[int, Kept] = {}
        for cte in shared:
            rows = exp.Select(expressions=[exp.Star()])
            rows.set("from_", exp.From(this=exp.Table(this=copied(cte.args["alias"].this))))
            uses = [c for c in behind[id(cte)] if c is not cte]
            query = self._with_ctes(rows, [*uses, cte], first)
            first[id(cte)] = Kept(len(self._kept) + len(first) + 1, query)
        rest = [
            attrs.evolve(k, query=self._with_ctes(k.query, u, first))
            for k, u in zip(self._kept, self._uses, strict=True)
        ]
        return (*first.values(), *rest)

    def _with_ctes(self, query: exp.Expr, uses: list[exp.CTE], kept: dict[int, Kept]) -> exp.Expr:
        """The query with the CTEs that it uses; those that are kept as their rows."""
        if not uses:
            return query
        made = []
        for cte in uses:
            if id(cte) in kept:
                name = exp.TableAlias(this=copied(cte.args["alias"].this))
                made.append(exp.CTE(this=_rows_of(kept[id(cte)]), alias=name))
            else:
                made.append(copied(cte))
        query = copied(query)
        own = query.args.get("with_")
        sources = [*(c.parent for c in uses), own]
        recursive = any(isinstance(s, exp.With) and s.args.get("recursive") for s in sources)
        made.extend(own.expressions if own is not None else ())
        query.set("with_", exp.With(expressions=made, recursive=recursive))
        return query

    def _drop_unread(self) -> None:
        """Take away the CTEs without calls that nothing reads any more; the kept queries hold what they need of them."""
        for cte in reversed(self._ctes):
            name = cte.alias.lower()
            with_ = cte.parent
            if name in self._impure or not isinstance(with_, exp.With):
                continue
            outside = [t for t in all_in(self._root, exp.Table) if _is_plain(t) and t.name.lower() == name]
            if all(_is_inside(t, cte) for t in outside):
                left = [c for c in with_.expressions if c is not cte]
                if left:
                    with_.set("expressions", left)
                elif with_.parent is not None:
                    with_.parent.set("with_", None)
                cte.parent = with_  # still where its own CTEs are looked for


def _rows_of(kept: Kept) -> exp.Select:
    source = KeptRows(this=kept.number)
    source.meta["query"] = kept.query
    rows = exp.Select(expressions=[exp.Star()])
    rows.set("from_", exp.From(this=source))
    return rows


def _name_of(item: exp.Expr) -> exp.Identifier | None:
    """What a FROM item is called: by its alias, by its table, or by its function; a subquery may have no name."""
    alias = item.args.get("alias")
    name = alias.this if isinstance(alias, exp.TableAlias) else item.this
    if isinstance(name, exp.Identifier):
        return copied(name)
    if isinstance(item, exp.Subquery):
        return None
    function = function_name(item.this) if isinstance(item, exp.Table) else None
    if function is None:
        raise Opaque
    return exp.to_identifier(function, quoted=True)


def _is_shown(star: exp.Expr) -> bool:
    """The columns of a ``*`` are the statement's, or matter where it stands; not where a block around it names those that it reads."""
    if isinstance(star.parent, exp.Count):
        return False
    item = star.parent if isinstance(star.parent, exp.Column) else star
    block = item.parent
    around = block.parent if isinstance(block, exp.Select) else None
    if star.args or not isinstance(around, exp.Subquery) or not isinstance(around.parent, exp.From | exp.Join):
        return not isinstance(around, exp.Exists)
    outer = around.parent.parent
    if not isinstance(outer, exp.Select) or block is None or block.args.get("distinct"):
        return True
    stars = [s for e in outer.expressions for s in all_in(e, exp.Star)]
    return any(_is_shown(s) for s in stars)


def _is_plain(table: exp.Table) -> bool:
    return isinstance(table.this, exp.Identifier) and not table.args.get("db")


def _tables(node: exp.Expr) -> frozenset[str]:
    return frozenset(t.name.lower() for t in all_in(node, exp.Table) if _is_plain(t))


def _is_inside(node: exp.Expr, around: exp.Expr) -> bool:
    here: exp.Expr | None = node
    while here is not None and here is not around:
        here = here.parent
    return here is around


def _is_reached(node: exp.Expr) -> bool:
    """Every row evaluates it: nothing around it may leave it out."""
    parent = node.parent
    while parent is not None and not isinstance(parent, exp.Select):
        if isinstance(parent, LAZY):
            return False
        parent = parent.parent
    return True


def _queries(block: exp.Select) -> list[exp.Expr]:
    """The outermost queries of a block's expressions, those in FROM and WITH apart."""
    found: list[exp.Expr] = []

    def visit(node: exp.Expr) -> None:
        if isinstance(node, exp.Query):
            found.append(node)
            return
        for child in node.iter_expressions():
            visit(child)

    for child in block.iter_expressions():
        if isinstance(child, exp.Join):
            for key in ("on", "using"):
                value = child.args.get(key)
                for node in value if isinstance(value, list) else [value]:
                    if isinstance(node, exp.Expr):
                        visit(node)
        elif not isinstance(child, exp.From | exp.With):
            visit(child)
    return found


__all__ = ["materialise"]
