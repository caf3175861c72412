"""EXPLAIN: one run of the emitted text with dispatch off. Its notes, less what the memo holds, are the calls of the first level."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from kleene.counting import DryRun, looks_only
from kleene.guesses import (
    Behind,
    SiteEstimate,
    behind_pilot,
    expected_of,
    guess,
    in_band,
    joined,
    pass_rate,
    until_stopped,
)
from kleene.keeping import keepable, may_end_next
from kleene.pilot import Piloted, pilot
from kleene.planner.callplan import CallPlan, Site, leaves
from kleene.planner.emit import emit
from kleene.planner.errors import NoModel, number
from kleene.planner.joining import JoinSpec
from kleene.udfs.lookups import SiteAnswers
from kleene.udfs.statement import Ask, CallSite
from kleene.udfs.work import Estimate

if TYPE_CHECKING:
    from kleene.surroundings import Asking

Before = Mapping[int, frozenset[int]]
"""Site → the sites of its route that are asked before it."""


@attrs.frozen
class PlanEstimate:
    rows: int | None
    calls: int
    tokens: int
    dollars: float
    depth: int = 0
    unpriced: bool = False


@attrs.frozen
class Plan:
    """What EXPLAIN gives. ``text`` is for reading, ``to_dict`` for programs, ``duckdb_sql`` runs as it is while the engine is attached."""

    sites: tuple[SiteEstimate, ...]
    estimate: PlanEstimate
    exact: bool
    rules: tuple[str, ...]
    duckdb_sql: str
    text: str
    kind: str = "query"
    alternatives: tuple[str, ...] = ()
    fragment: str = ""
    order: tuple[str, ...] = ()
    joins: tuple[JoinSpec, ...] = ()

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """For notebooks: the text, and DuckDB's SQL below it."""
        from kleene.rendering.html import plan_html

        return plan_html(self.text, self.duckdb_sql)

    def to_dict(self) -> dict[str, Any]:
        return {
            "calls": self.estimate.calls,
            "tokens": self.estimate.tokens,
            "dollars": self.estimate.dollars,
            "unpriced": self.estimate.unpriced,
            "exact": self.exact,
            "kind": self.kind,
            "rules": list(self.rules),
            "fragment": self.fragment,
            "order": [line.removeprefix("order: ") for line in self.order],
            "joins": [join.to_dict() for join in self.joins],
            "duckdb_sql": self.duckdb_sql,
            "sites": [
                {
                    "site": s.site.number,
                    "call": s.site.label,
                    "alias": s.site.spec.alias,
                    "calls": s.calls,
                    "memo_hits": s.hits,
                    "tokens": s.tokens,
                    "dollars": s.dollars,
                    "exact": s.exact,
                    "on_demand": s.site.demand,
                    "note": s.why,
                    "cascade": None if s.site.cascade is None else s.site.cascade.describe(),
                }
                for s in self.sites
            ],
        }


def pure_plan(text: str, kind: str = "query") -> Plan:
    """The plan of a statement that makes no call."""
    return Plan(
        sites=(),
        estimate=PlanEstimate(None, 0, 0, 0.0),
        exact=True,
        rules=(),
        duckdb_sql=text,
        text="no calls: DuckDB runs the statement as it is\ntotal: 0 calls",
        kind=kind,
    )


