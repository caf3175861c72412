"""Opens a session: a cursor and schema of its own in the locked database of the store, an engine on it, and what lies beneath it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import duckdb

from kleene.bounds import bound
from kleene.executor import Executor
from kleene.own import State
from kleene.runs.connection import JournalledConnection
from kleene.runs.journal import Journal
from kleene.runs.world import SessionWorld

if TYPE_CHECKING:
    from kleene.runs.record import SessionState
    from kleene.runs.world import Gives
    from kleene.session.loop import Place
    from kleene.udfs.children import Children
    from kleene.udfs.ledger import Ledger, Reservation

    MakeBeneath = Callable[[Executor, Place, bool, Callable[[], int]], Children]


class OpenSession:
    """One session while it runs in this process. ``cancel`` may be called from any thread; ``close`` leaves the schema as it is.

    ``beneath`` makes what answers its calls of child sessions.
    """

    def __init__(
        self,
        parent: Executor,
        state: SessionState,
        ledger: Ledger,
        journal: Journal,
        *,
        fresh: bool,
        beneath: MakeBeneath,
    ):
        self._parent = parent
        self._lock = threading.Lock()
        self._cancelled = False
        self.world: SessionWorld | None = None
        self.journal = journal
        self.state = state
        services = parent.services
        self.cursor = services.store.cursor()
        try:
            if fresh:  # a process that was killed may have left the schema without a record
                self.cursor.execute(f'DROP SCHEMA IF EXISTS "{state.schema}" CASCADE')
                self.cursor.execute(f'CREATE SCHEMA "{state.schema}"')
            self.cursor.execute(f"SET search_path = '{state.schema}'")
            bound(self.cursor)
            self.connection = JournalledConnection(self.cursor)
            self.engine = Executor(
                self.cursor,
                services,
                ledger=ledger,
                state=State(settings=state.settings, catalog=state.catalog(parent.tool_functions())),
                trust="model",
                session=state.place.session,
                schema=state.schema,
                workspace=parent.workspace,
                owns_services=False,
                plain_names=False,
                connection=self.connection,
                protected=frozenset(n.lower() for n in state.loaded),
                tools=parent.tools,
            )
        except BaseException:
            self.cursor.close()
            raise
        self.family = beneath(self.engine, state.place, not fresh, self._turn)
        self.engine.children = self.family
        parent.session_started(self)

    def enter(
        self,
        state: SessionState,
        task: str,
        *,
        held: Reservation | None = None,
        resumed: bool = False,
        gives: Gives | None = None,
    ) -> SessionWorld:
        """The session's world, once its tables are there."""
        self.state = state
        self.engine.protected = frozenset(n.lower() for n in state.loaded)
        world = SessionWorld(
            self.engine, self.connection, self.journal, state, task, held=held, resumed=resumed, gives=gives
        )
        with self._lock:
            self.world = world
            if self._cancelled:
                world.cancel()
        return world

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            if self.world is not None:
                self.world.cancel()
        self.family.cancel()

    def close(self, *, drop: bool = False) -> None:
        """End the children that still run, and give back what was opened. ``drop``: the session's tables too."""
        self.family.close()
        self._parent.session_ended(self)
        self.engine.close()
        if drop:
            with suppress(duckdb.Error):  # another session still reads one of its tables
                self.cursor.execute(f'DROP SCHEMA IF EXISTS "{self.state.schema}" CASCADE')
        self.cursor.close()

    def _turn(self) -> int:
        return 0 if self.world is None else self.world.turn


def schema_of(session: str) -> str:
    """The schema of a session's tables.

    >>> schema_of("20261130-101500-a1b2c3.4f5e")
    's_20261130_101500_a1b2c3_4f5e'
    """
    return "s_" + re.sub(r"\W", "_", session)
