"""The engine as one session sees it, with everything that happens written to the session's journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import attrs
import duckdb
from sqlglot import exp

from kleene.connection import Fetched
from kleene.planner import nodes
from kleene.planner.effects import created_table, effect, writes
from kleene.planner.errors import BudgetExceeded, Cancelled
from kleene.planner.identifiers import written
from kleene.planner.roles import MAIL
from kleene.planner.sought import sought
from kleene.planner.specs import BudgetLimits, FunctionSpec, Usage
from kleene.planner.statements import Statement, read
from kleene.planner.tools import has_effects
from kleene.problems import from_duckdb
from kleene.result import Result
from kleene.runs.journal import Ended, Journal
from kleene.runs.record import SessionState
from kleene.runs.tables import FIRST_ROWS, outcome_of
from kleene.session.render import TYPE
from kleene.session.text import one_line
from kleene.session.world import AgentView, CatalogView, ColumnView, FunctionView, Outcome, TableView
from kleene.udfs.events import Event, SessionFinished, TurnFinished
from kleene.udfs.protocols import Reply, Request

if TYPE_CHECKING:
    from kleene.executor import Executor
    from kleene.runs.connection import JournalledConnection
    from kleene.udfs.ledger import Reservation


FEWER = "filter with plain SQL first, LIMIT the rows, or FINAL with what you have"
WITHIN_BUDGET = {"depth": "do it here, with SQL and llm()", "wall": "FINAL with what you have"}
"""What a model can do about a budget that ran out, by its dimension; else ``FEWER``."""

Gives = Callable[[SessionFinished, "Result | None"], str]
"""What a child gives its parent, as text, of its end and its FINAL's relation."""


