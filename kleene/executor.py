"""Runs CallSQL on one DuckDB connection. An engine is one for a person's statements; every session of a model has one of its own."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import duckdb
from sqlglot import exp

from kleene import frames
from kleene.connection import Connection, Fetched, Kept, Params
from kleene.explain import Plan, cheapest, pure_plan
from kleene.explaining import Explaining, Way
from kleene.own import State, message, run_own
from kleene.plainnames import PlainNames
from kleene.planner import nodes
from kleene.planner.calibration import calibrating, key_of, with_calibrations
from kleene.planner.callplan import CallPlan, Experience, Relations
from kleene.planner.dialect import CallSQL
from kleene.planner.errors import KleeneError, ParseError, PlanError, did_you_mean
from kleene.planner.plan import plan as plan_statement
from kleene.planner.specs import FunctionSpec, Usage
from kleene.planner.statements import (
    Statement,
    fill_parameters,
    final_query,
    has_own,
    number_placeholders,
    parse,
    plain_query,
    span_of,
    with_tree,
)
from kleene.planner.tools import ToolCall, has_effects, tool_call
from kleene.planner.views import makes_calls
from kleene.plans import Plans
from kleene.problems import from_duckdb, is_users_mistake
from kleene.result import Result
from kleene.runner import Running, Then
from kleene.services import Services
from kleene.storetables import HOST_TABLES, SESSION_TABLES, stored, tables_shown
from kleene.surroundings import Surroundings
from kleene.udfs.ledger import Ledger
from kleene.udfs.lookups import Lookups
from kleene.udfs.register import Registration
from kleene.udfs.statement import StatementContext
from kleene.udfs.text import clean
from kleene.udfs.waiting import in_thread

if TYPE_CHECKING:
    from kleene.calibrate import Calibrator
    from kleene.planner.policy import AllowList
    from kleene.tools.toolbox import Toolbox
    from kleene.udfs.children import Children
    from kleene.udfs.runtime import Task

MODEL_ROWS = 1_000_000
"""Of one query that a model wrote: they are held in memory. A table that it makes may have more."""


class Cancellable(Protocol):
    def cancel(self) -> None: ...


class Executor:
    """Runs CallSQL on a connection. One statement runs at a time: calls from several threads wait for each other.

    ``trust``: ``host`` for a person's own statements, ``model`` for SQL that a model wrote. ``schema`` is the schema that holds a
    session's tables; it sees no others. ``protected`` are those of them that a model's statement may not change. ``fresh`` is that of
    ``attach``.
    """

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        services: Services,
        *,
        ledger: Ledger,
        state: State | None = None,
        trust: str = "host",
        session: str | None = None,
        schema: str | None = None,
        workspace: str | Path = ".",
        owns_services: bool = True,
        plain_names: bool = True,
        fresh: bool = False,
        connection: Connection | None = None,
        protected: frozenset[str] = frozenset(),
        tools: Toolbox | None = None,
    ):
        self.connection = Connection(con) if connection is None else connection
        self.protected = protected
        self.children: Children | None = None
        self.tools = tools
        self.kept: Kept | None = None
        if trust == "model":
            self.connection.most_rows = MODEL_ROWS
        self.services = services
        self.ledger = ledger
        self.state = State() if state is None else state
        self.trust = trust
        self.session = session
        self.schema = schema
        self.workspace = Path(workspace)
        self.notes: list[str] = []
        self.owns_connection = False  # whether ``close`` closes it
        self._owns_services = owns_services
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._running: Running | None = None
        self._closed = False
        self._prepared: dict[str, exp.Expr] = {}
        self._plans = Plans()
        self._asking: Task[Any] | None = None
        self._sessions: list[Cancellable] = []
        self._allowed: AllowList | None = None
        self._lookups = Lookups()
        self.connection.check_free()
        self._registration = Registration(con, self._lookups, in_transaction=not self.connection.in_autocommit())
        self._plain: PlainNames | None = None
        if plain_names:
            self._plain = PlainNames(
                self.connection, self._lookups, self._registration, services, self.state, self._plain_context
            )
            self.notes += self._plain.open(alone=fresh)

    @property
    def con(self) -> duckdb.DuckDBPyConnection:
        """The connection the engine is attached to."""
        return self.connection.con

    @property
    def usage(self) -> Usage:
        """What all statements and sessions of this engine have used."""
        return self.ledger.used

    def tool_functions(self) -> tuple[FunctionSpec, ...]:
        """All tools that there are, whichever this executor's statements may use."""
        return () if self.tools is None else self.tools.functions()

    @property
    def is_asked(self) -> bool:
        """Whether somebody is asked before each effect."""
        return self.tools is not None and self.tools.approve is not None

    # -- running -------------------------------------------------------------------------------------------------------------------------

    def sql(self, text: str, params: Params = None) -> Result:
        """Run one or more statements; the last one's result.

        ``params`` are values for ``?``, ``$1`` or ``$name``. Raises a ``KleeneError`` or, where DuckDB itself fails on the data, DuckDB's
        own error; nothing that was paid for is lost, and the connection stays usable.
        """
        return self._sql(text, params, sys._getframe(1))

    def _sql(self, text: str, params: Params, frame: FrameType | None) -> Result:
        plain = self._plain_query(text, params, frame)
        if plain is not None:
            return plain
        with self._read(text, params) as (statements, params):
            result = message("no statement")
            for statement in statements:
                result = self.run_statement(statement, params, frame)
            return result

    @contextmanager
    def _read(self, text: str, params: Params) -> Iterator[tuple[list[Statement], Params]]:
        """The statements of a text and their parameters, while nothing else runs here."""
        self._check_place()
        with self._lock, shallow():
            self._check_open()
            text, params = clean(_text(text)), cleaned(params)
            statements = parse(text)
            if statements:
                self.connection.check_free()
                self._settle()
            yield list(statements), params

    def run_statement(self, statement: Statement, params: Params = None, frame: FrameType | None = None) -> Result:
        """Run one parsed statement."""
        with self._lock:
            self._check_open()
            try:
                with self._problems(statement):
                    return self._run(statement, params, frame)
            finally:
                if not isinstance(statement.tree, exp.Query | exp.DML):
                    self.connection.definitions_changed()

    def _plain_query(self, text: str, params: Params, frame: FrameType | None) -> Result | None:
        """The rows of a query that its words prove to have no call, and to read the database alone; None where it has to be read."""
        if self.trust != "host" or params or not isinstance(text, str):
            return None
        self._check_place()
        with self._lock:
            self._check_open()
            found = plain_query(clean(text), lambda name: self.state.catalog.function(name) is not None)
            if found is None or any(name.lower() in HOST_TABLES for name in found.names):
                return None
            if frames.find(set(found.names), frame):
                return None
            statement = found.statement
            self.connection.check_free()
            self._settle()
            views = self.connection.views(frozenset(name.lower() for name in found.names))
            if makes_calls(views, self.state.catalog):
                return None
            with self._problems(statement), self._run_as(statement) as running:
                return self.connection.in_worker(lambda: running.pure(statement.text, None, query=True), running.cancel)

    def _settle(self) -> None:
        """After the transaction that the engine was attached in: put the functions and names on the connection for good."""
        if self._registration.passing and self.connection.in_autocommit():
            self._registration.renew()
            if self._plain is not None:
                self._plain.renew()

    def _run(self, statement: Statement, params: Params, frame: FrameType | None) -> Result:
        tree = statement.tree
        if tree is None:
            assert statement.unreadable is not None
            if self.trust == "model":
                raise statement.unreadable
            return self._pure(statement, statement.text, params, frame)
        if self.trust == "model":
            self._check_policy(statement)
        if isinstance(tree, nodes.CreateFunction):
            self._check_types(tree, statement)
        skills = self.tools.skills if self.tools is not None else tuple
        own = run_own(statement, self.state, self.ledger, trust=self.trust, skills=skills)
        if own is not None:
            self._after_own(tree)
            return own
        if isinstance(tree, exp.Show) and self.schema is not None:
            return self._pure(statement, tables_shown(self.schema), params, frame)
        if isinstance(tree, nodes.Explain):
            return self._explaining().statement(statement, tree, params, frame)
        if isinstance(tree, nodes.Final):
            return self._final(statement, tree, params, frame)
        if isinstance(tree, nodes.Calibrate):
            return self._calibrate(statement, tree, params, frame)
        if isinstance(tree, nodes.CallTool):
            return self._call(statement, tree, params, frame)
        if isinstance(tree, nodes.Prepare | nodes.Execute):
            return self._prepared_statement(statement, tree, params, frame)
        return self._query(statement, tree, params, frame, known=True)

    def _prepared_statement(
        self, statement: Statement, tree: nodes.Prepare | nodes.Execute, params: Params, frame: FrameType | None
    ) -> Result:
        """PREPARE keeps a statement with calls here, and EXECUTE plans it anew: a plan that DuckDB prepared would hold answers that were
        missing then. Statements without calls are DuckDB's own."""
        name = tree.this.name.lower()
        if isinstance(tree, nodes.Prepare):
            self._prepared.pop(name, None)
            if self._plan(with_tree(statement, tree.expression), tree.expression, params) is None:
                return self._own_text(statement, tree.expression, params, frame)
            self._prepared[name] = tree.expression
            return message(f"prepared {tree.this.name}")
        inner = self._prepared.get(name)
        if inner is None:
            return self._pure(statement, statement.text, params, frame)
        filled = fill_parameters(inner, tree.expressions, statement)
        return self._query(with_tree(statement, filled), filled, params, frame)

    def _query(
        self,
        statement: Statement,
        tree: exp.Expr,
        params: Params,
        frame: FrameType | None,
        then: Then | None = None,
        *,
        plan: CallPlan | None = None,
        way: Way | None = None,
        known: bool = False,
    ) -> Result:
        """``then`` makes the statement's result of the query's rows; ``plan`` is the plan where there is one already, and ``way`` how a plan with
        calls is run. ``known``: the tree is what the statement's text says, so that a plan of the same text may serve."""
        plan = plan or self._plan(statement, tree, params, known=known)
        if plan is None:
            if statement.tree is tree and not statement.has_own:
                return self._pure(statement, statement.text, params, frame, then)
            return self._pure(with_tree(statement, tree), self._printed(tree), params, frame, then)
        with self._tables(tree, frame), self._run_as(statement, plan) as running:
            if not plan.sites and not plan.rounds:
                return running.pure(plan.tree.sql(CallSQL), params, query=plan.kind == "query", then=then)
            run = way or Running.planned
            return self.connection.in_worker(
                lambda: run(running, cheapest(running, plan, params), params, then), running.cancel
            )

    def _pure(
        self, statement: Statement, text: str, params: Params, frame: FrameType | None, then: Then | None = None
    ) -> Result:
        needs = _needs_parameters(statement)
        query = isinstance(statement.tree, exp.Query)
        with self._tables(statement.tree, frame), self._run_as(statement) as running:
            return self.connection.in_worker(
                lambda: running.pure(text, params if needs else None, query=query, then=then), running.cancel
            )

    def _plan(self, statement: Statement, tree: exp.Expr, params: Params, *, known: bool = False) -> CallPlan | None:
        if not self._may_call(tree):
            return None
        catalog, around = self.state.catalog, self._around()

        def make(relations: Relations, learned: Experience) -> CallPlan | None:
            copied = tree.copy()
            number_placeholders(copied)
            return plan_statement(with_tree(statement, copied), catalog, around.settings, relations, learned)

        if not known:
            return make(self.connection, around.learned)
        return self._plans.plan(statement, catalog, around.settings, self.connection, around.learned, make)

    def _may_call(self, tree: exp.Expr) -> bool:
        """Definitions keep the user's text: what they hold is called where they are read."""
        if isinstance(tree, exp.Create) and str(tree.args.get("kind") or "").upper() in ("VIEW", "MACRO", "FUNCTION"):
            return False
        return not isinstance(tree, exp.Command)

    def _own_text(self, statement: Statement, inner: exp.Expr, params: Params, frame: FrameType | None) -> Result:
        """Run a statement of DuckDB's own around ``inner``."""
        assert statement.tree is not None
        # As written, unless inner holds what DuckDB does not know.
        text = self._printed(statement.tree) if has_own(inner) else statement.text
        return self._pure(statement, text, params, frame)

    def _printed(self, tree: exp.Expr) -> str:
        return tree.sql(CallSQL)

    def _around(self) -> Surroundings:
        return Surroundings(
            self.connection,
            self.services,
            self._lookups,
            self._registration.suffix,
            self.ledger,
            self.state.settings,
            self.session,
            self.tools,
        )

    @contextmanager
    def _run_as(self, statement: Statement, plan: CallPlan | None = None) -> Iterator[Running]:
        outer = self._running
        self._running = running = Running(self._around(), statement.text)
        if plan is not None and any(s.spec.session for s in plan.sites):
            running.context.children = self._family()
        try:
            yield running
        finally:
            self._running = outer

    # -- own statements ------------------------------------------------------------------------------------------------------------------

    def _final(self, statement: Statement, tree: nodes.Final, params: Params, frame: FrameType | None) -> Result:
        query = final_query(tree)
        result = self._query(statement, query, params, frame)
        result.final = True
        return result

    def _calibrate(
        self, statement: Statement, tree: nodes.Calibrate, params: Params, frame: FrameType | None
    ) -> Result:
        """Choose a cascade's thresholds. What a model chose holds in its session; the store keeps what a person chose."""
        from kleene.store.calibrations import keep

        with self._calibrator(statement, tree, params, frame) as calibrator:
            result: Result = self.connection.in_worker(calibrator.run, calibrator.running.cancel)
            function, found = calibrator.asked.function, calibrator.found
        assert found is not None
        self.state.catalog = with_calibrations(
            self.state.catalog, lambda spec: found if spec.name == function.name else spec.calibration
        )
        if self.trust == "host":
            keep(self.services.store, function, found)
        return result

    @contextmanager
    def _calibrator(
        self, statement: Statement, tree: nodes.Calibrate, params: Params, frame: FrameType | None
    ) -> Iterator[Calibrator]:
        from kleene.calibrate import Calibrator, model_names

        catalog, settings = self.state.catalog, self.state.settings
        asked = calibrating(tree, statement, catalog, self.connection)
        scoring, arguments = (self._calls_of(statement, q, params) for q in (asked.scoring(), asked.arguments()))
        text = None if arguments.sites or arguments.rounds else arguments.tree.sql(CallSQL)
        key = key_of(asked.function, catalog, settings, model_names(self.services.handler))
        with self._tables(scoring.tree, frame), self._run_as(statement, scoring) as running:
            yield Calibrator(asked, running, scoring, params, text, key)

    def _calls_of(self, statement: Statement, query: exp.Expr, params: Params) -> CallPlan:
        """The plan of a query, also of one without calls."""
        plan = self._plan(with_tree(statement, query), query, params)
        if plan is None:
            number_placeholders(query)
            plan = CallPlan(query, ())
        return plan

    def _refresh_calibrations(self) -> None:
        """After a declaration or a setting: give each function with a proxy the calibration that holds for it as it is now, or none."""
        catalog = self.state.catalog
        if any(f.proxy is not None for f in catalog.declared()):
            from kleene.calibrate import finder

            find = finder(catalog, self.state.settings, self.services.handler, self.services.store)
            self.state.catalog = with_calibrations(catalog, find)

    def _call(
        self,
        statement: Statement,
        tree: nodes.CallTool,
        params: Params,
        frame: FrameType | None,
        *,
        way: Way | None = None,
    ) -> Result:
        call = self._tool_call(statement, tree)
        if call is None:
            return self._pure(statement, statement.text, params, frame)
        with self._bounded():
            return self._query(statement, call.query, params, frame, functools.partial(self._perform, call), way=way)

    def _bounded(self) -> AbstractContextManager[None]:
        """For the query of a CALL: its rows are gathered as Python's, whoever asks."""
        from kleene.effects import MOST_USES

        hint = f"CALL is for at most {MOST_USES:,} rows: several CALLs, each with a LIMIT or a WHERE"
        return self.connection.bounded(MOST_USES, hint)

    def _perform(self, call: ToolCall, running: Running, fetched: Fetched) -> Fetched:
        from kleene.effects import perform

        assert self.tools is not None
        return perform(running, call, self.tools, fetched, self.kept)

    def _tool_call(self, statement: Statement, tree: nodes.CallTool) -> ToolCall | None:
        """CALL of a tool as planned, None for a procedure of DuckDB's own. Raises ``PlanError`` where there is neither."""
        name = tree.this.name if isinstance(tree.this, exp.Identifier) else tree.this.sql(CallSQL)
        spec = self.state.catalog.function(name) if isinstance(tree.this, exp.Identifier) else None
        if spec is not None:
            return tool_call(tree, spec, statement)
        if self.trust == "host" and not tree.args.get("source"):
            return None
        tools = [t.name for t in self.state.catalog.tools() if has_effects(t)]
        near = did_you_mean(name, tools)
        known = f"there are {', '.join(tools)}" if tools else "no tools with effects are granted here"
        raise PlanError(
            f"there is no tool {name}",
            hint=f"did you mean {near}?" if near else known,
            span=statement.span,
            source=statement.source,
        )

    def explain(self, text: str, params: Params = None) -> Plan:
        """What the statement (the last one of the text) would cost now. Runs DuckDB's part once with nothing sent; see ``Plan``."""
        frame = sys._getframe(1)
        with self._read(text, params) as (statements, params):
            if not statements:
                raise PlanError("there is no statement to explain")
            statement = statements[-1]
            if isinstance(statement.tree, nodes.Explain):
                statement = with_tree(statement, statement.tree.this)
            is_query = not isinstance(statement.tree, nodes.OwnStatement | None) or isinstance(
                statement.tree, nodes.Final
            )
            with self._problems(statement):
                found = self._explaining().plan_of(statement, params, frame)
            return found or pure_plan(statement.text, "query" if is_query else "other")

    def _explaining(self) -> Explaining:
        return Explaining(
            settings=self.state.settings,
            connection=self.connection,
            tools=self.tools,
            session=self.session,
            plan=self._plan,
            tables=self._tables,
            run_as=self._run_as,
            query=self._query,
            call=self._call,
            run=self._run,
            pure=self._own_text,
            tool_call=self._tool_call,
            calibrator=self._calibrator,
            bounded=self._bounded,
        )

    def _check_types(self, tree: nodes.CreateFunction, statement: Statement) -> None:
        """A declared type that DuckDB does not know is an error now, not when the function is called."""
        declared = [*(tree.args.get("params") or ()), *(tree.args.get("columns") or ())]
        kinds = [(d.args["kind"], d) for d in declared]
        if tree.args.get("returns") is not None:
            kinds.append((tree.args["returns"], tree.this))
        for kind, place in kinds:
            if not self.connection.knows_type(kind.sql(CallSQL)):
                raise PlanError(
                    f"there is no type {kind.sql(CallSQL)}",
                    hint="types are DuckDB's: TEXT, BOOLEAN, BIGINT, DOUBLE, DATE, STRUCT(a TEXT), TEXT[], ...",
                    span=span_of(statement, place) or statement.span,
                    source=statement.source,
                )

    def _check_policy(self, statement: Statement) -> None:
        from kleene.planner.policy import check_model, load_allow_list

        if self._allowed is None:
            self._allowed = load_allow_list()
        own = self.connection.table_names(self.schema, internal=False)
        check_model(
            statement,
            functions=frozenset(self.state.catalog.functions),
            tables=lambda name: name.lower() in own or name.lower() in SESSION_TABLES,
            writable=lambda name: name.lower() not in SESSION_TABLES and name.lower() not in self.protected,
            allow_list=self._allowed,
        )

    def _after_own(self, tree: exp.Expr) -> None:
        if isinstance(tree, nodes.SetKey | nodes.ResetKey | nodes.CreateFunction | nodes.DropFunction):
            self._refresh_calibrations()
        if isinstance(tree, nodes.SetKey | nodes.ResetKey):
            self.services.trace.trace_text = self.state.settings.trace_text
            if self._plain is not None:
                self._plain.open_sites()
        if isinstance(tree, nodes.CreateFunction) and self._plain is not None:
            self._plain.extend()

    def _plain_context(self) -> StatementContext:
        """The statement that a plain name asks for: the running one, else one of its own."""
        if self._running is not None:
            return self._running.context
        return StatementContext(f"{self.services.run_id}.plain", self.session, self.state.settings, self.ledger)

    # -- names ---------------------------------------------------------------------------------------------------------------------------

    @contextmanager
    def _tables(self, tree: exp.Expr | None, frame: FrameType | None) -> Iterator[None]:
        """Give the statement the caller's data frames and the store's tables that it names and the database does not have."""
        wanted = _table_names(tree)
        found: dict[str, Any] = {}
        if wanted and self.trust == "host":
            found = frames.find(wanted, frame)
        readable = HOST_TABLES if self.trust == "host" else SESSION_TABLES.keys()
        ours = {n for n in wanted if n.lower() in readable}
        if found or ours:
            known = self.connection.table_names(self.schema)
            found = {n: v for n, v in found.items() if n.lower() not in known}
            for name in ours:
                if name.lower() not in known and name not in found:
                    found[name] = self.store_table(name)
        with self.connection.registered(found):
            yield

    def store_table(self, name: str) -> Any:
        """A table of the store as Arrow, all events up to now included. A session sees its own rows only."""
        return stored(self.services, name, self.trust, self.session)

    def _family(self) -> Children:
        """Who answers this executor's calls of sessions: it was given by whoever opened the session."""
        if self.children is None:
            raise KleeneError(
                "no sessions can be asked here", hint="open the connection with kleene.attach or kleene.connect"
            )
        return self.children

    # -- async ---------------------------------------------------------------------------------------------------------------------------

    async def sql_async(self, text: str, params: Params = None) -> Result:
        """``sql`` for trio and asyncio: waits without blocking the loop; cancelling the task cancels the statement."""
        frame = sys._getframe(1)
        return await in_thread(lambda: self._sql(text, params, frame), self.cancel)

    # -- the end -------------------------------------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """End the running statement from another thread. Does nothing when none runs."""
        for session in list(self._sessions):
            session.cancel()
        running, asking = self._running, self._asking
        if asking is not None:
            asking.cancel()
        if running is not None:
            running.cancel()

    def session_started(self, session: Cancellable) -> None:
        """A session runs under this engine: ``cancel`` reaches it too."""
        self._sessions.append(session)

    def session_ended(self, session: Cancellable) -> None:
        self._sessions.remove(session)

    def waiting_for(self, task: Task[Any] | None) -> None:
        """The task that the engine's session waits for outside a statement (a model's turn)."""
        self._asking = task

    def close(self) -> None:
        """Take the functions and names off the connection, write the trace, close the store. Safe to call twice."""
        if self._closed:
            return
        if self._process != os.getpid():
            self._closed = True  # what a fork copied belongs to the parent: its threads are not here, its connection is in use there
            return
        self.cancel()
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self.children is not None and self._owns_services:
                self.children.close()
            if self._plain is not None and not self.owns_connection:  # they end with it
                self._plain.drop()
            self._registration.close()
            if self._owns_services:
                if self.tools is not None:
                    self.tools.close()
                self.services.close()
            if self.owns_connection:
                with suppress(duckdb.Error):
                    self.con.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise KleeneError("an engine cannot be pickled", hint="attach in the process that uses it")

    def _check_place(self) -> None:
        """Raise where waiting for the engine would never end: in a forked process, and in a model's own function."""
        if self._process != os.getpid():
            raise KleeneError(
                "the engine belongs to another process: this one was forked from it",
                hint="attach in the process that uses it; multiprocessing's 'spawn' avoids the copy",
            )
        if self.services.is_calling_thread():
            raise KleeneError(
                "a model's function cannot run statements on the engine that asks it",
                hint="read the data before, or run on a connection of its own: con.cursor()",
            )

    def _check_open(self) -> None:
        if self._closed:
            raise KleeneError("the engine is closed", hint="attach again: k = kleene.attach(con)")

    @contextmanager
    def _problems(self, statement: Statement) -> Iterator[None]:
        """Errors leave with the text they are about; what the user wrote wrong is told in Kleene's own terms."""
        try:
            yield
        except KleeneError as error:
            if error.source is None:
                error.source = statement.source
            raise
        except duckdb.Error as error:
            if is_users_mistake(error):
                raise from_duckdb(str(error), self.state.catalog, statement) from error
            raise


