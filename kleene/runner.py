"""The life of one statement: plan, price, run to its fixed point, and its row in the trace."""

from __future__ import annotations

import functools
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs
import duckdb

from kleene.connection import Fetched, Params
from kleene.keeping import Keeping, used
from kleene.planner.callplan import CallPlan, PlanContext, Site
from kleene.planner.dialect import CallSQL
from kleene.planner.emit import emit
from kleene.planner.errors import BudgetExceeded, CallFailed, Cancelled, KleeneError, NoModel, Refused, number
from kleene.planner.experience import fingerprint, wanted_truth
from kleene.planner.plan import as_written, reordered, sampling
from kleene.planner.rules.join_order import SAMPLE
from kleene.planner.specs import BudgetLimits, Volatility
from kleene.result import Result
from kleene.surroundings import Surroundings
from kleene.udfs.asking import Caller, IfAffordable
from kleene.udfs.events import (
    BudgetStopped,
    RoundFinished,
    RunOfStatement,
    StatementFinished,
    StatementPlanned,
    StatementStarted,
)
from kleene.udfs.experience import Lesson, Seen
from kleene.udfs.fixpoint import Asking, Loop, RunReport, Shifting
from kleene.udfs.fixpoint import run as run_to_fixpoint
from kleene.udfs.lookups import Key, SiteAnswers
from kleene.udfs.rounds import RoundCounter
from kleene.udfs.routes import Route, routes_of
from kleene.udfs.statement import Ask, CallSite, StatementContext, Wanted
from kleene.udfs.stops import Stop, stops_of
from kleene.udfs.walls import alarm, wall_error
from kleene.udfs.weight import Weight

if TYPE_CHECKING:
    from kleene.udfs.runtime import Task

Then = Callable[["Running", Fetched], Fetched]
REPEATED = 20  # rows for each missing argument, from which reading the rows twice is cheaper than looking up each


@attrs.define
class Texts:
    """The text of a statement, and a second one with the same rows for many rows with few distinct arguments (rule ``distinct_first``).

    ``count`` gives the number of rows, None where it cannot be had. From ``least`` rows the first run uses the second text, and shows how many
    arguments there are: the others use it too where it has at least ``REPEATED`` rows for each.
    """

    plain: str
    params: Params = None
    compact: str | None = None
    least: int = 0
    count: Callable[[], int | None] = lambda: None
    keep: Callable[[int, float, bool], tuple[str, Params] | None] = lambda runs, first_s, compact: None
    _rows: int | None = None
    _runs: int = 0
    _first_s: float = 0.0
    _kept: tuple[str, Params] | None = None

    def run(self, execute: Callable[[str, Params], Fetched], sites: list[SiteAnswers]) -> Fetched:
        """One run. ``keep`` is asked before each but the first for a third text, over what was kept: with the runs so far, the seconds of
        the first, and whether the second text served."""
        self._runs += 1
        if self._runs == 1:
            if self.compact is not None:
                self._rows = self.count()
            started = time.perf_counter()
            try:
                return self._run(execute, sites)
            finally:
                self._first_s = time.perf_counter() - started
        if self._kept is None:
            self._kept = self.keep(self._runs - 1, self._first_s, self._is_compact())
        if self._kept is not None:
            try:
                return execute(*self._kept)
            except duckdb.Error:
                self._kept = None  # the rows are the statement's, the text around them is ours: an error has to be the statement's own
                self.keep = lambda runs, first_s, compact: None
        return self._run(execute, sites)

    def _is_compact(self) -> bool:
        return self.compact is not None and self._rows is not None and self._rows >= self.least

    def _run(self, execute: Callable[[str, Params], Fetched], sites: list[SiteAnswers]) -> Fetched:
        if self.compact is None or self._rows is None or not self._is_compact():
            return execute(self.plain, self.params)
        try:
            fetched = execute(self.compact, self.params)
        except duckdb.Error:
            # It reads the rows in a way of its own: what it cannot do (or meets first) is not the statement's error.
            self.compact = None
            return execute(self.plain, self.params)
        if self._rows < REPEATED * max(len(s.notes) for s in sites):
            self.compact = None
        return fetched


class Disordered(Exception):
    """DuckDB failed on a text whose conditions are asked in another order than written; the error may be of that order alone."""