class SessionWorld:
    """Runs one session's statements and turns (``kleene.session.world.World``).

    ``final`` is the relation of its FINAL, ``state`` what a resumed session would begin with, ``turn`` the turn that runs. ``cancel`` may
    be called from any thread, at any time: what runs ends, and nothing begins any more.
    """

    def __init__(
        self,
        engine: Executor,
        connection: JournalledConnection,
        journal: Journal,
        state: SessionState,
        task: str,
        *,
        held: Reservation | None = None,
        resumed: bool = False,
        gives: Gives | None = None,
    ):
        self.state = state
        self.final: Result | None = None
        self.turn = 0
        self._engine = engine
        self._connection = connection
        self._journal = journal
        self._task = task
        self._held = held
        self._gives = gives
        self._cancelled = False
        self._statement = 0
        self._said: str | None = None
        self._unwritten: Ended | None = None
        self._pending = journal.pending() if resumed else None
        self._done: dict[int, Outcome] = {}
        engine.kept = self

    def cancel(self) -> None:
        self._cancelled = True
        self._engine.cancel()

    # -- statements ------------------------------------------------------------------------------------------------------------------

    def parse(self, sql_text: str) -> tuple[Statement, ...]:
        return read(sql_text)

    def run(self, statement: Statement) -> Outcome:
        self._statement += 1
        done = self._done.get(self._statement)
        if done is not None:
            return done
        self._check_cancelled()
        try:
            return self._run(statement)
        except Cancelled:
            self._cancelled = True
            raise
        except BudgetExceeded as error:
            if error.hint is None or "SET budget." in error.hint:  # which a session cannot raise
                error.hint = WITHIN_BUDGET.get(error.dimension, FEWER)
            raise
        except duckdb.Error as error:  # of the data, not of the text: a model must be told of it as of any other
            raise from_duckdb(str(error), self._engine.state.catalog, statement) from error

    def _run(self, statement: Statement) -> Outcome:
        tree = statement.tree
        if isinstance(tree, nodes.Explain) and tree.args.get("analyze"):
            tree = tree.this  # EXPLAIN ANALYZE does what it explains
        self._said = None
        if writes(tree):
            with self._connection.marking(lambda con, fetched: self._mark(con, tree, fetched)):
                result = self._engine.run_statement(statement)
        else:
            result = self._engine.run_statement(statement)
        if isinstance(tree, nodes.CallTool):
            return self._called(tree, result)
        if result.final:
            self.final = result
        text = result.plan if result.plan is not None else self._said
        if text is not None:
            return Outcome(message=text, usage=result.usage, warnings=result.warnings)
        outcome = attrs.evolve(_named(tree, outcome_of(result)), sought=sought(tree))
        # Its types were just written, and every turn after this one reads them again.
        if isinstance(tree, nodes.CreateFunction) and outcome.message:
            return attrs.evolve(outcome, message=one_line(outcome.message, TYPE))
        return outcome

    def effects_done(self) -> list[tuple[str, str]]:
        """The uses of the running CALL that were done before the turn ran again, with their rows (``kleene.effects.Kept``)."""
        return self._journal.effects(self.turn, self._statement)

    def effect_done(self, key: str, rows: str) -> None:
        self._journal.mark_effect(self.turn, self._statement, key, rows)

    def _called(self, tree: nodes.CallTool, result: Result) -> Outcome:
        """Effects are done once: a turn that runs again is given what they gave."""
        outcome = outcome_of(result)
        table = tree.args.get("table")
        if result.plan is not None:
            outcome = Outcome(message=result.plan, usage=result.usage, warnings=result.warnings)
        elif table is not None:
            count = int(result.rows[0][0])
            columns = self._columns_of(self._connection.con, table.name)
            outcome = Outcome(
                message=f"created table {written(table.name)}({columns}) with {count:,} row{'' if count == 1 else 's'}",
                usage=result.usage,
            )
        self._journal.mark(self._connection.con, self.turn, self._statement, outcome)
        return outcome

    def _mark(self, con: duckdb.DuckDBPyConnection, tree: object, fetched: Fetched) -> None:
        """In the write's own transaction: say what it did, and that it was done."""
        rows = fetched.rows or []
        count = int(rows[0][0]) if fetched.columns == ("Count",) and len(rows) == 1 else None
        self._said = effect(tree, count, self._columns_of(con, created_table(tree)))
        given = Outcome(
            columns=fetched.columns,
            types=fetched.types,
            rows=rows[:FIRST_ROWS],
            row_count=len(rows),
            message=self._said,
        )
        if self._said is not None:
            given = Outcome(message=self._said)
        self._journal.mark(con, self.turn, self._statement, given)

    def _columns_of(self, con: duckdb.DuckDBPyConnection, table: str | None) -> str:
        if table is None:
            return ""
        found = con.execute(
            "SELECT column_name, data_type FROM duckdb_columns() WHERE schema_name = $1 AND lower(table_name) = lower($2) "
            "ORDER BY column_index LIMIT 40",
            [self.state.schema, table],
        ).fetchall()
        return ", ".join(f"{written(name)} {one_line(kind, TYPE)}" for name, kind in found)

    # -- turns -----------------------------------------------------------------------------------------------------------------------

    def ask(self, request: Request) -> Reply:
        self._write_turn()
        self._check_cancelled()
        self.turn = int((request.path or "/0").rpartition("/")[2])
        self._statement = 0
        self._done = {}
        if self.state.system is None:
            self.state = attrs.evolve(self.state, system=request.system)
        pending, self._pending = self._pending, None
        if pending is not None and pending[0] == self.turn:
            self._done = self._journal.done(self.turn)
            return pending[1]
        reply = self._asked(request)
        self.state = attrs.evolve(self.state, used=self.usage())
        self._journal.replied(self.turn, reply, self.state, self._task)
        return reply

    def _asked(self, request: Request) -> Reply:
        engine = self._engine
        options = attrs.evolve(request.options, timeout=engine.state.settings.timeout)
        request = attrs.evolve(request, options=options)
        task = engine.services.runtime.submit(
            engine.services.dispatcher.ask_turn, request, engine.ledger, engine.session, engine.services.streams
        )
        engine.waiting_for(task)
        try:
            if self._cancelled:
                task.cancel()
            reply, _ = task.wait()
            return reply
        finally:
            engine.waiting_for(None)

    def emit(self, event: Event) -> None:
        self._engine.services.events.emit(event)
        if isinstance(event, TurnFinished):
            self._ended(event)
        elif isinstance(event, SessionFinished):
            self._finished(event)

    def _finished(self, event: SessionFinished) -> None:
        """The end, what it gives to a parent and the last turn are written together: a parent that comes back finds all or nothing."""
        self.state = attrs.evolve(self._now(), used=self.usage())
        if self._gives is None:
            self._engine.services.trace.flush()  # the answer is in the trace before the run counts as answered
        elif event.outcome != "cancelled":
            given = self.final if event.outcome == "final" or event.forced else None
            self.state = attrs.evolve(self.state, result=self._gives(event, given))
        self._write_turn(outcome=event.outcome, status="ended")

    def _ended(self, event: TurnFinished) -> None:
        """A cancelled turn is not over: a resumed session runs it again. One with a FINAL is written together with the session's end."""
        if self._cancelled:
            return
        self._unwritten = Ended(event.turn, event.reply, event.sql, event.feedback)
        if self.final is None:
            self._write_turn()

    def _write_turn(self, *, outcome: str | None = None, status: str = "running") -> None:
        turn, self._unwritten = self._unwritten, None
        if turn is not None:
            self.state = attrs.evolve(self._now(), used=self.usage(), result=self.state.result)
            self._journal.ended(turn, self.state, self._task, outcome=outcome, status=status)
        elif outcome is not None:
            turns = self.turn - 1 if self._cancelled else self.turn
            self._journal.save(self.state, self._task, max(0, turns), outcome=outcome, status=status)

    def _now(self) -> SessionState:
        """The state with what own statements have changed."""
        if self._cancelled:  # the turn will run again from its start
            return self.state
        settings = self._engine.state.settings
        limits = capped_by(self.state.limits, settings.limits())
        return attrs.evolve(self.state, settings=settings, limits=limits).with_catalog(self._engine.state.catalog)

    def _check_cancelled(self) -> None:
        if self._cancelled:
            raise Cancelled("cancelled")

    # -- what there is ---------------------------------------------------------------------------------------------------------------

    def plan(self) -> list[tuple[Any, Any]]:
        found = self._connection.rows(
            "SELECT count(*) FROM duckdb_columns() WHERE schema_name = $1 AND table_name = 'plan' AND column_name IN ('step', 'status') "
            "AND table_oid IN (SELECT table_oid FROM duckdb_tables())",  # a view would run here, outside of every limit
            [self.state.schema],
        )
        if found[0][0] != 2:
            return []
        return self._connection.rows(f'SELECT step, status FROM "{self.state.schema}"."plan" LIMIT 1000')

    def release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.release()

    def remaining(self) -> BudgetLimits:
        return self._engine.ledger.remaining()

    def usage(self) -> Usage:
        return self._engine.ledger.used

    def catalog_lines(self) -> CatalogView:
        catalog = self._engine.state.catalog
        place = self.state.place
        # Which model makes vectors is not known here, and a model that is told of embed where there is none tries it.
        builtin = [f for f in catalog.functions.values() if f.body == "builtin" and f.name != "embed"]
        sessions = [f for f in catalog.functions.values() if f.body == "session"]
        leaf = place.depth >= place.max_depth
        if leaf:
            sessions = [f for f in sessions if f.name in MAIL and place.depth]
        return CatalogView(
            tables=tuple(self._tables()),
            model_calls=tuple(_function(f) for f in builtin),
            sessions=tuple(_function(f) for f in sessions),
            read_tools=tuple(tool_view(f) for f in self._useful_tools() if not has_effects(f)),
            effect_tools=tuple(tool_view(f) for f in self._useful_tools() if has_effects(f)),
            declared=tuple(_function(f) for f in catalog.declared()),
            agents=() if leaf else tuple(_agent(a.name, a.description or a.prompt) for a in catalog.agents.values()),
        )

    def _useful_tools(self) -> Iterator[FunctionSpec]:
        """The tools that a model is told of: those that have something to work on here."""
        box = self._engine.tools
        idle = frozenset() if box is None else box.idle()
        return (t for t in self._engine.state.catalog.tools() if t.name.lower() not in idle)

    def _tables(self) -> Iterator[TableView]:
        found = self._connection.rows(
            "SELECT table_name, column_name, data_type, table_oid IN (SELECT view_oid FROM duckdb_views()) FROM duckdb_columns() "
            "WHERE schema_name = $1 ORDER BY table_oid, column_index",
            [self.state.schema],
        )
        columns: dict[tuple[str, bool], list[ColumnView]] = {}
        for table, column, kind, is_view in found:
            columns.setdefault((table, is_view), []).append(ColumnView(column, kind))
        for (table, is_view), described in columns.items():
            count = (
                None
                if is_view
                else self._connection.rows(f'SELECT count(*) FROM "{self.state.schema}"."{table}"')[0][0]
            )
            yield TableView(table, tuple(described), count)


