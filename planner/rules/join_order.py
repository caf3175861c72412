"""join_order: relations that only conditions with calls connect are not multiplied out before the first of these conditions.

    SELECT s FROM a, b, c WHERE f(a, b) AND g(b, c)
      = SELECT s FROM (SELECT * FROM (SELECT * FROM a, b WHERE EXISTS (FROM c)) WHERE f(a, b)), c WHERE g(b, c)

What conditions without calls join is one part; outer, semi and lateral joins are barriers, whose sides stay in one part. A condition with
calls is asked over the product of the parts that it reads, thinned by the conditions before it, where no other part is empty: those are the
arguments that rows of the whole product would ask for in that order, no others. So an order costs the calls that it costs without this rule,
and the rows of the whole product are never made: 20 x 20 x 20 of them for 3 tables of 20 rows, whose conditions look at 400 pairs each.

The order is the one that is expected to make the fewest calls (``planner.joinspace``: dynamic programming over sets of conditions with
branch and bound), from the distinct arguments of each condition, which DuckDB counts part by part, and from pass rates: those in
``PlanContext.rates``, else those that earlier statements saw, else one half. Conditions in a row that need no further part become one WHERE, where ``order`` goes on. Where there are
many arguments the runner asks a sample of each condition of which nothing is known first, and plans again with the rates that it saw; not where
no rates could save twice what the sample costs. What it asks is wasted at most for the conditions but the first: 24 calls each.

Side conditions: at most 12 relations in two parts or more, and a condition that does not read all of them; columns can be carried
through a projection, and belong to the block; conditions without subqueries, volatile functions, and calls on demand; no LIMIT that could stop
the block early (``limit_stop`` finds the first rows of the whole product with fewer calls), and not in an EXISTS, IN or scalar subquery. An
error of DuckDB in such a text is not the statement's: it is run as it was written. In a transaction of the user's, which such an error
would abort, the rule does not fire.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext
from kleene.planner.calls import (
    Call,
    aggregates,
    all_in,
    all_of,
    calls_in,
    conjuncts,
    copied,
    has_call,
    holds,
)
from kleene.planner.dialect import CallSQL
from kleene.planner.experience import truth_of
from kleene.planner.joining import Asked, JoinSpec
from kleene.planner.joinspace import Condition, Order, Part, Search
from kleene.planner.learned import ENOUGH
from kleene.planner.rules.order import condition_text, movable
from kleene.planner.rules.stage import Lifted, lift
from kleene.planner.scopes import Opaque, ctes_around, describe_block, items_of, without_calls
from kleene.planner.volatile import any_volatile

MOST_RELATIONS = 12
ASSUMED_ROWS = 1000
ASSUMED_RATE = 0.5
SAMPLE = 24  # arguments of each condition that show its pass rate: a standard error of at most 0.1
FEW = 4 * SAMPLE  # arguments of the first condition up to which no sample is worth its calls
WORTH = 2.0  # times its own calls a sample must be able to save
RARE = 0.05  # a condition that passes so few, while the others pass nearly all, is what a sample may find


def join_order(plan: CallPlan, context: PlanContext) -> CallPlan:
    if not plan.sites or not any(_has_place(s) for s in all_in(plan.tree, exp.Select)):
        return plan
    root = exp.Tuple(expressions=[copied(plan.tree)])
    made: list[JoinSpec] = []
    for select in [s for s in all_in(root, exp.Select) if _has_place(s)]:
        try:
            made.append(_Block(select, plan, context).ordered())
        except Opaque:
            continue
    if not made:
        return plan
    tree = root.expressions[0]
    tree.pop()
    return attrs.evolve(plan.changed(tree, "join_order"), joins=tuple(made), unjoined=plan)


def _has_place(select: exp.Select) -> bool:
    """A block over a few relations with calls in its WHERE alone, all of whose rows are wanted, outside of expressions."""
    where = select.args.get("where")
    joins = select.args.get("joins") or []
    if where is None or not 1 <= len(joins) < MOST_RELATIONS or not has_call(where) or select.args.get("laterals"):
        return False
    if has_call(select.args["from_"]) or any(has_call(j) for j in joins):
        return False
    node: exp.Expr = select
    limited = not aggregates(select)
    while node.parent is not None:
        if limited and isinstance(node, exp.Query) and (node.args.get("limit") or node.args.get("offset")):
            return False
        parent = node.parent
        if isinstance(parent, exp.Subquery):
            if not isinstance(parent.parent, exp.From | exp.Join | exp.SetOperation | exp.Tuple) or parent.args.get(
                "joins"
            ):
                return False
        elif isinstance(parent, exp.CTE):
            with_ = parent.parent
            if not isinstance(with_, exp.With) or with_.args.get("recursive"):
                return False
        elif isinstance(parent, exp.Select):
            if node.arg_key not in ("from_", "joins", "with_"):
                return False
        elif not isinstance(
            parent, exp.From | exp.Join | exp.With | exp.SetOperation | exp.Tuple | exp.Insert | exp.Create
        ):
            return False
        node = parent
    return True


class _Block:
    """One block: its parts, its conditions with calls, and the search for their order."""

    def __init__(self, select: exp.Select, plan: CallPlan, context: PlanContext):
        self._select, self._plan, self._context = select, plan, context
        found = conjuncts(select.args["where"].this)
        self._calls = [c for c in found if has_call(c)]
        self._pure = [c for c in found if not has_call(c)]
        if not all(movable(c, plan) for c in self._calls) or any_volatile(select):
            raise Opaque
        self._block = describe_block(select, context.relations)
        self._place = {source.name.lower(): i for i, source in enumerate(self._block.sources)}
        self._part_of = self._parts()
        self._count = len(set(self._part_of))
        self._reads = [self._parts_read(c) for c in self._calls]
        everything = set(range(self._count))
        if self._count < 2 or not all(self._reads) or all(r == everything for r in self._reads):
            raise Opaque  # nothing to gain: every condition waits for all relations

    def ordered(self) -> JoinSpec:
        """Rewrite the block, in place. Raises ``Opaque``, with the block unchanged."""
        self._check_columns()
        froms = [self._from(part) for part in range(self._count)]
        texts = [condition_text(c, self._plan) for c in self._calls]
        lifted = lift(self._select, self._pure, self._calls, self._block, self._context)
        tables = _Tables(self._select, lifted, froms, self._owner)
        counted = self._counted(lifted, tables)
        learned = [self._learned(call) for call in self._calls]
        rates = [self._context.rates.get(text, known) for text, (known, _) in zip(texts, learned, strict=True)]
        search = Search(*self._model(lifted, tables, counted, rates))
        order, space = search.best()
        others = {o.conditions: o for o in map(search.cheapest_first, range(len(self._calls)))}
        written = tuple(range(len(self._calls)))
        others[written] = search.priced(written)
        others.pop(order.conditions, None)
        asked = tuple(
            Asked(
                text,
                tuple(dict.fromkeys(c.site for c in calls_in(call))),
                tuple(s.name for i, s in enumerate(self._block.sources) if self._part_of[i] in read),
                condition.arguments,
                rate,
                0 if text in self._context.rates else answers,
            )
            for text, call, read, condition, rate, (_, answers) in zip(
                texts, self._calls, self._reads, search.conditions, rates, learned, strict=True
            )
        )
        sample = None
        if counted is not None and _is_open(search, order, rates):
            sample = tables.sample([c for c in order.conditions if rates[c] is None], self._reads)
        tables.join(order.conditions, self._reads)
        ranked = tuple(sorted(others.values(), key=lambda o: (o.calls, o.rows, o.conditions)))
        return JoinSpec(len(self._block.sources), asked, order, ranked, space, counted is not None, sample)

    def _learned(self, condition: exp.Expr) -> tuple[float | None, int]:
        """The share that passes by earlier statements, and how many answers that rests on; None and 0 where they are too few."""
        found = truth_of(condition)
        known = None if found is None else self._context.learned(self._plan.site(found[0]))
        if found is None or known is None or known.answers < ENOUGH:
            return None, 0
        return known.passing(found[1]), known.answers

    # -- parts -------------------------------------------------------------------------------------------------------------------------

    def _parts(self) -> list[int]:
        """For each relation the part that it belongs to."""
        chosen = list(range(len(self._block.sources)))

        def glue(places: set[int]) -> None:
            least = min(chosen[p] for p in places)
            merged = {chosen[p] for p in places}
            for i, part in enumerate(chosen):
                if part in merged:
                    chosen[i] = least

        for conjunct in self._pure:
            places = self._places(conjunct)
            if len(places) > 1:
                glue(places)
        start = 0  # of the joins since the last comma: an outer join has no more than these on its left
        for position, join in enumerate(self._select.args.get("joins") or [], start=1):
            method = str(join.args.get("method") or "").upper()
            kind = str(join.kind or "").upper()
            if method == "POSITIONAL" or kind == "POSITIONAL" or isinstance(join.this, exp.Lateral):
                glue(set(range(position + 1)))
            elif _is_comma(join) and not _is_plain(join.this):
                glue(set(range(position + 1)))  # a table function, whose arguments may read the relations before it
            elif _is_comma(join):
                start = position
            elif method or join.side or kind not in ("", "INNER", "CROSS"):
                glue(set(range(start, position + 1)))
            else:
                on, using = join.args.get("on"), join.args.get("using") or []
                places = {position} | (self._places(on) if on is not None else set())
                for column in using:
                    places |= {i for i, s in enumerate(self._block.sources[:position]) if s.has(column.name)}
                if not _is_plain(join.this):
                    places |= set(range(position))
                glue(places)
        numbers = {part: n for n, part in enumerate(sorted(set(chosen)))}
        return [numbers[part] for part in chosen]

    def _places(self, node: exp.Expr) -> set[int]:
        """The relations that a condition may read."""
        found: set[int] = set()
        for column in all_in(node, exp.Column):
            if column.table:
                place = self._place.get(column.table.lower())
                if place is not None:
                    found.add(place)
                    continue
            name = column.table or column.name
            found |= {self._place[s.name.lower()] for s in self._block.owners(name)}
        return found

    def _parts_read(self, condition: exp.Expr) -> set[int]:
        return {self._part_of[place] for place in self._places(condition)}

    def _check_columns(self) -> None:
        """Every column of a condition is one of the block's own relations: one of a block around it could not be read from below."""
        for conjunct in (*self._calls, *self._pure):
            inner = {t.alias_or_name.lower() for t in all_in(conjunct, exp.Table, exp.Subquery)}
            for column in all_in(conjunct, exp.Column):
                if column.args.get("db") is not None:
                    raise Opaque
                known = column.table.lower() in self._place or column.table.lower() in inner
                if not (known if column.table else self._block.owners(column.name) or inner):
                    raise Opaque

    def _owner(self, column: exp.Expr) -> int:
        """The part that a carried column comes from."""
        places = self._places(column)
        if not places:
            raise Opaque
        return self._part_of[min(places)]

    def _from(self, part: int) -> exp.Select:
        """A part's FROM and WHERE."""
        query = exp.Select(expressions=[])
        items = items_of(self._select)
        links: list[exp.Join | None] = [None, *(self._select.args.get("joins") or [])]
        conditions: list[exp.Expr] = []
        joins: list[exp.Join] = []
        for place, (item, link) in enumerate(zip(items, links, strict=True)):
            if self._part_of[place] != part:
                continue
            if query.args.get("from_") is None:
                query.set("from_", exp.From(this=copied(item)))
                if link is not None and link.args.get("on") is not None:
                    conditions.append(copied(link.args["on"]))
            else:
                assert link is not None
                joins.append(copied(link))
        query.set("joins", joins)
        for conjunct in self._pure:
            places = self._places(conjunct)
            if (self._part_of[min(places)] if places else 0) == part:
                conditions.append(copied(conjunct))
        if conditions:
            query.set("where", exp.Where(this=all_of(conditions)))
        return query

    # -- estimates ---------------------------------------------------------------------------------------------------------------------

    def _counted(self, lifted: Lifted, tables: _Tables) -> list[list[int]] | None:
        """For each part its rows, the values of all columns in conditions together, and of those of each condition that reads it."""
        if any(holds(part, exp.Placeholder, exp.Parameter) for part in tables.parts):
            return None
        items: list[exp.Expr] = []
        widths = []
        for part in range(self._count):
            wanted = [tables.columns_of(lifted.calls, part)]
            wanted += [
                tables.columns_of([c], part) for c, r in zip(lifted.calls, self._reads, strict=True) if part in r
            ]
            query = exp.Select(expressions=[_alias(_count_star(), "n0")])
            for n, names in enumerate(wanted, start=1):
                value = _distinct(names) if names else _count_star()
                query.append("expressions", _alias(value, f"n{n}"))
            query.set("from_", exp.From(this=_subquery(tables.parts[part], f"p{part}")))
            items.append(_subquery(query, f"q{part}"))
            widths.append(len(wanted) + 1)
        around = exp.Select(expressions=[exp.Star()])
        around.set("from_", exp.From(this=items[0]))
        around.set("joins", [exp.Join(this=item) for item in items[1:]])
        bound = tables.with_outer_ctes(around)
        found = self._context.relations.counts(
            without_calls(bound).sql(CallSQL, copy=False), self._context.settings.measure_ms
        )
        if found is None:
            return None
        numbers = iter(found)
        return [[next(numbers) for _ in range(width)] for width in widths]

    def _model(
        self, lifted: Lifted, tables: _Tables, counted: list[list[int]] | None, rates: Sequence[float | None]
    ) -> tuple[list[Part], list[Condition]]:
        counts = [list(c) for c in counted] if counted is not None else []
        parts = [
            Part(float(counts[p][0]), float(counts[p][1])) if counts else Part(ASSUMED_ROWS, ASSUMED_ROWS)
            for p in range(self._count)
        ]
        rest = [iter(c[2:]) for c in counts]
        conditions = []
        for call, reads, rate in zip(lifted.calls, self._reads, rates, strict=True):
            arguments = 1.0
            for part in sorted(reads):
                arguments *= next(rest[part]) if counts else ASSUMED_ROWS
            sites = {c.site for c in calls_in(call) if isinstance(c, Call) and self._asks_a_model(c.site)}
            mask = sum(1 << p for p in reads)
            conditions.append(Condition(mask, arguments, float(len(sites)), ASSUMED_RATE if rate is None else rate))
        return parts, conditions

    def _asks_a_model(self, site: int) -> bool:
        return self._plan.site(site).spec.session != "tool"


