"""Reads a report from the store. Whatever there is much of is counted by the store, so that a report of a million calls is as small as others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kleene.reports.costs import OPERATORS, read_costs
from kleene.reports.plans import PLANS, read_plans
from kleene.reports.report import Call, Report, Stop, ToolUse
from kleene.reports.room import Room
from kleene.reports.scope import Scope, open_scope
from kleene.reports.timeline import read_axis, read_lanes
from kleene.reports.transcript import SESSIONS, STATEMENTS, TURNS, read_own, read_sessions

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SLOWEST = 8
DEAREST = 8
FAILED = 12
PROMPT = 1_500


def read_report(con: DuckDBPyConnection, wanted: str | None = None) -> Report:
    """The report of a run, or of a process's own statements, on a connection of ``kleene.store.open_readonly``.

    ``wanted`` is described in ``open_scope``. Equal traces give equal reports. Raises ``ConfigError``.
    """
    scope = open_scope(con, wanted)
    con.execute(OPERATORS)
    axis = read_axis(con)
    room = Room()
    lanes = read_lanes(con, axis)
    own = read_own(con, room)
    sessions = read_sessions(con, room)
    plans = read_plans(con, room)
    counted = con.execute(
        """SELECT (SELECT count(*) FROM report_sessions), (SELECT count(*) FROM report_statements),
        (SELECT count(*) FROM turns WHERE session IN (SELECT session FROM report_sessions)),
        (SELECT count(*) FROM report_statements WHERE statement IN (SELECT statement FROM report_calls WHERE statement IS NOT NULL)),
        (SELECT count(*) FROM report_statements WHERE session IS NULL)"""
    ).fetchone()
    assert counted is not None
    in_all, statements, turns, calling, own_in_all = counted
    calls = read_calls(con, room)
    root = next((s for s in sessions if s.parent is None and s.key == scope.run), None)
    left_out = [
        told
        for more, told in (
            (in_all > len(sessions), f"{in_all:,} sessions ran; the {SESSIONS} nearest to the root are told"),
            (any(len(s.turns) >= TURNS for s in sessions), f"of a session the first {TURNS} turns are told"),
            (calling > len(plans), f"{calling:,} statements called; the plans of the {PLANS} dearest are shown"),
            (own_in_all > len(own), f"{own_in_all:,} statements of yours ran; the first {STATEMENTS} are shown"),
            (room.cut > 0, f"{room.cut:,} texts were cut in the middle"),
        )
        if more
    ]
    return Report(
        key=scope.key,
        task=room.take(scope.task) or "",
        started_at=axis.start,
        seconds=axis.segments[-1].end - axis.start,
        outcome=root.outcome if root else None,
        error=root.error if root else None,
        axis=axis,
        costs=read_costs(con),
        sessions_in_all=in_all,
        statements_in_all=statements,
        turns=turns,
        lanes=lanes,
        sessions=sessions,
        statements=plans,
        own=own,
        calls=calls,
        tools=read_tools(con),
        stops=read_stops(con),
        notes=noted(scope, root is None or root.outcome is None),
        left_out=tuple(left_out),
    )


def noted(scope: Scope, unfinished: bool) -> tuple[str, ...]:
    if scope.own or not unfinished:
        return ()
    return (f"the run has no end: it still runs, or its process was ended (python -m kleene resume {scope.run})",)


def read_calls(con: DuckDBPyConnection, room: Room) -> tuple[Call, ...]:
    """Those that failed or gave no answer, the slowest and the dearest, each once and in this order."""
    rows = con.execute(
        """WITH ranked AS (
          SELECT call, error IS NOT NULL OR kind <> 'answer' AS bad,
            row_number() OVER (PARTITION BY error IS NOT NULL OR kind <> 'answer' ORDER BY start_s, call) AS nth,
            row_number() OVER (ORDER BY finish_s - start_s DESC NULLS LAST, call) AS slow,
            row_number() OVER (ORDER BY dollars DESC NULLS LAST, input_tokens + output_tokens DESC, call) AS dear
          FROM report_calls WHERE NOT memo_hit AND NOT coalesced AND NOT by_child
        ), chosen AS (
          SELECT call, CASE WHEN bad AND nth <= $1 THEN 0 WHEN slow <= $2 THEN 1 ELSE 2 END AS class, CASE WHEN slow <= $2 THEN slow ELSE dear END AS place
          FROM ranked WHERE (bad AND nth <= $1) OR slow <= $2 OR dear <= $3)
        SELECT c.call, c.statement, c.site, r.label, c.alias, c.model, epoch(c.finished_at) - epoch(c.started_at), coalesce(c.input_tokens, 0) + coalesce(c.output_tokens, 0),
          c.dollars, coalesce(c.kind, 'answer'), c.error, c.prompt, c.reply
        FROM trace_calls AS c JOIN chosen AS x USING (call) JOIN report_calls AS r USING (call) ORDER BY x.class, x.place, c.call""",
        [FAILED, SLOWEST, DEAREST],
    ).fetchall()
    found = []
    for call, statement, site, label, alias, model, seconds, tokens, dollars, kind, error, prompt, reply in rows:
        place = f"statement {(statement or '').rpartition('.')[2]} #{(site or '?').rpartition(':')[2]}"
        what = "turn" if statement is None else label or place
        texts = room.take(error, PROMPT), room.take(prompt, PROMPT) or "", room.take(reply, PROMPT)
        found.append(Call(call, what, alias, model, seconds or 0.0, tokens, dollars, kind, *texts))
    return tuple(found)


def read_tools(con: DuckDBPyConnection) -> tuple[ToolUse, ...]:
    rows = con.execute(
        """SELECT u.tool, count(*), sum(u.elapsed_ms) / 1000, sum(u.bytes_out)::BIGINT, count(u.error)
        FROM trace_tool_calls AS u JOIN report_statements AS t USING (statement) GROUP BY 1 ORDER BY 3 DESC, 1 LIMIT 40"""
    ).fetchall()
    return tuple(ToolUse(*row) for row in rows)


def read_stops(con: DuckDBPyConnection) -> tuple[Stop, ...]:
    rows = con.execute(
        """SELECT dimension, allowed, max(used) FROM trace_budget
        WHERE statement IN (SELECT statement FROM report_statements) OR session IN (SELECT session FROM report_sessions)
        GROUP BY ALL ORDER BY ALL LIMIT 20"""
    ).fetchall()
    return tuple(Stop(*row) for row in rows)
