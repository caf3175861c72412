"""What sessions said and were told, turn by turn, with the statements of each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kleene.reports.costs import DOLLARS
from kleene.reports.plans import COLUMNS, FROM, statement_of
from kleene.reports.report import Session, Statement, Turn
from kleene.reports.room import Room

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Row = tuple[Any, ...]
SESSIONS = 30  # that are told; those near the root first
TURNS = 60  # of a session
STATEMENTS = 200  # of a session, or of a person
FINAL_ROWS = 50
CELL = 1_000


def read_sessions(con: DuckDBPyConnection, room: Room) -> tuple[Session, ...]:
    """The first sessions of the tree with their turns."""
    rows = con.execute(
        f"""WITH own AS (
          SELECT session, sum(batch_size)::BIGINT AS answers, sum(input_tokens + output_tokens)::BIGINT AS tokens,
            {DOLLARS} AS dollars FROM report_calls GROUP BY 1)
        SELECT s.session, s.parent, s.depth, s.role, s.task, s.start_s, s.finish_s - s.start_s, s.outcome, s.forced, s.error,
          coalesce(o.answers, 0), coalesce(o.tokens, 0), o.dollars
        FROM report_sessions AS s JOIN report_lanes AS l USING (session) LEFT JOIN own AS o USING (session)
        WHERE NOT l.merged QUALIFY row_number() OVER (ORDER BY s.depth, l.place) <= $1 ORDER BY l.place""",
        [SESSIONS],
    ).fetchall()
    keys = [row[0] for row in rows]
    turns, statements, finals = read_turns(con, keys), read_statements(con, keys), read_finals(con, keys)
    return tuple(
        told_session(row, turns.get(row[0], []), statements.get(row[0], []), finals.get(row[0]), room) for row in rows
    )


def told_session(row: Row, turns: list[Row], statements: list[Row], final: str | None, room: Room) -> Session:
    key, parent, depth, role, task, start, seconds, outcome, forced, error, answers, tokens, dollars = row
    return Session(
        key,
        parent,
        depth or 0,
        role or "session",
        room.take(task) or "",
        start,
        seconds,
        outcome,
        bool(forced),
        room.take(error),
        answers,
        tokens,
        dollars,
        tuple(told_turns(turns, [statement_of(s, room) for s in statements], room)),
        told_final(final, room),
    )


def told_turns(turns: list[Row], statements: list[Statement], room: Room) -> Iterable[Turn]:
    """The turns in order; after them the statements of a turn that did not end."""
    for number, reply, sql, result, end in turns:
        own = tuple(s for s in statements if end is None or s.started_at <= end)
        statements = statements[len(own) :]
        yield Turn(number, room.take(reply), room.take(sql), room.take(result), own)
    if statements and len(turns) < TURNS:
        number = turns[-1][0] + 1 if turns else 1
        yield Turn(number, None, None, None, tuple(statements))


def told_final(text: str | None, room: Room) -> tuple[tuple[str, ...], tuple[tuple[object, ...], ...], int] | None:
    """Columns, the first rows and the number of all rows of an answer, where there is one that can be read."""
    if text is None:
        return None
    try:
        read = json.loads(text)
        columns, rows = read["columns"], read["rows"]
    except (ValueError, TypeError, KeyError):
        return None
    cells = tuple(tuple(None if cell is None else room.take(told(cell), CELL) for cell in r) for r in rows[:FINAL_ROWS])
    return tuple(map(str, columns)), cells, len(rows)


def read_turns(con: DuckDBPyConnection, sessions: list[str]) -> dict[str, list[Row]]:
    return by_first(
        con.execute(
            """SELECT session, n, reply, sql, result, epoch(recorded_at) FROM turns WHERE list_contains($1, session)
            QUALIFY row_number() OVER (PARTITION BY session ORDER BY n) <= $2 ORDER BY session, n""",
            [sessions, TURNS],
        ).fetchall()
    )


def read_statements(con: DuckDBPyConnection, sessions: list[str]) -> dict[str, list[Row]]:
    """The first statements of each session, as ``statement_of`` takes them."""
    return by_first(
        con.execute(
            f"""SELECT t.session, {COLUMNS} {FROM} WHERE list_contains($1, t.session)
            QUALIFY row_number() OVER (PARTITION BY t.session ORDER BY t.start_s, t.number, t.statement) <= $2
            ORDER BY t.session, t.start_s, t.number, t.statement""",
            [sessions, STATEMENTS],
        ).fetchall()
    )


def read_finals(con: DuckDBPyConnection, sessions: list[str]) -> dict[str, str]:
    rows = con.execute(
        "SELECT session, arg_max(rows, recorded_at) FROM trace_final WHERE list_contains($1, session) GROUP BY session",
        [sessions],
    ).fetchall()
    return dict(rows)


def read_own(con: DuckDBPyConnection, room: Room) -> tuple[Statement, ...]:
    """A person's own statements, in order."""
    rows = con.execute(
        f"SELECT {COLUMNS} {FROM} WHERE t.session IS NULL ORDER BY t.start_s, t.number, t.statement LIMIT $1",
        [STATEMENTS],
    ).fetchall()
    return tuple(statement_of(row, room) for row in rows)


def by_first(rows: list[Row]) -> dict[str, list[Row]]:
    """Rows by their first column, without it."""
    found: dict[str, list[Row]] = {}
    for first, *row in rows:
        found.setdefault(first, []).append(tuple(row))
    return found


def told(cell: object) -> str:
    """A value of JSON as a reader sees it.

    >>> told("é"), told(True), told([1, None])
    ('é', 'true', '[1, null]')
    """
    return cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False)
