"""``query``: DuckDB over the context, without functions of a model: what the plain agent counts and adds up with."""

from __future__ import annotations

from typing import Any

import duckdb

from kleene.planner.errors import ToolError
from kleene.session.context import Inline, text_feed
from kleene.store.store import LOCKDOWN
from kleene.udfs.walls import alarm

SECONDS = 60.0
FETCHED = 1_000
BOUNDS = ("SET memory_limit = '2GB'", "SET threads = 1")
"""One thread: rows that a statement does not order come in the same order each time, so that a replay finds what was recorded."""


class Tables:
    """A database of its own, locked: its statements reach no file, no extension and no setting. Tables that they make stay until ``close``."""

    def __init__(self, context: str | None) -> None:
        self._con = duckdb.connect()
        for statement in BOUNDS:
            self._con.execute(statement)
        if context is not None:
            self._con.register("given", text_feed(Inline(context, "the context")).reader())
            self._con.execute("CREATE TABLE ctx AS FROM given")
            self._con.unregister("given")
        for statement in LOCKDOWN:
            self._con.execute(statement)

    def query(self, sql: str) -> tuple[tuple[str, ...], list[tuple[Any, ...]], bool]:
        """Columns, the first rows, and whether there are more. Raises ``ToolError``."""
        try:
            with alarm(SECONDS, self._con.interrupt):
                cursor = self._con.execute(sql)
                if cursor.description is None:
                    return (), [], False
                rows = cursor.fetchmany(FETCHED + 1)
                return tuple(d[0] for d in cursor.description), rows[:FETCHED], len(rows) > FETCHED
        except duckdb.InterruptException:
            raise ToolError(f"not done after {SECONDS:g} seconds", kind="timed out") from None
        except duckdb.Error as error:
            raise ToolError(str(error).strip(), kind="invalid arguments") from None

    def interrupt(self) -> None:
        self._con.interrupt()

    def close(self) -> None:
        self._con.close()
