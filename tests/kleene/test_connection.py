"""What the planner asks a connection, and what it leaves behind."""

from __future__ import annotations

import threading
import time
from typing import Any

import duckdb

from kleene.connection import Connection, Params, Snapshot


class Interrupted(Connection):
    """A connection whose interrupt takes its time, and whose query ends when that has begun."""

    def __init__(self) -> None:
        super().__init__(duckdb.connect())
        self.begun, self.done = threading.Event(), threading.Event()

    def interrupt(self) -> None:
        self.begun.set()
        time.sleep(0.05)
        self.done.set()

    def rows(self, sql: str, params: Params = None) -> list[tuple[Any, ...]]:
        if "txid" not in sql:
            self.begun.wait()
        return [(time.monotonic_ns(),)]


def test_what_stops_a_count_is_over_when_the_count_is() -> None:
    """Else the interrupt would meet the statement that comes next."""
    connection = Interrupted()
    assert Snapshot(connection).counts("SELECT 1", 1) is not None
    assert connection.done.is_set()
