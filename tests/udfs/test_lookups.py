"""kleene.udfs.lookups and rounds, called by DuckDB itself: what is known is given, what is missing is noted once, NULL is neither."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import duckdb
import duckdb.sqltypes
import pytest
from duckdb.func import PythonUDFType

from kleene.planner.errors import Cancelled, KleeneError, PlanError
from kleene.planner.specs import Carrier
from kleene.udfs.lookups import Key, Lookups, SiteAnswers
from kleene.udfs.register import Registration
from kleene.udfs.rounds import RoundCounter

NAMES = "SELECT count(*) FROM duckdb_functions() WHERE function_name LIKE 'kleene%'"


@pytest.fixture
def lookups() -> Lookups:
    return Lookups()


@pytest.fixture
def con(lookups: Lookups) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        registration = Registration(con, lookups)
        yield con
        registration.close()


def site(lookups: Lookups, **more: Any) -> SiteAnswers:
    made = SiteAnswers("1:1", **more)
    lookups.open([made])
    return made


def test_a_missing_answer_is_null_and_noted_once(con: duckdb.DuckDBPyConnection, lookups: Lookups) -> None:
    state = site(lookups)
    rows = con.sql("SELECT kleene_get_text('1:1', x) FROM (VALUES ('a'), ('b'), ('a'), (NULL)) t(x)").fetchall()
    assert rows == [(None,)] * 4
    assert list(state.take_notes()) == ["a", "b"]
    assert state.notes == {}


def test_known_answers_are_given_in_the_order_of_the_rows(con: duckdb.DuckDBPyConnection, lookups: Lookups) -> None:
    state = site(lookups, answers={"a": "A", "b": None})
    rows = con.sql("SELECT kleene_get_text('1:1', x) FROM (VALUES ('b'), ('a'), (NULL), ('c')) t(x)").fetchall()
    assert rows == [(None,), ("A",), (None,), (None,)]
    assert list(state.notes) == ["c"]


def test_each_carrier_keeps_its_type(con: duckdb.DuckDBPyConnection, lookups: Lookups) -> None:
    site(lookups, answers={"b": True, "i": 2**62, "d": 0.5, "t": "x"})
    row = con.execute(
        "SELECT kleene_get_bool('1:1', 'b'), kleene_get_bigint('1:1', 'i'), kleene_get_double('1:1', 'd'), kleene_get_text('1:1', 't')"
    ).fetchone()
    assert row == (True, 2**62, 0.5, "x")


def test_several_arguments_are_one_key(con: duckdb.DuckDBPyConnection, lookups: Lookups) -> None:
    state = site(lookups)
    con.sql("SELECT kleene_get_text('1:1', x, y) FROM (VALUES ('a', 'b'), ('a', NULL)) t(x, y)").fetchall()
    assert list(state.notes) == [("a", "b")]


def test_ready_tells_known_from_missing(con: duckdb.DuckDBPyConnection, lookups: Lookups) -> None:
    state = site(lookups, answers={"a": None})
    rows = con.sql("SELECT kleene_ready('1:1', x) FROM (VALUES ('a'), ('b'), (NULL)) t(x)").fetchall()
    assert rows == [(True,), (False,), (True,)]
    assert list(state.notes) == ["b"]


def test_a_watched_run_keeps_what_it_looked_up(con: duckdb.DuckDBPyConnection, lookups: Lookups) -> None:
    state = site(lookups, answers={"a": "A"})
    state.begin_run(watch=True)
    con.sql("SELECT kleene_get_text('1:1', x) FROM (VALUES ('a'), ('b')) t(x)").fetchall()
    assert state.seen >= {"a", "b"}


def test_a_site_whose_statement_ended_says_so(con: duckdb.DuckDBPyConnection, lookups: Lookups) -> None:
    state = site(lookups)
    lookups.close([state])
    with pytest.raises(duckdb.Error, match="call site 1:1 belongs to a statement that has ended"):
        con.sql("SELECT kleene_get_text('1:1', x) FROM (VALUES ('a'), ('b')) t(x)").fetchall()


def test_on_demand_asks_the_distinct_unknown_keys_of_a_vector(con: duckdb.DuckDBPyConnection, lookups: Lookups) -> None:
    asked: list[list[Key]] = []

    def ask(state: SiteAnswers, keys: list[Key]) -> None:
        asked.append(keys)
        state.answers.update((k, str(k).upper()) for k in keys)

    site(lookups, ask=ask, answers={"k": "known"})
    sql = "SELECT kleene_call_text('1:1', x) FROM (VALUES ('a'), ('k'), ('a'), (NULL), ('b')) t(x)"
    assert con.sql(sql).fetchall() == [("A",), ("known",), ("A",), (None,), ("B",)]
    assert asked == [["a", "b"]]


def test_a_row_by_row_call_is_made_for_every_row_and_occurrence(
    con: duckdb.DuckDBPyConnection, lookups: Lookups
) -> None:
    asked: list[Key] = []

    def ask(state: SiteAnswers, keys: list[Key]) -> None:
        asked.extend(keys)
        state.answers.update((k, str(len(asked))) for k in keys)

    site(lookups, ask=ask)
    con.sql("SELECT kleene_row_text('1:1', x), kleene_row_text('1:1', x) FROM (VALUES ('a'), ('a')) t(x)").fetchall()
    assert len(asked) == 4
    assert len({k[0] for k in asked}) == 4


def test_names_of_a_second_engine_on_the_instance_are_its_own(con: duckdb.DuckDBPyConnection, lookups: Lookups) -> None:
    other = Lookups()
    second = Registration(con, other)
    assert second.suffix == "_2"
    other.open([SiteAnswers("1:1", answers={"a": "second"})])
    site(lookups, answers={"a": "first"})
    row = con.execute("SELECT kleene_get_text('1:1', 'a'), kleene_get_text_2('1:1', 'a')").fetchone()
    assert row == ("first", "second")
    second.close()


class Slow:
    """A connection whose cursors tell before they remove a function."""

    def __init__(self, con: duckdb.DuckDBPyConnection, on_remove: Callable[[], None]):
        self._con = con
        self._on_remove = on_remove

    def cursor(self) -> Slow:
        return Slow(self._con.cursor(), self._on_remove)

    def remove_function(self, name: str) -> None:
        self._on_remove()
        self._con.remove_function(name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._con, name)


def test_an_engine_may_open_at_any_moment_while_another_closes() -> None:
    suffixes = []
    with duckdb.connect() as con:

        def open_another() -> None:
            between = Registration(con, Lookups())
            suffixes.append(between.suffix)
            between.close()

        closing = Registration(Slow(con, open_another), Lookups())  # type: ignore[arg-type]
        closing.close()
        assert len(suffixes) > 10
        assert set(suffixes) == {"_2"}
        assert con.execute(NAMES).fetchone() == (0,)


def test_a_suffix_of_which_a_name_is_taken_is_passed_over_and_left_as_it_is() -> None:
    with duckdb.connect() as con:
        other = Registration(con, Lookups())
        con.create_function(
            "kleene_row_text_2",
            functools.partial(Lookups().each_row, Carrier.TEXT),
            None,
            duckdb.sqltypes.VARCHAR,
            type=PythonUDFType.ARROW,
        )
        registration = Registration(con, Lookups())
        assert registration.suffix == "_3"
        registration.close()
        other.close()
        assert con.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_name LIKE 'kleene%'"
        ).fetchall() == [("kleene_row_text_2",)]


def test_engines_that_open_and_close_at_once_leave_each_other_alone() -> None:
    with duckdb.connect() as con:

        def come_and_go(_: int) -> None:
            with con.cursor() as own:
                for _ in range(5):
                    Registration(own, Lookups()).close()

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(come_and_go, range(8)))
        assert con.execute(NAMES).fetchone() == (0,)


# -- rounds --------------------------------------------------------------------------------------------------------------------------------

COUNTING = """
    WITH RECURSIVE t(i) AS (
        SELECT 1 UNION ALL SELECT unnest([i + 1, i + 1]) FROM t WHERE i < {depth} AND (SELECT kleene_round('1:r', count(*)) FROM t)
    ) SELECT count(*) FROM t