class Running:
    """One statement while it runs. ``cancel`` may be called from any thread."""

    def __init__(self, around: Surroundings, sql: str):
        self.around = around
        self.sql = sql
        self.number = around.services.next_number()
        self.statement_id = f"{around.services.run_id}.{self.number}"
        limits = BudgetLimits(calls=around.settings.statement_calls)
        self.context = StatementContext(
            statement=self.statement_id,
            session=around.session,
            settings=around.settings,
            ledger=around.ledger.child(limits, name="statement"),
            tools=around.tools,
        )
        self.failure: KleeneError | None = None
        self._cancelled = threading.Event()
        self._task: Task[None] | None = None
        self._caller: Caller | None = None
        self._executing = False
        self._rounds: list[RoundCounter] = []
        self._stops: list[Stop] = []
        self._noting: dict[str, SiteAnswers] = {}
        self._planned: dict[str, Site] = {}
        self._weight = Weight(around.settings.round_bytes, self._kept, self._fail)
        self._order: tuple[str, ...] = ()
        self.after_run: Callable[[], None] | None = (
            None  # called after each of DuckDB's runs, before anything else runs there
        )
        self._demanded = 0
        self._started = time.time()

    # -- cancelling ----------------------------------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        self._cancelled.set()
        task = self._task
        if task is not None:
            task.cancel()
        caller = self._caller
        if caller is not None:
            caller.cancel()
        if self._executing:
            self.around.connection.interrupt()

    def is_over(self) -> bool:
        """Whether the statement was cancelled, or the wall of its budget is reached."""
        if self._cancelled.is_set():
            return True
        wall = self.context.ledger.remaining().wall
        return wall is not None and wall <= 0

    def check(self) -> None:
        """Raise where the statement ``is_over``."""
        if self._cancelled.is_set():
            raise Cancelled("cancelled")
        self.context.ledger.check_wall()

    # -- running -------------------------------------------------------------------------------------------------------------------------

    def pure(self, sql: str, params: Params, *, query: bool, then: Then | None = None) -> Result:
        """Run a statement without calls as it is. ``then`` makes the statement's result of the rows, as in ``planned``."""
        self._begin_trace()
        return self._traced(lambda: self._guarded(lambda: self.around.connection.fetch(sql, params, query=query)), then)

    def planned(self, plan: CallPlan, params: Params, then: Then | None = None) -> Result:
        """Run a plan to its fixed point; where a site's arguments change from run to run, again with its calls on demand."""
        self._begin_trace()
        return self._traced(lambda: self._fixed_point(plan, params), then)

    def _fixed_point(self, plan: CallPlan, params: Params) -> Fetched:
        around = self.around
        keeping = Keeping(around.connection, around.settings, str(self.number), around.suffix, params, self._guarded)
        try:
            if plan.frozen is not None and keeping.hold(plan.frozen):
                plan = plan.frozen
            try:
                plan = self._sampled(plan, params)
                return self._in_order(plan, params, keeping)
            except Shifting:
                if not (keeping.plan or keeping.keep(plan)):
                    raise
            assert keeping.plan is not None
            return self._in_order(keeping.plan, params, keeping)
        except Shifting as shifting:
            reason = "arguments change from run to run"
            site = plan.site(int(shifting.site.split(":")[1]))
            self.context.notes.append(
                f"{site.label}: {reason}, so its calls were made on demand, as DuckDB came to them"
            )
            return self._loop(plan.on_demand(reason), _own(plan, params), keeping)
        finally:
            keeping.close()

    def _sampled(self, plan: CallPlan, params: Params) -> CallPlan:
        """The plan in the order that a sample of each condition's arguments calls for, where its rule wants one."""
        around = self.around
        rates: dict[str, float] = {}
        for sample in sampling(plan, self._context_of()):
            (join,) = sample.joins
            keeping = Keeping.never(around.connection, around.settings, str(self.number), around.suffix)
            # What cannot be paid as a whole is not begun: after the sample the least that the conditions need has to fit.
            with suppress(duckdb.Error, Disordered, Shifting, BudgetExceeded, Refused):
                found = self._loop(sample, used(sample, params), keeping, spare=join.least)
                assert found.table is not None
                for row in found.table.to_pylist():
                    rates[join.conditions[row["c"]].text] = (row["p"] + 1) / (SAMPLE + 2)
        return reordered(plan, self._context_of(rates)) if rates else plan

    def _context_of(self, rates: Mapping[str, float] | None = None) -> PlanContext:
        around = self.around
        return PlanContext(around.settings, around.connection, rates or {}, around.learned)

    def _in_order(self, plan: CallPlan, params: Params, keeping: Keeping) -> Fetched:
        """The loop, with conditions in an order of our own where that can be taken back: an error would cost the user's transaction."""
        around = self.around
        if not plan.is_reordered or around.connection.in_autocommit():
            try:
                return self._loop(plan, _own(plan, params), keeping)
            except Disordered:
                if keeping.plan is not None:
                    keeping.plan = None if plan.joins else keeping.plan.as_written()
        written = as_written(plan, self._context_of())
        return self._loop(written, _own(written, params), keeping)

    def _loop(self, plan: CallPlan, params: Params, keeping: Keeping, *, spare: int | None = None) -> Fetched:
        """One fixed point. ``spare``: it can be done without, and is given up where the budget could not pay for so many calls more."""
        around = self.around
        write = plan.kind == "write"
        own_transaction = write and around.connection.in_autocommit()
        if write and not own_transaction:
            # No savepoint: what the loop would roll back is the user's. Calls are made inside the one run.
            plan = plan.on_demand("a write in a transaction")
        call_sites = self._open_sites(plan)
        stops = self._open_stops(plan)
        routes = self._open_routes(plan, stops)
        self._rounds = self._open_rounds(plan)
        text = emit(plan, str(self.number), suffix=around.suffix)
        asking: Asking = self._calling()
        if spare is not None:
            asking = IfAffordable(self._calling(), functools.partial(self._afford, more=spare))

        def keep(runs: int, first_s: float, compact: bool) -> tuple[str, Params] | None:
            wanted = plan.compact if compact and plan.compact is not None else plan
            return keeping.text() if keeping.keep_if_slow(wanted, runs, first_s) else None

        texts = Texts(
            text, params, self._compact(plan), around.settings.distinct_rows, lambda: self._count(plan, params), keep
        )
        around.services.events.emit(
            StatementPlanned(
                at=time.time(),
                statement=self.statement_id,
                duckdb_sql=text,
                explain=", ".join(plan.rules),
                estimate=_sites_json(plan),
            )
        )
        named = {s.number: c.name for c, s in zip(call_sites, plan.sites, strict=True) if s.demand is None}
        waved = {name for stop in stops for name in stop.sites}
        looked_up = [c for c, s in zip(call_sites, plan.sites, strict=True) if s.demand is None]
        loop = Loop(
            sites=looked_up,
            independent=frozenset(
                c.name for c in looked_up if plan.site(int(c.name.split(":")[1])).is_independent and c.name not in waved
            ),
            execute=lambda: texts.run(
                lambda chosen, given: self._run_text(chosen, given, routes, plan, transaction=own_transaction),
                [c.answers for c in looked_up],
            ),
            asking=asking,
            report=self._report,
            cancelled=self._cancelled.is_set,
            error_types=(duckdb.Error,),
            stops=stops,
            routes=routes,
            recall=self._recall,
            afford=self._afford,
            max_runs=around.settings.max_runs,
            suspicious=plan.suspicious,
            is_settled=lambda: keeping.plan is not None,
            waits={
                named[s.number]: frozenset(named[w] for w in s.waits if w in named)
                for s in plan.sites
                if s.waits and s.number in named
            },
        )
        try:
            result = run_to_fixpoint(loop)
            assert isinstance(result, Fetched)
            self._order = (*(join.lines()[0] for join in plan.joins), *(route.found_order() for route in routes))
            return result
        finally:
            if self._caller is not None:
                self._caller.close()
            around.lookups.close([c.answers for c in call_sites], stops)
            around.lookups.close_routes(routes)
            around.lookups.close_rounds(self._rounds)

    def _calling(self) -> Caller:
        """Who makes the statement's calls. One without calls never needs the runtime."""
        if self._caller is None:
            services = self.around.services
            self._caller = Caller(services.runtime, services.dispatcher, self.context, self._check_unknown)
            if self._cancelled.is_set():
                self._caller.cancel()
        return self._caller

    def _compact(self, plan: CallPlan) -> str | None:
        """The plan's text for many rows with few arguments, where it has one."""
        return None if plan.compact is None else emit(plan.compact, str(self.number), suffix=self.around.suffix)

    def _count(self, plan: CallPlan, params: Params) -> int | None:
        """How many rows reach the plan's calls. Not counted with parameters, which may stand in other places of the text only, nor in the user's
        transaction, which an error of ours would abort."""
        if plan.rows is None or params or not self.around.connection.in_autocommit():
            return None
        with suppress(duckdb.Error):
            text = plan.rows.sql(CallSQL)
            counted = self._guarded(lambda: self.around.connection.fetch(text)).rows
            return int(counted[0][0]) if counted else None
        return None

    def noting(self, number: int) -> SiteAnswers:
        """The answers of a call site, weighed with all others of the statement."""
        answers = SiteAnswers(name=f"{self.number}:{number}", weight=self._weight)
        self._noting[answers.name] = answers  # where the statement starts again, in place of those before
        return answers

    def _open_sites(self, plan: CallPlan) -> list[CallSite]:
        sites = []
        for site in plan.sites:
            answers = self.noting(site.number)
            before = self.context.sites.get(answers.name)
            if before is not None and site.volatility is not Volatility.VOLATILE:
                answers.answers = before.answers.answers  # the statement starts again: what was paid for is kept
            seen = Seen() if before is None else before.seen
            call = CallSite(site.spec, site.volatility, answers, self.around.learned(site), seen)
            self._planned[call.name] = site
            answers.ask = lambda _, keys, call=call: self._demand(call, keys)
            sites.append(call)
            self.context.sites[call.name] = call
        self.around.lookups.open([c.answers for c in sites])
        return sites

    def _passing(self, plan: CallPlan) -> dict[int, tuple[float, int]]:
        """For the sites of stops the share of arguments that let a row pass, by earlier statements, and how many answers that rests on."""
        found = {}
        for stop in plan.stops:
            known = self.context.sites[f"{self.number}:{stop.site}"].learned if stop.site and stop.rows else None
            truth = None if known is None else wanted_truth(plan, stop.site)
            share = None if known is None or truth is None else known.passing(truth)
            if known is not None and share is not None:
                found[stop.site] = (share, known.answers)
        return found

    def _learn(self) -> None:
        """Keep what the statement's calls were seen to do, for the estimates of later ones. A prompt without a place for a row's values is
        asked once ever: nothing is learned of it."""
        settings = self.around.settings
        for name, site in self._planned.items() if settings.estimates else ():
            seen = self.context.sites[name].seen
            if seen.answers and "{" in site.asks and not site.spec.session:
                lesson = Lesson(fingerprint(site), site.spec.function, site.asks if settings.trace_text else "")
                self.around.services.lessons.take(lesson, seen, truths=site.spec.answer.kind == "bool")

    def _open_stops(self, plan: CallPlan) -> list[Stop]:
        stops = self._stops = stops_of(plan.stops, str(self.number), self.around.settings.wave, self._passing(plan))
        self.around.lookups.open([], stops)
        return stops

    def _open_routes(self, plan: CallPlan, stops: list[Stop]) -> list[Route]:
        calls = {s.number: self.context.sites[f"{self.number}:{s.number}"] for s in plan.sites}
        sites = {number: call.answers for number, call in calls.items()}
        learned = {number: call.learned for number, call in calls.items() if call.learned is not None}
        watched = {spec.number: stop for spec, stop in zip(plan.stops, stops, strict=True)}
        routes = routes_of(plan.routes, str(self.number), sites, watched, self._price, learned)
        self.around.lookups.open_routes(routes)
        return routes

    def _price(self, site: str, keys: list[Key]) -> float | None:
        """Dollars of a call of the site, judged by some of its arguments; 0 where it has no price, None where it asks no model."""
        if self.context.sites[site].spec.session == "tool":
            return None
        services = self.around.services
        asks = [Ask(self.context.sites[site], key) for key in keys]
        with suppress(NoModel):
            estimate = self.wait(services.runtime.submit(services.dispatcher.estimate, self.context, asks))
            return 0.0 if estimate.unpriced or not estimate.calls else float(estimate.dollars / estimate.calls)
        return 0.0

    def _recall(self, wanted: list[Wanted]) -> int:
        if not self.around.settings.memo:
            return 0
        services = self.around.services
        found = self.wait(services.runtime.submit(services.dispatcher.recall, self.context, wanted))
        return int(found)

    def _afford(self, wanted: list[Wanted], more: int = 0) -> None:
        services = self.around.services
        self.wait(services.runtime.submit(services.dispatcher.afford, self.context, wanted, more))

    def _run_text(
        self, text: str, params: Params, routes: list[Route], plan: CallPlan, *, transaction: bool
    ) -> Fetched:
        """One run of a text. Raises ``Disordered`` for an error of DuckDB in one with an order of our own: as written there may be none."""
        try:
            return self._execute(text, params, query=plan.kind == "query", transaction=transaction, routes=routes)
        except duckdb.Error as error:
            if not plan.is_reordered or "Python exception" in str(
                error
            ):  # of a function of ours: a fault, whatever the order
                raise
            raise Disordered from error

    def _open_rounds(self, plan: CallPlan) -> list[RoundCounter]:
        def report(cte: str, number: int, delta: int, total: int) -> None:
            self.around.services.events.emit(
                RoundFinished(
                    at=time.time(),
                    statement=self.statement_id,
                    cte=cte,
                    round=number,
                    delta_rows=delta,
                    total_rows=total,
                )
            )

        counters = [
            RoundCounter(
                name=f"{self.number}:r{spec.number}",
                cte=spec.cte,
                cap=self.around.settings.recursion_limit,
                rounds=spec.rounds,
                check=self.check,
                report=functools.partial(report, spec.cte),
                failed=self._fail,
            )
            for spec in plan.rounds
        ]
        self.around.lookups.open_rounds(counters)
        return counters

    def _kept(self) -> int:
        return sum(noted.kept() for noted in (*self._noting.values(), *self._stops))

    def _fail(self, error: KleeneError) -> None:
        self.failure = error

    def _execute(
        self, text: str, params: Params, *, query: bool, transaction: bool, routes: Sequence[Route] = ()
    ) -> Fetched:
        """One run. In autocommit a write runs in a transaction that is committed only when nothing was missing."""
        connection = self.around.connection
        self._weight.begin_run()
        for counter in self._rounds:
            counter.begin_run()
        if not transaction:
            return self._guarded(lambda: connection.fetch(text, params, query=query))
        connection.begin()
        try:
            fetched = self._guarded(lambda: connection.fetch(text, params))
            if any(s.answers.lacks for s in self.context.sites.values()) or any(r.undecided for r in routes):
                connection.rollback()
            else:
                connection.commit()
            return fetched
        except BaseException:
            connection.rollback()
            raise

    def _guarded(self, execute: Callable[[], Fetched]) -> Fetched:
        """Run DuckDB, tell cancellation from its errors, and put the typed error back that a call on demand raised inside it."""
        self.failure = None
        self.context.ledger.check_wall()
        self._executing = True
        try:
            if self._cancelled.is_set():
                raise Cancelled("cancelled")
            with alarm(self.context.ledger.remaining().wall, self._stop_at_wall):
                result = execute()
        except duckdb.InterruptException:
            if self.failure is not None:
                raise self.failure from None
            raise Cancelled("cancelled") from None
        except duckdb.Error:
            if self.failure is not None:
                raise self.failure from None
            if self._cancelled.is_set():
                raise Cancelled("cancelled") from None
            raise
        finally:
            self._executing = False
        if self.failure is not None:
            raise self.failure
        if self.after_run is not None:
            self.after_run()
        return result

    def _stop_at_wall(self) -> None:
        """The wall of the budget is reached while DuckDB works: end its run, with the reason kept for ``_guarded``."""
        error = wall_error(self.context.ledger)
        if self._executing and self.failure is None:
            self.failure = error
            self.around.connection.interrupt()

    # -- calling -------------------------------------------------------------------------------------------------------------------------

    def answer(self, asks: list[Ask]) -> None:
        """Answer calls as those of the statement: remembered, priced, refused and traced alike."""
        self.wait(self.around.services.runtime.submit(self.around.services.dispatcher.answer, self.context, asks))
        self._check_unknown()

    def _check_unknown(self) -> None:
        if self.around.settings.on_unknown == "fail" and self.context.meter.usage.unknown:
            raise CallFailed(
                _unknown_text(self.context), kind="unknown", hint="SET on_unknown = 'null' gives NULL for them"
            )

    def wait(self, task: Task[Any]) -> Any:
        """The task's result; ``cancel`` ends the wait and the task."""
        self._task = task
        try:
            if self._cancelled.is_set():
                task.cancel()
            return task.wait()
        finally:
            self._task = None

    def _demand(self, site: CallSite, keys: list[Key]) -> None:
        """Answer keys inside DuckDB's run. Raises the typed error here, and keeps it for ``_guarded``: DuckDB passes on only its text."""
        try:
            if self.failure is not None:
                raise self.failure
            cap = int(self.around.settings.ondemand_calls)
            self._demanded += len(keys)
            if self._demanded > cap:
                raise Refused(
                    f"{site.spec.function} asks for more than {cap} calls on demand",
                    dimension="ondemand.calls",
                    needed=self._demanded,
                    remaining=cap,
                    hint="calls on demand cannot be priced before they run; SET ondemand.calls = n allows more",
                )
            self.answer([Ask(site, key) for key in keys])
        except KleeneError as error:
            self.failure = error
            raise

    # -- tracing -------------------------------------------------------------------------------------------------------------------------

    def _begin_trace(self) -> None:
        self.around.services.events.emit(
            StatementStarted(at=self._started, statement=self.statement_id, session=self.around.session, sql=self.sql)
        )

    def _report(self, run: RunReport) -> None:
        self.around.services.events.emit(
            RunOfStatement(
                at=time.time(),
                statement=self.statement_id,
                run=run.number,
                notes=run.notes,
                answered=run.answered,
                seconds=run.seconds,
                lacked=dict(run.lacked),
            )
        )

    def _traced(self, run: Callable[[], Fetched], then: Then | None) -> Result:
        error: str | None = None
        rows = 0
        try:
            fetched = run()
            if then is not None:
                fetched = then(self, fetched)
            rows = len(fetched)
            return Result(
                fetched.columns,
                fetched.types,
                table=fetched.table,
                rows=fetched.rows,
                usage=attrs.evolve(self.context.meter.usage, seconds=time.time() - self._started),
                warnings=self.warnings(),
                order=self._order,
                statement_id=self.statement_id,
            )
        except BaseException as failure:
            error = failure.message if isinstance(failure, KleeneError) else str(failure) or type(failure).__name__
            if isinstance(failure, BudgetExceeded):
                self._budget_stopped(failure.dimension, failure.limit, failure.used)
            raise
        finally:
            self.context.ledger.close()
            self._learn()
            usage = self.context.meter.usage
            with suppress(Exception):
                self.around.services.events.emit(
                    StatementFinished(
                        at=time.time(),
                        statement=self.statement_id,
                        rows=rows,
                        calls=usage.requests,
                        tokens=usage.tokens,
                        dollars=usage.dollars,
                        memo_hits=usage.memo_hits,
                        unknown=usage.unknown,
                        error=error,
                    )
                )

    def _budget_stopped(self, dimension: str, limit: float, used: float) -> None:
        self.around.services.events.emit(
            BudgetStopped(
                at=time.time(),
                statement=self.statement_id,
                session=self.around.session,
                dimension=dimension,
                limit=limit,
                used=used,
            )
        )

    def warnings(self) -> tuple[str, ...]:
        meter = self.context.meter
        found = list(self.context.notes)
        if meter.usage.unknown:
            found.append(_unknown_text(self.context))
        if meter.failed:
            found.append(f"{number(meter.failed)} calls failed and gave NULL; the first: {meter.first_failure}")
        return tuple(found)


def _own(plan: CallPlan, params: Params) -> Params:
    """The statement's parameters; in a text over what is kept, those that are left there."""
    return used(plan, params) if plan.kept else params


def _sites_json(plan: CallPlan) -> str:
    """The calls of a plan for the trace and for displays: each call site's number and how the call is written."""
    return json.dumps({"sites": {str(s.number): s.label for s in plan.sites}}, ensure_ascii=False)


def _unknown_text(context: StatementContext) -> str:
    kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(context.meter.unknown_kinds.items()))
    count = context.meter.usage.unknown
    noun = "answer is" if count == 1 else "answers are"
    return (
        f"{count} {noun} unknown ({kinds}): NULL in the result; "
        f"SELECT prompt, reply, kind FROM trace_calls WHERE statement = '{context.statement}' AND kind <> 'answer' shows them"
    )
