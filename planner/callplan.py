"""The plan of one statement: the rewritten tree with ``Call`` nodes, and its call sites. Frozen; rules make new ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import attrs
from sqlglot import exp

from kleene.planner.calls import Call, Ready, all_in, calls_in, nodes
from kleene.planner.dialect import spreads
from kleene.planner.joining import JoinSpec
from kleene.planner.learned import Learned
from kleene.planner.settings import Settings
from kleene.planner.specs import CallSpec, Span, Volatility
from kleene.planner.views import View


@attrs.frozen
class Cascade:
    """The cascade that a call of ``function`` stands in: ``proxy`` decides from ``high`` up and below ``low`` (None: never).

    ``share`` is the part of the rows that is asked, as far as a sample of scores tells; ``guarantee`` what CALIBRATE found to hold.
    """

    function: str
    proxy: str
    low: float | None
    high: float | None
    share: float | None = None
    guarantee: str = ""

    def describe(self) -> str:
        """A sentence for EXPLAIN."""
        sides = [] if self.high is None else [f"true from {self.high:.6g}"]
        sides += [] if self.low is None else [f"false below {self.low:.6g}"]
        said = f"cascade {self.function} by {self.proxy}: {', '.join(sides) or 'every row is asked'}; "
        return said + (self.guarantee or "declared, nothing is guaranteed")


@attrs.frozen
class Site:
    """One distinct call expression of a statement.

    ``demand`` is the reason why its calls are made inside DuckDB's run (recursive term, volatile function, ...), None for a lookup.
    ``label`` is the call as the user wrote it; ``depends`` are the sites inside its arguments; ``waits`` those that
    must lack no answer before this one is asked (``planner.waiting``), itself among them where its own answers reach its arguments so.
    ``cascade`` is what a proxy leaves to it. ``asks`` is the prompt with holes where a row's values stand, ``{column}``: what its calls have
    in common with those of other statements.
    """

    number: int
    spec: CallSpec
    volatility: Volatility
    label: str
    arity: int
    demand: str | None = None
    depends: frozenset[int] = frozenset()
    waits: frozenset[int] = frozenset()
    span: Span | None = None
    cascade: Cascade | None = None
    asks: str = ""

    @property
    def is_independent(self) -> bool:
        """Its arguments are the same in every run: rows may come, as answers do, but what was asked does not go."""
        return not self.depends and not self.waits


@attrs.frozen
class StopSpec:
    """A place where not every answer is needed. ``site`` is asked in waves. ``rows`` None: EXISTS, one row a group; else LIMIT + OFFSET.

    ``site`` 0: nothing is asked here, rows are counted for another stop: the EXISTS that is ``within`` this LIMIT, or the branches of a UNION
    ALL that fill one LIMIT (``shared``: the number of the first of them). ``distinct``: rows are counted by their group, each once.
    ``partner`` is the other site of a comparison of two calls, whose arguments are asked with those of ``site``. ``fan``: a call makes rows.
    """

    number: int
    site: int
    rows: int | None = None
    ordered: bool = False
    within: int | None = None
    shared: int | None = None
    distinct: bool = False
    partner: int | None = None
    fan: bool = False


Experience = Callable[[Site], Learned | None]
"""What is known of calls like those of a site; None where that is nothing, or too little to go by."""

Formula = int | tuple[str, tuple["Formula", ...]]
"""A condition over the units of a route: a unit's index, or ``and`` / ``or`` over formulas."""


def leaves(formula: Formula) -> list[int]:
    """The operands of a formula, in its order, each once."""
    if isinstance(formula, int):
        return [formula]
    return list(dict.fromkeys(leaf for part in formula[1] for leaf in leaves(part)))


@attrs.frozen
class Unit:
    """One operand of a route: the sites inside, in the order of the text; none in a pure one. ``written`` gives what the user wrote: printing
    it costs more than planning the operand. ``truth``: it is a call, or (FALSE) the negation of one; None for all others."""

    sites: tuple[int, ...]
    written: Callable[[], str] = attrs.field(eq=False)
    truth: bool | None = None

    @property
    def text(self) -> str:
        return self.written()


@attrs.frozen
class RouteSpec:
    """A condition whose operands are asked in an order found while the statement runs (rule ``order``). ``stop`` is the number of the stop that
    watches it, if one does. ``steady``: which answer comes first never decides what is asked, as the rows depend on no call and there are two
    operands of one call each: of three, a late one that is known by chance could spare the second."""

    number: int
    units: tuple[Unit, ...]
    formula: Formula
    stop: int | None = None
    steady: bool = False


@attrs.frozen
class RoundSpec:
    """A recursive CTE whose rounds are counted. ``rounds`` is MAXRECURSION's number, None where it is not given."""

    number: int
    cte: str
    rounds: int | None = None


@attrs.frozen
class Kept:
    """A pure block whose rows are kept in a temp table while the statement runs; ``KeptRows`` of its number read it."""

    number: int
    query: exp.Expr


