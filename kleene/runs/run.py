"""``run`` and ``resume``: a model answers a task in a session of its own."""

from __future__ import annotations

import secrets
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from kleene.planner.errors import ConfigError, KleeneError, did_you_mean
from kleene.planner.specs import BudgetLimits, Usage
from kleene.result import Result
from kleene.runs import memory
from kleene.runs.family import Family
from kleene.runs.grants import granted
from kleene.runs.journal import Journal, larger
from kleene.runs.limits import budget_of, capped
from kleene.runs.opened import OpenSession, schema_of
from kleene.runs.record import SessionState
from kleene.runs.tables import Loaded, instructions, load
from kleene.session.feedback import CheckResult
from kleene.session.loop import PastTurn, Place, SessionResult, run_session
from kleene.session.world import Outcome
from kleene.store.state import SessionRecord
from kleene.udfs.events import RunStarted

if TYPE_CHECKING:
    from kleene.executor import Executor

CHECK_TIMEOUT_S = 300
CHECK_LINES = 40
Check = Callable[[Outcome], CheckResult]


@attrs.frozen
class Task:
    """What is asked of a run; the options of ``Engine.run``."""

    text: str
    context: Any = None
    tables: tuple[str, ...] = ()
    data: tuple[str | Path, ...] = ()
    max_turns: int = 30
    max_depth: int = 2
    check: str | Callable[..., Any] | None = None
    keep: bool = False
    from_run: str | None = None
    allow: tuple[str, ...] | None = None


@attrs.frozen
class Run:
    """How a run ended. ``outcome``: final, turns_exhausted, budget_exhausted, failed or cancelled. ``answer`` is None without a FINAL;
    ``forced``: it was asked for after the turns were used up. ``error`` says why there is none."""

    run_id: str
    outcome: str
    answer: Result | None
    forced: bool
    turns: int
    usage: Usage
    error: str | None = None
    cause: KleeneError | None = None
    notes: tuple[str, ...] = ()


def run_task(engine: Executor, task: Task, budget: BudgetLimits | None) -> Run:
    """Load what the task comes with, and run its session to the end. Raises a ``KleeneError`` for wrong input only."""
    services = engine.services
    run_id = time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(3)
    limits, notes = budget_of(engine, budget)
    ledger = engine.ledger.child(attrs.evolve(limits, depth=task.max_depth), name="session")
    state = SessionState(
        schema=schema_of(run_id),
        place=Place(session=run_id, run=run_id, max_depth=task.max_depth),
        max_turns=task.max_turns,
        check=task.check if isinstance(task.check, str) else "",
        calls_check=callable(task.check),
        settings=engine.state.settings,
        limits=capped(limits, ledger.remaining()),
        keep=task.keep,
    ).with_catalog(
        granted(
            engine.state.catalog,
            task.allow,
            approved=engine.is_asked,
            servers=None if engine.tools is None else engine.tools.groups(),
        )
    )
    journal = Journal(services.store, run_id)
    try:
        session = OpenSession(engine, state, ledger, journal, fresh=True, beneath=Family.beneath)
        drop = True
        try:
            loaded = _load(engine, session, task)
            note = "\n\n".join(part for part in (loaded.note, instructions(engine.workspace)) if part)
            state = attrs.evolve(state, note=note, loaded=loaded.names)
            journal.save(state, task.text, 0)
            services.events.emit(RunStarted(at=time.time(), run=run_id, task=task.text))
            drop = False
            ended, run = _to_the_end(engine, session, state, task.text, check=task.check, notes=notes)
            drop = ended.outcome == "final" and not task.keep
            return run
        finally:
            session.close(drop=drop)
    finally:
        ledger.close()
        journal.close()


def resume_task(
    engine: Executor,
    run_id: str | None,
    *,
    budget: BudgetLimits | None,
    max_turns: int | None,
    check: Callable[..., Any] | None,
) -> Run:
    """Take a run up after its last turn. Raises ``ConfigError`` where there is none, or it has its answer."""
    run_id = _resumable(engine, run_id)
    journal = Journal(engine.services.store, run_id)
    try:
        found = journal.load()
        assert found is not None
        state, record = found
        if state.calls_check and check is None:
            raise ConfigError(
                f"run {run_id} had a function as its check", hint="give it again: k.resume(run_id, check=function)"
            )
        history = journal.history()
        state = attrs.evolve(
            state,
            max_turns=_turns(state.max_turns, len(history), record, max_turns),
            limits=state.limits if budget is None else attrs.evolve(budget, depth=state.limits.depth),
        )
        ledger = engine.ledger.child(state.limits, name="session")
        ledger.record(larger(state.used, journal.spent()))
        try:
            session = OpenSession(engine, state, ledger, journal, fresh=False, beneath=Family.beneath)
            drop = False
            try:
                ended, run = _to_the_end(
                    engine,
                    session,
                    state,
                    record.task,
                    check=check or state.check or None,
                    history=history,
                    resumed=True,
                )
                drop = ended.outcome == "final" and not state.keep
                return run
            finally:
                session.close(drop=drop)
        finally:
            ledger.close()
    finally:
        journal.close()


