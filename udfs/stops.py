"""Where a statement needs only some of the answers it could ask for: LIMIT and EXISTS ask in waves, and stop when enough rows pass.

A *stop* belongs to one occurrence in the statement, not to a call site: another occurrence of the same call may need every answer. What is
missing under a stop is noted with its group (the outer row of an EXISTS) and its place in the order of an ORDER BY; ``choose`` picks the
next wave. Nothing chosen means that the stop has what it needs: what is still missing cannot change the rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from kleene.planner.callplan import StopSpec
from kleene.udfs.lookups import Key, StopNotes

ROW_GROUP = 122_880  # rows that one thread of DuckDB scans at a time
CAUTION = (
    0.7  # of 400 simulated draws a case: 16.4 calls for 5 rows at one in three (least 15.0), 11.2 at one half (10.3)
)
FIRST_STEPS = 3  # an EXISTS asks one at a time so often, then in windows that double


@attrs.define(eq=False)
class AnyStop(StopNotes):
    """``[NOT] EXISTS``: a group is decided by its first row for which the whole body is true; the others ask on, in doubling windows.
    ``within`` a LIMIT only as many groups are gone on with as its rows need."""

    least: int = 1
    within: LimitStop | None = None
    _asked: dict[str, int] = attrs.field(factory=dict)
    _window: dict[str, int] = attrs.field(factory=dict)
    _hits: set[str] = attrs.field(factory=set)

    def choose(self) -> list[Key]:
        self._hits.update(self.passed)
        chosen: dict[Key, None] = {}
        undecided = [group for group in self.missing if group not in self._hits]
        if self.within is not None:
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
class LimitStop(StopNotes):
    """``LIMIT n [OFFSET m]`` over a filter: ``rows`` is n + m. The first wave is what is needed; later ones are most of what is
    still needed over the pass rate so far, and at most as many as were asked before. ``ordered``: rows are wanted in the order of their sort keys, so the wave follows it, and what is missing
    below the last row that is in still counts."""

    rows: int = 0
    ordered: bool = False
    least: int = 1
    _asked: int = 0

    def groups_wanted(self) -> int:
        """How many outer rows of an EXISTS to go on with at a time: those still needed. Each takes several calls, so that deciding more of
        them at once than may be needed costs more than the rounds it saves."""
        return max(0, self.rows - sum(map(len, self.passed.values())))

    def choose(self) -> list[Key]:
        passing = sorted(order for orders in self.passed.values() for order in orders)
        missing = self.missing.get("", {})
        if len(passing) >= self.rows:
            if not self.ordered or self.rows == 0:
                return []
            last = passing[self.rows - 1]
            missing = {key: order for key, order in missing.items() if order < last}
        if not missing:
            return []
        needed = max(1, self.rows - len(passing))
        rate = (min(len(passing), self._asked) + 1) / (self._asked + 2)
        wave = needed if not self._asked else max(needed, min(math.ceil(CAUTION * needed / rate), self._asked))
        chosen = in_order(missing)[: max(self.least, wave)]
        self._asked += len(chosen)
        return chosen


def in_order(missing: dict[Key, str]) -> list[Key]:
    """The keys by their place in the order, then as DuckDB came to them. A scan of more than one row group runs on several threads and
    comes to them in any order: then by their text, so that every run and replay asks the same."""
    if len(missing) < ROW_GROUP // 2:
        return sorted(missing, key=lambda key: missing[key])
    return sorted(missing, key=lambda key: (missing[key], key if isinstance(key, tuple) else (key,)))


Stop = AnyStop | LimitStop


def stop_of(spec: StopSpec, statement: str, least: int) -> Stop:
    """The stop that a plan asks for. ``least``: the least number of calls a wave asks for."""
    name, site = f"{statement}:s{spec.number}", f"{statement}:{spec.site}"
    if spec.rows is None:
        return AnyStop(name, site, least=least)
    return LimitStop(name, site, least=least, rows=spec.rows, ordered=spec.ordered)


def stops_of(specs: Sequence[StopSpec], statement: str, least: int) -> list[Stop]:
    """The stops of a plan, each EXISTS within a LIMIT knowing it."""
    made = {spec.number: stop_of(spec, statement, least) for spec in specs}
    for spec in specs:
        inner, outer = made[spec.number], made.get(spec.within or 0)
        if isinstance(inner, AnyStop) and isinstance(outer, LimitStop):
            inner.within = outer
    return list(made.values())


def begin_run(stops: Sequence[Stop]) -> None:
    for stop in stops:
        stop.begin_run()
