"""Statements with their plans: estimated and counted, by node where the trace has them, by call site in any case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from kleene.reports.costs import by_site
from kleene.reports.report import Node, Round, Statement
from kleene.reports.room import Room

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PLANS = 30  # statements whose plan is shown: the dearest
NODES = 200  # of one plan
SQL = 3_000

COLUMNS = """t.statement, t.session, t.sql, t.start_s, t.finish_s - t.start_s, t.rows, coalesce(a.answers, 0),
  coalesce(t.tokens, 0), t.dollars, coalesce(t.memo_hits, 0), coalesce(t.unknown, 0), t.error, coalesce(t.explain, ''), coalesce(a.priced, 0)"""
FROM = """FROM report_statements AS t LEFT JOIN (
  SELECT statement, sum(batch_size)::BIGINT AS answers, count(dollars) FILTER (NOT memo_hit) AS priced FROM report_calls GROUP BY 1) AS a USING (statement)"""


def read_plans(con: DuckDBPyConnection, room: Room) -> tuple[Statement, ...]:
    """The dearest statements that called or were measured, in the order in which they ran."""
    rows = con.execute(
        f"""WITH told AS (
          SELECT {COLUMNS}, row_number() OVER (ORDER BY t.dollars DESC NULLS LAST, t.calls DESC NULLS LAST, a.answers DESC NULLS LAST, t.start_s, t.statement) AS rank
          {FROM} WHERE a.answers > 0 OR t.statement IN (SELECT statement FROM report_operators))
        SELECT * EXCLUDE (rank) FROM told WHERE rank <= $1 ORDER BY start_s, statement""",
        [PLANS],
    ).fetchall()
    statements = [statement_of(row, room) for row in rows]
    keys = [s.key for s in statements]
    sites, nodes, rounds, runs = by_site(con, keys), read_nodes(con, keys), read_rounds(con, keys), read_runs(con, keys)
    return tuple(
        attrs.evolve(
            s,
            sites=sites.get(s.key, ()),
            nodes=tuple(nodes.get(s.key, ())),
            rounds=tuple(rounds.get(s.key, ())),
            runs=tuple(runs.get(s.key, ())),
        )
        for s in statements
    )


def statement_of(row: tuple[Any, ...], room: Room) -> Statement:
    """A statement of a row of ``COLUMNS``."""
    key, session, sql, start, seconds, rows, answers, tokens, dollars, memo, unknown, error, rules, priced = row
    return Statement(
        key,
        session,
        room.take(sql, SQL) or "",
        start,
        seconds,
        rows,
        answers,
        tokens,
        dollars if priced else None,
        memo,
        unknown,
        room.take(error, SQL),
        rules,
    )


def read_nodes(con: DuckDBPyConnection, statements: list[str]) -> dict[str, list[Node]]:
    rows = con.execute(
        """SELECT statement, node, parent, operator, detail, est_rows, rows, est_calls, calls, est_tokens, tokens, est_dollars, dollars, memo_hits, seconds
        FROM report_operators WHERE list_contains($1, statement) ORDER BY statement, node""",
        [statements],
    ).fetchall()
    plans: dict[str, list[tuple[Any, ...]]] = {}
    for statement, *row in rows:
        plans.setdefault(statement, []).append(tuple(row))
    return {statement: in_order(plan)[:NODES] for statement, plan in plans.items()}


def in_order(rows: list[tuple[Any, ...]]) -> list[Node]:
    """The nodes of a plan from its root down, children under their parent. A node whose parent is not there is a root."""
    there = {row[0] for row in rows}
    children: dict[int | None, list[tuple[Any, ...]]] = {}
    for row in rows:
        children.setdefault(row[1] if row[1] in there and row[1] != row[0] else None, []).append(row)
    found: list[Node] = []
    stack = [(row, 0) for row in reversed(children.get(None, []))]
    while stack:
        row, depth = stack.pop()
        number, _, operator, detail, *figures = row
        found.append(Node(number, depth, operator or "?", detail or "", *figures))
        stack += [(child, depth + 1) for child in reversed(children.pop(number, []))]
    return found


def read_rounds(con: DuckDBPyConnection, statements: list[str]) -> dict[str, list[Round]]:
    rows = con.execute(
        """SELECT statement, cte, round, delta_rows, total_rows FROM trace_rounds WHERE list_contains($1, statement)
        QUALIFY row_number() OVER (PARTITION BY statement, cte ORDER BY round DESC) <= 40 ORDER BY statement, cte, round""",
        [statements],
    ).fetchall()
    found: dict[str, list[Round]] = {}
    for statement, *row in rows:
        found.setdefault(statement, []).append(Round(*row))
    return found


def read_runs(con: DuckDBPyConnection, statements: list[str]) -> dict[str, list[tuple[int, int, float]]]:
    rows = con.execute(
        """SELECT statement, notes, answered, seconds FROM trace_runs_of_statement WHERE list_contains($1, statement)
        QUALIFY row_number() OVER (PARTITION BY statement ORDER BY recorded_at, run) <= 40 ORDER BY statement, recorded_at, run""",
        [statements],
    ).fetchall()
    found: dict[str, list[tuple[int, int, float]]] = {}
    for statement, *row in rows:
        found.setdefault(statement, []).append((row[0], row[1], row[2]))
    return found
