"""kleene.udfs.routes: what a row needs next, in which order, and what a run told by DuckDB makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from kleene.planner.callplan import Formula, RouteSpec, Unit
from kleene.udfs.lookups import Lookups, SiteAnswers
from kleene.udfs.register import Registration
from kleene.udfs.routes import FEW, PILOT, WAVE, Asked, Route, next_unit, verdict

ROUTE = "kleene_route('1:o1', '', '', kleene_lack('1:1', x), kleene_peek_bool('1:1', x), kleene_lack('1:2', y), kleene_peek_bool('1:2', y))"
AND: Formula = ("and", (0, 1))
OR: Formula = ("or", (0, 1))
TREE: Formula = ("or", (("and", (0, 1)), 2))


class Session:
    """Two sites and one route over them, on a DuckDB connection."""

    def __init__(self, con: duckdb.DuckDBPyConnection, lookups: Lookups, formula: Formula = AND):
        self.con = con
        self.sites = {n: SiteAnswers(f"1:{n}") for n in (1, 2)}
        spec = RouteSpec(1, (Unit((1,), lambda: "f(x)"), Unit((2,), lambda: "g(y)")), formula)
        self.route = Route("1:o1", 2, spec=spec, sites=self.sites)
        lookups.open(list(self.sites.values()))
        lookups.open_routes([self.route])

    def run(self, rows: str) -> list[Any]:
        self.route.begin_run()
        return [row[0] for row in self.con.sql(f"SELECT {ROUTE} FROM ({rows}) t(x, y)").fetchall()]

    def choose(self, **out: set[str]) -> list[Asked]:
        self.route.survey()
        return self.route.choose({f"1:{name[1:]}": set(keys) for name, keys in out.items()}, early=True)

    def answer(self, site: int, passes: int, asked: list[Asked]) -> None:
        """The keys ``k<i>`` with i % 100 below ``passes`` are true."""
        for one in asked:
            if one.site == f"1:{site}":
                self.sites[site].answers.update((k, int(str(k)[1:]) % 100 < passes) for k in one.keys)


@pytest.fixture
def lookups() -> Lookups:
    return Lookups()


@pytest.fixture
def con(lookups: Lookups) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        registration = Registration(con, lookups)
        yield con
        registration.close()


def keys(rows: int) -> str:
    return f"SELECT 'k' || i, 'k' || (i * 37 % {rows}) FROM range({rows}) r(i)"


@pytest.mark.parametrize(
    ("formula", "known", "expected"),
    [
        (AND, (0, 2), 2),
        (AND, (0, 1), 0),
        (AND, (1, 1), 1),
        (OR, (0, 1), 1),
        (OR, (0, 2), 0),
        (OR, (2, 2), 2),
        (TREE, (0, 2, 0), 0),
        (TREE, (0, 2, 2), 2),
        (TREE, (1, 1, 0), 1),
    ],
)
def test_a_formula_is_decided_by_what_is_known(formula: Formula, known: tuple[int, ...], expected: int) -> None:
    assert verdict(formula, known) == expected


def test_the_next_operand_is_the_first_open_one_of_an_open_part() -> None:
    assert next_unit(TREE, (0, 2, 0)) == 2
    assert next_unit(TREE, (1, 0, 0)) == 1
    assert next_unit(("and", (1, 0)), (0, 0)) == 1


def test_known_answers_decide_and_null_arguments_are_not_true(con: duckdb.DuckDBPyConnection, lookups: Lookups) -> None:
    session = Session(con, lookups)
    session.sites[1].answers = {"a": True, "b": False, "c": None}
    session.sites[2].answers = {"a": True}
    rows = session.run("VALUES ('a', 'a'), ('b', 'z'), ('c', 'z'), (NULL, 'z'), ('a', 'z')")
    assert rows == [True, False, False, False, None]
    assert session.route.wanted() == [Asked("1:2", ["z"])]
    assert not any(site.notes for site in session.sites.values())


def test_few_rows_are_asked_in_the_written_order_without_a_pilot(
    con: duckdb.DuckDBPyConnection, lookups: Lookups
) -> None:
    session = Session(con, lookups)
    session.run(keys(FEW))
    assert [(a.site, len(a.keys)) for a in session.choose()] == [("1:1", FEW)]


def test_a_pilot_takes_other_rows_for_each_operand(con: duckdb.DuckDBPyConnection, lookups: Lookups) -> None:
    session = Session(con, lookups)
    session.run(keys(2000))
    asked = session.choose()
    assert [(a.site, len(a.keys)) for a in asked] == [("1:1", PILOT), ("1:2", PILOT)]
    first = {str(k) for k in asked[0].keys}
    rows = dict(con.sql(keys(2000)).fetchall())
    assert not {rows[x] for x in first} & set(asked[1].keys)


def test_while_the_pilot_is_out_nothing_else_is_asked(con: duckdb.DuckDBPyConnection, lookups: Lookups) -> None:
    session = Session(con, lookups)
    session.run(keys(2000))
    asked = session.choose()
    session.answer(1, 90, asked)
    session.run(keys(2000))
    assert session.choose(s2=set(asked[1].keys)) == []


def test_after_the_pilot_the_better_operand_is_asked_in_a_wave_and_then_all(
    con: duckdb.DuckDBPyConnection, lookups: Lookups
) -> None:
    session = Session(con, lookups)
    session.run(keys(2000))
    calls = 0
    waves = []
    asked = session.choose()
    while asked:
        calls += sum(len(a.keys) for a in asked)
        waves.append({a.site: len(a.keys) for a in asked})
        session.answer(1, 90, asked)
        session.answer(2, 5, asked)
        session.run(keys(2000))
        asked = session.choose() if session.route.undecided else []
    assert session.route.formula == ("and", (1, 0))
    assert WAVE <= waves[1]["1:2"] <= WAVE + PILOT  # the pilot's rows go on meanwhile
    assert calls <= 2000 + 100 + 2 * PILOT
    assert session.route.found_order().startswith("order: #2 (5 % of ")


def test_an_or_asks_first_what_is_true_more_often(con: duckdb.DuckDBPyConnection, lookups: Lookups) -> None:
    session = Session(con, lookups, OR)
    session.run(keys(2000))
    asked = session.choose()
    session.answer(1, 5, asked)
    session.answer(2, 90, asked)
    session.run(keys(2000))
    session.choose()
    assert session.route.formula == ("or", (1, 0))


def test_a_row_whose_answer_is_out_asks_for_nothing_else(con: duckdb.DuckDBPyConnection, lookups: Lookups) -> None:
    session = Session(con, lookups)
    session.run("VALUES ('a', 'b'), ('c', 'd')")
    assert session.choose(s1={"a"}) == [Asked("1:1", ["c"])]


def test_a_small_question_looks_up_few_tokens(con: duckdb.DuckDBPyConnection, lookups: Lookups) -> None:
    """Each question is put often: it must not walk through all that the statement has looked at."""

    class NoWalk(dict[Any, int]):
        def items(self) -> Any:
            raise AssertionError("all tokens were walked through")

        __iter__ = items

    session = Session(con, lookups)
    for site in session.sites.values():
        site.tokens = NoWalk()
    session.run("SELECT 'k' || i, 'k' || i FROM range(50) t(i)")
    asked = session.choose()
    assert [len(one.keys) for one in asked] == [50]
    session.answer(1, 10, asked)
    session.run("SELECT 'k' || i, 'k' || i FROM range(50) t(i)")
    assert session.choose() == [Asked("1:2", [f"k{i}" for i in range(10)])]
