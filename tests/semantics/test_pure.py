"""Statements without calls are DuckDB's, byte for byte."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest

from kleene.planner.errors import KleeneError
from tests.semantics.queries import Queries, tables
from tests.semantics.world import World, keyed

SEEDED = 40


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as made:
        yield made


def test_random_queries_give_what_duckdb_gives(world: World) -> None:
    refused = 0
    for seed in range(SEEDED):
        draw = random.Random(seed).randint
        world.setup(*tables(draw))
        sql = Queries(draw, calls=0).query(draw(0, 2))
        try:
            relation = world.truth.sql(sql)
            columns, types, rows = relation.columns, [str(t) for t in relation.types], relation.fetchall()
        except duckdb.Error:
            refused += 1
            with pytest.raises((duckdb.Error, KleeneError)):
                world.engine.sql(sql)
            continue
        result = world.engine.sql(sql)
        assert list(result.columns) == columns, sql
        assert [d[1] for d in result.description] == types, sql
        assert Counter(keyed(result.fetchall())) == Counter(keyed(rows)), sql
        assert not world.asked
    assert refused < SEEDED // 4