def capped_by(limits: BudgetLimits, lowered: BudgetLimits) -> BudgetLimits:
    """The limits with those that a statement of the session has lowered."""
    given = attrs.asdict(lowered, filter=lambda _, value: value is not None)
    return attrs.evolve(limits, **given)


def _named(tree: exp.Expr | None, outcome: Outcome) -> Outcome:
    """What lists names (DESCRIBE, SUMMARIZE, SHOW TABLES) shows them as they are written in a statement."""
    if not isinstance(tree, exp.Describe | exp.Summarize | exp.Show):
        return outcome
    return attrs.evolve(outcome, rows=[(written(str(row[0])), *row[1:]) for row in outcome.rows])


def _function(spec: FunctionSpec) -> FunctionView:
    return FunctionView(spec.signature(), spec.description)


def tool_view(spec: FunctionSpec) -> FunctionView:
    """A tool in few tokens: its columns' types are seen where it is used, and SHOW FUNCTIONS has them.

    >>> from kleene.tools.standard import READ_TOOLS
    >>> from kleene.planner.tools import tool_function
    >>> lines = next(t for t in READ_TOOLS if t.name == "lines")
    >>> tool_view(tool_function(lines.name, lines.params, lines.required, lines.columns, lines.volatility)).signature
    'lines(path [, from, to]) -> lineno, text'
    """
    needed = ", ".join(p.name for p in spec.params[: spec.required])
    more = ", ".join(p.name for p in spec.params[spec.required or 0 :])
    given = f"{needed} [, {more}]" if needed and more else f"[{more}]" if more else needed
    columns = ", ".join(c.name for c in spec.table or ())
    return FunctionView(f"{spec.name}({given}) -> {columns}", spec.description)


def _agent(name: str, text: str) -> AgentView:
    return AgentView(name, text.split("\n", 1)[0][:100])
