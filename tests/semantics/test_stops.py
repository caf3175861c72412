"""Statements that need some of their rows only: LIMIT over DISTINCT, UNION ALL, LATERAL, pairs and EXISTS gives rows of the whole answer, so
many as there are, for no more calls than without the rules; and IN, ANY and ALL give theirs exactly."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.semantics.queries import COLUMNS, Col, Draw, Queries, tables
from tests.semantics.world import RULES, World, keyed

SOURCES = (
    "{distinct} a.v, a.p FROM a WHERE {a}",
    "{distinct} a.k AS n FROM a JOIN b ON a.k = b.k WHERE {ab}",
    "{distinct} a.id, b.id AS other FROM a, b WHERE {pure} AND h(a.v) {compare} h(b.v)",
    "{distinct} a.v, b.v AS w FROM a JOIN b ON a.id <= b.id WHERE {ab} AND h(a.v) {compare} h(b.v)",
    "a.v FROM a WHERE {a} UNION ALL SELECT b.v FROM b WHERE {b}",
    "a.v FROM a WHERE {a} UNION ALL SELECT b.v FROM b UNION ALL SELECT 'z' || a.v FROM a WHERE {pure_a} AND {a}",
    "a.id FROM a WHERE {pure_a} AND {quantified}",
    "a.id, e.w FROM a, LATERAL (SELECT unnest(CASE WHEN {a} THEN ['x', 'y'] WHEN {pure_a} THEN ['z'] END) AS w) e WHERE {pure_a} AND a.v <> e.w",
    "w FROM a JOIN b ON a.k = b.k, LATERAL (SELECT unnest(CAST('[' || h(a.v) || ', z]' AS VARCHAR[])) AS w) e",
)


def statement(draw: Draw) -> str:
    """A query without its LIMIT, whose rows are determined."""
    queries = Queries(draw)
    a, b = (_columns(name) for name in "ab")
    left = queries.text(a, 0, pure=True)
    return "SELECT " + queries.one(SOURCES).format(
        distinct=queries.one(("", "DISTINCT")),
        compare=queries.one(("=", "<>")),
        a=queries.boolean(a, 2, queries=False),
        b=queries.boolean(b, 2, queries=False),
        ab=queries.boolean([*a, *b], 1, queries=False),
        pure=queries.boolean([*a, *b], 1, pure=True, queries=False),
        pure_a=queries.boolean(a, 1, pure=True, queries=False),
        quantified=f"{queries.one(('', 'NOT '))}({left} {queries.one(('IN', 'NOT IN', '= ANY', '<> ALL', '> ALL', '<= ANY', '< ALL'))} "
        f"(SELECT {queries.text(b, 1, queries=False)} FROM b WHERE {queries.boolean([*a, *b], 1, queries=False)}))",
    )


def _columns(name: str) -> list[Col]:
    return [Col(f"{name}.{column}", kind) for column, kind in COLUMNS]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as made:
        yield made


def check(world: World, draw: Draw) -> None:
    world.setup(*tables(draw))
    sql, rows, skipped = statement(draw), draw(0, 4), draw(0, 1)
    whole = Counter(keyed(world.true(sql)))
    limited = f"{sql} LIMIT {rows}" + (f" OFFSET {skipped}" if skipped else "")
    ours, plain = world.kleene(limited), world.kleene(limited, off=RULES)
    assert len(ours.rows) == max(0, min(rows, whole.total() - skipped)), limited
    assert not Counter(keyed(ours.rows)) - whole, limited
    assert ours.count() <= plain.count(), limited
    assert Counter(keyed(world.kleene(sql).rows)) == whole, sql


@given(seed=st.integers(0, 10**6))
@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_a_limit_gives_rows_of_the_whole_answer_and_asks_no_more(world: World, seed: int) -> None:
    check(world, random.Random(seed).randint)
