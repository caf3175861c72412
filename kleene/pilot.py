"""A pilot of the statement's own rows: some arguments of each call are answered, and what they lead to is counted and scaled up.

With N arguments of a call known and n of them answered, spread evenly over the N, the next call is asked m arguments by the rows that the n
decide; N/n times m are expected of all rows (Horvitz and Thompson's estimator for equal chances; arguments that many rows share are counted
too often by it, so it is bounded by the rows' own). What a pilot asks is remembered: the statement does not pay for it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from kleene.counting import Counted, DryRun
from kleene.planner.callplan import CallPlan, Site, leaves
from kleene.udfs.statement import Ask
from kleene.udfs.work import Estimate

if TYPE_CHECKING:
    from kleene.surroundings import Asking


@attrs.frozen
class Reached:
    """A site that rows reach only after others are answered: ``count`` arguments were counted behind the pilot, ``factor`` times as many are
    expected. ``cost`` is of those without an answer then, ``answered`` of them the pilot asked itself. ``tried`` is how many arguments of the
    calls above were answered. ``ordered``: it stands in a condition whose order is chosen by the rates."""

    count: int
    cost: Estimate
    factor: float
    tried: int
    answered: int = 0
    ordered: bool = False


@attrs.frozen
class Piloted:
    """``rates``: of each site with a truth for an answer the share p of TRUE, from k of n answers as (k + 1/2) / (n + 1), the mean of
    Jeffreys' posterior: none of a few is not never. ``reached``: what its answers led to."""

    rates: Mapping[int, float] = attrs.field(factory=dict)
    reached: Mapping[int, Reached] = attrs.field(factory=dict)


def pilot(
    running: Asking,
    plan: CallPlan,
    params: Any,
    size: int,
    waits: Mapping[int, frozenset[int]],
    price: Callable[[list[Ask]], Estimate],
    known: Mapping[int, int],
) -> Piloted:
    """Ask at most ``size`` arguments of every call of a model, those of inner calls first. ``waits`` are the sites above each site, ``known``
    how many arguments a site is sure not to exceed.

    Raises what the calls raise. A site of sessions is not asked: it costs too much to be tried.
    """
    with DryRun(running, plan.as_written(), params) as dry:
        counted = dry.count()
        if counted.bounded or counted.problem is not None:
            return Piloted()
        found = {n: _reached(asks, 1.0, 0, price) for n, asks in counted.notes.items()}
        first = frozenset(found)
        answered: dict[int, int] = {}
        rates: dict[int, float] = {}
        for _ in plan.sites:
            sample = _sample(plan, counted, size, answered)
            if not sample:
                break
            dry.answer([ask for asks in sample.values() for ask in asks])
            for number, asks in sample.items():
                answered[number] = len(asks)
                rate = _rate(plan.site(number), asks)
                if rate is not None:
                    rates[number] = rate
            counted = dry.count()
            for site in plan.sites:
                above = [w for w in waits.get(site.number, frozenset()) if w in answered]
                if site.number in found or not above:
                    continue
                asks = counted.notes.get(site.number, [])
                if not asks and any(w not in answered for w in waits[site.number]):
                    continue  # something that it waits for is yet to be asked
                factor = max(found[w].count * found[w].factor / answered[w] for w in above)
                found[site.number] = _reached(asks, factor, min(answered[w] for w in above), price)
        found = {n: attrs.evolve(r, answered=answered.get(n, 0)) for n, r in found.items()}
        found = _in_best_order(plan, found, rates, known)
        return Piloted(rates, {n: r for n, r in found.items() if n not in first or r.ordered})


def _reached(asks: list[Ask], factor: float, tried: int, price: Callable[[list[Ask]], Estimate]) -> Reached:
    cost = price(asks) if asks else Estimate()
    return Reached(cost.calls + cost.hits, cost, factor, tried)


def _in_best_order(
    plan: CallPlan, found: Mapping[int, Reached], rates: Mapping[int, float], known: Mapping[int, int]
) -> dict[int, Reached]:
    """The same for conditions that are all to hold, in the order that the rule ``order`` comes to: by arguments / (1 - share of TRUE).

    The pilot asked them as written. An operand behind shares p of the rows so would be asked 1/p as much before them.
    """
    moved = dict(found)
    for route in plan.routes:
        units = [u for u in leaves(route.formula) if route.units[u].sites]
        sites = [route.units[u].sites[0] for u in units]
        if isinstance(route.formula, int) or route.formula[0] != "and":
            continue
        if any(len(route.units[u].sites) > 1 for u in units) or any(s not in rates or s not in found for s in sites):
            continue
        written = _passing(sites, rates)
        alone = {s: found[s].count * found[s].factor / written[s] for s in sites}  # arguments, if it were asked first
        alone = {s: min(count, known.get(s, count)) for s, count in alone.items()}
        best = _passing(sorted(sites, key=lambda s: alone[s] / (1 - rates[s])), rates)
        tried = min(found[s].answered for s in sites)
        for site in sites:
            was = found[site]
            factor = alone[site] * best[site] / was.count if was.count else was.factor
            moved[site] = attrs.evolve(was, factor=factor, tried=was.tried or tried, ordered=True)
    return moved


def _passing(order: list[int], rates: Mapping[int, float]) -> dict[int, float]:
    """For each site the share of rows that pass those before it."""
    found, share = {}, 1.0
    for site in order:
        found[site] = share
        share *= rates[site]
    return found


def _sample(plan: CallPlan, counted: Counted, size: int, answered: Mapping[int, int]) -> dict[int, list[Ask]]:
    """For each site that may be tried now, arguments spread evenly over those that are known."""
    found = {}
    for number, asks in counted.notes.items():
        site = plan.site(number)
        if number in answered or site.spec.session or site.demand is not None:
            continue
        distinct = list({ask.key: ask for ask in asks}.values())
        step = max(1.0, len(distinct) / size)
        found[number] = [distinct[int(i * step)] for i in range(min(size, len(distinct)))]
    return found


def _rate(site: Site, asks: list[Ask]) -> float | None:
    if site.spec.answer.kind != "bool":
        return None
    said = [ask.site.answers.answers.get(ask.key) for ask in asks]
    known = [s for s in said if s is not None]
    return (sum(bool(s) for s in known) + 0.5) / (len(known) + 1) if known else None
