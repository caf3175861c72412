"""Random queries with calls in all positions: rows are those of plain UDFs, under all rules, with each one off, and with none."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kleene.planner.learned import Learned
from kleene.udfs.experience import Lessons
from tests.semantics.compare import Case, compare
from tests.semantics.queries import Draw, Queries, WideQueries, tables
from tests.semantics.world import World

SEEDED = 16


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as made:
        yield made


@st.composite
def cases(draw: st.DrawFn) -> Case:
    def number(low: int, high: int) -> int:
        return draw(st.integers(low, high))

    return case(number)


def case(number: Draw) -> Case:
    return Case(tables(number), Queries(number).query(number(0, 1)))


@given(case=cases(), rule=st.integers(0, 11))
@settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
def test_rows_are_those_of_plain_functions(world: World, case: Case, rule: int) -> None:
    compare(world, case, rule=rule)


def test_rows_of_more_shapes_are_those_of_plain_functions(world: World) -> None:
    calls = 0
    for seed in range(100, 104):
        number = random.Random(seed).randint
        calls += compare(world, Case(tables(number), WideQueries(number).query(number(0, 1))), rule=seed).calls
    assert calls > 0  # else there was nothing to compare


def test_the_rules_save_calls_over_many_queries(world: World) -> None:
    calls = without = 0
    for seed in range(SEEDED):
        outcome = compare(world, case(random.Random(seed).randint), rule=seed)
        calls += outcome.calls
        without += outcome.calls_without_rules
    assert calls < without


class MadeUp(Lessons):
    """Pass rates that have nothing to do with the answers. ``told`` counts the sites that were given one."""

    told = 0

    def of(self, key: str) -> Learned | None:
        answers = (0, 8, 30, 1000)[int(key[:2], 16) % 4]
        self.told += answers > 0
        return Learned(answers, int(key[2:4], 16) / 255, 10.0 * int(key[4:6], 16)) if answers else None


def test_rows_do_not_depend_on_what_was_learned() -> None:
    calls = 0
    with World(estimates=True) as world:
        world.engine.services.lessons = lessons = MadeUp()
        for seed in range(SEEDED, SEEDED + 6):
            calls += compare(world, case(random.Random(seed).randint), rule=0).calls
    assert lessons.told > 0 and calls > 0
