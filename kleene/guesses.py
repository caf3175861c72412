"""What a call site will cost where its arguments cannot be counted: behind other calls, or where not all of them are asked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from kleene.counting import Counted
from kleene.pilot import Reached
from kleene.planner.callplan import CallPlan, Site, StopSpec
from kleene.planner.errors import NoModel, number
from kleene.planner.experience import wanted_truth
from kleene.udfs.lookups import SiteAnswers
from kleene.udfs.statement import Ask, CallSite
from kleene.udfs.work import Estimate

if TYPE_CHECKING:
    from kleene.surroundings import Asking

ASSUMED_PASS_RATE = 0.5


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
class PassRate:
    """The share of a site's arguments that lets a row pass, and where it is from."""

    share: float
    why: str


def pass_rate(running: Asking, plan: CallPlan, site: Site, piloted: Mapping[int, float]) -> PassRate | None:
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


class Behind:
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


def until_stopped(site: Site, most: Estimate, stop: StopSpec, counted: Counted, rate: PassRate | None) -> SiteEstimate:
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


def behind_pilot(site: Site, reached: Reached, waits: frozenset[int], most: int | None, behind: Behind) -> SiteEstimate:
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


def in_band(site: Site, most: Estimate) -> SiteEstimate:
    """A site behind a proxy whose arguments are known: the part of them that lies between the thresholds."""
    share = site.cascade.share if site.cascade is not None else None
    rate = ASSUMED_PASS_RATE if share is None else share
    why = f"{ASSUMED_PASS_RATE:.0%} assumed" if share is None else f"{share:.0%} of the scores seen by CALIBRATE"
    calls = math.ceil(most.calls * rate)
    part = calls / most.calls if most.calls else 0.0
    why = f"between the thresholds: {why}; at most {most.calls}"
    return SiteEstimate(site, calls, 0, round(most.tokens * part), most.dollars * part, False, why)


def guess(site: Site, waits: frozenset[int], known: dict[int, SiteEstimate], behind: Behind) -> SiteEstimate:
    """A site whose arguments cannot be counted before others are answered: what those ask, less what they are known to drop, or half of it."""
    above = [known[w] for w in sorted(waits) if w in known and known[w].calls is not None]
    names = ", ".join(f"#{w}" for w in sorted(waits))
    if not above:
        return SiteEstimate(site, None, 0, 0, 0.0, False, f"waits for {names}")
    base = max((a.calls or 0) + a.hits for a in above)
    rate, why = 1.0, f"waits for {names}"
    if not site.depends:
        rates = [
            found for w in sorted(waits) if (found := pass_rate(behind.running, behind.plan, behind.plan.site(w), {}))
        ]
        rate = math.prod(found.share for found in rates) if rates else ASSUMED_PASS_RATE
        why += "; " + (", ".join(found.why for found in rates) or f"pass rate {ASSUMED_PASS_RATE} assumed")
    calls = round(base * rate)
    return SiteEstimate(site, calls, 0, *behind.cost(site, waits, calls), False, why)


def expected_of(plan: CallPlan, site: Site) -> float | None:
    """The calls that the search for a join's order expects of a site."""
    return next((found for join in plan.joins if (found := join.expected(site.number)) is not None), None)


def joined(site: Site, expected: float, waits: frozenset[int], behind: Behind) -> SiteEstimate:
    """A site of a join's condition, whose arguments the search has counted."""
    calls = round(expected)
    why = f"waits for {', '.join(f'#{w}' for w in sorted(waits))}; from the order below"
    return SiteEstimate(site, calls, 0, *behind.cost(site, waits, calls), False, why)