def family_of_host(engine: Executor) -> Family:
    """Who answers ``rlm`` and its kin in a person's own statement."""
    run_id = engine.services.run_id
    return Family(engine, Place(session=run_id, run=run_id, role="host", path="host", max_depth=2))


def _to_the_end(
    engine: Executor,
    session: OpenSession,
    state: SessionState,
    task: str,
    *,
    check: str | Callable[..., Any] | None,
    notes: tuple[str, ...] = (),
    history: list[PastTurn] | None = None,
    resumed: bool = False,
) -> tuple[SessionResult, Run]:
    started = time.perf_counter()
    world = session.enter(state, task, resumed=resumed)
    ended = run_session(
        world,
        task,
        max_turns=state.max_turns,
        context_note=state.note,
        check=None if check is None else _check(check, engine.workspace),
        check_name=state.check,
        history=history or [],
        system=state.system,
        place=state.place,
    )
    memory.keep(session.connection, state.schema)
    answer = world.final if ended.answer is not None else None
    run = Run(
        run_id=state.place.run,
        outcome=ended.outcome,
        answer=answer,
        forced=ended.forced,
        turns=ended.turns,
        usage=attrs.evolve(ended.usage, seconds=time.perf_counter() - started),
        error=ended.error,
        cause=ended.cause,
        notes=notes,
    )
    return ended, run


def _load(engine: Executor, session: OpenSession, task: Task) -> Loaded:
    if task.from_run is not None:
        _copy_tables(engine, session, task.from_run)
    loaded = load(engine, session.connection, task.context, task.tables, task.data)
    memory.recall(session.connection)
    return loaded


def _copy_tables(engine: Executor, session: OpenSession, run_id: str) -> None:
    """Begin with the tables that another run kept."""
    schema = schema_of(run_id)
    names = session.connection.rows(
        "SELECT table_name FROM duckdb_tables() WHERE schema_name = $1 ORDER BY table_oid", [schema]
    )
    if not names:
        raise ConfigError(
            f"run {run_id} has no tables to begin with", hint="a run keeps its tables with keep=True or --keep"
        )
    for (name,) in names:
        quoted = '"' + str(name).replace('"', '""') + '"'
        session.connection.rows(f'CREATE TABLE {quoted} AS FROM "{schema}".{quoted}')


def _resumable(engine: Executor, run_id: str | None) -> str:
    """The run's id, once it is certain that it can go on."""
    cursor = engine.services.store.cursor()
    try:
        rows = cursor.execute(
            "SELECT run, outcome FROM main.kleene_sessions WHERE depth = 0 ORDER BY updated_at DESC"
        ).fetchall()
    finally:
        cursor.close()
    if run_id is None:
        last = [str(run) for run, outcome in rows if outcome != "final"]
        if not last:
            raise ConfigError("there is no run to resume", hint="python -m kleene runs lists what ran")
        return last[0]
    known = dict(rows)
    if run_id not in known:
        near = did_you_mean(run_id, known)
        raise ConfigError(
            f"there is no run {run_id} in this store",
            hint=f"did you mean {near}?" if near else "python -m kleene runs lists what ran",
        )
    if known[run_id] == "final":
        raise ConfigError(
            f"run {run_id} has its answer", hint=f"SELECT rows FROM trace_final WHERE session = '{run_id}' shows it"
        )
    return run_id


def _turns(cap: int, done: int, record: SessionRecord, more: int | None) -> int:
    """The new turn cap."""
    if more is not None:
        return done + more
    return done + cap if record.outcome == "turns_exhausted" or done >= cap else cap


def _check(check: str | Callable[..., Any], workspace: Path) -> Check:
    if callable(check):
        return check

    def run(_: Outcome) -> CheckResult:
        try:
            done = subprocess.run(
                check,
                shell=True,
                cwd=workspace,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=CHECK_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            return CheckResult(False, f"the check did not end within {CHECK_TIMEOUT_S} s")
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        return CheckResult(done.returncode == 0, "\n".join(lines[-CHECK_LINES:]))

    return run
