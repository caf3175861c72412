"""EXPLAIN: one run of the emitted text with dispatch off. Its notes, less what the memo holds, are the calls of the first level."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from kleene.counting import Counted, DryRun, looks_only
from kleene.keeping import keepable, may_end_next
from kleene.pilot import Piloted, Reached, pilot
from kleene.planner.callplan import CallPlan, Site, StopSpec, leaves
from kleene.planner.emit import emit
from kleene.planner.errors import NoModel, number
from kleene.planner.experience import wanted_truth
from kleene.planner.joining import JoinSpec
from kleene.udfs.lookups import SiteAnswers
from kleene.udfs.statement import Ask, CallSite
from kleene.udfs.work import Estimate

if TYPE_CHECKING:
    from kleene.surroundings import Asking

ASSUMED_PASS_RATE = 0.5
Before = Mapping[int, frozenset[int]]
"""Site → the sites of its route that are asked before it."""


@attrs.frozen
class SiteEstimate:
    """One call site in EXPLAIN. ``exact``: the arguments were counted; else ``calls`` is a guess, and ``why`` says from what. ``uses`` are those
    of a tool, which are no calls."""

    site: Site
    calls: int | None
    hits: int
    tokens: int
    dollars: float
    exact: bool
    why: str = ""
    uses: int = 0


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
    tried = {site for r in routes if r.piloted for unit in r.chosen() for site in r.spec.units[unit].sites}
    waved = {stop.number: {stop.site} | {n for n in (stop.partner,) if n is not None} for stop in plan.stops}
    for route in routes:
        if route.spec.stop is not None:
            waved[route.spec.stop] = set(route.spec.units[route.chosen()[0]].sites)
    behind = _Behind(running, plan, notes)
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
            item = _until_stopped(site, estimate, stop, counted, _rate_of(running, plan, site, seen_by.rates))
        elif site.demand is not None:
            item = SiteEstimate(site, None, 0, 0, 0.0, False, f"on demand: {site.demand}")
        elif asks and site.spec.session:
            why = _children(running, asks, estimate.hits)
            item = SiteEstimate(site, estimate.calls, estimate.hits, estimate.tokens, estimate.dollars, False, why)
        elif site.number in seen_by.reached and (seen_by.reached[site.number].ordered or waits or not asks):
            limits = [s.rows for s in plan.stops if s.rows is not None and not s.fan and waved[s.number] & waits]
            most = None if site.number in {n for w in waved.values() for n in w} else min(limits, default=None)
            item = _behind_pilot(site, seen_by.reached[site.number], waits, most, behind)
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
            item = _in_band(site, price(running, _new([Ask(like, a.key) for a in notes[proxy.number]], seen)))
        elif waits and (expected := _expected(plan, site)) is not None:
            item = _joined(site, expected, waits, behind)
        elif waits:
            item = _guess(site, waits, by_number, behind)
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


def _until_stopped(site: Site, most: Estimate, stop: StopSpec, counted: Counted, rate: PassRate | None) -> SiteEstimate:
    """A site asked in waves: what the rows of a LIMIT need at the pass rate, seen or assumed, or the first steps of each group of an EXISTS;
    of pairs the first wave, which is made to be enough. What is remembered among the arguments is taken to be spread evenly."""
    known = most.calls + most.hits
    passing = f"pass rate {ASSUMED_PASS_RATE} assumed" if rate is None else rate.why
    share_passing = ASSUMED_PASS_RATE if rate is None else max(rate.share, 1 / (1 + known))
    if stop.rows is None:
        likely, reason = known, "an EXISTS stops at its first row"
        if rate is not None:
            # Of a group of s arguments (1 - (1 - p)^s) / p are asked one by one until the first that passes.
            sizes = counted.groups.get(stop.number, [])
            likely = min(known, round(sum((1 - (1 - share_passing) ** s) / share_passing for s in sizes)))
            reason += f"; {passing}"
    elif stop.fan:
        likely, reason = min(known, stop.rows), f"stops at LIMIT {stop.rows}; a row a call assumed"
    elif stop.partner is not None:
        likely, reason = (
            min(known, counted.first_waves.get(stop.number, 0)),
            f"stops at LIMIT {stop.rows}; pass rate {ASSUMED_PASS_RATE} assumed for pairs",
        )
    else:
        likely, reason = (
            min(known, math.ceil(stop.rows / share_passing)),
            f"stops at LIMIT {stop.rows}; {passing}",
        )
    calls = min(most.calls, math.ceil(likely * most.calls / known)) if known else 0
    share = calls / most.calls if most.calls else 0.0
    hits = min(most.hits, max(0, likely - calls))
    why = f"{reason}; at most {most.calls}"
    return SiteEstimate(site, calls, hits, round(most.tokens * share), most.dollars * share, False, why)


def _piloted(running: Asking, plan: CallPlan, params: Any, size: int, notes: Mapping[int, list[Ask]]) -> Piloted:
    """What a pilot of the plan shows, its conditions asked as they are written; nothing where none is wanted."""
    if not size:
        return Piloted()
    written = _before([[route.units[unit].sites for unit in leaves(route.formula)] for route in plan.routes])
    waits = {s.number: _waits_for(plan, s, written) for s in plan.sites}
    counts = {number: len({a.key for a in asks}) for number, asks in notes.items()}
    return pilot(running, plan, params, size, waits, lambda asks: price(running, asks), counts)


def _behind_pilot(
    site: Site, reached: Reached, waits: frozenset[int], most: int | None, behind: _Behind
) -> SiteEstimate:
    """A site that rows reach through others: what the pilot's rows asked, for all rows; above a LIMIT at most one a row of it."""
    total = reached.count * reached.factor
    total = total if most is None else min(total, most)
    hits = min(reached.cost.hits + reached.answered, reached.count)
    calls = max(0, round(total) - hits)
    if reached.cost.calls:
        scale = calls / reached.cost.calls
        tokens, dollars = round(reached.cost.tokens * scale), reached.cost.dollars * scale
    else:
        tokens, dollars = behind.cost(site, waits, calls)
    names = ", ".join(f"#{w}" for w in sorted(waits))
    why = (f"behind {names}: " if names else "") + f"by a pilot of {reached.tried}"
    return SiteEstimate(site, calls, min(hits, round(total)), tokens, dollars, False, why)


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


