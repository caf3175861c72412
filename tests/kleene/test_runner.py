"""Which text of a statement runs: the plain one, or that over distinct arguments."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import kleene
from tests.kleene.engines import CountingModel, engine

CHAIN = "SELECT b.i, o.z, h(w(b.s)) AS x FROM big b JOIN o ON b.i % 10 = o.i"


@pytest.fixture
def chained() -> Iterator[tuple[kleene.Engine, CountingModel]]:
    with engine(CountingModel(lambda prompt: prompt[:6])) as (k, model):
        k.sql("SET memo = off")
        k.sql("CREATE TABLE big AS SELECT i, 's' || (i % 7) AS s, 's' || i AS own FROM range(400) r(i)")
        k.sql("CREATE TABLE o AS SELECT i, 'o' || i AS z FROM range(10) r(i)")
        for name in ("h", "w"):
            k.sql(f"CREATE FUNCTION {name}(x TEXT) RETURNS TEXT AS PROMPT '{name}{{x}}'")
        yield k, model


@pytest.mark.parametrize("least", [0, 100_000])
def test_a_chain_gives_the_same_rows_and_calls_in_either_text(
    chained: tuple[kleene.Engine, CountingModel], least: int
) -> None:
    k, model = chained
    k.sql(f"SET distinct_rows = {least}")
    rows = k.sql(CHAIN).fetchall()
    assert sorted(rows) == [(i, f"o{i % 10}", f"hws{i % 7}") for i in range(400)]
    assert model.take() == 14


def test_a_chain_over_arguments_that_are_all_distinct_gives_its_rows(
    chained: tuple[kleene.Engine, CountingModel],
) -> None:
    k, model = chained
    k.sql("SET distinct_rows = 0")
    assert k.sql("SELECT count(DISTINCT h(w(own))) FROM big").fetchall() == [(400,)]
    assert model.take() == 800


def test_a_chain_with_parameters_is_not_counted(chained: tuple[kleene.Engine, CountingModel]) -> None:
    k, model = chained
    k.sql("SET distinct_rows = 0")
    assert k.sql("SELECT count(DISTINCT h(w(s))) FROM big WHERE i >= ?", [0]).fetchall() == [(7,)]
    assert model.take() == 14


# -- a sample for the order of a join ------------------------------------------------------------------------------------------------------

PAIRS = "SELECT count(*) FROM a, b, c WHERE f(a.v || b.v) AND g(b.v || c.v)"


@pytest.fixture
def pairs() -> Iterator[tuple[kleene.Engine, CountingModel]]:
    """800 arguments for each of two conditions; ``f`` passes few of them."""
    with engine(CountingModel(lambda prompt: "true" if prompt.endswith("0c0") or prompt == "fa0b7" else "false")) as (
        k,
        model,
    ):
        for name, rows in (("a", 2), ("b", 400), ("c", 2)):
            k.sql(f"CREATE TABLE {name} AS SELECT '{name}' || i AS v FROM range({rows}) r(i)")
        for name in ("f", "g"):
            k.sql(f"CREATE FUNCTION {name}(x TEXT) RETURNS BOOLEAN AS PROMPT '{name}{{x}}'")
        yield k, model


@pytest.mark.parametrize("limit", ["budget.calls = 799", "budget.tokens = 60000", "statement.calls = 799"])
def test_no_sample_is_paid_for_what_cannot_be_paid_as_a_whole(
    pairs: tuple[kleene.Engine, CountingModel], limit: str
) -> None:
    k, model = pairs
    assert k.explain(PAIRS).joins[0].sample is not None
    k.sql(f"SET {limit}")
    with pytest.raises(kleene.Refused):
        k.sql(PAIRS)
    assert model.take() == 0


def test_a_statement_goes_on_without_a_sample_that_does_not_fit(pairs: tuple[kleene.Engine, CountingModel]) -> None:
    """802 calls are enough for it, and 24 of each condition before them are not."""
    k, model = pairs
    k.sql("SET budget.calls = 810")
    assert k.sql(PAIRS).fetchall() == [(0,)]
    assert model.take() == 802


# -- starting again ------------------------------------------------------------------------------------------------------------------------


def test_arguments_are_weighed_once_when_a_statement_starts_again() -> None:
    """The cast fails in the order that is tried first: what was noted for it is gone when the written one runs."""
    with engine(CountingModel(lambda prompt: "false" if prompt.endswith("0") else "true")) as (k, model):
        k.sql(
            "CREATE TABLE t AS SELECT repeat('x', 5000) || i AS long, i, CASE WHEN i % 10 = 0 THEN '1' ELSE 'no' END n FROM range(100) r(i)"
        )
        k.sql("CREATE FUNCTION f(x TEXT) RETURNS BOOLEAN AS PROMPT '{x}'")
        k.sql("SET round_bytes = 1_200_000")
        sql = "SELECT count(*) FROM t WHERE f(long) OR f(CAST(n AS INTEGER) || '0') OR f(n || '00')"
        assert k.sql(sql).fetchall() == [(90,)]
        assert model.take() == 102


def test_a_text_over_kept_rows_is_given_up_with_all_parameters() -> None:
    """The third time that ``tick`` is computed is when what changes is kept; its cast fails there, and the text as it was written runs."""
    con = duckdb.connect()
    times = 0

    def tick(value: int) -> str:
        nonlocal times
        times += value == 0
        return "no" if times == 3 else str(times)

    con.create_function("tick", tick, ["BIGINT"], "VARCHAR", side_effects=False)
    with engine(CountingModel(lambda prompt: "true"), con) as (k, _):
        k.sql("CREATE TABLE b AS SELECT i FROM range(3) r(i)")
        for name in ("f", "g", "q"):
            k.sql(f"CREATE FUNCTION {name}(x TEXT) RETURNS BOOLEAN AS PROMPT '{name}{{x}}'")
        sql = """
            SELECT t.i, b.i FROM (SELECT i, tick(i) AS n FROM range(4) r(i) WHERE i < ? LIMIT 3) t, b
            WHERE q(t.n) AND g(CAST(CAST(t.n AS INTEGER) + 1 AS TEXT)) AND f(b.i || ?)"""
        assert sorted(k.sql(sql, [3, "!"]).fetchall()) == [(i, j) for i in range(3) for j in range(3)]
    assert times > 3