"""


def count(con: duckdb.DuckDBPyConnection, depth: int = 6) -> int:
    row = con.execute(COUNTING.format(depth=depth)).fetchone()
    assert row is not None
    return int(row[0])


def test_each_round_is_told_with_its_delta(con: duckdb.DuckDBPyConnection, lookups: Lookups) -> None:
    told: list[tuple[int, int, int]] = []
    lookups.open_rounds([RoundCounter("1:r", "t", cap=100, report=lambda *r: told.append(r))])
    assert count(con, depth=4) == 15
    assert told == [(1, 1, 1), (2, 2, 3), (3, 4, 7), (4, 8, 15)]


def test_maxrecursion_ends_after_so_many_rounds(con: duckdb.DuckDBPyConnection, lookups: Lookups) -> None:
    counter = RoundCounter("1:r", "t", cap=100, rounds=2)
    lookups.open_rounds([counter])
    assert count(con) == 1 + 2 + 4
    counter.begin_run()
    assert count(con) == 1 + 2 + 4


def test_the_cap_is_an_error_that_names_the_round_and_the_frontier(
    con: duckdb.DuckDBPyConnection, lookups: Lookups
) -> None:
    errors: list[KleeneError] = []
    lookups.open_rounds([RoundCounter("1:r", "t", cap=3, failed=errors.append)])
    with pytest.raises(duckdb.Error):
        count(con)
    assert isinstance(errors[0], PlanError)
    assert str(errors[0]) == "t was not done after 3 rounds: round 4 would start from 8 rows, 15 so far"
    assert errors[0].hint == "add a condition that ends it, MAXRECURSION n for n rounds, or SET recursion_limit = n"


def test_a_cancel_stops_between_rounds(con: duckdb.DuckDBPyConnection, lookups: Lookups) -> None:
    counter = RoundCounter("1:r", "t", cap=100)

    def check() -> None:
        if counter.number == 2:
            raise Cancelled("cancelled")

    counter.check = check
    lookups.open_rounds([counter])
    with pytest.raises(duckdb.Error, match="cancelled"):
        count(con)
    assert counter.number == 2


def test_rounds_of_a_statement_that_ended_produce_nothing(con: duckdb.DuckDBPyConnection, lookups: Lookups) -> None:
    counter = RoundCounter("1:r", "t", cap=100)
    lookups.open_rounds([counter])
    lookups.close_rounds([counter])
    assert count(con) == 1
