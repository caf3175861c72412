"""In which order the operands of a condition are asked: a pilot of each beside each other, then the order that makes the fewest calls.

A *route* belongs to one condition of one statement (rule ``order``). Each run tells it, for every row, what is known of each operand and what
the others lack; ``choose`` says what to ask now. A row asks for one operand at a time, and for nothing while an answer that it waits for is
out, so that no row pays for two operands where one decides. What was observed is counted by *pattern*: of each operand unknown, TRUE or not
TRUE, as one number in base 3.

Costs and pass rates order operands as in the least-cost fault test of a series system: an AND by c / (1 - p), an OR by c / p (W. E. Smith's
rule of 1956 for weighted completion times). With nothing else known p is 1/2. An operand moves forward only where it is cheaper by a
tenth; by half where pass rates were not observed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence

import attrs
import numpy as np
import numpy.typing as npt

from kleene.planner.callplan import Formula, RouteSpec, Unit, leaves
from kleene.planner.errors import number
from kleene.planner.learned import Learned
from kleene.udfs.lookups import Key, RouteNotes, SiteAnswers, StopNotes

PILOT = 24  # arguments of each operand that show its pass rate: a standard error of at most 0.1
FEW = 4 * PILOT  # arguments of the first operand up to which no pilot is worth its calls
WAVE = 8 * PILOT  # rows that are begun after the pilot, before all others are
DEAR = 4.0  # an operand that costs so many times the cheapest needs no pilot: the cheapest goes first if it drops a quarter
OBSERVED = 8  # rows after which a pass rate counts as observed
BETTER, MUCH_BETTER = 0.9, 0.5
LACKING, PASSED, FAILED = 0, 1, 2
UNDECIDED, TRUE, FALSE = 0, 1, 2

Numbers = npt.NDArray[np.int64]
Price = Callable[[str, list[Key]], float | None]
"""Dollars of one call of a site, judged by some of its arguments; 0 where it has no price, None where it asks no model."""


@attrs.frozen
class Asked:
    """Arguments of one site to be asked."""

    site: str
    keys: list[Key]


@attrs.frozen
class Rate:
    """What was seen of one operand: of so many ``rows`` that were answered, so many ``passed``; ``arguments`` is how many it had at first.
    ``known`` is the share that earlier statements saw, which counts like ``weight`` rows."""

    arguments: int
    rows: int
    passed: int
    known: float = 0.5
    weight: int = 0

    @property
    def value(self) -> float:
        """The share that passes, one half where nothing was seen."""
        if self.weight:
            return (self.passed + self.known * self.weight) / (self.rows + self.weight)
        return (self.passed + 1) / (self.rows + 2)

    @property
    def observed(self) -> bool:
        return self.rows + self.weight >= OBSERVED


@attrs.define(eq=False)
class Route(RouteNotes):
    """The state of one route. ``price`` is what one call of a site costs, judged by some of its arguments; ``learned`` what earlier
    statements saw of sites' calls; ``stop`` watches the condition where
    only some rows are wanted: then rows are begun as it chooses, and there is no pilot."""

    spec: RouteSpec = attrs.field(kw_only=True)
    sites: Mapping[int, SiteAnswers] = attrs.field(kw_only=True)
    price: Price = attrs.field(kw_only=True, default=lambda site, keys: 1.0)
    learned: Mapping[int, Learned] = attrs.field(kw_only=True, factory=dict)
    stop: StopNotes | None = attrs.field(kw_only=True, default=None)
    formula: Formula = attrs.field(init=False)
    rates: list[Rate] = attrs.field(init=False)
    _costs: list[float] = attrs.field(init=False)
    _prices: list[float] = attrs.field(init=False, factory=list)
    _first: list[set[int]] = attrs.field(init=False, factory=list)
    _verdicts: dict[int, int] = attrs.field(init=False, factory=dict)
    _next: dict[int, int] = attrs.field(init=False, factory=dict)
    _phase: str = attrs.field(init=False, default="survey")
    _waved: bool = attrs.field(init=False, default=False)
    _pilot: dict[int, set[int]] = attrs.field(init=False, factory=dict)
    _rows: _Rows | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.formula = self.spec.formula
        self.rates = [self._known(unit) for unit in self.spec.units]
        self._costs = [float(bool(unit.sites)) for unit in self.spec.units]

    def _known(self, unit: Unit) -> Rate:
        learned = self.learned.get(unit.sites[0]) if len(unit.sites) == 1 and unit.truth is not None else None
        share = None if learned is None else learned.passing(bool(unit.truth))
        return Rate(0, 0, 0) if learned is None or share is None else Rate(0, 0, 0, share, min(PILOT, learned.answers))

    # -- while DuckDB runs -------------------------------------------------------------------------------------------------------------

    def verdicts(self, patterns: Numbers) -> Numbers:
        """UNDECIDED, TRUE or FALSE (not TRUE) for each row."""
        known = self._verdicts
        distinct, places = np.unique(patterns, return_inverse=True)
        for pattern in distinct.tolist():
            if pattern not in known:
                known[pattern] = verdict(self.spec.formula, digits(pattern, len(self.spec.units)))
        return np.array([known[p] for p in distinct.tolist()], dtype=np.int64)[places]

    # -- between runs ------------------------------------------------------------------------------------------------------------------

    def begin_run(self) -> None:
        RouteNotes.begin_run(self)
        self._rows = None

    @property
    def undecided(self) -> bool:
        """The last run left rows open."""
        return bool(self.patterns)

    @property
    def pressing(self) -> bool:
        """Rows are open that are not the stop's to choose: under a stop those that were begun."""
        return self.undecided and (self.stop is None or bool(self._begun(self._open()).any()))

    def lacks(self) -> set[str]:
        """The sites that the pressing rows lack answers of, in the order as it is now."""
        return {self._site(token) for token in np.unique(self._pressing()).tolist()}

    def count(self) -> int:
        """How many arguments the pressing rows want next."""
        return len(np.unique(self._pressing()))

    def wanted(self) -> list[Asked]:
        """All that the pressing rows want next."""
        return self._asked(np.unique(self._pressing()))

    def _pressing(self) -> Numbers:
        rows = self._open()
        wanted = self._wanted(rows)
        return wanted if self.stop is None else wanted[self._begun(rows)]

    def survey(self) -> list[Asked]:
        """Called between runs, before ``choose``: what of all operands may be remembered, where a pilot or wave begins; else nothing."""
        if not self.patterns or self._phase not in ("survey", "all"):
            return []
        first = self._phase == "survey"
        rows = self._open()
        self._weigh(rows)
        self._learn()
        self._reorder()
        self._phase = "all"
        piloted = self._piloted()
        unseen = any(not self.rates[unit].observed for unit in piloted)
        if self.stop is not None or self._pilot or self._waved or len(piloted) < 2 or self.count() <= FEW:
            return []
        if unseen:
            self._phase = "pilot"
        elif any(self.rates[unit].rows < OBSERVED for unit in piloted):
            self._phase = "wave"  # what was learned of other rows is tried on some of these first
        else:
            return []
        tokens = np.unique(np.concatenate([rows.lacks[unit] for unit in piloted]))
        return self._asked(tokens[tokens > 0]) if first else []

    def choose(self, out: Mapping[str, set[Key]], *, early: bool) -> list[Asked]:
        """What to ask now. ``out`` are the arguments that are being asked. Gives something whenever a row is open and nothing is out.

        With ``early`` runs the order changes only at moments that do not depend on which answer came first: after the whole pilot, and after
        all rows of the first wave are decided. So the same calls are made whenever the statement is run again.
        """
        self._learn()
        rows = self._open()
        if self.stop is not None:
            self._reorder()
            return self.wanted()
        out_tokens = self._tokens(out)
        if self._phase == "pilot":
            if len(out_tokens):
                return []
            asked = self._pilot_round(rows)
            if len(asked):
                return self._asked(asked)
            self._phase = "wave"
            self._reorder()
        busy = np.isin(np.stack(rows.lacks), out_tokens).any(axis=0) if len(out_tokens) else np.zeros(len(rows), bool)
        wanted = self._wanted(rows)
        if self._phase == "wave":
            begun = self._begun(rows)
            if not self._waved:
                fresh = np.unique(wanted[~begun])
                self._waved = True
                if len(fresh) > 2 * WAVE:
                    kept = np.array(self._spread(fresh)[:WAVE], dtype=np.int64)
                    return self._asked(np.unique(np.concatenate([wanted[begun], kept])))
            elif len(out_tokens) or begun.any():
                return self._asked(np.unique(wanted[begun & ~busy]))
            self._phase = "all"
            self._reorder()
            wanted = self._wanted(rows)
        elif not early:
            self._reorder()
            wanted = self._wanted(rows)
        return self._asked(np.unique(wanted[~busy]))

    def least(self) -> list[Asked]:
        """Before the pilot or first wave: the fewest arguments that the open rows need, those of one operand; else nothing."""
        if self._phase not in ("pilot", "wave") or self._pilot or self._waved:
            return []
        columns = [self._open().lacks[unit] for unit in self.chosen()]
        return self._asked(min((np.unique(c[c > 0]) for c in columns), key=len))

    def fill(self) -> None:
        """Hand what the rows that were not begun want next to the stop, row by row."""
        if self.stop is None or not self.patterns:
            return
        self._learn()
        self._reorder()
        rows = self._open()
        wanted, begun = self._wanted(rows), self._begun(rows)
        names = self._names(np.unique(wanted))
        for token, later, group, place in zip(wanted.tolist(), begun.tolist(), self.groups, self.places, strict=True):
            if later:
                continue
            of_group = self.stop.missing.setdefault(group, {})
            name = names[token]
            if name not in of_group or place < of_group[name]:
                of_group[name] = place

    def chosen(self) -> list[int]:
        """The units with calls, in the order in which they are asked."""
        return [unit for unit in leaves(self.formula) if self.spec.units[unit].sites]

    @property
    def piloted(self) -> bool:
        """A pilot is to show the pass rates."""
        return self._phase == "pilot"

    @property
    def is_tentative(self) -> bool:
        """What is seen in a pilot or first wave may change the order."""
        return self._phase in ("pilot", "wave")

    def planned_order(self) -> str:
        """The order before anything is asked, and what it rests on."""
        units = self.chosen()
        if self.piloted:
            why = f"until {PILOT} arguments of each show their pass rates"
        elif any(self.rates[unit].weight for unit in units):
            told = [r for r in units if self.rates[r].weight]
            rates = ", ".join(f"{self._label(u)} {100 * self.rates[u].value:.0f} %" for u in told)
            why = f"pass rates learned: {rates}"
        elif self.stop is not None:
            why = "until answers show their pass rates"
        else:
            counts = [number(self.rates[unit].arguments) for unit in units]
            why = f"by {', '.join(counts[:-1])} and {counts[-1]} arguments; pass rates are not known before"
        return f"order: {', then '.join(map(self._label, units))}  ({why})"

    def found_order(self) -> str:
        """The order at the end, with the pass rates that were seen."""
        self._learn()
        told = []
        for unit in self.chosen():
            rate = self.rates[unit]
            share = (
                f"{100 * rate.passed / rate.rows:.0f} % of {number(rate.rows)} rows pass" if rate.rows else "not asked"
            )
            told.append(f"{self._label(unit)} ({share})")
        return f"order: {', then '.join(told)}"

    def _label(self, unit: int) -> str:
        return "+".join(f"#{site}" for site in self.spec.units[unit].sites)

    # -- the pilot ---------------------------------------------------------------------------------------------------------------------

    def _piloted(self) -> list[int]:
        cheapest = min((cost for cost in self._costs if cost > 0), default=0.0)
        return [u for u in self.chosen() if 0 < self._costs[u] <= DEAR * cheapest]

    def _pilot_round(self, rows: _Rows) -> Numbers:
        """The next arguments of the pilot, none when it is over."""
        if not self._pilot:
            return self._first_pilot(rows)
        deeper = [np.zeros(0, np.int64)]
        for unit, begun in self._pilot.items():
            column = rows.lacks[unit]
            later = [t for t in np.unique(column[column > 0]).tolist() if self._number(t) not in begun]
            deeper.append(np.array(later[:PILOT], dtype=np.int64))
        return np.unique(np.concatenate(deeper))

    def _first_pilot(self, rows: _Rows) -> Numbers:
        """Some arguments of each operand, of rows that no other operand's pilot has."""
        free = np.ones(len(rows), bool)
        found = [np.zeros(0, np.int64)]
        for unit in self._piloted():
            lacking = rows.lacks[unit]
            tokens = np.unique(lacking[free & (lacking > 0)])
            known = self.rates[unit].rows + self.rates[unit].weight
            chosen = np.array(self._spread(tokens)[: max(0, PILOT - known)], dtype=np.int64)
            free &= ~np.isin(lacking, chosen)
            # Sites that are lacking now are asked for the pilot's rows alone; those that appear later belong to these rows.
            self._pilot[unit] = {self._number(t) for t in np.unique(lacking[lacking > 0]).tolist()}
            found.append(chosen)
        return np.unique(np.concatenate(found))

    def _spread(self, tokens: Numbers) -> list[int]:
        """Tokens in an order that has nothing to do with the rows' and is the same whenever the statement is run."""
        names = self._names(tokens)
        digests = {t: zlib.crc32(f"{self._number(t)} {key}".encode()) for t, (_, key) in names.items()}
        return sorted(digests, key=lambda token: (digests[token], str(names[token][1])))

    # -- what was learned --------------------------------------------------------------------------------------------------------------

    def _learn(self) -> None:
        for unit in range(len(self.spec.units)):
            rows = passed = 0
            for pattern, count in self.counts.items():
                digit = pattern // 3**unit % 3
                rows += count * (digit != LACKING)
                passed += count * (digit == PASSED)
            self.rates[unit] = attrs.evolve(self.rates[unit], rows=rows, passed=passed)
            self._costs[unit] = self._cost(unit)

    def _weigh(self, rows: _Rows) -> None:
        """Count the arguments of each operand, and learn what a call costs: dollars where every site has a price, else 1."""
        if not self._prices:
            found: list[float | None] = []
            for column in rows.lacks:
                tokens = np.unique(column[column > 0])
                self._first.append({self._number(t) for t in tokens.tolist()})
                prices = [self.price(a.site, a.keys) for a in self._asked(tokens[:8])]
                found.append(None if None in prices else min((p for p in prices if p is not None), default=0.0))
            priced = all(
                price is None or price > 0 for price, unit in zip(found, self.spec.units, strict=True) if unit.sites
            )
            self._prices = [0.0 if price is None else price if priced else 1.0 for price in found]
        for unit, (column, rate) in enumerate(zip(rows.lacks, self.rates, strict=True)):
            arguments = max(rate.arguments, len(np.unique(column[column > 0])))
            self.rates[unit] = attrs.evolve(rate, arguments=arguments)

    def _cost(self, unit: int) -> float:
        """What asking an operand for all rows would cost. A call inside another multiplies: by as many arguments as answers brought so far."""
        sites = self.spec.units[unit].sites
        if not self._prices or not sites:
            return float(bool(sites))
        calls = [self.sites[site] for site in sites]
        first = [call for call in calls if self._number_of(call) in self._first[unit]]
        answered = sum(len(call.answers) for call in first)
        chain = 1.0
        for call in calls:
            if call not in first:
                chain += min(1.0, len(call.tokens) / answered) if answered >= OBSERVED else 1.0
        return self._prices[unit] * self.rates[unit].arguments * chain

    def _reorder(self) -> None:
        formula = self._sorted(self.formula)[0]
        if formula != self.formula:
            self.formula = formula
            self._next.clear()

    def _sorted(self, formula: Formula) -> tuple[Formula, float, float, bool]:
        """The formula with its operands in the best order, its expected cost, the share of rows for which it is TRUE, and whether that was
        observed."""
        if isinstance(formula, int):
            rate = self.rates[formula]
            pure = not self.spec.units[formula].sites
            return formula, self._costs[formula], rate.value, pure or rate.observed
        kind, parts = formula
        found = [self._sorted(part) for part in parts]

        def rank(part: tuple[Formula, float, float, bool]) -> float:
            stops = 1 - part[2] if kind == "and" else part[2]
            return part[1] / max(stops, 1e-9)

        for end in range(len(found) - 1, 0, -1):
            for i in range(end):
                left, right = found[i], found[i + 1]
                if rank(right) < rank(left) * (BETTER if left[3] and right[3] else MUCH_BETTER):
                    found[i], found[i + 1] = right, left
        cost, reached = 0.0, 1.0
        for _, own, passes, _ in found:
            cost += reached * own
            reached *= passes if kind == "and" else 1 - passes
        share = reached if kind == "and" else 1 - reached
        return (kind, tuple(part[0] for part in found)), cost, share, all(part[3] for part in found)

    # -- rows and tokens ---------------------------------------------------------------------------------------------------------------

    def _open(self) -> _Rows:
        if self._rows is None:
            count = len(self.spec.units)
            patterns = np.concatenate(self.patterns) if self.patterns else np.zeros(0, np.int64)
            lacks = [
                np.concatenate([row[unit] for row in self.lacking]) if self.lacking else np.zeros(0, np.int64)
                for unit in range(count)
            ]
            self._rows = _Rows(patterns, lacks)
        return self._rows

    def _begun(self, rows: _Rows) -> npt.NDArray[np.bool_]:
        """The rows of which some call is answered."""
        begun = np.zeros(len(rows), bool)
        for unit in self.chosen():
            begun |= rows.patterns // 3**unit % 3 > 0
        return begun

    def _wanted(self, rows: _Rows) -> Numbers:
        """The token that each row wants next."""
        distinct, places = np.unique(rows.patterns, return_inverse=True)
        units = []
        for pattern in distinct.tolist():
            if pattern not in self._next:
                self._next[pattern] = next_unit(self.formula, digits(pattern, len(self.spec.units)))
            units.append(self._next[pattern])
        if not units:
            return np.zeros(0, np.int64)
        chosen = np.array(units, dtype=np.int64)[places]
        return np.stack(rows.lacks)[chosen, np.arange(len(rows))]

    def _number_of(self, site: SiteAnswers) -> int:
        return int(site.name.rpartition(":")[2])

    def _number(self, token: int) -> int:
        return token % SiteAnswers.TOKENS

    def _site(self, token: int) -> str:
        return self.sites[self._number(token)].name

    def _names(self, tokens: Numbers) -> dict[int, tuple[str, Key]]:
        """What tokens stand for."""
        found: dict[int, tuple[str, Key]] = {}
        for token in tokens.tolist():
            site = self.sites[self._number(token)]
            found[token] = (site.name, site.keyed[token])
        return found

    def _asked(self, tokens: Numbers) -> list[Asked]:
        keys: dict[str, list[Key]] = {}
        names = self._names(tokens)
        for token in sorted(names):
            site, key = names[token]
            keys.setdefault(site, []).append(key)
        return [Asked(site, found) for site, found in keys.items()]

    def _tokens(self, out: Mapping[str, set[Key]]) -> Numbers:
        found = [
            site.tokens[key] for site in self.sites.values() for key in out.get(site.name, ()) if key in site.tokens
        ]
        return np.array(found, dtype=np.int64)


