"""What a session writes down so that it can go on after a kill: every reply as it arrives, every turn as it ends, every write as it commits.

A turn's end and the state after it are one transaction. A write's mark is in the write's own transaction, so that a turn that is taken up again
runs each of its writes once.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import attrs

from kleene.planner.specs import Usage
from kleene.runs.record import Records, SessionState
from kleene.session.loop import PastTurn
from kleene.session.world import Outcome
from kleene.store.state import SessionRecord
from kleene.udfs.memo import retry_conflicts
from kleene.udfs.protocols import Reply
from kleene.udfs.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb

    from kleene.store import Store

NOW = "make_timestamp(epoch_us(now()::TIMESTAMPTZ))"
MARK = f"INSERT INTO main.kleene_progress VALUES ($1, $2, $3, $4, {NOW})"
COLUMNS = "session, run, parent, depth, role, task, status, outcome, turns, record"
# DuckDB takes five times as long to replace a row as to update one, and a turn writes four.
TURN = (
    f"UPDATE main.kleene_turns SET reply = $3, sql = $4, result = $5, recorded_at = {NOW} WHERE session = $1 AND n = $2",
    f"INSERT INTO main.kleene_turns VALUES ($1, $2, $3, $4, $5, {NOW})",
)
RECORD = (
    "UPDATE main.kleene_sessions SET run = $2, parent = $3, depth = $4, role = $5, task = $6, status = $7, outcome = $8, turns = $9, "
    f"record = $10, updated_at = {NOW} WHERE session = $1",
    f"INSERT INTO main.kleene_sessions VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, {NOW})",
)


@attrs.frozen
class Ended:
    """A turn that is over: what the model replied, the SQL of it, and what it was told."""

    n: int
    reply: str
    sql: str | None
    result: str


class Journal:
    """The durable side of one session, on a cursor of its own. Its methods may be called from any thread."""

    def __init__(self, store: Store, session: str):
        self.session = session
        self.records = Records()
        self._cursor = store.cursor()
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            self._cursor.close()

    # -- writing

    def save(
        self, state: SessionState, task: str, turns: int, *, outcome: str | None = None, status: str = "running"
    ) -> None:
        """The session as it stands."""
        self._write(lambda: self._record(state, task, turns, outcome, status))

    def replied(self, n: int, reply: Reply, state: SessionState, task: str) -> None:
        """Turn ``n`` has its reply, which is paid for; nothing of it has run."""

        def write() -> None:
            self._turn(n, self.records.text(reply), None, None)
            self._record(state, task, n - 1, None, "running")

        self._write(write)

    def ended(
        self, turn: Ended, state: SessionState, task: str, *, outcome: str | None = None, status: str = "running"
    ) -> None:
        """A turn is over, and with ``outcome`` the session."""

        def write() -> None:
            self._turn(turn.n, self.records.text(Reply(turn.reply)), turn.sql, turn.result)
            self._cursor.execute("DELETE FROM main.kleene_progress WHERE session = $1", [self.session])
            self._record(state, task, turn.n, outcome, status)

        self._write(write)

    def mark(self, con: duckdb.DuckDBPyConnection, turn: int, statement: int, outcome: Outcome) -> None:
        """In the transaction of a write, on its own connection: the statement was run and gave this."""
        body = {
            "message": outcome.message,
            "columns": outcome.columns,
            "rows": [[None if v is None else str(v) for v in row] for row in outcome.rows[:20]],
            "row_count": outcome.row_count,
        }
        con.execute(MARK, [self.session, turn, statement, clean(json.dumps(body))])

    def mark_effect(self, turn: int, statement: int, key: str, rows: str) -> None:
        """One use of a CALL was done and gave these rows: written before the next use begins."""
        text = clean(json.dumps([key, rows]))
        # Apart from the marks of statements that were run to their end by a number below zero.

        def write() -> None:
            self._cursor.execute(MARK, [self.session, turn, -statement, text])

        self._write(write)

    # -- reading

    def load(self) -> tuple[SessionState, SessionRecord] | None:
        """The session's state with its row, None where it was never saved."""
        rows = self._rows(f"SELECT {COLUMNS} FROM main.kleene_sessions WHERE session = $1", self.session)
        if not rows:
            return None
        row = SessionRecord(**dict(zip(COLUMNS.split(", "), rows[0], strict=True)))
        return self.records.state(row.record), row

    def history(self) -> list[PastTurn]:
        """The turns that are over, in order."""
        rows = self._rows(
            "SELECT reply, result FROM main.kleene_turns WHERE session = $1 AND result IS NOT NULL ORDER BY n",
            self.session,
        )
        return [PastTurn(self.records.reply(reply).text, result) for reply, result in rows]

    def pending(self) -> tuple[int, Reply] | None:
        """The reply of a turn that had begun and not ended."""
        rows = self._rows(
            "SELECT n, reply FROM main.kleene_turns WHERE session = $1 AND result IS NULL ORDER BY n DESC LIMIT 1",
            self.session,
        )
        return (int(rows[0][0]), self.records.reply(rows[0][1])) if rows else None

    def done(self, turn: int) -> dict[int, Outcome]:
        """The writes of a turn that were run already, by the statement's place in it, and what they gave."""
        rows = self._rows(
            "SELECT statement, outcome FROM main.kleene_progress WHERE session = $1 AND turn = $2 AND statement > 0",
            self.session,
            turn,
        )
        return {int(statement): _outcome(json.loads(text)) for statement, text in rows}

    def effects(self, turn: int, statement: int) -> list[tuple[str, str]]:
        """The uses of a CALL that were done, each with its rows, whether or not it came to its end."""
        rows = self._rows(
            "SELECT outcome FROM main.kleene_progress WHERE session = $1 AND turn = $2 AND statement = $3",
            self.session,
            turn,
            -statement,
        )
        return [(key, given) for key, given in (json.loads(text) for (text,) in rows)]

    def children(self) -> list[tuple[SessionState, str]]:
        """The states and tasks of the session's children, in the order in which they were last saved."""
        rows = self._rows(
            "SELECT record, task FROM main.kleene_sessions WHERE parent = $1 ORDER BY updated_at", self.session
        )
        return [(self.records.state(record), task) for record, task in rows]

    def spent(self) -> Usage:
        """What the trace says that this session and those below it have used: it knows of calls that were made after the last save."""
        rows = self._rows(
            "WITH RECURSIVE family(session) AS (SELECT $1 UNION SELECT s.session FROM main.trace_sessions s JOIN family f ON s.parent = f.session) "
            "SELECT sum(attempts), sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cache_write_tokens), sum(dollars), "
            "count(*) FILTER (memo_hit) FROM main.trace_calls SEMI JOIN family USING (session)",
            self.session,
        )
        requests, tokens_in, tokens_out, read, write, dollars, hits = (v or 0 for v in rows[0])
        return Usage(
            requests=int(requests),
            memo_hits=int(hits),
            input_tokens=int(tokens_in),
            output_tokens=int(tokens_out),
            cache_read_tokens=int(read),
            cache_write_tokens=int(write),
            dollars=float(dollars),
        )

    # -- within the lock

    def _write(self, write: Callable[[], None]) -> None:
        def once() -> None:
            self._cursor.begin()
            try:
                write()
                self._cursor.commit()
            except BaseException:
                self._cursor.rollback()
                raise

        with self._lock:
            retry_conflicts(once)

    def _turn(self, n: int, reply: str, sql: str | None, result: str | None) -> None:
        self._put(TURN, [self.session, n, reply, sql, result])

    def _record(self, state: SessionState, task: str, turns: int, outcome: str | None, status: str) -> None:
        place = state.place
        values = [self.session, place.run, place.parent, place.depth, place.role, task, status, outcome, turns]
        self._put(RECORD, [*values, self.records.text(state)])

    def _put(self, statements: tuple[str, str], values: list[Any]) -> None:
        """Update the row of these values, or insert it."""
        cleaned = [clean(v) if isinstance(v, str) else v for v in values]
        update, insert = statements
        if self._cursor.execute(update, cleaned).fetchone() == (0,):
            self._cursor.execute(insert, cleaned)

    def _rows(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._cursor.execute(sql, list(params)).fetchall()


def larger(a: Usage, b: Usage) -> Usage:
    """Of each figure the larger one."""
    return Usage(*(max(getattr(a, f.name), getattr(b, f.name)) for f in attrs.fields(Usage)))


def _outcome(body: dict[str, Any]) -> Outcome:
    columns = tuple(body["columns"])
    return Outcome(
        columns=columns,
        types=("VARCHAR",) * len(columns),
        rows=[tuple(row) for row in body["rows"]],
        row_count=body["row_count"],
        message=body["message"],
    )
