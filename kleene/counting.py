"""Dry runs: the emitted text with no model asked. Their notes, less what the memo holds, are the calls that come next."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import attrs
import duckdb

from kleene.planner.callplan import CallPlan
from kleene.planner.emit import emit
from kleene.planner.specs import CallSpec
from kleene.planner.tools import command_of
from kleene.udfs.lookups import Key
from kleene.udfs.routes import Route, routes_of
from kleene.udfs.statement import Ask, CallSite
from kleene.udfs.stops import Stop, stops_of

if TYPE_CHECKING:
    from kleene.surroundings import Asking


@attrs.frozen
class Counted:
    """What a dry run noted by site, whether it was stopped at ``measure_ms``, and why nothing could be counted, how many arguments
    each stop over pairs would ask for first, for each stop how many arguments its groups have, and the routes after it."""

    notes: dict[int, list[Ask]] = attrs.field(factory=dict)
    bounded: bool = False
    problem: str | None = None
    first_waves: dict[int, int] = attrs.field(factory=dict)
    groups: dict[int, list[int]] = attrs.field(factory=dict)
    routes: list[Route] = attrs.field(factory=list)


def looks_only(spec: CallSpec) -> bool:
    """Whether EXPLAIN may use it: a tool that stands in FROM, not the command of a SHELL function."""
    return spec.session == "tool" and command_of(spec) is None


class DryRun:
    """A statement whose text may be run again and again to see what it would ask. Answers that its sites are given stay for the next run.

    Tools are used, for they cost nothing and what they say tells what models would be asked. A context: the sites are open inside.
    """

    def __init__(self, running: Asking, plan: CallPlan, params: Any):
        self._running = running
        self._plan = plan
        self._params = params
        self._own = running.around.connection.in_autocommit()
        number = str(running.number)
        around = running.around
        learned = {s.number: known for s in plan.sites if (known := around.learned(s)) is not None}
        self._calls = [
            CallSite(s.spec, s.volatility, running.noting(s.number), learned.get(s.number)) for s in plan.sites
        ]
        self._stops: list[Stop] = stops_of(plan.stops, number, 1)
        self._answers = {s.number: c.answers for s, c in zip(plan.sites, self._calls, strict=True)}
        watched = {spec.number: stop for spec, stop in zip(plan.stops, self._stops, strict=True)}
        self._routes = routes_of(plan.routes, number, self._answers, watched, learned=learned)
        self._text = emit(plan, number, suffix=running.around.suffix, dry=True, inline=True)

    def __enter__(self) -> Self:
        lookups = self._running.around.lookups
        lookups.open(list(self._answers.values()), self._stops)
        lookups.open_routes(self._routes)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lookups = self._running.around.lookups
        lookups.close(list(self._answers.values()), self._stops)
        lookups.close_routes(self._routes)

    def count(self) -> Counted:
        """Run until no tool has anything new to say; what the sites lack then."""
        if self._plan.kind == "write" and not self._own:
            return Counted(problem="not counted inside your transaction")
        tools = [c for c in self._calls if looks_only(c.spec)]
        used: dict[str, dict[Key, None]] = {c.name: {} for c in tools}
        for call in self._calls:
            call.answers.notes.clear()
        while True:
            for route in self._routes:
                route.begin_run()
            for stop in self._stops:
                stop.begin_run()
            bounded = self._run_once()
            self._note_routes()
            asks = [Ask(c, key) for c in tools for key in c.answers.notes]
            for ask in asks:
                used[ask.site.name][ask.key] = None
            if bounded or not asks:
                break
            self._running.answer(asks)
            for call in self._calls:
                call.answers.notes.clear()
        return self._counted(used, bounded)

    def answer(self, asks: list[Ask]) -> None:
        """Have models answer some of what was noted: it is paid, and remembered for the statement's own run."""
        self._running.answer(asks)

    def _counted(self, used: dict[str, dict[Key, None]], bounded: bool) -> Counted:
        by_name = {site.name: site for site in self._answers.values()}
        for route in self._routes:
            route.fill()
        first_waves, groups = {}, {}
        for spec, stop in zip(self._plan.stops, self._stops, strict=True):
            groups[spec.number] = [len(keys) for keys in stop.missing.values()]
            for keys in stop.missing.values():
                for name, key in keys:
                    for asked in stop.sites if spec.partner is not None else (name,):
                        by_name[asked].notes[key] = None
            if spec.partner is not None:
                first_waves[spec.number] = len({key for _, key in stop.choose()})
        notes = {
            s.number: [Ask(c, k) for k in used.get(c.name, c.answers.notes)]
            for s, c in zip(self._plan.sites, self._calls, strict=True)
        }
        found = {number: asks for number, asks in notes.items() if asks}
        return Counted(found, bounded, None, first_waves, groups, self._routes)

    def _note_routes(self) -> None:
        """What the routes' rows want next counts as noted."""
        by_name = {site.name: site for site in self._answers.values()}
        for route in self._routes:
            route.survey()
            for asked in route.wanted():
                by_name[asked.site].notes.update(dict.fromkeys(asked.keys))

    def _run_once(self) -> bool:
        """One run, whose notes are what is missing; whether it was stopped at ``measure_ms``."""
        around = self._running.around
        connection = around.connection
        bounded = threading.Event()
        done = threading.Event()

        def stop() -> None:
            # Outside a transaction only: an interrupt would cost the user theirs.
            if not done.wait(around.settings.measure_ms / 1000):
                bounded.set()
                connection.interrupt()

        watchdog = threading.Thread(target=stop, daemon=True) if self._own else None
        try:
            if self._own:
                connection.begin()
            if watchdog is not None:
                watchdog.start()
            connection.fetch(self._text, self._params, query=self._plan.kind == "query")
        except duckdb.Error:
            if self._running.failure is not None:  # it would be refused
                raise self._running.failure from None
            noted = any(c.answers.notes for c in self._calls) or any(r.undecided for r in self._routes)
            if not bounded.is_set() and not noted:
                done.set()
                raise
        finally:
            done.set()
            if watchdog is not None:
                watchdog.join()
            if self._own:
                connection.rollback()
        return bounded.is_set()
