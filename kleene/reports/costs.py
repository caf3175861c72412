"""Calls added up: by alias, by operator, by depth, by call site."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kleene.reports.report import Cost, Costs

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SUMMED = ("answers", "requests", "memo_hits", "coalesced", "unknown", "failed", "tokens")
GROUPS = 40  # of one table; the rest is one row

# Rounded, so that the order in which rows are added does not show.
DOLLARS = "round(fsum(dollars) FILTER (NOT memo_hit AND NOT coalesced AND NOT by_child), 9)"
SUMS = f"""
  sum(batch_size)::BIGINT AS answers, sum(attempts)::BIGINT AS requests,
  coalesce(sum(batch_size) FILTER (memo_hit), 0)::BIGINT AS memo_hits, coalesce(sum(batch_size) FILTER (coalesced), 0)::BIGINT AS coalesced,
  coalesce(sum(batch_size) FILTER (kind <> 'answer'), 0)::BIGINT AS unknown, count(*) FILTER (error IS NOT NULL AND kind = 'answer') AS failed,
  sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0))::BIGINT AS tokens, {DOLLARS} AS dollars,
  round(coalesce(fsum(finish_s - start_s) FILTER (attempts > 0), 0), 6) AS seconds"""

# What a call is for: how it is written, the same in whichever statement; its place where that is not known (an older trace).
OPERATOR = """CASE WHEN c.statement IS NULL THEN 'turns of sessions'
  ELSE coalesce(c.label, 'statement ' || split_part(c.statement, '.', -1) || ' #' || coalesce(c.site_number::VARCHAR, '?')) END
  || CASE WHEN c.by_child THEN ' (child sessions)' ELSE '' END"""

# The nodes of plans that were measured. A store that an older version wrote has neither of the two last columns.
OPERATORS = """
CREATE OR REPLACE TEMP TABLE report_operators AS
SELECT DISTINCT ON (o.statement, o.node) o.*
FROM (FROM trace_operators UNION ALL BY NAME SELECT NULL::BIGINT AS memo_hits, NULL::DOUBLE AS seconds WHERE false) AS o
WHERE o.statement IN (SELECT statement FROM report_statements) ORDER BY o.statement, o.node, o.recorded_at DESC"""


def read_costs(con: DuckDBPyConnection) -> Costs:
    """All calls of the scope in three ways, in one pass."""
    rows = con.execute(
        f"""WITH named AS (
          SELECT c.*, coalesce(alias, '?') || ' · ' || coalesce(model, '?') AS by_alias, {OPERATOR} AS by_operator, coalesce(s.depth, -1) AS by_depth
          FROM report_calls AS c LEFT JOIN (SELECT session, depth FROM report_sessions) AS s USING (session))
        SELECT CASE WHEN by_alias IS NOT NULL THEN 'alias' WHEN by_operator IS NOT NULL THEN 'operator' WHEN by_depth IS NOT NULL THEN 'depth' ELSE 'all' END,
          coalesce(by_alias, by_operator, CASE WHEN by_depth < 0 THEN 'your statements' ELSE 'depth ' || by_depth END, ''), {SUMS}
        FROM named GROUP BY GROUPING SETS ((), (by_alias), (by_operator), (by_depth)) HAVING count(*) > 0
        ORDER BY by_depth NULLS FIRST, dollars DESC NULLS LAST, requests DESC, 2"""
    ).fetchall()

    def group(wanted: str) -> list[Cost]:
        return [Cost(*row) for by, *row in rows if by == wanted]

    total = group("all")
    return Costs(
        total[0] if total else Cost(""), folded(group("alias")), folded(group("operator")), folded(group("depth"))
    )


def by_site(con: DuckDBPyConnection, statements: list[str]) -> dict[str, tuple[Cost, ...]]:
    """The calls of these statements by call site."""
    rows = con.execute(
        f"""SELECT statement, '#' || coalesce(site_number::VARCHAR, '?') || coalesce(' ' || any_value(label), '') || ' · ' || string_agg(DISTINCT alias, ', ' ORDER BY alias)
            || CASE WHEN bool_and(by_child) THEN ' (child sessions)' ELSE '' END AS name, {SUMS}
        FROM report_calls AS c WHERE list_contains($1, statement) GROUP BY statement, site_number ORDER BY statement, site_number""",
        [statements],
    ).fetchall()
    found: dict[str, list[Cost]] = {}
    for statement, *row in rows:
        found.setdefault(statement, []).append(Cost(*row))
    return {statement: tuple(costs) for statement, costs in found.items()}


def folded(costs: list[Cost]) -> tuple[Cost, ...]:
    """The first of them, and the rest as one."""
    if len(costs) <= GROUPS:
        return tuple(costs)
    rest = costs[GROUPS - 1 :]
    return (*costs[: GROUPS - 1], added(f"{len(rest):,} more", rest))


def added(name: str, costs: list[Cost]) -> Cost:
    prices = [c.dollars for c in costs if c.dollars is not None]
    sums = {field: sum(getattr(c, field) for c in costs) for field in SUMMED}
    return Cost(name, **sums, dollars=sum(prices) if prices else None, seconds=sum(c.seconds for c in costs))