def _in_band(site: Site, most: Estimate) -> SiteEstimate:
    """A site behind a proxy whose arguments are known: the part of them that lies between the thresholds."""
    share = site.cascade.share if site.cascade is not None else None
    rate = ASSUMED_PASS_RATE if share is None else share
    why = f"{ASSUMED_PASS_RATE:.0%} assumed" if share is None else f"{share:.0%} of the scores seen by CALIBRATE"
    calls = math.ceil(most.calls * rate)
    part = calls / most.calls if most.calls else 0.0
    why = f"between the thresholds: {why}; at most {most.calls}"
    return SiteEstimate(site, calls, 0, round(most.tokens * part), most.dollars * part, False, why)


def _guess(site: Site, waits: frozenset[int], known: dict[int, SiteEstimate], behind: _Behind) -> SiteEstimate:
    """A site whose arguments cannot be counted before others are answered: what those ask, less what they are known to drop, or half of it."""
    above = [known[w] for w in sorted(waits) if w in known and known[w].calls is not None]
    names = ", ".join(f"#{w}" for w in sorted(waits))
    if not above:
        return SiteEstimate(site, None, 0, 0, 0.0, False, f"waits for {names}")
    base = max((a.calls or 0) + a.hits for a in above)
    rate, why = 1.0, f"waits for {names}"
    if not site.depends:
        rates = [
            found for w in sorted(waits) if (found := _rate_of(behind.running, behind.plan, behind.plan.site(w), {}))
        ]
        rate = math.prod(found.share for found in rates) if rates else ASSUMED_PASS_RATE
        why += "; " + (", ".join(found.why for found in rates) or f"pass rate {ASSUMED_PASS_RATE} assumed")
    calls = round(base * rate)
    return SiteEstimate(site, calls, 0, *behind.cost(site, waits, calls), False, why)


def _expected(plan: CallPlan, site: Site) -> float | None:
    """The calls that the search for a join's order expects of a site."""
    return next((found for join in plan.joins if (found := join.expected(site.number)) is not None), None)


@attrs.frozen
class PassRate:
    """The share of a site's arguments that lets a row pass, and where it is from."""

    share: float
    why: str


def _rate_of(running: Asking, plan: CallPlan, site: Site, piloted: Mapping[int, float]) -> PassRate | None:
    """By a pilot, else by earlier statements; None where neither tells."""
    truth = wanted_truth(plan, site.number)
    if site.number in piloted:
        share = piloted[site.number] if truth is not False else 1 - piloted[site.number]
        return PassRate(share, f"{share:.0%} of a pilot passed")
    learned = running.around.learned(site)
    found = None if learned is None or truth is None else learned.passing(truth)
    if learned is None or found is None:
        return None
    return PassRate(found, f"pass rate {found:.2g} learned from {number(learned.answers)} answers of #{site.number}")


class _Behind:
    """What calls cost that no run can show yet: prompts as long as those before them, at their own model's price."""

    def __init__(self, running: Asking, plan: CallPlan, notes: Mapping[int, list[Ask]]):
        self.running, self.plan = running, plan
        self.unpriced: set[int] = set()
        self._lengths = {site: sum(len(a.prompt()) for a in asks) / len(asks) for site, asks in notes.items() if asks}

    def cost(self, site: Site, waits: frozenset[int], calls: int) -> tuple[int, float]:
        """Tokens and dollars of so many calls."""
        before = [self._lengths[w] for w in sorted(waits) if w in self._lengths]
        length = self._lengths.setdefault(site.number, sum(before) / len(before) if before else float(len(site.asks)))
        if not calls:
            return 0, 0.0
        tokens, dollars, unpriced = self._one(site, length)
        if unpriced:
            self.unpriced.add(site.number)
        return round(calls * tokens), calls * dollars

    def _one(self, site: Site, length: float) -> tuple[float, float, bool]:
        if site.spec.session:
            family = self.running.context.children
            if site.spec.session != "child" or family is None:
                return 0.0, 0.0, False
            role = (site.spec.system or "").partition(":")[0]
            _, tokens, dollars, _ = family.expected_cost(
                site.spec, [("",) if site.spec.function == "rlm" else (role, "")]
            )
            return tokens, dollars, False
        services = self.running.around.services
        call = CallSite(
            site.spec, site.volatility, SiteAnswers(name=str(site.number)), self.running.around.learned(site)
        )
        try:
            found: tuple[float, float, bool] = self.running.wait(
                services.runtime.submit(services.dispatcher.expect, self.running.context, call, length)
            )
            return found
        except NoModel:
            return length / 4 + 20, 0.0, True


def _joined(site: Site, expected: float, waits: frozenset[int], behind: _Behind) -> SiteEstimate:
    """A site of a join's condition, whose arguments the search has counted."""
    calls = round(expected)
    why = f"waits for {', '.join(f'#{w}' for w in sorted(waits))}; from the order below"
    return SiteEstimate(site, calls, 0, *behind.cost(site, waits, calls), False, why)


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
