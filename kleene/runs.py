"""``run``: a model answers a task in a session of its own: a schema of the store's locked database, filled before the first turn."""

from __future__ import annotations

import secrets
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import duckdb

from kleene.own import State
from kleene.planner import effects
from kleene.planner.errors import ConfigError, KleeneError, PlanError
from kleene.planner.specs import BudgetLimits, FunctionSpec, Usage
from kleene.planner.statements import Statement, parse
from kleene.result import Result
from kleene.session.context import Feed, Inline, load_context
from kleene.session.excerpt import excerpt
from kleene.session.feedback import CheckResult
from kleene.session.loop import Place, SessionResult, run_session
from kleene.session.prefix import context_note
from kleene.session.world import AgentView, CatalogView, ColumnView, FunctionView, Outcome, TableView
from kleene.udfs.events import Event, RunStarted
from kleene.udfs.protocols import Reply, Request

if TYPE_CHECKING:
    from kleene.engine import Engine

FIRST_ROWS = 1000
DEFAULT_BUDGET = BudgetLimits(dollars=1.0)
DEFAULT_UNPRICED_BUDGET = BudgetLimits(calls=200)
CHECK_TIMEOUT_S = 300
CHECK_LINES = 40


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


def run_task(
    engine: Engine,
    task: str,
    *,
    context: Any,
    tables: Sequence[str],
    data: Sequence[str | Path] | None,
    budget: BudgetLimits | None,
    max_turns: int,
    check: str | Callable[..., Any] | None,
) -> Run:
    from kleene.engine import Engine as EngineClass

    services = engine.services
    run_id = time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(3)
    limits, notes = _budget(engine, budget)
    schema = "s_" + run_id.replace("-", "_")
    cursor = services.store.cursor()
    try:
        cursor.execute(f'CREATE SCHEMA "{schema}"')
        cursor.execute(f"SET search_path = '{schema}'")
        feeds = list(_feeds(engine, context, tables, data))
        for feed in feeds:
            _load(cursor, feed)
        services.events.emit(RunStarted(at=time.time(), run=run_id, task=task))
        session_engine = EngineClass(
            cursor,
            services,
            ledger=engine.ledger.child(limits, name="session"),
            state=State(settings=engine.state.settings, catalog=engine.state.catalog),
            trust="model",
            session=run_id,
            schema=schema,
            workspace=engine.workspace,
            owns_services=False,
        )
        world = SessionWorld(session_engine, schema)
        engine.session_started(session_engine)
        try:
            note = _context_note(session_engine, feeds)
            result = run_session(
                world,
                task,
                max_turns=max_turns,
                context_note=note,
                check=None if check is None else _check(check, engine.workspace),
                check_name=check if isinstance(check, str) else "",
                place=Place(session=run_id, run=run_id),
            )
        finally:
            engine.session_ended(session_engine)
            session_engine.close()
        return _run(run_id, result, world, notes)
    finally:
        cursor.close()


def _budget(engine: Engine, budget: BudgetLimits | None) -> tuple[BudgetLimits, tuple[str, ...]]:
    """A run without any budget has $1, or 200 calls where the model has no price; and says so."""
    if budget is not None:
        return budget, ()
    left = engine.ledger.remaining()
    if left.calls is not None or left.tokens is not None or left.dollars is not None:
        return BudgetLimits(), ()
    try:
        routes = [engine.services.handler.route(alias) for alias in ("root", "worker")]
    except KleeneError:
        return DEFAULT_BUDGET, ()
    if any(r.price is None for r in routes):
        return DEFAULT_UNPRICED_BUDGET, ("no budget was given and the model has no price: this run has 200 calls",)
    return DEFAULT_BUDGET, ("no budget was given: this run has $1",)


def _feeds(engine: Engine, context: Any, tables: Sequence[str], data: Sequence[str | Path] | None) -> Iterator[Feed]:
    sources: list[Any] = []
    if isinstance(context, str):
        sources.append(Inline(context))
    elif context is not None:
        sources.extend(context)
    sources.extend(data or ())
    taken = list(tables)
    if sources:
        yield from load_context(sources, taken=taken)
    for name in tables:
        yield _table_feed(engine, name)


def _table_feed(engine: Engine, name: str) -> Feed:
    """A table of the engine's connection, handed over as Arrow."""
    try:
        relation = engine.con.table(name) if name in engine.connection.table_names() else engine.con.sql(f"FROM {name}")
    except duckdb.Error as error:
        raise PlanError(f"tables={name!r}: {str(error).splitlines()[0]}") from None
    reader = relation.to_arrow_reader()
    return Feed(name, reader.schema, f"table {name}", lambda _: iter(reader), once=True)


