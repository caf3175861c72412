"""Statements that need some of their rows only: LIMIT over DISTINCT, UNION ALL, LATERAL, pairs and EXISTS gives rows of the whole answer, so
many as there are, for no more calls than without the rules; and IN, ANY and ALL give theirs exactly."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterator

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


def rarely(percent: int) -> Callable[[str], object]:
    return lambda argument: zlib.crc32(argument.encode()) // 7 % 100 < percent


@pytest.mark.parametrize(
    ("condition", "tail", "percent", "most"),
    [
        ("EXISTS ({body})", "ORDER BY k LIMIT 2", 3, 100),
        ("EXISTS ({body})", "ORDER BY k DESC LIMIT 3 OFFSET 1", 10, 100),
        ("NOT EXISTS ({body})", "ORDER BY cid % 7, k LIMIT 3", 3, 120),
        ("k % 2 = 0 AND NOT EXISTS ({body})", "ORDER BY c.k LIMIT 2", 3, 80),
        ("EXISTS ({body})", "ORDER BY k LIMIT 50", 50, 100),
    ],
)
def test_a_limit_over_exists_decides_the_first_rows_of_its_order(
    world: World, condition: str, tail: str, percent: int, most: int
) -> None:
    """40 claims with 20 texts each: what decides all of them asks up to 800."""
    world.setup(
        "CREATE OR REPLACE TABLE c AS SELECT i AS cid, (i * 7) % 40 AS k, 'c' || i AS claim FROM range(40) r(i)",
        "CREATE OR REPLACE TABLE x AS SELECT i % 40 AS cid, 'x' || i AS t FROM range(800) r(i)",
    )
    body = "SELECT 1 FROM x WHERE x.cid = c.cid AND f(c.claim || x.t)"
    sql = f"SELECT cid FROM c WHERE {condition.format(body=body)} {tail}"
    own = world.answers.get("f")
    world.answers["f"] = rarely(percent)
    try:
        ours, plain = world.check(sql, ordered=True), world.kleene(sql, off=["limit_stop"])
    finally:
        world.answers.pop("f") if own is None else world.answers.update(f=own)
    assert ours.count() <= min(most, plain.count())


def test_the_place_of_a_row_is_not_read_from_inside_an_exists(world: World) -> None:
    """The body has a column of the same name: it would hide the outer one, so that the LIMIT decides all rows."""
    world.setup("CREATE OR REPLACE TABLE c AS SELECT i AS cid, (i * 7) % 9 AS k FROM range(9) r(i)")
    for name in ("c", "d"):
        world.check(
            f"SELECT cid FROM c WHERE EXISTS (SELECT 1 FROM c AS {name} WHERE {name}.k > 1 AND f({name}.k || '')) ORDER BY k LIMIT 2",
            ordered=True,
        )
