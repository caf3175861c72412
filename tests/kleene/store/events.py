"""One event of each kind, and the rows they make."""

from __future__ import annotations

import attrs

from kleene.udfs.events import (
    BudgetStopped,
    CallFinished,
    CallStarted,
    Event,
    FinalRecorded,
    OperatorMeasured,
    RoundFinished,
    RunOfStatement,
    RunStarted,
    SessionFinished,
    SessionStarted,
    StatementFinished,
    StatementPlanned,
    StatementStarted,
    ToolUsed,
    TurnFinished,
)

CALL = CallFinished(
    at=7.5,
    call="1.1",
    session="s",
    statement="1",
    site="1:1",
    alias="worker",
    model="m",
    provider="p",
    digest="d",
    batch_size=1,
    attempts=2,
    started_at=6.5,
    input_tokens=10,
    output_tokens=2,
    dollars=0.25,
    prompt="Is it?",
    reply="true",
)

ONE_OF_EACH: tuple[Event, ...] = (
    RunStarted(at=1.0, run="r", task="count"),
    SessionStarted(at=2.0, session="s", run="r", parent=None, depth=0, role="root", task="count"),
    StatementStarted(at=3.0, statement="1", session="s", sql="SELECT 1"),
    StatementPlanned(at=4.0, statement="1", duckdb_sql="SELECT 1", explain="scan", estimate='{"calls": 1}'),
    RunOfStatement(at=5.0, statement="1", run=1, notes=1, answered=0, seconds=0.5),
    CallStarted(at=6.5, call="1.1", statement="1", site="1:1", alias="worker", model="m"),
    CALL,
    RoundFinished(at=8.0, statement="1", cte="t", round=1, delta_rows=2, total_rows=3),
    ToolUsed(at=9.0, statement="1", tool="read", args='["a"]', bytes_out=4, elapsed_ms=1.5),
    OperatorMeasured(at=10.0, statement="1", node=0, parent=None, operator="filter", est_calls=2.0, calls=1),
    BudgetStopped(at=11.0, statement="1", session="s", dimension="calls", limit=1.0, used=2.0),
    StatementFinished(at=12.0, statement="1", rows=1, calls=1, tokens=12, dollars=0.25, memo_hits=0, unknown=0),
    TurnFinished(at=13.0, session="s", turn=1, reply="FINAL(1)", sql="FINAL(1)", feedback="done"),
    FinalRecorded(at=14.0, session="s", rows="[[1]]"),
    SessionFinished(at=15.0, session="s", outcome="final", forced=False, turns=1, calls=1, tokens=12, dollars=0.25),
)

ROWS: dict[str, list[tuple[object, ...]]] = {
    "SELECT run, epoch(started_at), task FROM trace_runs": [("r", 1.0, "count")],
    "SELECT session, run, parent, depth, role, epoch(started_at), epoch(finished_at), outcome, forced, turns, calls, tokens, dollars, error FROM trace_sessions": [
        ("s", "r", None, 0, "root", 2.0, 15.0, "final", False, 1, 1, 12, 0.25, None)
    ],
    "SELECT statement, session, sql, epoch(started_at), epoch(finished_at), rows, calls, tokens, dollars, memo_hits, unknown, error, explain, duckdb_sql, estimate FROM trace_statements": [
        ("1", "s", "SELECT 1", 3.0, 12.0, 1, 1, 12, 0.25, 0, 0, None, "scan", "SELECT 1", '{"calls": 1}')
    ],
    "SELECT statement, run, notes, answered, seconds, epoch(recorded_at) FROM trace_runs_of_statement": [
        ("1", 1, 1, 0, 0.5, 5.0)
    ],
    "SELECT call, session, statement, site, alias, model, provider, digest, batch_size, attempts, epoch(started_at), epoch(finished_at), input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, dollars, memo_hit, coalesced, kind, error, prompt, reply FROM trace_calls": [
        (
            "1.1",
            "s",
            "1",
            "1:1",
            "worker",
            "m",
            "p",
            "d",
            1,
            2,
            6.5,
            7.5,
            10,
            2,
            0,
            0,
            0.25,
            False,
            False,
            "answer",
            None,
            "Is it?",
            "true",
        )
    ],
    "SELECT statement, cte, round, delta_rows, total_rows, epoch(recorded_at) FROM trace_rounds": [
        ("1", "t", 1, 2, 3, 8.0)
    ],
    "SELECT statement, tool, args, bytes_out, elapsed_ms, error, epoch(recorded_at) FROM trace_tool_calls": [
        ("1", "read", '["a"]', 4, 1.5, None, 9.0)
    ],
    "SELECT statement, node, parent, operator, detail, est_rows, rows, est_calls, calls FROM trace_operators": [
        ("1", 0, None, "filter", "", None, None, 2.0, 1)
    ],
    "SELECT statement, session, dimension, allowed, used, epoch(recorded_at) FROM trace_budget": [
        ("1", "s", "calls", 1.0, 2.0, 11.0)
    ],
    "SELECT session, n, sql, result, reply, epoch(recorded_at) FROM turns": [
        ("s", 1, "FINAL(1)", "done", "FINAL(1)", 13.0)
    ],
    "SELECT session, rows, epoch(recorded_at) FROM trace_final": [("s", "[[1]]", 14.0)],
}


def call(n: int, **more: object) -> CallFinished:
    """The call, numbered."""
    return attrs.evolve(CALL, call=f"1.{n}", **more)  # type: ignore[arg-type]