def _load(cursor: duckdb.DuckDBPyConnection, feed: Feed) -> None:
    cursor.register("kleene_feed", feed.reader())
    try:
        cursor.execute(f'CREATE TABLE "{feed.name}" AS FROM kleene_feed')
    except duckdb.Error as error:
        if feed.failure is not None:
            raise feed.failure from None
        raise ConfigError(f"{feed.name} cannot be loaded: {str(error).splitlines()[0]}") from None
    finally:
        cursor.unregister("kleene_feed")


def _context_note(engine: Engine, feeds: list[Feed]) -> str:
    if not feeds:
        return ""
    parts = [context_note([f.note() for f in feeds], [n for f in feeds for n in f.notes])]
    for feed in feeds:
        fetched = engine.connection.fetch(f'SELECT * FROM "{feed.name}" LIMIT {FIRST_ROWS}', query=True)
        first = Result(fetched.columns, fetched.types, table=fetched.table, rows=fetched.rows)
        parts.append(excerpt(feed.name, attrs.evolve(outcome_of(first), row_count=feed.rows)))
    return "\n\n".join(p for p in parts if p)


def outcome_of(result: Result) -> Outcome:
    return Outcome(
        columns=result.columns,
        types=result.types,
        rows=result.head(FIRST_ROWS),
        row_count=len(result),
        usage=result.usage,
        warnings=result.warnings,
        message=result.message,
        final=result.final,
    )


def _check(check: str | Callable[..., Any], workspace: Path) -> Callable[[Outcome], CheckResult]:
    if callable(check):
        return check  # type: ignore[return-value]

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


def _run(run_id: str, result: SessionResult, world: SessionWorld, notes: tuple[str, ...]) -> Run:
    return Run(
        run_id=run_id,
        outcome=result.outcome,
        answer=world.final,
        forced=result.forced,
        turns=result.turns,
        usage=result.usage,
        error=result.error,
        cause=result.cause,
        notes=notes,
    )


class SessionWorld:
    """The engine as one session sees it (``kleene.session.world.World``). ``final`` is the relation of its FINAL."""

    def __init__(self, engine: Engine, schema: str):
        self._engine = engine
        self._schema = schema
        self._turns = Usage()
        self.final: Result | None = None

    def parse(self, sql_text: str) -> tuple[Statement, ...]:
        return parse(sql_text)

    def run(self, statement: Any) -> Outcome:
        result = self._engine.run_statement(statement)
        if result.final:
            self.final = result
        if result.plan is not None:
            return Outcome(message=result.plan, usage=result.usage, warnings=result.warnings)
        done = effects.done(statement.tree, _count(result))
        if done is not None:
            return Outcome(message=done, usage=result.usage, warnings=result.warnings)
        return outcome_of(result)

    def catalog_lines(self) -> CatalogView:
        catalog = self._engine.state.catalog
        return CatalogView(
            tables=tuple(self._tables()),
            model_calls=tuple(_function(f) for f in catalog.functions.values() if f.body == "builtin"),
            declared=tuple(_function(f) for f in catalog.declared()),
            agents=tuple(AgentView(a.name, a.prompt.split("\n", 1)[0][:100]) for a in catalog.agents.values()),
        )

    def _tables(self) -> Iterator[TableView]:
        found = self._engine.connection.rows(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE schema_name = $1 ORDER BY table_oid, column_index",
            [self._schema],
        )
        columns: dict[str, list[ColumnView]] = {}
        for table, column, kind in found:
            columns.setdefault(table, []).append(ColumnView(column, kind))
        for table, described in columns.items():
            count = self._engine.connection.rows(f'SELECT count(*) FROM "{self._schema}"."{table}"')[0][0]
            yield TableView(table, tuple(described), count)

    def ask(self, request: Request) -> Reply:
        engine = self._engine
        options = attrs.evolve(request.options, timeout=engine.state.settings.timeout)
        request = attrs.evolve(request, options=options)
        task = engine.services.runtime.submit(
            engine.services.dispatcher.ask_turn, request, engine.ledger, engine.session
        )
        engine.waiting_for(task)
        try:
            reply, _ = task.wait()
            return reply
        finally:
            engine.waiting_for(None)

    def remaining(self) -> BudgetLimits:
        return self._engine.ledger.remaining()

    def usage(self) -> Usage:
        return self._engine.ledger.used

    def emit(self, event: Event) -> None:
        self._engine.services.events.emit(event)


def _count(result: Result) -> int | None:
    return int(result.rows[0][0]) if result.columns == ("Count",) and len(result) == 1 else None


def _function(spec: FunctionSpec) -> FunctionView:
    return FunctionView(spec.signature(), spec.description)
