"""The loop over the real parser and a real DuckDB: what is a FINAL, what runs, and that no reply whatever breaks it."""

from __future__ import annotations

import time

import attrs
import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kleene.planner import nodes
from kleene.planner.dialect import CallSQL
from kleene.planner.errors import PlanError
from kleene.planner.specs import BudgetLimits, Usage
from kleene.planner.statements import Statement, parse, read
from kleene.session import prefix
from kleene.session.extract import extract, is_blank, looks_like_sql
from kleene.session.loop import run_session
from kleene.session.world import CatalogView, Outcome
from kleene.udfs.events import Event
from kleene.udfs.protocols import Reply, Request
from tests.patience import AT_ONCE_S


@attrs.define
class World:
    """DuckDB for the rows, a list for the model."""

    replies: list[str]
    connection: duckdb.DuckDBPyConnection = attrs.field(factory=duckdb.connect)
    events: list[Event] = attrs.field(factory=list)

    def parse(self, sql_text: str) -> tuple[Statement, ...]:
        return read(sql_text)

    def run(self, statement: Statement) -> Outcome:
        if statement.malformed and statement.unreadable is not None:
            raise statement.unreadable
        tree = statement.tree
        final = isinstance(tree, nodes.Final)
        sql = statement.text
        if isinstance(tree, nodes.Final):
            query = tree.args.get("query")
            sql = query.sql(CallSQL) if query is not None else f"SELECT {tree.this.sql(CallSQL)} AS answer"
        try:
            cursor = self.connection.execute(sql)
            rows = cursor.fetchall() if cursor.description else []
        except duckdb.Error as error:
            raise PlanError(str(error)) from None
        columns = tuple(d[0] for d in cursor.description or [])
        types = tuple(str(d[1]) for d in cursor.description or [])
        return Outcome(columns=columns, types=types, rows=rows, row_count=len(rows), final=final)

    def catalog_lines(self) -> CatalogView:
        return CatalogView()

    def ask(self, request: Request) -> Reply:
        return Reply(self.replies.pop(0) if self.replies else "```sql\nFINAL('end')\n```")

    def release(self) -> None:
        pass

    def plan(self) -> list[tuple[object, object]]:
        return []

    def remaining(self) -> BudgetLimits:
        return BudgetLimits()

    def usage(self) -> Usage:
        return Usage()

    def emit(self, event: Event) -> None:
        self.events.append(event)


def answer(*replies: str) -> object:
    result = run_session(World(list(replies)), "task")
    assert result.outcome == "final"
    assert result.answer is not None
    return result.answer.rows[0][0]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("FINAL('a (b) c)')", "a (b) c)"),
        ("FINAL('it''s ) ok')", "it's ) ok"),
        ("FINAL($$ ) ' $$)", " ) ' "),
        ("FINAL(concat('x', (SELECT max(y) FROM (VALUES (1), (2)) t(y))))  -- done)", "x2"),
        ("FINAL FROM (SELECT 7 AS n);", 7),
        ("CREATE TABLE final AS SELECT 3 AS n; FINAL FROM (SELECT n FROM final)", 3),
        ("SELECT 'FINAL(1)'; FINAL(2); FINAL(3)", 2),
        ("-- FINAL(1)\nFINAL(2)", 2),
    ],
)
def test_final_is_what_the_parser_says(sql: str, expected: object) -> None:
    assert answer(f"I will call FINAL(x) later\n```sql\n{sql}\n```\nDone: FINAL(9)") == expected


def test_an_empty_final_is_an_error_and_the_session_goes_on() -> None:
    assert answer("```sql\nFINAL()\n```", "```sql\nFINAL(1)\n```") == 1


def test_a_body_that_holds_a_fence_is_kept_whole() -> None:
    assert answer("````sql\nFINAL($$\n```python\nx = '''1'''\n```\n$$)\n````") == "\n```python\nx = '''1'''\n```\n"


def test_tables_last_from_turn_to_turn() -> None:
    assert answer("```sql\nCREATE TABLE t AS SELECT 5 AS n\n```", "FINAL FROM (SELECT n + 1 FROM t)") == 6


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, llm('Summarise in ten words: ' || text) FROM mails WHERE length(text) > 500",
        "CREATE FUNCTION claim(body TEXT) RETURNS STRUCT(kind VARCHAR, amount DOUBLE) AS PROMPT 'What does this mail claim? {body}' BATCH 10",
        "SELECT id, c.kind, c.amount FROM (SELECT id, claim(text) AS c FROM mails)",
        "CREATE FUNCTION f(x TEXT) RETURNS TEXT AS SQL (SELECT upper(x))",
        "FROM mails m CROSS JOIN LATERAL expand('People named in: ' || m.text, 5) e",
        "SELECT day, llm_agg('Summarise these notes', text ORDER BY ordinal) FROM notes GROUP BY day",
    ],
)
def test_the_examples_of_the_prefix_are_statements(sql: str) -> None:
    assert sql in prefix._LANGUAGE + prefix._EXPAND + prefix._AGG
    (statement,) = parse(sql)
    assert statement.unreadable is None


PIECES = [
    "```sql\n",
    "```\n",
    "~~~\n",
    "\n```",
    "SELECT 1",
    "FINAL(1)",
    "FINAL(",
    "'",
    "$$",
    "; ",
    "-- x\n",
    "/*",
    "CREATE TABLE t AS SELECT 1",
    "prose. ",
    "\n",
    "é",
]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), max_size=4))
def test_no_reply_breaks_the_session(replies: list[str]) -> None:
    result = run_session(World(list(replies)), "task", max_turns=6)
    assert result.outcome in ("final", "failed", "turns_exhausted")
    assert (result.answer is not None) == (result.outcome == "final")


@pytest.mark.parametrize(
    "text", ["'" * 20_000, "/* */ " * 5_000 + "x", "select " + "(" * 20_000, "from a" + " b" * 20_000, "-- \n" * 10_000]
)
def test_long_replies_are_read_quickly(text: str) -> None:
    started = time.perf_counter()
    extract(text)
    looks_like_sql(text)
    is_blank(text)
    assert time.perf_counter() - started < AT_ONCE_S