def explain(running: Asking, plan: CallPlan, params: Any, pilots: int = 0, *, fragment: str = "") -> Plan:
    """Count what the first level needs, and price it. Sends nothing but at most ``pilots`` arguments of each call, to learn what they lead to.
    ``fragment`` is what the statement's is called."""
    around = running.around
    own = around.connection.in_autocommit()
    if plan.frozen is not None and own:
        plan = plan.frozen
    if plan.routes and not own:
        plan = plan.as_written()
    started = time.perf_counter()
    with DryRun(running, plan, params) as dry:
        counted = dry.count()
    notes, bounded, problem, routes = counted.notes, counted.bounded, counted.problem, counted.routes
    seconds = time.perf_counter() - started
    kept = _kept(running, plan, slow=bounded or 1000 * seconds >= around.settings.materialise_ms)
    before = _before([[route.spec.units[unit].sites for unit in route.chosen()] for route in routes])
    seen_by = _piloted(running, plan, params, 0 if bounded or problem else pilots, notes)
    tried = {site for r in routes if r.is_tentative for unit in r.chosen() for site in r.spec.units[unit].sites}
    waved = {stop.number: {stop.site} | {n for n in (stop.partner,) if n is not None} for stop in plan.stops}
    for route in routes:
        if route.spec.stop is not None:
            waved[route.spec.stop] = set(route.spec.units[route.chosen()[0]].sites)
    behind = Behind(running, plan, notes)
    found: list[SiteEstimate] = []
    by_number: dict[int, SiteEstimate] = {}
    unpriced = False
    seen: set[tuple[str, str, str]] = set()
    settled: set[int] = set()  # tools that have said all they will
    for site in _inner_first(plan, before):
        asks = notes.get(site.number, [])
        # What several sites ask in the same words is one call: it is counted at the first.
        estimate = price(running, _new(asks, seen)) if asks else Estimate()
        waits = _waits_for(plan, site, before) - settled
        stop = next((stop for stop in plan.stops if site.number in waved[stop.number]), None)
        if site.spec.session == "tool":
            item = _tool(site, len(asks), waits, bounded)
            if item.exact and looks_only(site.spec):
                settled.add(site.number)
        elif stop is not None and asks:
            item = until_stopped(site, estimate, stop, counted, pass_rate(running, plan, site, seen_by.rates))
        elif site.demand is not None:
            item = SiteEstimate(site, None, 0, 0, 0.0, False, f"on demand: {site.demand}")
        elif asks and site.spec.session:
            why = _children(running, asks, estimate.hits)
            item = SiteEstimate(site, estimate.calls, estimate.hits, estimate.tokens, estimate.dollars, False, why)
        elif site.number in seen_by.reached and (seen_by.reached[site.number].ordered or waits or not asks):
            limits = [s.rows for s in plan.stops if s.rows is not None and not s.fan and waved[s.number] & waits]
            most = None if site.number in {n for w in waved.values() for n in w} else min(limits, default=None)
            item = behind_pilot(site, seen_by.reached[site.number], waits, most, behind)
        elif asks and site.number in tried:
            why = "asked first, unless fewer pass another"
            item = SiteEstimate(site, estimate.calls, estimate.hits, estimate.tokens, estimate.dollars, False, why)
        elif asks and not waits and not bounded:
            item = SiteEstimate(site, estimate.calls, estimate.hits, estimate.tokens, estimate.dollars, True)
        elif asks:
            why = "counted so far; more may follow" if waits else "at least: counting was stopped"
            item = SiteEstimate(site, estimate.calls, estimate.hits, estimate.tokens, estimate.dollars, False, why)
        elif (proxy := plan.proxy_of(site)) is not None and proxy.number in notes:
            # The same arguments, of which the proxy leaves some.
            answers = SiteAnswers(name=str(site.number))
            like = CallSite(site.spec, site.volatility, answers, running.around.learned(site))
            item = in_band(site, price(running, _new([Ask(like, a.key) for a in notes[proxy.number]], seen)))
        elif waits and (expected := expected_of(plan, site)) is not None:
            item = joined(site, expected, waits, behind)
        elif waits:
            item = guess(site, waits, by_number, behind)
        elif problem is not None:
            item = SiteEstimate(site, None, 0, 0, 0.0, False, problem)
        else:
            item = SiteEstimate(site, 0, 0, 0, 0.0, True)
        if plan.kept and item.exact:
            item = attrs.evolve(item, exact=False, why="by other rows: they change from run to run")
        found.append(item)
        by_number[site.number] = item
        unpriced = unpriced or bool(estimate.unpriced) or site.number in behind.unpriced
    return explained(found, plan, running, unpriced, kept, tuple(route.planned_order() for route in routes), fragment)