@attrs.frozen
class CallPlan:
    """``tree`` holds ``Call`` nodes that refer to ``sites`` by number. ``kind``: query, write (the loop runs around it), or other.

    ``suspicious``: something in it (an unordered string_agg, a LIMIT, ...) may change from run to run, so notes are compared before they
    are paid for. ``rules`` names the rules that changed it. ``alternatives`` are
    other plans with the same rows, to be priced against this one. ``compact`` is the same statement over the same sites for inputs of many
    rows with few distinct arguments (rule ``distinct_first``), and ``rows`` the query that counts those rows. ``kept`` are the blocks that are
    kept in temp tables, each of which may read those before it (rule ``materialise``). ``joins`` tell of the blocks whose conditions are
    asked in an order of our own (rule ``join_order``), and ``unjoined`` is the plan as it was before. ``frozen`` is the same statement over rows
    that are kept before its first run, where what they are changes from run to run (rule ``freeze``): to be preferred where it can be had.
    """

    tree: exp.Expr
    sites: tuple[Site, ...]
    kind: str = "query"
    suspicious: bool = False
    rules: tuple[str, ...] = ()
    stops: tuple[StopSpec, ...] = ()
    routes: tuple[RouteSpec, ...] = ()
    alternatives: tuple[CallPlan, ...] = ()
    rounds: tuple[RoundSpec, ...] = ()
    compact: CallPlan | None = None
    rows: exp.Expr | None = None
    kept: tuple[Kept, ...] = ()
    joins: tuple[JoinSpec, ...] = ()
    unjoined: CallPlan | None = None
    frozen: CallPlan | None = None

    @property
    def is_reordered(self) -> bool:
        """Conditions are asked in an order of our own: an error of DuckDB may be of that order alone."""
        return bool(self.routes or self.joins)

    def site(self, number: int) -> Site:
        return self.sites[number - 1]

    def controls(self, number: int) -> frozenset[int]:
        """The sites whose answers decide whether this one is reached: conditions around it, stages below it, its block's WHERE. The site
        itself is one where a condition asks it of several columns, ``f(COLUMNS(..))``."""
        found: set[int] = set()
        ctes = {cte.alias.lower(): cte.this for cte in all_in(self.tree, exp.CTE)}
        for call in all_in(self.tree, Call):
            if call.site == number:
                found |= _controls(call, ctes)
        around = {
            s.number for s in self.sites if number in s.depends
        }  # they need its answer, whatever they decide elsewhere
        return frozenset(found - self.site(number).depends - around)

    def proxy_of(self, site: Site) -> Site | None:
        """The site of the proxy that leaves a site its calls; None where it has none, or one that makes no call."""
        if site.cascade is None:
            return None
        name = f"{site.cascade.proxy} for {site.label}"
        return next((s for s in self.sites if s.label == name), None)

    def named_sites(self) -> dict[str, tuple[int, ...]]:
        """The sites of the calls in each column that has a name of its own; columns of one name and other calls are left out."""
        found: dict[str, tuple[int, ...]] = {}
        for node in nodes(self.tree):
            if isinstance(node, exp.Alias):
                sites = tuple(dict.fromkeys(c.site for c in calls_in(node.this)))
                found[node.alias] = () if found.get(node.alias, sites) != sites else sites
        return {name: sites for name, sites in found.items() if sites}

    def on_demand(self, reason: str) -> CallPlan:
        """The plan with all of its calls made inside DuckDB's one run."""
        sites = tuple(attrs.evolve(s, demand=s.demand or reason) for s in self.sites)
        return attrs.evolve(self, sites=sites, stops=(), routes=(), suspicious=False, compact=None)

    def as_written(self) -> CallPlan:
        """The plan with the operands of its conditions in the order of the text."""
        compact = None if self.compact is None else self.compact.as_written()
        return attrs.evolve(self.unrouted({r.number for r in self.routes}), compact=compact)

    def unrouted(self, numbers: set[int]) -> CallPlan:
        """The plan without the routes of these numbers: their operands are asked as they stand."""
        routes = tuple(route for route in self.routes if route.number not in numbers)
        rules = self.rules if routes else tuple(rule for rule in self.rules if rule != "order")
        return attrs.evolve(self, routes=routes, rules=rules)

    def with_depends(self) -> CallPlan:
        """The plan with what its sites' arguments hold now, after expressions were put in place of names."""
        below: dict[int, set[int]] = {}
        for call in all_in(self.tree, Call):
            below.setdefault(call.site, set()).update(c.site for a in call.expressions for c in calls_in(a))
        sites = tuple(attrs.evolve(s, depends=s.depends | below.get(s.number, set())) for s in self.sites)
        return attrs.evolve(self, sites=sites)

    def changed(self, tree: exp.Expr, rule: str) -> CallPlan:
        return attrs.evolve(self, tree=tree, rules=(*self.rules, rule))