@attrs.frozen
class _Rows:
    """The open rows of a run: their patterns, and for each operand the token of what it lacks, 0 where it is known."""

    patterns: Numbers
    lacks: list[Numbers]

    def __len__(self) -> int:
        return len(self.patterns)


def digits(pattern: int, units: int) -> tuple[int, ...]:
    return tuple(pattern // 3**unit % 3 for unit in range(units))


def verdict(formula: Formula, known: Sequence[int]) -> int:
    """UNDECIDED, TRUE or FALSE (not TRUE) under what is known of each operand (LACKING, PASSED, FAILED)."""
    if isinstance(formula, int):
        return known[formula]
    kind, parts = formula
    decisive, other = (FALSE, TRUE) if kind == "and" else (TRUE, FALSE)
    found = {verdict(part, known) for part in parts}
    if decisive in found:
        return decisive
    return UNDECIDED if UNDECIDED in found else other


def next_unit(formula: Formula, known: Sequence[int]) -> int:
    """The first open operand of an open formula."""
    while not isinstance(formula, int):
        formula = next(part for part in formula[1] if verdict(part, known) == UNDECIDED)
    return formula


def routes_of(
    specs: Sequence[RouteSpec],
    statement: str,
    sites: Mapping[int, SiteAnswers],
    stops: Mapping[int, StopNotes],
    price: Price = lambda site, keys: 1.0,
    learned: Mapping[int, Learned] | None = None,
) -> list[Route]:
    """The routes of a plan. ``sites``, ``stops`` and what was ``learned`` of sites are by number."""
    return [
        Route(
            f"{statement}:o{spec.number}",
            len(spec.units),
            spec=spec,
            sites=sites,
            price=price,
            learned=learned or {},
            stop=None if spec.stop is None else stops[spec.stop],
            stopped=spec.stop is not None,
        )
        for spec in specs
    ]


__all__ = ["FEW", "PILOT", "WAVE", "Asked", "Rate", "Route", "next_unit", "routes_of", "verdict"]