def explained(
    found: list[SiteEstimate],
    plan: CallPlan,
    running: Asking,
    unpriced: bool,
    kept: int = 0,
    order: tuple[str, ...] = (),
    fragment: str = "",
) -> Plan:
    """The plan of these estimates, in the order of the text; ``kept`` pure blocks would stay in temp tables. ``order`` has a line for each
    route."""
    found = sorted(found, key=lambda item: item.site.number)
    exact = all(s.exact for s in found)
    summary = PlanEstimate(
        None,
        sum(s.calls or 0 for s in found),
        sum(s.tokens for s in found),
        sum(s.dollars for s in found),
        unpriced=unpriced,
    )
    text = emit(plan, str(running.number), suffix=running.around.suffix, pretty=True, inline=True)
    told = render(found, summary, plan, exact, kept, order, fragment)
    return Plan(
        tuple(found),
        summary,
        exact,
        plan.rules,
        text,
        told,
        plan.kind,
        fragment=fragment,
        order=order,
        joins=plan.joins,
    )


def _kept(running: Asking, plan: CallPlan, *, slow: bool) -> int:
    """How many pure blocks a run would keep in temp tables: none where a run is quick, or one further run is sure to be the last."""
    around = running.around
    if plan.kept or not slow or may_end_next(plan, around.settings) or not around.connection.in_autocommit():
        return 0
    return len(keepable(plan, around.connection, around.settings).kept)


def cheapest(running: Asking, plan: CallPlan, params: Any) -> CallPlan:
    """The plan or the alternative that needs the fewest dollars, then calls, by a count of each. Sends nothing."""
    if not plan.alternatives:
        return plan
    candidates = [attrs.evolve(plan, alternatives=()), *plan.alternatives]
    priced = [(explain(running, c, params).estimate, -i, c) for i, c in enumerate(candidates)]
    best = min(priced, key=lambda p: (p[0].dollars, p[0].calls, -p[1]))
    return best[2]


def _tool(site: Site, uses: int, waits: frozenset[int], bounded: bool) -> SiteEstimate:
    """A tool's uses: they ask no model, and where their arguments were known they have been counted."""
    if site.demand is not None:
        return SiteEstimate(site, None, 0, 0, 0.0, True, f"on demand: {site.demand}")
    open_ = bool(waits) or bounded
    return SiteEstimate(site, 0, 0, 0, 0.0, not open_, "more may follow" if open_ else "", uses)


def _piloted(running: Asking, plan: CallPlan, params: Any, size: int, notes: Mapping[int, list[Ask]]) -> Piloted:
    """What a pilot of the plan shows, its conditions asked as they are written; nothing where none is wanted."""
    if not size:
        return Piloted()
    written = _before([[route.units[unit].sites for unit in leaves(route.formula)] for route in plan.routes])
    waits = {s.number: _waits_for(plan, s, written) for s in plan.sites}
    counts = {number: len({a.key for a in asks}) for number, asks in notes.items()}
    return pilot(running, plan, params, size, waits, lambda asks: price(running, asks), counts)


def _children(running: Asking, asks: list[Ask], hits: int) -> str:
    """How many child sessions would start, and what their calls are taken from."""
    family = running.context.children
    if asks[0].site.spec.session != "child" or family is None:
        return "no model is asked"
    asked = len({a.key for a in asks}) - hits
    children = f"{asked} child session{'' if asked == 1 else 's'}"
    return f"{children}, {family.expected_cost(asks[0].site.spec, [a.site.arguments(a.key) for a in asks])[3]}"


def _inner_first(plan: CallPlan, before: Before) -> list[Site]:
    """The sites, each after those that it waits for: a guess rests on what is known of these."""
    done: dict[int, Site] = {}

    def visit(site: Site, above: frozenset[int]) -> None:
        for below in sorted(_waits_for(plan, site, before) - above - done.keys() - {site.number}):
            visit(plan.site(below), above | {site.number})
        done.setdefault(site.number, site)

    for site in plan.sites:
        if site.number not in done:
            visit(site, frozenset())
    return list(done.values())