@contextmanager
def shallow() -> Iterator[None]:
    """A statement too deep for Python's stack is an error of its text."""
    try:
        yield
    except RecursionError:
        raise ParseError(
            "the statement is nested too deeply",
            hint="split long chains of operators or calls into CTEs, or put the values in a table",
        ) from None


def cleaned(params: Params) -> Params:
    """Parameters as DuckDB can take them: lone surrogates in texts become U+FFFD, as in a statement's own text."""
    if params is not None and (isinstance(params, str | bytes) or not isinstance(params, Sequence | Mapping)):
        raise PlanError(
            f"parameters are a list or a mapping, not {type(params).__name__}", hint="k.sql(text, [value]) for one ?"
        )
    if isinstance(params, Mapping):
        return {name: clean(v) if isinstance(v, str) else v for name, v in params.items()}
    return params if params is None else [clean(v) if isinstance(v, str) else v for v in params]


def _text(text: object) -> str:
    if not isinstance(text, str):
        raise ParseError(f"a statement is a text, not {type(text).__name__}", hint="k.sql('SELECT ...')")
    return text


def _needs_parameters(statement: Statement) -> bool:
    return statement.tree is None or statement.tree.find(exp.Placeholder, exp.Parameter) is not None


def _table_names(tree: exp.Expr | None) -> set[str]:
    """Unqualified table names of a tree that are not its CTEs."""
    if tree is None:
        return set()
    ctes = {c.alias.lower() for c in tree.find_all(exp.CTE)}
    return {
        t.name
        for t in tree.find_all(exp.Table)
        if isinstance(t.this, exp.Identifier) and not t.args.get("db") and t.name.lower() not in ctes
    }
