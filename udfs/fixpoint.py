"""The loop: run the statement, make the calls it asked for, run it again, until it asks for none.

Right by five conditions (``docs/architecture.md``): the text equals the user's once every lookup answers; every run is planned afresh (the
caller executes a fresh text each time); nothing that does not note was missing; arguments are the same from run to run (checked here:
``Shifting``); and what is executed last is what was checked.

The next run starts when the last answer is in, or earlier, when nothing more is queued and answers came in: then a row whose filter is
answered gets its next call while slow filters are still out. A run that costs much, or brought nothing new, is repeated less often.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import attrs

from kleene.planner.errors import Cancelled, Unstable
from kleene.udfs.lookups import Key
from kleene.udfs.routes import Asked, Route
from kleene.udfs.statement import CallSite, Wanted
from kleene.udfs.stops import Stop, begin_run

T = TypeVar("T")

REST = 2.0  # an early run waits this many times the last run's cost
MAX_REST = 64.0


class Shifting(Exception):
    """Between two runs a site asked for new arguments and no longer for old ones: its arguments change from run to run."""

    def __init__(self, site: str):
        super().__init__(site)
        self.site = site


@attrs.frozen
class RunReport:
    """One run: its number from 1, how many arguments it lacked, how many answers were known when it began, its seconds, and the arguments
    that it lacked by call site."""

    number: int
    notes: int
    answered: int
    seconds: float
    lacked: Mapping[str, int] = attrs.field(factory=dict)


class Asking(Protocol):
    """Makes the calls of a statement while it may run again."""

    def ask(self, wanted: list[Wanted]) -> None:
        """Start the calls and return."""
        ...

    def wait(self, *, early: bool, not_before: float) -> bool:
        """Wait until nothing is out, and give True; with ``early`` also until there is room for more calls after new answers, but not
        before that moment (``time.monotonic``), and give False. Raises the first error of a call, with all others ended."""
        ...


@attrs.frozen
class Loop:
    """What one fixed point needs.

    ``execute`` runs the emitted text once, freshly planned, and returns its result or raises. ``asking`` makes the calls. ``independent`` are
    the sites whose arguments hold no other call. ``waits``: site → the sites that must lack no answer before it is asked, because without
    them its arguments may not be its own. ``suspicious``: compare two runs before the first call is paid for; not where it ``is_settled``
    that what arguments are computed from no longer changes. ``early``: run again before all calls of a round are in. ``stops`` are asked for
    their next wave when a run lacks nothing else; with stops no run is early, for a wave's outcome decides the next, nor
    with routes in which the answer that comes first could decide what else is asked. ``routes`` say which operands of their conditions are
    asked now; ``recall`` fetches what is remembered of given arguments, without a call, and gives how many that were; ``afford`` raises where
    the budget cannot pay for them.
    """

    sites: Sequence[CallSite]
    independent: frozenset[str]
    execute: Callable[[], object]
    asking: Asking
    report: Callable[[RunReport], None]
    cancelled: Callable[[], bool]
    error_types: tuple[type[BaseException], ...]
    stops: Sequence[Stop] = ()
    routes: Sequence[Route] = ()
    recall: Callable[[list[Wanted]], int] = lambda wanted: 0
    afford: Callable[[list[Wanted]], None] = lambda wanted: None
    max_runs: int = 100
    suspicious: bool = False
    is_settled: Callable[[], bool] = lambda: False
    early: bool = True
    waits: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
    clock: Callable[[], float] = time.monotonic


def run(loop: Loop) -> object:
    """The result of the run that noted nothing.

    Raises ``Shifting`` for a site whose arguments change, ``Unstable`` after ``max_runs``, ``Cancelled``, and whatever ``asking`` raises.
    """
    return _Runs(loop).to_the_end()


class _Runs:
    """The runs of one statement: what is out, and what earlier runs looked up."""

    def __init__(self, loop: Loop):
        self._loop = loop
        # With one site an early run can bring nothing new, and its keys are compared only where it asks for more in a later run.
        self._several = len(loop.sites) > 1
        self._early = loop.early and self._several and not loop.stops and all(r.spec.steady for r in loop.routes)
        self._seen: dict[str, set[Key]] = {}
        self._out: dict[str, set[Key]] = {}
        self._number = 0

    def to_the_end(self) -> object:
        loop = self._loop
        rounds, rest = 0, REST
        notes: list[Wanted] = []
        while rounds < loop.max_runs:
            self._number += 1
            started = loop.clock()
            result, error, notes = self._once(watch=self._several and self._number > 1)
            lacking = [r for r in loop.routes if r.pressing]
            compared = loop.suspicious and self._number == 1 and not loop.is_settled() and self._lacks(notes)
            if compared:
                result = None
                notes = self._compare_dry_runs(notes, lacking)
                lacking = [r for r in loop.routes if r.pressing]
            if not notes and not lacking:  # once a run: a stop counts what it has chosen as asked
                notes = self._waves()
            if not notes and not lacking and not compared:
                loop.asking.wait(early=False, not_before=0.0)  # what was asked is paid for: it is kept
                if error is not None:
                    raise error
                return result
            del result
            if self._recalled(lacking):
                continue
            new = self._not_out(self._due(notes, lacking))
            if error is None:  # a run that failed looked up only part of its arguments
                self._check_shift(notes, new, lacking)
            cost = loop.clock() - started
            if new:
                self._send(new)
            rest = REST if new else min(MAX_REST, rest * 2)
            if loop.asking.wait(early=self._early, not_before=loop.clock() + rest * cost):
                self._out.clear()
                rounds += 1
            self._early = self._early and self._number < loop.max_runs + rounds
        raise self._unstable(notes)

    def _lacks(self, notes: list[Wanted]) -> bool:
        """Whether the run that ended lacks anything, if only under a stop."""
        loop = self._loop
        return bool(notes) or any(s.missing for s in loop.stops) or any(r.patterns for r in loop.routes)

    def _waves(self) -> list[Wanted]:
        for route in self._loop.routes:
            route.survey()
            route.fill()
        return self._merged([Asked(site, [key]) for stop in self._loop.stops for site, key in stop.choose()])

    def _recalled(self, routes: list[Route]) -> bool:
        """Look up what the memo has of operands that are about to be tried, and say whether it had any."""
        wanted = self._merged([asked for route in routes for asked in route.survey()])
        if wanted and self._loop.recall(wanted) > 0:
            return True
        # A pilot is a part of what is needed: what cannot be paid as a whole is not begun.
        for route in routes:
            least = route.least()
            if least:
                self._loop.afford(self._merged(least))
        return False

    def _merged(self, asked: list[Asked], notes: Sequence[Wanted] = ()) -> list[Wanted]:
        """What several places ask, by site, each argument once."""
        sites = {s.name: s for s in self._loop.sites}
        keys: dict[str, dict[Key, None]] = {}
        for want in notes:
            keys.setdefault(want.site.name, {}).update(dict.fromkeys(want.keys))
        for one in asked:
            if one.site in sites:
                keys.setdefault(one.site, {}).update(dict.fromkeys(one.keys))
        return [Wanted(sites[name], list(found)) for name, found in keys.items()]

    def _once(self, *, watch: bool) -> tuple[object, BaseException | None, list[Wanted]]:
        loop = self._loop
        if loop.cancelled():
            raise Cancelled("cancelled")
        for site in loop.sites:
            site.answers.begin_run(watch=watch and site.name in loop.independent)
        begin_run(loop.stops)
        for route in loop.routes:
            route.begin_run()
        answered = sum(s.answers.count for s in loop.sites)
        started = time.perf_counter()
        result: object = None
        error: BaseException | None = None
        try:
            result = loop.execute()
        except loop.error_types as failure:
            error = failure
        notes = [Wanted(s, s.answers.take_notes()) for s in loop.sites if s.answers.lacks]
        seconds = time.perf_counter() - started
        lacked = sum(len(w.keys) for w in notes) + sum(r.count() for r in loop.routes if r.pressing)
        by_site = {w.site.name: len(w.keys) for w in notes}
        loop.report(RunReport(self._number, lacked, answered, seconds, by_site))
        if loop.cancelled():
            raise Cancelled("cancelled")
        return result, error, notes

    def _compare_dry_runs(self, notes: list[Wanted], routes: list[Route]) -> list[Wanted]:
        """What is missing, after a second look at it before anything is paid for."""
        before = {w.site.name: set(w.keys) for w in self._merged([a for r in routes for a in r.wanted()], notes)}
        _, _, again = self._once(watch=False)
        if self._loop.is_settled():
            return again
        for want in self._merged([a for r in routes for a in r.wanted()], again):
            if want.site.name in self._loop.independent and before.get(want.site.name, set()) != set(want.keys):
                raise Shifting(want.site.name)
        return notes

    def _due(self, notes: list[Wanted], routes: list[Route]) -> list[Wanted]:
        """What may be asked now: all of it where sites wait for each other and nothing else is out."""
        lacks = {r.name: r.lacks() for r in routes}
        lacking = {w.site.name for w in notes}.union(*lacks.values())

        def free(site: str) -> bool:
            return not self._loop.waits.get(site, frozenset()) & lacking - {site}

        ready = [w for w in notes if free(w.site.name)]
        asked = [a for r in routes if all(map(free, lacks[r.name])) for a in r.choose(self._out, early=self._early)]
        if not ready and not asked and not any(self._out.values()):
            ready, asked = notes, [a for r in routes for a in r.choose(self._out, early=self._early)]
        return self._merged(asked, ready) if asked else ready

    def _not_out(self, notes: list[Wanted]) -> list[Wanted]:
        """What the run lacked, less what is being asked already."""
        if not any(self._out.values()):
            return notes
        left = []
        for want in notes:
            out = self._out.get(want.site.name, set())
            keys = [k for k in want.keys if k not in out]
            if keys:
                left.append(Wanted(want.site, keys))
        return left

    def _send(self, new: list[Wanted]) -> None:
        if self._early:
            for want in new:
                self._out.setdefault(want.site.name, set()).update(want.keys)
        self._loop.asking.ask(new)

    def _check_shift(self, notes: list[Wanted], new: list[Wanted], routes: list[Route]) -> None:
        """New keys and vanished keys between two runs mean that arguments change; either alone does not (a filter was answered, say)."""
        loop = self._loop
        if not self._several:
            if self._number > 1 and new and new[0].site.name in loop.independent:
                self._look_again(new[0].site)
            return
        asked = {w.site.name for w in new} if self._number > 1 else set()
        # A route looks at every row in every run, whatever it asks: its sites are compared as the others are.
        noted: dict[str, Sequence[Key]] = {site: () for route in routes for site in route.lacks()}
        noted.update((w.site.name, w.keys) for w in notes)
        for site in loop.sites:
            if site.name not in loop.independent or loop.waits.get(site.name, frozenset()) & noted.keys():
                continue
            seen: set[Key] = site.answers.seen if self._number > 1 else set(noted.get(site.name, ()))
            seen.discard(None)  # a NULL argument is no key
            if site.name in asked and not self._seen.get(site.name, set()) <= seen:
                raise Shifting(site.name)
            self._seen[site.name] = seen

    def _look_again(self, site: CallSite) -> None:
        """The only site asks for more than it did at first: a further run tells whether it still looks up what was answered."""
        _, error, _ = self._once(watch=True)
        if error is None and not site.answers.answers.keys() <= site.answers.seen:
            raise Shifting(site.name)

    def _unstable(self, notes: list[Wanted]) -> Unstable:
        names = ", ".join(w.site.spec.function for w in notes)
        return Unstable(
            f"no fixed point after {self._loop.max_runs} runs: {names} still asks for new arguments",
            site=notes[0].site.name if notes else None,
            hint="an argument changes from run to run; store it in a table first, or SET max_runs = n",
        )