def _waits_for(plan: CallPlan, site: Site, before: Before) -> frozenset[int]:
    """The sites that decide what is asked here. What a proxy leaves does not decide about the proxy."""
    served = {s.number for s in plan.sites if s.cascade is not None and plan.proxy_of(s) is site}
    return site.depends | ((plan.controls(site.number) | before.get(site.number, frozenset())) - served)


def _before(conditions: Iterable[Iterable[Sequence[int]]]) -> Before:
    """For each site of some conditions those asked before it: of each condition the sites of its operands, in the order of asking."""
    found: dict[int, frozenset[int]] = {}
    for operands in conditions:
        above: frozenset[int] = frozenset()
        for sites in operands:
            own = frozenset(sites)
            for site in own - above:
                found[site] = found.get(site, frozenset()) | above
            above |= own
    return found


def _new(asks: list[Ask], seen: set[tuple[str, str, str]]) -> list[Ask]:
    found = []
    for ask in asks:
        key = (ask.site.spec.alias, ask.site.spec.digest(), ask.prompt())
        if key not in seen:
            seen.add(key)
            found.append(ask)
    return found


def price(running: Asking, asks: list[Ask]) -> Estimate:
    """What these would cost now, sending nothing; unpriced where there is no model."""
    services = running.around.services
    try:
        estimate: Estimate = running.wait(services.runtime.submit(services.dispatcher.estimate, running.context, asks))
        return estimate
    except NoModel:
        distinct = {(a.site.spec.digest(), a.prompt()) for a in asks}
        characters = sum(len(prompt) for _, prompt in distinct)
        return Estimate(calls=len(distinct), input_tokens=characters // 4 + 20 * len(distinct), unpriced=len(distinct))


def render(
    sites: list[SiteEstimate],
    total: PlanEstimate,
    plan: CallPlan,
    exact: bool,
    kept: int = 0,
    order: Sequence[str] = (),
    fragment: str = "",
) -> str:
    lines = []
    for item in sites:
        site = item.site
        parts = [f"#{site.number} {site.label}  [{who_answers(site)}]"]
        if site.spec.session == "tool":
            parts.append("? uses" if item.calls is None else count_of(item.uses, "use"))
        elif item.calls is None:
            parts.append("? calls")
        else:
            parts.append(f"{'' if item.exact else '≈ '}{count_of(item.calls, 'call')}")
        if item.hits:
            parts.append(f"{item.hits} from memo")
        if item.calls:
            parts.append(f"~{item.tokens} tok")
            parts.append("unpriced" if total.unpriced else f"${number(item.dollars)}")
        lines.append(", ".join([parts[0] + "  " + parts[1], *parts[2:]]) + (f"  ({item.why})" if item.why else ""))
    sign = "" if exact else "≈ "
    money = "unpriced" if total.unpriced else f"${number(total.dollars)}"
    lines.append(f"total: {sign}{count_of(total.calls, 'call')}, ~{total.tokens} tok, {money}")
    lines.extend(sorted({s.site.cascade.describe() for s in sites if s.site.cascade is not None}))
    for join in plan.joins:
        lines += join.lines()
    lines += order
    if fragment:
        lines.append(f"fragment: {fragment}")
    rules = list(plan.rules)
    if plan.compact is not None:
        rules.append("distinct_first where rows are many and arguments few")
    if kept:
        rules.append(f"materialise ({count_of(kept, 'block')} without calls kept in temp tables while it runs)")
    if rules:
        lines.append("rules: " + ", ".join(rules))
    return "\n".join(lines)


def who_answers(site: Site) -> str:
    """The model that answers, or the role of the children that do."""
    if not site.spec.session:
        return f"λ {site.spec.alias}"
    if site.spec.session == "tool":
        return "tool"
    return f"ρ {(site.spec.system or 'session').partition(':')[0]}"


def count_of(value: int, noun: str) -> str:
    return f"{value} {noun}" + ("" if value == 1 else "s")