WRITTEN: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Update: ("from_", "where", "expressions", "returning"),
    exp.Delete: ("using", "where", "returning"),
    exp.Insert: ("expression", "conflict", "returning"),
    exp.OnConflict: ("where", "expressions"),
    exp.Merge: ("using", "on", "whens", "returning"),
    exp.When: ("condition", "then"),
}
"""The parts of a write, each after those that decide about its rows."""


def _controls(call: Call, ctes: dict[str, exp.Expr]) -> set[int]:
    found: set[int] = set()
    filtered = call.find_ancestor(exp.Where, exp.Having, exp.Qualify, exp.Join, exp.Select)
    itself = not isinstance(filtered, exp.Select) and spreads(call)
    child: exp.Expr = call
    parent = call.parent
    while parent is not None:
        before: Sequence[object] = ()
        if isinstance(parent, exp.If) and child is not parent.this:
            before = [parent.this]
        elif isinstance(parent, exp.Case):
            branches = parent.args["ifs"]
            before = (
                [b.this for b in branches[: branches.index(child)]] if child in branches else [b.this for b in branches]
            )
        elif isinstance(parent, exp.And | exp.Or) and child is parent.expression:
            before = [parent.this]
        elif isinstance(parent, exp.Join) and isinstance(parent.parent, exp.Select):
            if child.arg_key == "on" or isinstance(child, exp.Lateral | exp.Unnest):
                sources = _sources(parent.parent)
                before = [*sources[: sources.index(parent)], parent.this if child is not parent.this else None]
        elif isinstance(parent, exp.Select) and child.arg_key == "laterals":
            before = _sources(parent)
        elif isinstance(parent, exp.Select) and child.arg_key not in ("with_", "from_", "joins"):
            before = [*_sources(parent), parent.args.get("where") if child.arg_key != "where" else None]
            if child.arg_key in ("expressions", "order", "distinct") and not isinstance(
                call.find_ancestor(exp.AggFunc, exp.Select), exp.AggFunc
            ):
                before = [*before, parent.args.get("having")]
        elif type(parent) in WRITTEN and child.arg_key in WRITTEN[type(parent)]:
            parts = WRITTEN[type(parent)]
            earlier = [parent.args.get(key) for key in parts[: parts.index(child.arg_key)]]
            before = [node for part in earlier for node in (part if isinstance(part, list) else [part])]
        for node in before:
            if isinstance(node, exp.Expr):
                found |= _reached(node, ctes)
        child, parent = parent, parent.parent
    return found | {call.site} if itself else found - {call.site}


def _sources(select: exp.Select) -> list[exp.Expr]:
    from_ = select.args.get("from_")
    return [
        *([] if from_ is None else [from_]),
        *(select.args.get("joins") or []),
        *(select.args.get("laterals") or []),
    ]


def _reached(node: exp.Expr, ctes: dict[str, exp.Expr]) -> set[int]:
    """The sites in a tree, and in the CTEs that it reads."""
    found: set[int] = set()
    todo, seen = [node], set[str]()
    while todo:
        for inner in nodes(todo.pop()):
            if isinstance(inner, Call | Ready):
                found.add(inner.site)
            elif isinstance(inner, exp.Table) and not inner.args.get("db"):
                name = inner.name.lower()
                if name in ctes and name not in seen:
                    seen.add(name)
                    todo.append(ctes[name])
    return found


class Relations(Protocol):
    """What the planner may ask of the database. Only ``counts`` runs anything, and not for long."""

    def snapshot(self) -> Relations:
        """The same, with the same answers for the time of one plan."""
        ...

    def describe(self, query: str) -> tuple[tuple[str, str], ...] | None:
        """Column names and DuckDB types of a query's result, None where DuckDB cannot bind it."""
        ...

    def ordering(self) -> tuple[str, str]:
        """What ORDER BY means where it does not say: ``ASC`` or ``DESC``, ``NULLS LAST`` or ``NULLS FIRST``."""
        ...

    def counts(self, query: str, limit_ms: int) -> tuple[int, ...] | None:
        """The numbers in the one row of a query, None where it cannot be had in so many milliseconds, or not without risk to the user's
        transaction."""
        ...

    def views(self, names: frozenset[str]) -> tuple[View, ...]:
        """The user's views that are found by a name alone, where one of them has one of these names (in lower case); else none."""
        ...

    def clock(self) -> dict[str, tuple[str, str]]:
        """Clock functions fixed for this statement: name → (value as text, DuckDB type)."""
        ...


@attrs.frozen
class PlanContext:
    """What rules may use besides the plan. ``rates``: condition as the user wrote it → the share of its arguments that passes. ``learned``: what
    earlier statements saw of calls like those of a site."""

    settings: Settings
    relations: Relations
    rates: Mapping[str, float] = attrs.field(factory=dict)
    learned: Experience = lambda site: None


Rule = Callable[[CallPlan, PlanContext], CallPlan]
