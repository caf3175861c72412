"""Which text of a statement runs: the plain one, or that over distinct arguments."""

from __future__ import annotations

from collections.abc import Iterator

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