def _is_open(search: Search, order: Order, rates: Sequence[float | None]) -> bool:
    """Pass rates that nobody knows could change the order, and save much more than a sample of them costs."""
    unknown = [c for c, rate in enumerate(rates) if rate is None]
    if len(unknown) < 2 or min(search.conditions[c].arguments for c in unknown) <= FEW:
        return False
    cost = SAMPLE * sum(search.conditions[c].price for c in unknown)
    for rare in unknown:
        supposed = [
            attrs.evolve(condition, rate=(RARE if c == rare else 1 - RARE) if c in unknown else condition.rate)
            for c, condition in enumerate(search.conditions)
        ]
        other = Search(search.parts, supposed)
        best = min(map(other.cheapest_first, range(len(supposed))), key=lambda found: found.calls)
        if other.priced(order.conditions).calls - best.calls >= WORTH * cost:
            return True
    return False


class _Tables:
    """The CTEs that a block is rewritten into: one for each part, one for each group of conditions that is asked together."""

    def __init__(self, select: exp.Select, lifted: Lifted, froms: list[exp.Select], owner: Callable[[exp.Expr], int]):
        self._select, self._lifted = select, lifted
        self._columns: list[list[str]] = [[] for _ in froms]
        for item in lifted.inner.expressions:
            if isinstance(item.this, exp.Column):
                part = owner(item.this)
                self._columns[part].append(item.alias)
                froms[part].append("expressions", copied(item))
        for part, query in enumerate(froms):
            if not query.expressions:
                query.append("expressions", exp.alias_(exp.Literal.number(1), f"one{part}"))
        self.parts = froms
        self._holder: exp.Expr = select
        while isinstance(self._holder.parent, exp.SetOperation):
            self._holder = self._holder.parent
        root = select.root()
        self._used = {t.alias_or_name.lower() for t in all_in(root, exp.Table, exp.Subquery, exp.CTE)}
        self._ctes: list[exp.CTE] = []
        self._names = [self._new("part", query) for query in froms]

    def _new(self, kind: str, query: exp.Select) -> str:
        number = 1
        while f"kleene_{kind}_{number}" in self._used:
            number += 1
        name = f"kleene_{kind}_{number}"
        self._used.add(name)
        self._ctes.append(exp.CTE(this=query, alias=exp.TableAlias(this=exp.to_identifier(name))))
        return name

    def columns_of(self, conditions: list[exp.Expr], part: int) -> list[str]:
        """The columns of a part that conditions read."""
        read = {c.name for condition in conditions for c in all_in(condition, exp.Column)}
        return [name for name in self._columns[part] if name in read]

    def with_outer_ctes(self, query: exp.Select) -> exp.Select:
        """The query where the CTEs around the block are seen."""
        with_ = self._visible()
        if with_:
            query.set("with_", exp.With(expressions=[copied(c) for c in with_], recursive=True))
        return query

    def _visible(self) -> list[exp.CTE]:
        seen = {cte.alias.lower(): cte for cte in ctes_around(self._select)}
        return list(seen.values())

    # -- the rewritten block -----------------------------------------------------------------------------------------------------------

    def join(self, order: Sequence[int], reads: list[set[int]]) -> None:
        """Put the CTEs of an order, and the block over the last of them, in place."""
        clusters = {part: self._names[part] for part in range(len(self._names))}  # part → the table that holds it now
        last: str | None = None
        left = list(order)
        while left:
            merged = {clusters[part] for part in reads[left[0]]}
            covered = {part for part, name in clusters.items() if name in merged}
            together = [left.pop(0)]
            while left and reads[left[0]] <= covered:
                together.append(left.pop(0))
            sources = sorted(merged, key=lambda name: min(p for p, n in clusters.items() if n == name))
            others = {n for n in clusters.values() if n not in merged} if last is None else {last} - merged
            condition = all_of([self._lifted.calls[c] for c in together])
            product = self._product(sources, sorted(others))
            if not left and len(covered) == len(clusters):
                self._finish(product, condition)
                return
            query = exp.Select(expressions=[exp.Star()])
            query.set("from_", exp.From(this=product))
            query.set("where", exp.Where(this=condition))
            last = self._new("join", query)
            for part in covered:
                clusters[part] = last
        self._finish(self._product(list(dict.fromkeys(clusters.values())), []), None)

    def _product(self, sources: list[str], others: list[str]) -> exp.Subquery:
        """The product of tables where others have a row, under the name that the conditions use."""
        query = exp.Select(expressions=[exp.Star()])
        query.set("from_", exp.From(this=exp.to_table(sources[0])))
        query.set("joins", [exp.Join(this=exp.to_table(name)) for name in sources[1:]])
        if others:
            exists: list[exp.Expr] = [
                exp.Exists(this=exp.Select(expressions=[exp.Literal.number(1)]).from_(name)) for name in others
            ]
            query.set("where", exp.Where(this=all_of(exists)))
        return exp.Subquery(this=query, alias=copied(self._lifted.alias))

    def _finish(self, source: exp.Subquery, condition: exp.Expr | None) -> None:
        self._select.set("from_", exp.From(this=source))
        if condition is not None:
            self._select.set("where", exp.Where(this=condition))
        with_ = self._holder.args.get("with_")
        if with_ is None:
            self._holder.set("with_", exp.With(expressions=self._ctes))
        else:
            with_.set("expressions", [*with_.expressions, *self._ctes])

    # -- samples -----------------------------------------------------------------------------------------------------------------------

    def sample(self, conditions: list[int], reads: list[set[int]]) -> exp.Expr:
        """A query for the pass rates: for each condition its index, and how many of ``SAMPLE`` of its arguments pass."""
        branches = []
        for c in conditions:
            query = exp.Select(expressions=[_alias(exp.Literal.number(c), "c"), _alias(_count_star(), "p")])
            query.set("from_", exp.From(this=self._some(c, sorted(reads[c]))))
            query.set("where", exp.Where(this=copied(self._lifted.calls[c])))
            branches.append(query)
        found: exp.Expr = branches[0]
        for branch in branches[1:]:
            found = exp.Union(this=found, expression=branch, distinct=False)
        with_ = [*self._visible(), *self._ctes]
        found.set("with_", exp.With(expressions=[copied(c) for c in with_], recursive=True))
        return found

    def _some(self, condition: int, parts: list[int]) -> exp.Subquery:
        """Arguments of one condition: of each part some values, in an order that has nothing to do with the rows', put side by side."""
        number = exp.column("n", table="kleene_number")
        query = exp.Select(expressions=[exp.Star()])
        query.set("from_", exp.From(this=_subquery(_numbers(SAMPLE), "kleene_number")))
        places: list[exp.Expr] = []
        for part in parts:
            names = self.columns_of([self._lifted.calls[condition]], part) or self._columns[part]
            distinct = exp.Select(expressions=[exp.column(n) for n in names], distinct=exp.Distinct())
            distinct.set("from_", exp.From(this=exp.to_table(self._names[part])))
            mixed = exp.Anonymous(this="hash", expressions=[exp.Literal.number(part), *(exp.column(n) for n in names)])
            place = exp.Window(
                this=exp.RowNumber(), order=exp.Order(expressions=[exp.Ordered(this=mixed, nulls_first=False)])
            )
            spread = exp.Select(
                expressions=[
                    *(exp.column(n) for n in names),
                    _alias(exp.Sub(this=place, expression=exp.Literal.number(1)), f"kleene_place_{part}"),
                    _alias(exp.Window(this=_count_star()), f"kleene_size_{part}"),
                ]
            )
            spread.set("from_", exp.From(this=_subquery(distinct, f"kleene_values_{part}")))
            query.append("joins", exp.Join(this=_subquery(spread, f"kleene_spread_{part}")))
            turn = exp.Mod(this=copied(number), expression=exp.column(f"kleene_size_{part}"))
            places.append(exp.EQ(this=exp.column(f"kleene_place_{part}"), expression=turn))
        query.set("where", exp.Where(this=all_of(places)))
        return exp.Subquery(this=query, alias=copied(self._lifted.alias))


