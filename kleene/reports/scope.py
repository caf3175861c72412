"""Which sessions, statements and calls belong to a report: temporary tables that its queries read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from kleene.planner.errors import ConfigError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SESSIONS = """
CREATE OR REPLACE TEMP TABLE report_sessions AS
SELECT s.*, epoch(s.started_at) AS start_s, epoch(s.finished_at) AS finish_s FROM trace_sessions AS s WHERE s.run = $run"""

# A person's own statements have no session: they belong to the process that ran them, whose id begins theirs.
STATEMENTS = """
CREATE OR REPLACE TEMP TABLE report_statements AS
SELECT t.*, epoch(t.started_at) AS start_s, epoch(t.finished_at) AS finish_s,
  TRY_CAST(split_part(t.statement, '.', -1) AS BIGINT) AS number
FROM trace_statements AS t
WHERE t.session IN (SELECT session FROM report_sessions)
  OR (t.session IS NULL AND (t.statement = $own OR starts_with(t.statement, $own || '.')))"""

# How each call site is written, where its statement was planned.
SITES = """
CREATE OR REPLACE TEMP TABLE report_sites AS
SELECT statement, try_cast(site AS BIGINT) AS site_number, left(json_extract_string(written, '$."' || site || '"'), 160) AS label
FROM (
  SELECT statement, written, unnest(json_keys(written)) AS site
  FROM (SELECT statement, json_extract(estimate, '$.sites') AS written FROM report_statements WHERE estimate IS NOT NULL AND json_valid(estimate))
)"""

# A call that a child session answered costs nothing itself: what it cost are the child's own calls.
CALLS = """
CREATE OR REPLACE TEMP TABLE report_calls AS
SELECT c.* EXCLUDE (prompt, reply), epoch(c.started_at) AS start_s, epoch(c.finished_at) AS finish_s,
  TRY_CAST(split_part(c.site, ':', 2) AS BIGINT) AS site_number, s.label,
  c.attempts = 0 AND NOT c.memo_hit AND NOT c.coalesced AND c.error IS NULL AND c.statement IS NOT NULL AS by_child
FROM trace_calls AS c
LEFT JOIN report_sites AS s ON s.statement = c.statement AND s.site_number = TRY_CAST(split_part(c.site, ':', 2) AS BIGINT)
WHERE c.session IN (SELECT session FROM report_sessions) OR c.statement IN (SELECT statement FROM report_statements)"""


@attrs.frozen
class Scope:
    """What a report is about. ``run`` is a session's run; ``own`` begins the ids of a process's own statements, or is one of them."""

    key: str
    run: str
    own: str
    task: str


def open_scope(con: DuckDBPyConnection, wanted: str | None) -> Scope:
    """Find what is meant, the latest run where nothing is, and make the temporary tables of it.

    ``wanted`` is a run's id or its beginning, that of a process's own statements (all but the last number of a statement's id) or one
    statement's id. Raises ``ConfigError`` where nothing, or more than one run, is found.
    """
    scope = find(con, wanted)
    for text, values in (
        (SESSIONS, {"run": scope.run}),
        (STATEMENTS, {"own": scope.own}),
        (SITES, None),
        (CALLS, None),
    ):
        con.execute(text, values)
    return scope


def find(con: DuckDBPyConnection, wanted: str | None) -> Scope:
    if wanted is None:
        row = con.execute("SELECT run, task FROM trace_runs ORDER BY started_at DESC, run DESC LIMIT 1").fetchone()
        if row is not None:
            return Scope(row[0], row[0], "", row[1] or "")
        row = con.execute(
            "SELECT statement FROM trace_statements WHERE session IS NULL ORDER BY started_at DESC, statement DESC LIMIT 1"
        ).fetchone()
        if row is None:
            raise ConfigError("the store has no run and no statement yet", hint="python -m kleene run TASK makes one")
        return own_of(row[0].rpartition(".")[0])
    rows = con.execute(
        "SELECT run, task FROM trace_runs WHERE run = $1 OR starts_with(run, $1) ORDER BY run = $1 DESC, run LIMIT 6",
        [wanted],
    ).fetchall()
    if rows and (len(rows) == 1 or rows[0][0] == wanted):
        return Scope(rows[0][0], rows[0][0], "", rows[0][1] or "")
    if rows:
        named = ", ".join(run for run, _ in rows[:5]) + (", ..." if len(rows) > 5 else "")
        raise ConfigError(f"several runs begin with {wanted}: {named}", hint="give more of the one that is meant")
    if con.execute(
        "SELECT 1 FROM trace_statements WHERE session IS NULL AND (statement = $1 OR starts_with(statement, $1 || '.')) LIMIT 1",
        [wanted],
    ).fetchone():
        return own_of(wanted)
    raise ConfigError(f"there is no run {wanted} in the store", hint="python -m kleene runs lists them")


def own_of(key: str) -> Scope:
    """The scope of a process's own statements, with the sessions that they called; of one statement without them."""
    return Scope(key, key, key, "")
