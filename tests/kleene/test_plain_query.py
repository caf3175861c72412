"""Queries that their words prove to be DuckDB's own are not read; nothing else about them changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import kleene
from kleene.planner.catalog import Catalog
from kleene.planner.errors import PlanError
from kleene.planner.resolve import resolve
from kleene.planner.settings import Settings
from kleene.planner.statements import parse, plain_query
from tests.kleene.engines import CountingModel, engine

FIXTURES = Path(__file__).parent.parent / "fixtures"
CATALOG = Catalog()
PLAIN = [
    "SELECT 1",
    "  FROM t WHERE s LIKE '%llm(%' -- llm_bool(s)\n;",
    "WITH r AS (SELECT a, b FROM t) SELECT r.a::INT, count(*) FROM r JOIN u USING (a) GROUP BY ALL",
    'SELECT "a b", upper(s) FROM t',
    "SELECT $$llm(x)$$ FROM t",
]
READ = [
    "SELECT llm('x')",
    'SELECT "LLM"(x) FROM t',
    "SELECT x.llm_bool() FROM t",
    "SELECT llm FROM t",  # a column of that name: it has to be read to know
    "SELECT 1; SELECT 2",
    "SELECT ?",
    "SELECT $a",
    "SELECT list_transform(l, x -> x + 1) FROM t",
    "WITH RECURSIVE r AS (SELECT 1 a UNION ALL SELECT a + 1 FROM r) MAXRECURSION 5 SELECT * FROM r",
    "WITH r AS (SELECT 1 a) INSERT INTO t SELECT a FROM r",
    "FINAL SELECT 1",
    "EXPLAIN SELECT 1",
    "SET wave = 3",
    "SELECT 'open",
    "",
]


def knows(name: str) -> bool:
    return CATALOG.function(name) is not None


@pytest.mark.parametrize("sql", PLAIN)
def test_words_prove_that_a_query_makes_no_call(sql: str) -> None:
    found = plain_query(sql, knows)
    assert found is not None
    (statement,) = parse(sql)
    assert (found.statement.text, found.statement.span) == (statement.text, statement.span)


@pytest.mark.parametrize("sql", READ)
def test_anything_else_is_read(sql: str) -> None:
    assert plain_query(sql, knows) is None


def test_what_words_prove_is_what_reading_finds() -> None:
    texts = [
        block.partition("\n---\n")[0]
        for path in FIXTURES.glob("rules/*.sql")
        for block in path.read_text().split("====\n")
    ]
    texts += [line for path in FIXTURES.glob("dialect/*") for line in path.read_text().splitlines()]
    proved = 0
    for text in texts:
        if plain_query(text, knows) is None:
            continue
        proved += 1
        for statement in parse(text):
            assert not statement.has_own, text
            assert statement.tree is None or resolve(statement, statement.tree, CATALOG, Settings()) is None, text
    assert proved > 20


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[kleene.Engine, CountingModel]]:
    with engine() as (k, model):
        k.sql("CREATE TABLE t AS SELECT i, 'v' || i AS s FROM range(5) r(i)")
        yield k, model


def test_frames_the_store_and_the_trace_are_seen(world: tuple[kleene.Engine, CountingModel]) -> None:
    k, _ = world
    mine = pa.table({"x": [1, 2]})
    assert k.sql("SELECT sum(x) FROM mine").fetchall() == [(3,)]
    assert mine.num_rows == 2
    assert k.sql("SELECT count(*) > 0 FROM trace_statements WHERE sql LIKE 'SELECT sum(x)%'").fetchall() == [(True,)]
    k.sql("CREATE FUNCTION shout(x TEXT) RETURNS TEXT AS SQL (SELECT upper(x) || '!')")
    assert k.sql("SELECT shout(s) FROM t WHERE i = 1").fetchall() == [("V1!",)]


def test_errors_name_their_place(world: tuple[kleene.Engine, CountingModel]) -> None:
    k, _ = world
    with pytest.raises(PlanError, match="nope") as caught:
        k.sql("SELECT nope FROM t")
    assert caught.value.span is not None and caught.value.source == "SELECT nope FROM t"
    with pytest.raises(duckdb.ConversionException):
        k.sql("SELECT s::INT FROM t")
    assert k.sql("SELECT count(*) FROM t").fetchall() == [(5,)]