def _numbers(count: int) -> exp.Select:
    listed = exp.Anonymous(this="range", expressions=[exp.Literal.number(count)])
    return exp.Select(expressions=[_alias(exp.Anonymous(this="unnest", expressions=[listed]), "n")])


def _is_comma(join: exp.Join) -> bool:
    return not any(join.args.get(key) for key in ("on", "using", "side", "kind", "method"))


def _is_plain(item: exp.Expr) -> bool:
    """A relation that reads no other: a named table, or a subquery."""
    return isinstance(item, exp.Subquery) or (isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier))


def _count_star() -> exp.Count:
    return exp.Count(this=exp.Star())


def _distinct(names: list[str]) -> exp.Count:
    columns = [exp.column(name) for name in names]
    value = columns[0] if len(columns) == 1 else exp.Anonymous(this="row", expressions=columns)
    return exp.Count(this=exp.Distinct(expressions=[value]))


def _alias(value: exp.Expr, name: str) -> exp.Alias:
    return exp.Alias(this=value, alias=exp.to_identifier(name))


def _subquery(query: exp.Select, name: str) -> exp.Subquery:
    return exp.Subquery(this=copied(query), alias=exp.TableAlias(this=exp.to_identifier(name)))


__all__ = ["SAMPLE", "join_order"]
