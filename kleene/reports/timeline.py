"""Who ran when: the axis, a lane for each session, its bars, and how many calls were under way. Thousands of calls are counted by the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import attrs

from kleene.reports.axis import Axis
from kleene.reports.costs import DOLLARS
from kleene.reports.report import Bar, Lane

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LANES = 48  # sessions with a lane of their own
TASK = 200  # characters of a lane's name
BINS = 240
BARS = 160  # of one kind in a lane; more are merged where they touch
MERGED = 1 / BINS  # of the axis: bars nearer than this become one

# Every stretch of time in which something went on, and the pauses between them.
PAUSES = """
WITH busy(a, b) AS (
  SELECT start_s, coalesce(finish_s, start_s) FROM report_calls
  UNION ALL SELECT start_s, coalesce(finish_s, start_s) FROM report_statements
  UNION ALL SELECT start_s, start_s FROM report_sessions
  UNION ALL SELECT finish_s, finish_s FROM report_sessions WHERE finish_s IS NOT NULL
), reached AS (
  SELECT a, max(b) OVER (ORDER BY a, b ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before, b FROM busy WHERE a IS NOT NULL
)
SELECT 'pause' AS what, before, a FROM reached WHERE a > before
UNION ALL SELECT 'all', min(a), max(b) FROM reached"""

# Sessions in the order of a tree read from the top, those near the root first where there are too many.
LANED = """
CREATE OR REPLACE TEMP TABLE report_lanes AS
WITH RECURSIVE tree AS (
  SELECT session, [(start_s, session)] AS path FROM report_sessions AS s
  WHERE parent IS NULL OR parent NOT IN (SELECT session FROM report_sessions)
  UNION ALL
  SELECT s.session, list_append(t.path, (s.start_s, s.session)) FROM report_sessions AS s JOIN tree AS t ON s.parent = t.session
), ranked AS (
  SELECT s.*, t.path, row_number() OVER (ORDER BY s.depth, t.path) AS rank FROM report_sessions AS s LEFT JOIN tree AS t USING (session)
)
SELECT session, depth, CASE WHEN rank <= $1 THEN session ELSE 'depth ' || depth END AS lane, rank > $1 AS merged,
  row_number() OVER (ORDER BY path, session) AS place
FROM ranked"""

# Sessions with their lanes and what they asked; %s are the columns.
OF_SESSIONS = f"""
WITH asked AS (SELECT session, sum(batch_size)::BIGINT AS answers, {DOLLARS} AS dollars FROM report_calls GROUP BY 1)
SELECT %s FROM report_sessions AS s JOIN report_lanes AS l USING (session) LEFT JOIN asked AS a USING (session)"""


def read_axis(con: DuckDBPyConnection) -> Axis:
    """The axis of all that the scope did."""
    rows = con.execute(PAUSES).fetchall()
    [(start, end)] = [(a, b) for what, a, b in rows if what == "all"]
    if start is None:
        return Axis.of(0.0, 0.0)
    return Axis.of(start, end, [(a, b) for what, a, b in rows if what == "pause"])


def read_lanes(con: DuckDBPyConnection, axis: Axis) -> tuple[Lane, ...]:
    """The lanes in the order in which they are drawn. A person's own statements come first, merged sessions last."""
    con.execute(LANED, [LANES])
    lanes = [*own_lane(con, axis), *session_lanes(con, axis), *merged_lanes(con, axis)]
    bars, flight, remembered = read_bars(con, axis), read_flight(con, axis), read_remembered(con, axis)
    return tuple(
        attrs.evolve(
            lane,
            bars=tuple(bars.get(lane.key, ())),
            flight=flight.get(lane.key, ()),
            remembered=remembered.get(lane.key, ()),
        )
        for lane in lanes
    )


def own_lane(con: DuckDBPyConnection, axis: Axis) -> list[Lane]:
    row = con.execute(
        """SELECT count(*), min(start_s), max(coalesce(finish_s, start_s)) FROM report_statements WHERE session IS NULL"""
    ).fetchone()
    if row is None or not row[0]:
        return []
    asked = con.execute(
        f"SELECT coalesce(sum(batch_size), 0)::BIGINT, {DOLLARS} FROM report_calls WHERE session IS NULL"
    ).fetchone()
    assert asked is not None
    return [Lane("", "your statements", "", 0, axis.place(row[1]), axis.place(row[2]), None, asked[0], asked[1])]


def session_lanes(con: DuckDBPyConnection, axis: Axis) -> Iterable[Lane]:
    told = f"s.session, s.role, left(s.task, {TASK}), s.depth, s.start_s, s.finish_s, s.outcome, coalesce(a.answers, 0), a.dollars"
    rows = con.execute(f"{OF_SESSIONS % told} WHERE NOT l.merged ORDER BY l.place").fetchall()
    for key, role, task, depth, start, finish, outcome, answers, dollars in rows:
        right = axis.segments[-1].right if finish is None else axis.place(finish)
        yield Lane(key, role or "session", task or "", depth or 0, axis.place(start), right, outcome, answers, dollars)


def merged_lanes(con: DuckDBPyConnection, axis: Axis) -> Iterable[Lane]:
    told = """l.lane, any_value(s.depth), count(*), min(s.start_s), max(coalesce(s.finish_s, s.start_s)),
          count(*) FILTER (s.outcome IS DISTINCT FROM 'final'), coalesce(sum(a.answers), 0)::BIGINT, round(fsum(a.dollars), 9)"""
    rows = con.execute(f"{OF_SESSIONS % told} WHERE l.merged GROUP BY l.lane ORDER BY 2, 1").fetchall()
    for key, depth, count, start, finish, unfinished, answers, dollars in rows:
        task = "" if not unfinished else f"{unfinished:,} without an answer"
        yield Lane(
            key,
            f"{count:,} more",
            task,
            depth or 0,
            axis.place(start),
            axis.place(finish),
            None,
            answers,
            dollars,
            merged=count,
        )


def read_bars(con: DuckDBPyConnection, axis: Axis) -> dict[str, list[Bar]]:
    """The bars of every lane: turns, statements and tools, those that touch as one where there are many."""
    found: dict[tuple[str, str], list[Bar]] = {}
    rows = con.execute(
        """SELECT coalesce(l.lane, '') AS lane, CASE WHEN c.error IS NULL THEN 'turn' ELSE 'failed' END AS kind, c.start_s, c.finish_s,
          c.alias || ' · ' || c.model || ', ' || (c.input_tokens + c.output_tokens) || ' tokens' || coalesce(': ' || left(c.error, 200), ''), NULL
        FROM report_calls AS c LEFT JOIN report_lanes AS l USING (session) WHERE c.statement IS NULL
        UNION ALL
        SELECT coalesce(l.lane, ''), CASE WHEN t.error IS NULL THEN 'statement' ELSE 'failed' END, t.start_s, coalesce(t.finish_s, t.start_s),
          'statement ' || t.number || coalesce(', ' || t.calls || ' calls, ' || t.rows || ' rows', '') || coalesce(': ' || left(t.error, 200), ': ' || left(t.sql, 120)), t.statement
        FROM report_statements AS t LEFT JOIN report_lanes AS l USING (session)
        UNION ALL
        SELECT coalesce(l.lane, ''), CASE WHEN u.error IS NULL THEN 'tool' ELSE 'failed' END, epoch(u.recorded_at) - u.elapsed_ms / 1000, epoch(u.recorded_at),
          u.tool || coalesce(': ' || left(u.error, 200), ''), NULL
        FROM trace_tool_calls AS u JOIN report_statements AS t USING (statement) LEFT JOIN report_lanes AS l ON l.session = t.session
        ORDER BY 1, 2, 3, 4, 5"""
    ).fetchall()
    for lane, kind, start, finish, title, statement in rows:
        bar = Bar(kind, axis.place(start), axis.place(finish), title, 1, statement)
        found.setdefault((lane, kind), []).append(bar)
    bars: dict[str, list[Bar]] = {}
    for (lane, _), own in found.items():
        bars.setdefault(lane, []).extend(own if len(own) <= BARS else merge(own))
    return bars


def merge(bars: Sequence[Bar]) -> list[Bar]:
    """Bars in order that touch, or nearly do, become one."""
    found: list[Bar] = []
    for bar in bars:
        last = found[-1] if found else None
        if last is not None and bar.left <= last.right + MERGED:
            count = last.count + bar.count
            found[-1] = Bar(last.kind, last.left, max(last.right, bar.right), f"{count:,} {last.kind}s", count)
        else:
            found.append(bar)
    return found


def read_flight(con: DuckDBPyConnection, axis: Axis) -> dict[str, tuple[int, ...]]:
    """How many calls of the lane's statements were under way in each bin: a call counts in every bin that it touches."""
    first, last = bin_of(axis, "start_s"), bin_of(axis, "finish_s")
    rows = con.execute(
        f"""WITH calls AS (
          SELECT coalesce(l.lane, '') AS lane, {first} AS a, {last} AS b FROM report_calls AS c LEFT JOIN report_lanes AS l USING (session)
          WHERE c.statement IS NOT NULL AND NOT c.memo_hit AND NOT c.by_child AND c.finish_s IS NOT NULL
        ), steps AS (SELECT lane, a AS bin, 1 AS d FROM calls UNION ALL SELECT lane, b + 1, -1 FROM calls)
        SELECT lane, bin, sum(d)::BIGINT FROM steps GROUP BY ALL ORDER BY ALL"""
    ).fetchall()
    steps: dict[str, list[int]] = {}
    for lane, bin_, change in rows:
        steps.setdefault(lane, [0] * (BINS + 1))[bin_] += change
    return {lane: tuple(accumulate(changes[:BINS])) for lane, changes in steps.items()}


def read_remembered(con: DuckDBPyConnection, axis: Axis) -> dict[str, tuple[int, ...]]:
    """How many answers the memo gave in each bin."""
    rows = con.execute(
        f"""SELECT coalesce(l.lane, '') AS lane, {bin_of(axis, "finish_s")} AS bin, sum(c.batch_size)::BIGINT
        FROM report_calls AS c LEFT JOIN report_lanes AS l USING (session) WHERE c.memo_hit GROUP BY ALL ORDER BY ALL"""
    ).fetchall()
    found: dict[str, list[int]] = {}
    for lane, bin_, count in rows:
        found.setdefault(lane, [0] * BINS)[bin_] += count
    return {lane: tuple(counts) for lane, counts in found.items()}


def bin_of(axis: Axis, moment: str) -> str:
    return f"least({BINS - 1}, greatest(0, floor(({axis.sql(moment)}) * {BINS})))::INTEGER"
