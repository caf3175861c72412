"""What a model's SQL may reach: refused by the allow-list before it is planned, and by DuckDB's own lock where the list is passed by."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pytest

import kleene
from kleene.executor import Executor
from kleene.own import State
from kleene.planner.specs import BudgetLimits
from kleene.planner.statements import parse
from kleene.udfs.ledger import Ledger
from tests.kleene.engines import CountingModel, engine

HOSTILE = [
    "SELECT * FROM read_text('/etc/hostname')",
    "SELECT * FROM '/etc/hostname.csv'",
    'SELECT * FROM "/etc/hostname.parquet"',
    "SELECT * FROM glob('/*')",
    "SELECT content FROM read_blob('/etc/hostname')",
    "COPY (SELECT 1) TO '/tmp/kleene_never.csv'",
    "COPY mine FROM '/etc/hostname'",
    "ATTACH '/tmp/kleene_never.duckdb' AS x",
    "INSTALL httpfs",
    "LOAD httpfs",
    "EXPORT DATABASE '/tmp/kleene_never'",
    "SET threads = 1",
    "SET enable_external_access = true",
    "PRAGMA database_list",
    "CREATE SECRET s (TYPE s3)",
    "SELECT getenv('HOME')",
]
LISTED_ONLY = [  # what DuckDB's lock does not stop: the allow-list must
    "ATTACH ':memory:' AS x",
    "CREATE TEMP MACRO llm(x) AS 'mine'",
    "SET search_path = 'main'",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM query_table('memo')",
    "SELECT * FROM main.memo",
    "SELECT * FROM memo",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM duckdb_settings()",
    "SELECT current_setting('threads')",
    "SELECT nextval('s')",
    "SELECT sleep_ms(1000)",
    "BEGIN",
    "USE main",
    "CHECKPOINT",
    "SELECT llm('x') FROM other_sessions.notes",
]


@pytest.fixture
def session() -> Iterator[Executor]:
    with opened() as session:
        yield session


@pytest.fixture(scope="module")
def untouched() -> Iterator[Executor]:
    """A session for what is refused, and so leaves it as it was."""
    with opened() as session:
        yield session


@contextmanager
def opened() -> Iterator[Executor]:
    model = CountingModel()
    with engine(model) as (host, _):
        cursor = host.services.store.cursor()
        cursor.execute("CREATE SCHEMA s1")
        cursor.execute("CREATE SCHEMA other_sessions")
        cursor.execute("CREATE TABLE other_sessions.notes AS SELECT 1 AS a")
        cursor.execute("SET search_path = 's1'")
        cursor.execute("CREATE TABLE mine AS SELECT 'a' AS text")
        made = Executor(
            cursor,
            host.services,
            ledger=Ledger(BudgetLimits(calls=5)),
            state=State(),
            trust="model",
            session="s1",
            schema="s1",
            owns_services=False,
        )
        try:
            yield made
        finally:
            made.close()
            cursor.close()
            assert model.calls == 0 or set(model.asked) == {"about a"}


@pytest.mark.parametrize("sql", HOSTILE + LISTED_ONLY)
def test_what_is_not_on_the_list_is_refused_before_planning(untouched, sql):
    with pytest.raises((kleene.PolicyError, kleene.ParseError)) as caught:
        untouched.sql(sql)
    assert caught.value.hint
    assert untouched.sql("SELECT text FROM mine").fetchall() == [("a",)]


@pytest.mark.parametrize("sql", [s for s in HOSTILE if "getenv" not in s and "PRAGMA" not in s])
def test_duckdbs_lock_holds_where_the_list_is_passed_by(untouched, sql):
    with pytest.raises(duckdb.Error):
        untouched.con.execute(sql).fetchall()


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("SELECT text FROM mine WHERE llm_bool('about ' || text)", "a"),
        ("CREATE TABLE more AS SELECT upper(text) AS t FROM mine; SELECT * FROM more", "A"),
        ("CREATE TABLE more AS SELECT 1 AS t; DROP TABLE more; SELECT 'gone'", "gone"),
        ("WITH c AS (SELECT * FROM mine) SELECT count(*) || string_agg(text, ',') FROM c", "1a"),
        ("EXPLAIN SELECT llm('about ' || text) FROM mine", "#1 llm('about ' || text)  [λ worker]  1 call, ~86 tok, $0"),
        ("DESCRIBE mine", "text"),
        ("SHOW TABLES", "mine"),
        ("SELECT 1; SELECT sql FROM trace_statements", "SELECT 1"),
        ("SET statement.calls = 3", "set statement.calls = 3"),
    ],
)
def test_ordinary_work_is_allowed(session, sql, shown):
    result = session.sql(sql)
    assert (result.message or result.fetchall()[0][0]) == shown


def test_a_session_is_shown_the_tables_it_may_read(session):
    session.sql("CREATE TABLE \"Größe; it''s\" AS SELECT 1 AS a; CREATE VIEW seen AS FROM mine")
    shown = [name for (name,) in session.sql("SHOW TABLES").fetchall()]
    assert shown == ["Größe; it''s", "mine", "seen", "trace_calls", "trace_statements", "turns"]
    for name in shown:
        session.sql(f'SELECT * FROM "{name}"')
    assert session.sql("SHOW TABLES").columns == ("name",)


def test_a_session_may_lower_its_budget_and_never_raise_it(session):
    session.sql("SET budget.calls = 3")
    with pytest.raises(kleene.PolicyError):
        session.sql("SET budget.calls = 4")
    with pytest.raises(kleene.PolicyError):
        session.sql("RESET budget.calls")
    assert session.ledger.remaining().calls == 3


def test_a_session_sees_its_own_trace_only(session):
    assert session.sql("SELECT count(*) FROM trace_calls").fetchall() == [(0,)]
    assert all(row[0] == "s1" for row in session.sql("SELECT session FROM trace_statements").fetchall())


def test_the_statements_of_one_reply_are_each_checked():
    assert [s.text for s in parse("SELECT 1; SELECT * FROM read_text('x')")] == [
        "SELECT 1",
        "SELECT * FROM read_text('x')",
    ]


def test_a_session_is_told_when_a_limit_would_end_it(session):
    session.sql("SELECT text FROM mine WHERE llm_bool('about ' || text)")
    with pytest.raises(kleene.PolicyError) as caught:
        session.sql("SET budget.calls = 0")
    assert caught.value.message == "budget.calls = 0 would end the session: 1 used already"
    for limit in ("calls = 1", "BUDGET.wall = 0", "tokens = 0"):
        with pytest.raises(kleene.PolicyError, match="would end the session"):
            session.sql(f"SET budget.{limit}".replace("budget.BUDGET.", "BUDGET."))
    session.sql("SET Budget.Calls = 2; SET budget.depth = 0; SET budget.dollars = 0")
    assert session.ledger.remaining().calls == 1


def test_a_statements_own_cap_is_named(session):
    session.sql("SET statement.calls = 1")
    with pytest.raises(kleene.Refused) as caught:
        session.sql("SELECT llm_bool('is ' || i) FROM range(3) t(i)")
    assert caught.value.message == "refused before sending: the statement needs 3 calls and statement.calls leaves 1"
    assert caught.value.hint == (
        "add a filter or LIMIT, use a cheaper alias, or raise statement.calls (RESET statement.calls takes it away)"
    )


def test_a_session_is_not_told_to_raise_its_budget(session):
    session.sql("SET statement.calls = 50")
    with pytest.raises(kleene.Refused) as caught:
        session.sql("SELECT llm_bool('is ' || i) FROM range(30) t(i)")
    assert caught.value.message == "refused before sending: the statement needs 30 calls and 5 remain"
    assert caught.value.hint == (
        "add a filter or LIMIT, use a cheaper alias, or ask several rows with one call (BATCH 10)"
    )
