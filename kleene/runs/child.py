"""One child session, from its admission to the rows it gives."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import attrs

from kleene.planner.errors import BudgetExceeded, Cancelled, ConfigError
from kleene.planner.sessions import definition
from kleene.planner.specs import DIMENSIONS, AgentSpec
from kleene.runs.answers import check_final, declared, rows_json
from kleene.runs.journal import Journal
from kleene.runs.opened import OpenSession, schema_of
from kleene.runs.record import SessionState
from kleene.runs.tables import load_text
from kleene.session.loop import PastTurn, Place, run_session
from kleene.udfs.children import ChildReply

if TYPE_CHECKING:
    from kleene.executor import Executor
    from kleene.result import Result
    from kleene.runs.opened import MakeBeneath
    from kleene.session.feedback import CheckResult
    from kleene.session.world import Outcome
    from kleene.store import Store
    from kleene.udfs.events import SessionFinished
    from kleene.udfs.ledger import Ledger, Reservation

CHILD_TURNS = 12


@attrs.frozen
class Order:
    """What is asked of a child. Two of one key are the same child. ``named``: its rows say which session it was;
    ``typed``: they have the columns its agent declares, if any."""

    role: AgentSpec
    task: str
    context: str | None
    named: bool = True
    typed: bool = True

    def key(self) -> str:
        parts = [
            "spawn" if self.named else "rlm",
            definition((self.role,)),
            self.task,
            "" if self.context is None else f"+{self.context}",
        ]
        return hashlib.sha256("\x1e".join(parts).encode("utf-8", "replace")).hexdigest()


@attrs.frozen
class Earlier:
    """A child that an earlier process of its parent began: with a ``result`` in its state where it had ended."""

    state: SessionState
    task: str

    @classmethod
    def of(cls, store: Store, parent: str) -> list[Earlier]:
        """The children of a session, in the order in which they were last saved."""
        journal = Journal(store, parent)
        try:
            return [cls(state, task) for state, task in journal.children()]
        finally:
            journal.close()


class ChildRun:
    """Runs in the thread of whoever calls ``run``, once. ``cancel`` may come at any time, from any thread."""

    def __init__(
        self,
        parent: Executor,
        order: Order,
        place: Place,
        ledger: Ledger | None,
        earlier: Earlier | None,
        turn: int,
        beneath: MakeBeneath,
    ):
        self.place = place
        self._beneath = beneath
        self._parent = parent
        self._order = order
        self._ledger = ledger
        self._earlier = earlier
        self._turn = turn
        self._session: OpenSession | None = None
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True
        session = self._session
        if session is not None:
            session.cancel()

    def close(self) -> None:
        """Give back what is left of the budget."""
        if self._ledger is not None:
            self._ledger.close()

    def run(self) -> ChildReply:
        if self._earlier is not None and self._earlier.state.result is not None:
            return ChildReply(self._earlier.state.result)
        if self._cancelled:
            raise Cancelled("cancelled")
        assert self._ledger is not None
        journal = Journal(self._parent.services.store, self.place.session)
        try:
            return self._run(journal, self._ledger)
        finally:
            journal.close()

    def _run(self, journal: Journal, ledger: Ledger) -> ChildReply:
        fresh = self._earlier is None
        state = self._state() if self._earlier is None else self._earlier.state
        held = hold_back(ledger)
        session = OpenSession(self._parent, state, ledger, journal, fresh=fresh, beneath=self._beneath)
        drop = False
        try:
            self._session = session
            if self._cancelled:
                raise Cancelled("cancelled")
            if fresh:
                state = self._fill(session, state)
                journal.save(state, self._order.task, 0)
            columns = state.columns if self._order.typed else ()

            def gives(end: SessionFinished, final: Result | None) -> str:
                return rows_json(end, final, self.place.session, columns, session.connection, named=self._order.named)

            world = session.enter(state, self._order.task, held=held, resumed=not fresh, gives=gives)
            history: list[PastTurn] = [] if fresh else journal.history()

            def check(answer: Outcome) -> CheckResult:
                return check_final(answer, world.final, state.columns, session.connection)

            ended = run_session(
                world,
                self._order.task,
                max_turns=state.max_turns,
                context_note=state.note,
                check=check,
                history=history,
                system=state.system,
                place=self.place,
                force=True,
            )
            if ended.outcome == "cancelled":
                raise Cancelled(ended.error or "cancelled")
            drop = True
            assert world.state.result is not None
            return ChildReply(world.state.result, ended.usage, remember=ended.outcome == "final")
        finally:
            if held is not None:
                held.release()
            session.close(drop=drop)

    def _state(self) -> SessionState:
        parent, role = self._parent.state, self._order.role
        settings = parent.settings.reset("statement.calls")
        for dimension in DIMENSIONS:
            settings = settings.reset(f"budget.{dimension}")
        ledger = self._ledger
        assert ledger is not None
        return SessionState(
            schema=schema_of(self.place.session),
            place=self.place,
            max_turns=CHILD_TURNS if role.turns is None else role.turns,
            settings=settings,
            limits=ledger.limits,
            columns=role.returns or (),
            key=self._order.key(),
            parent_turn=self._turn,
        ).with_catalog(parent.catalog.restricted(role.tools))

    def _fill(self, session: OpenSession, state: SessionState) -> SessionState:
        """Give the child its context and the tables its role grants it."""
        names: list[str] = []
        note = ""
        if self._order.context is not None:
            loaded = load_text(session.connection, self._order.context)
            names, note = list(loaded.names), loaded.note
        for table in self._order.role.tables:
            self._grant(session, table)
            names.append(table)
        if state.columns:
            note = f"{note}\n\nYour FINAL has the columns {declared(state.columns)}.".strip()
        return attrs.evolve(state, note=note, loaded=tuple(names))

    def _grant(self, session: OpenSession, table: str) -> None:
        own = self._parent.connection.rows(
            "SELECT 1 FROM duckdb_columns() WHERE schema_name = $1 AND lower(table_name) = lower($2) LIMIT 1",
            [self._parent.schema or "", table],
        )
        if not own:
            raise ConfigError(
                f"the agent {self._order.role.name} reads the table {table}, which is not there",
                hint="CREATE TABLE it first, or CREATE OR REPLACE AGENT without it in TABLES",
            )
        name = '"' + table.replace('"', '""') + '"'
        session.connection.rows(f'CREATE VIEW {name} AS FROM "{self._parent.schema}".{name}')


def hold_back(ledger: Ledger) -> Reservation | None:
    """Keep a call, and a quarter of the tokens and dollars, for the child's report when it has used up the rest."""
    limits = ledger.limits
    if limits.calls is not None and limits.calls < 2:
        return None
    if limits.calls is None and limits.tokens is None and limits.dollars is None:
        return None
    try:
        return ledger.hold_back(
            calls=0 if limits.calls is None else 1,
            tokens=0 if limits.tokens is None else limits.tokens // 4,
            dollars=0.0 if limits.dollars is None else limits.dollars / 4,
        )
    except BudgetExceeded:
        return None


__all__ = ["CHILD_TURNS", "ChildRun", "Earlier", "Order", "hold_back"]
