"""Where a statement needs only some of the answers it could ask for: LIMIT and EXISTS ask in waves, and stop when enough rows pass.

A *stop* belongs to one occurrence in the statement, not to a call site: another occurrence of the same call may need every answer. What is
missing under a stop is noted with its group (the outer row of an EXISTS) and its place in the order of an ORDER BY; ``choose`` picks the
next wave. Nothing chosen means that the stop has what it needs: what is still missing cannot change the rows.
"""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Mapping, Sequence

import attrs

from kleene.planner.callplan import StopSpec
from kleene.udfs.lookups import Key, StopNotes

ROW_GROUP = 122_880  # rows that one thread of DuckDB scans at a time
CAUTION = (
    0.7  # of 400 simulated draws a case: 16.4 calls for 5 rows at one in three (least 15.0), 11.2 at one half (10.3)
)
LEARNED_CAUTION = 0.5  # where the rate is known from before: of 3,000 draws a case 15.8 calls for 5 rows at one in three, 10.3 at one half
MOST_AT_FIRST = 2  # times what is needed: so much is asked at most on the word of earlier statements
MOST_WEIGHT = 24  # arguments that earlier statements count for
FIRST_STEPS = 3  # an EXISTS asks one at a time so often, then in windows that double


class Waves(StopNotes, ABC):
    """What all stops have: the next wave."""

    @abstractmethod
    def choose(self) -> list[tuple[str, Key]]:
        """The arguments to ask now, each with its site."""

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that are asked in waves. Under a route those of its other operands are too."""
        return (self.site,)


@attrs.define(eq=False)
class AnyStop(Waves):
    """``[NOT] EXISTS``: a group is decided by its first row for which the whole body is true; the others ask on, in doubling windows.
    ``within`` a LIMIT only as many groups are gone on with as its rows need."""

    least: int = 1
    within: LimitStop | None = None
    _asked: dict[str, int] = attrs.field(factory=dict)
    _window: dict[str, int] = attrs.field(factory=dict)
    _hits: set[str] = attrs.field(factory=set)

    def choose(self) -> list[tuple[str, Key]]:
        self._hits.update(self.passed)
        chosen: dict[tuple[str, Key], None] = {}
        undecided = [group for group in self.missing if group not in self._hits]
        if self.within is not None and self.within.ordered:
            undecided = self.within.groups_in_order({group: min(self.missing[group].values()) for group in undecided})
        elif self.within is not None:
            # Groups that were begun are gone on with first: the fewest are left half asked.
            undecided.sort(key=lambda group: group not in self._asked)
            undecided = undecided[: self.within.groups_wanted()]
        for group in undecided:
            keys = in_order(self.missing[group])
            asked = self._asked.get(group, 0)
            window = 1 if asked < FIRST_STEPS else 2 * self._window[group]
            window = max(self.least, window)
            chosen.update(dict.fromkeys(keys[:window]))
            self._asked[group] = asked + min(window, len(keys))
            self._window[group] = window
        return list(chosen)


@attrs.define(eq=False)
class LimitStop(Waves):
    """``LIMIT n [OFFSET m]`` over a filter: ``rows`` is n + m. The first wave is what is needed; later ones are most of what is
    still needed over the pass rate so far, and at most as many as were asked before. ``known`` is the share that passes by earlier statements,
    which counts like ``weight`` arguments: then the first wave is by it too, and twice what is needed at most. ``ordered``: rows are wanted in the order of their sort keys, so the wave follows it, and what is missing
    below the last row that is in still counts."""

    rows: int = 0
    ordered: bool = False
    least: int = 1
    distinct: bool = False
    fan: bool = False
    known: float = 0.0
    weight: int = 0
    branches: list[LimitStop] = attrs.field(factory=list)
    _asked: int = 0

    def groups_wanted(self) -> int:
        """How many outer rows of an EXISTS to go on with at a time: those still needed. Each takes several calls, so that deciding more of
        them at once than may be needed costs more than the rounds it saves."""
        return max(0, self.rows - sum(map(len, self.passed.values())))

    def groups_in_order(self, places: Mapping[str, str]) -> list[str]:
        """Of undecided outer rows of an EXISTS, with their places, those to go on with: the first ones, as many as are still needed before the
        rows that are in can be among the wanted for sure."""
        passing = sorted(self.places())
        ordered = sorted(places, key=lambda group: places[group])
        if len(passing) >= self.rows:
            ordered = [group for group in ordered if self.rows and places[group] < passing[self.rows - 1]]
        sure = bisect_left(passing, places[ordered[0]]) if ordered else 0
        return ordered[: max(1, self.rows - sure)]

    def choose(self) -> list[tuple[str, Key]]:
        passing = sorted(place for branch in self.branches or [self] for place in branch.places())
        missing = self._missing()
        if len(passing) >= self.rows:
            if not self.ordered or self.rows == 0:
                return []
            last = passing[self.rows - 1]
            missing = {key: order for key, order in missing.items() if order < last}
        if not missing or self._waits():
            return []
        # Rows that share an argument may pass ahead of their turn: only those before the first open row are among the wanted for sure.
        sure = bisect_left(passing, min(missing.values())) if self.ordered else len(passing)
        needed = max(1, self.rows - sure)
        own = len(self.places())
        if self.fan:
            # A call may make many rows: how many is known from the first one on.
            rate, first = (own + 1) / (self._asked + 1), 1
        else:
            rate, first = self._rate(own), needed
        if self.weight:
            most = self._asked or MOST_AT_FIRST * needed
            wave = max(needed, min(math.ceil(LEARNED_CAUTION * needed / rate), most))
        elif not self._asked:
            wave = first
        else:
            wave = max(1 if self.fan else needed, min(math.ceil(CAUTION * needed / rate), self._asked))
        chosen = in_order(missing)[: max(self.least, wave)]
        self._asked += len(chosen)
        return chosen

    def _rate(self, passed: int) -> float:
        """The share that passes: what was seen, and what was learned before as if ``weight`` of them had been seen."""
        if self.weight:
            return (min(passed, self._asked) + self.known * self.weight) / (self._asked + self.weight)
        return (min(passed, self._asked) + 1) / (self._asked + 2)

    def places(self) -> list[str]:
        """The places of the rows that passed: of each group the first, where groups are counted."""
        if self.distinct:
            return [min(places) for places in self.passed.values()]
        return [place for places in self.passed.values() for place in places]

    def _missing(self) -> dict[tuple[str, Key], str]:
        """What may be asked, with its place. Of rows that are counted by group, those whose group has none yet, a row of each first."""
        if not self.distinct:
            return self.missing.get("", {})
        found: dict[tuple[str, Key], str] = {}
        undecided = [in_order(keys) for group, keys in self.missing.items() if group not in self.passed]
        for rank in range(max(map(len, undecided), default=0)):
            for keys in undecided:
                if rank < len(keys):
                    found.setdefault(keys[rank], "")
        if self.ordered:
            for group, places in self.missing.items():
                if group not in self.passed:
                    for key, place in places.items():
                        found[key] = min(found[key] or place, place)
        return found

    def _waits(self) -> bool:
        """A branch of a UNION ALL asks when those before it have nothing more to ask."""
        return any(b.missing for b in self.branches[: self.branches.index(self)]) if self in self.branches else False


@attrs.define(eq=False)
class PairStop(Waves):
    """A LIMIT over a comparison of two calls of one function, ``g(a) = g(b)``: an answer decides all pairs whose other side is known, so
    the argument with most such pairs is asked first, and so many as promise the rows that are still needed. What is missing comes grouped by
    the other side (``1:argument`` or ``2:argument``, by the side that is missing). What is chosen is asked at both sites: one call."""

    other: str = ""
    rows: int = 0
    least: int = 1
    _pairs: int = 0

    @property
    def sites(self) -> tuple[str, ...]:
        return (self.site, self.other)

    def choose(self) -> list[tuple[str, Key]]:
        passing = sum(map(len, self.passed.values()))
        if passing >= self.rows:
            return []
        ranks: dict[Key, int] = {}
        for group, names in self.missing.items():
            if group is not None:  # the other side is NULL: such a pair is never true
                for _, key in names:
                    ranks.setdefault(key, len(ranks))
        # How many pairs a key decides by itself: those whose other side has an answer.
        decides = dict.fromkeys(ranks, 0)
        for group, names in self.missing.items():
            if group is not None and group[2:] not in ranks:
                for _, key in names:
                    decides[key] += 1
        rate = (min(passing, self._pairs) + 1) / (self._pairs + 2)
        chosen: list[Key] = []
        heap = [(-decides[key], rank, key) for key, rank in ranks.items()]
        heapq.heapify(heap)
        taken: set[Key] = set()
        promised = 0
        while heap and (promised * rate < CAUTION * (self.rows - passing) or len(chosen) < self.least):
            pairs, _, key = heapq.heappop(heap)
            if key in taken or -pairs != decides[key]:
                continue  # an older count of it
            taken.add(key)
            chosen.append(key)
            promised += decides[key]
            for side in ("1:", "2:"):
                for _, partner in self.missing.get(f"{side}{key}", ()):
                    if partner not in taken:
                        decides[partner] += 1
                        heapq.heappush(heap, (-decides[partner], ranks[partner], partner))
        self._pairs += promised
        return [(site, key) for site in self.sites for key in chosen]


def in_order(missing: dict[tuple[str, Key], str]) -> list[tuple[str, Key]]:
    """The keys by their place in the order, then as DuckDB came to them. A scan of more than one row group runs on several threads and
    comes to them in any order: then by their text, so that every run and replay asks the same."""
    if len(missing) < ROW_GROUP // 2:
        return sorted(missing, key=lambda name: missing[name])
    return sorted(missing, key=lambda name: (missing[name], name[1] if isinstance(name[1], tuple) else (name[1],)))


Stop = AnyStop | LimitStop | PairStop


def stop_of(spec: StopSpec, statement: str, least: int, known: tuple[float, int] = (0.0, 0)) -> Stop:
    """The stop that a plan asks for. ``least``: the least number of calls a wave asks for. ``known``: the share that passes by earlier
    statements, and how many answers that rests on."""
    name, site = f"{statement}:s{spec.number}", f"{statement}:{spec.site}"
    if spec.rows is None:
        return AnyStop(name, site, least=least)
    if spec.partner is not None:
        return PairStop(name, site, other=f"{statement}:{spec.partner}", least=least, rows=spec.rows)
    made = LimitStop(
        name, site, least=least, rows=spec.rows, ordered=spec.ordered, distinct=spec.distinct, fan=spec.fan
    )
    if not spec.distinct and not spec.fan:
        made.known, made.weight = known[0], min(MOST_WEIGHT, known[1])
    return made


def stops_of(
    specs: Sequence[StopSpec], statement: str, least: int, known: Mapping[int, tuple[float, int]] | None = None
) -> list[Stop]:
    """The stops of a plan, each EXISTS within a LIMIT knowing it, and the branches of a UNION ALL each other. ``known`` is by site."""
    known = known or {}
    made = {spec.number: stop_of(spec, statement, least, known.get(spec.site, (0.0, 0))) for spec in specs}
    for spec in specs:
        inner, outer = made[spec.number], made.get(spec.within or 0)
        if isinstance(inner, AnyStop) and isinstance(outer, LimitStop):
            inner.within = outer
        first = made.get(spec.shared or 0)
        if isinstance(inner, LimitStop) and isinstance(first, LimitStop):
            first.branches.append(inner)
            inner.branches = first.branches
    return list(made.values())


def begin_run(stops: Sequence[Stop]) -> None:
    for stop in stops:
        stop.begin_run()
