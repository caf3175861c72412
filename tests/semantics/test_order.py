"""The rule ``order``: rows are the truth's, calls stay near those of the best order, and are the same whenever a statement is run."""

from __future__ import annotations

import itertools
import random
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kleene.planner.errors import Refused
from kleene.udfs.routes import FEW, PILOT
from tests.semantics.world import World, keyed

NAMES = ("f", "g", "q")


def drawn(name: str, argument: str) -> int:
    """A number from 0 to 99 that belongs to a call."""
    return zlib.crc32(f"{name} {argument}".encode()) // 7 % 100


class Rates:
    """Answers that are true for given shares of the arguments, and unknown for one in fifty."""

    def __init__(self) -> None:
        self.percent = dict.fromkeys(NAMES, 50)

    def answers(self) -> dict[str, Callable[[str], object]]:
        return {name: self._answer(name) for name in NAMES}

    def _answer(self, name: str) -> Callable[[str], object]:
        return lambda argument: None if drawn("?" + name, argument) < 2 else drawn(name, argument) < self.percent[name]


@pytest.fixture(scope="module")
def rates() -> Rates:
    return Rates()


@pytest.fixture(scope="module")
def world(rates: Rates) -> Iterator[World]:
    with World(answers=rates.answers()) as made:
        yield made


@attrs.frozen
class Conditions:
    """Conditions ``name(column)``, some denied, joined by AND or OR, over ``rows`` rows of which each column has so many distinct values."""

    rows: int
    parts: tuple[tuple[str, int, bool], ...]
    joined: str
    percent: tuple[int, ...]

    def tables(self) -> str:
        columns = ", ".join(f"'{name}' || (i * 7919 % {values}) AS c{name}" for name, values, _ in self.parts)
        return f"CREATE OR REPLACE TABLE t AS SELECT i, {columns} FROM range({self.rows}) r(i)"

    def sql(self) -> str:
        written = [f"{'NOT ' * denied}{name}(c{name})" for name, _, denied in self.parts]
        return f"SELECT i FROM t WHERE {f' {self.joined} '.join(written)}"

    def arguments(self, row: int) -> list[str]:
        return [f"{name}{row * 7919 % values}" for name, values, _ in self.parts]

    def calls(self, order: Sequence[int], outcome: Callable[[str, str], object]) -> int:
        """The distinct calls of rows taken one at a time, the conditions in this order, with short circuit."""
        asked = set()
        for row in range(self.rows):
            arguments = self.arguments(row)
            for part in order:
                name, _, denied = self.parts[part]
                asked.add((name, arguments[part]))
                value = outcome(name, arguments[part])
                if (value is not None and value is not denied) is (self.joined == "OR"):
                    break
        return len(asked)


@st.composite
def conditions(draw: st.DrawFn) -> Conditions:
    rows = draw(st.sampled_from([0, 1, 30, 150, 500]))
    names = draw(st.permutations(NAMES))[: draw(st.integers(2, 3))]
    parts = tuple(
        (name, draw(st.sampled_from([max(1, rows), max(1, rows // 3), 5])), draw(st.booleans())) for name in names
    )
    percent = tuple(draw(st.sampled_from([0, 5, 33, 50, 95, 100])) for _ in names)
    return Conditions(rows, parts, draw(st.sampled_from(["AND", "OR"])), percent)


@given(case=conditions())
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_calls_stay_near_those_of_the_best_order(world: World, rates: Rates, case: Conditions) -> None:
    rates.percent.update({name: p for (name, _, _), p in zip(case.parts, case.percent, strict=True)})
    world.setup(case.tables())
    seen = world.kleene(case.sql())
    assert Counter(keyed(seen.rows)) == Counter(keyed(world.true(case.sql())))
    orders = list(itertools.permutations(range(len(case.parts))))
    best = min(case.calls(order, world.outcome) for order in orders)
    worst = max(case.calls(order, world.outcome) for order in orders)
    assert seen.count() <= 1.2 * best + FEW * (len(case.parts) - 1)
    assert seen.count() <= worst + PILOT * len(case.parts)


@pytest.fixture
def wide(world: World, rates: Rates) -> World:
    """1,000 rows; f is true for 33 %, g for 5 %, q for 50 %."""
    rates.percent.update(f=33, g=5, q=50)
    world.setup(
        "CREATE OR REPLACE TABLE t AS SELECT i, 'v' || i AS v, i % 100 = 0 AS cheap FROM range(1000) r(i)",
        "CREATE OR REPLACE TABLE log (i BIGINT)",
    )
    return world


def test_the_condition_that_drops_more_is_asked_first(wide: World) -> None:
    seen = wide.check("SELECT i FROM t WHERE f(v) AND g(v)")
    assert 1000 <= seen.count() <= 1085
    assert wide.kleene("SELECT i FROM t WHERE f(v) AND g(v)", off=["order"]).count() > 1300


def test_an_order_that_is_the_best_as_written_costs_next_to_nothing(wide: World) -> None:
    written = wide.kleene("SELECT i FROM t WHERE g(v) AND f(v)", off=["order"]).count()
    assert wide.check("SELECT i FROM t WHERE g(v) AND f(v)").count() <= written + PILOT


def test_few_rows_add_no_run(wide: World) -> None:
    def runs(sql: str) -> int:
        result = wide.engine.sql(sql)
        wide.engine.services.trace.flush()
        found = wide.engine.sql(
            f"SELECT count(*) FROM trace_runs_of_statement WHERE statement = '{result.statement_id}'"
        )
        return int(found.fetchall()[0][0])

    written = "SELECT i FROM t WHERE i < 40 AND f(v) AND g(v)"
    with_order = runs(written)
    wide.engine.sql("SET rules.order = off")
    try:
        assert with_order <= runs(written)
    finally:
        wide.engine.sql("RESET rules.order")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT i FROM fewer WHERE f(v) AND g(v)",
        "SELECT i FROM fewer WHERE f(v) AND g(v) AND q('n' || (i % 50))",
        "SELECT i, h(v) FROM fewer WHERE (f(v) OR g(v)) AND q('n' || (i % 300)) ORDER BY i LIMIT 6",
        "SELECT i FROM (SELECT * FROM fewer WHERE q(v)) r WHERE f(v) AND g('n' || (i % 200))",
    ],
)
def test_the_same_calls_whichever_answer_comes_first(wide: World, sql: str) -> None:
    wide.setup("CREATE OR REPLACE TABLE fewer AS SELECT * FROM t WHERE i < 400")
    asked = []
    answers = dict(wide.answers)
    try:
        for seed in (1, 2):
            delays = random.Random(seed)

            def late(name: str, delays: random.Random = delays) -> Callable[[str], object]:
                def value(argument: str) -> object:
                    time.sleep(delays.random() / 2000)
                    return answers[name](argument)

                return value

            wide.answers.update({name: late(name) for name in NAMES})
            asked.append(set(wide.kleene(sql).calls))
    finally:
        wide.answers.update(answers)
    assert asked[0] == asked[1]


def test_a_limit_learns_the_order_as_its_waves_come_in(wide: World) -> None:
    sql = "SELECT i FROM t WHERE f(v) AND g(v) ORDER BY i LIMIT 5"
    written = wide.kleene(sql, off=["order"]).count()
    assert wide.check(sql, ordered=True).count() < written


def test_an_exists_learns_the_order(wide: World) -> None:
    sql = "SELECT EXISTS (SELECT 1 FROM t WHERE q(v) AND f(v) AND g(v)), NOT EXISTS (SELECT 1 FROM t WHERE f('n' || v) AND g('n' || v))"
    wide.check(sql)


@pytest.mark.parametrize(
    ("sql", "most"),
    [
        ("SELECT DISTINCT i % 7 FROM t WHERE f(v) AND q('c' || i % 20) LIMIT 2", 60),
        ("SELECT i FROM t WHERE cheap AND f(v) AND q(v) UNION ALL SELECT i FROM t WHERE f(v) OR q(v) LIMIT 5", 40),
        ("SELECT t.i FROM t, t AS u WHERE t.i < 40 AND u.i < 40 AND h(t.v) = h(u.v) AND f(t.v || u.v) LIMIT 5", 40),
        ("SELECT DISTINCT t.v FROM t JOIN t AS u ON t.i = u.i WHERE q('a') AND f(t.v) AND f(u.v) LIMIT 5", 60),
    ],
    ids=["DISTINCT", "UNION ALL", "labels of pairs", "a condition below a join"],
)
def test_a_limit_of_any_kind_asks_no_more_for_an_order(wide: World, sql: str, most: int) -> None:
    ours, written = wide.kleene(sql), wide.kleene(sql, off=["order"])
    query, _, limit = sql.rpartition(" LIMIT ")
    whole = Counter(keyed(wide.true(query)))
    assert not Counter(keyed(ours.rows)) - whole
    assert len(ours.rows) == len(written.rows) == min(int(limit), whole.total())
    assert ours.count() <= max(written.count(), most)


def test_what_is_remembered_is_evidence(wide: World) -> None:
    wide.engine.sql("SET memo = on")
    try:
        wide.kleene("SELECT count(*) FROM t WHERE g(v)")
        seen = wide.kleene("SELECT i FROM t WHERE f(v) AND g(v)")
    finally:
        wide.engine.sql("SET memo = off")
    unknown = wide.true("SELECT count(*) FROM t WHERE g(v) IS NULL")[0][0]  # these are not remembered
    assert seen.count("g") <= unknown
    assert seen.count("f") <= len(wide.true("SELECT i FROM t WHERE g(v)")) + unknown


def test_a_condition_that_guards_another_is_not_overtaken(wide: World) -> None:
    """``q`` says which texts are numbers: the cast fails on the others, so the order as written is the only one."""
    wide.setup(
        "CREATE OR REPLACE TABLE mixed AS SELECT i, CASE WHEN i % 2 = 0 THEN i::TEXT ELSE 'no' END AS v FROM range(300) r(i)"
    )
    own = wide.answers["q"]
    wide.answers["q"] = str.isdigit
    try:
        seen = wide.kleene("SELECT i FROM mixed WHERE q(v) AND g(CAST(CAST(v AS INTEGER) + 1 AS TEXT))")
        assert seen.rows == wide.true("SELECT i FROM mixed WHERE i % 2 = 0 AND g((i + 1)::TEXT)")
    finally:
        wide.answers["q"] = own


def test_writes_wait_for_every_answer(wide: World) -> None:
    wide.kleene("INSERT INTO log SELECT i FROM t WHERE f(v) AND g(v)")
    wanted = wide.true("SELECT i FROM t WHERE f(v) AND g(v)")
    assert wide.con.execute("SELECT i FROM log").fetchall() == wanted
    wide.kleene("DELETE FROM log WHERE q(i::TEXT) AND f(i::TEXT)")
    left = {(i,) for (i,) in wanted} - set(
        wide.true("SELECT i FROM t WHERE f(v) AND g(v) AND q(i::TEXT) AND f(i::TEXT)")
    )
    assert set(wide.con.execute("SELECT i FROM log").fetchall()) == left


def test_a_transaction_of_the_user_keeps_the_written_order(wide: World) -> None:
    written = wide.kleene("SELECT i FROM t WHERE i < 300 AND f(v) AND g(v)", off=["order"])
    wide.con.execute("BEGIN")
    try:
        assert set(wide.kleene("SELECT i FROM t WHERE i < 300 AND f(v) AND g(v)").calls) == set(written.calls)
    finally:
        wide.con.execute("COMMIT")


def test_arguments_that_change_are_noticed_whatever_the_order(wide: World) -> None:
    counter = itertools.count()
    wide.con.create_function("tick", lambda i: f"{i} {next(counter)}", ["BIGINT"], "VARCHAR")
    try:
        seen = wide.kleene("SELECT i FROM t WHERE i < 200 AND f(v) AND g(tick(i))")
    finally:
        wide.con.remove_function("tick")
    assert any("arguments change from run to run" in warning for warning in seen.warnings)


def test_a_budget_that_cannot_pay_for_all_refuses_before_the_pilot(wide: World) -> None:
    wide.engine.sql("SET statement.calls = 500")
    try:
        with pytest.raises(Refused, match="1000 calls"):
            wide.kleene("SELECT i FROM t WHERE f(v) AND g(v)")
        assert not wide.asked
    finally:
        wide.engine.sql("RESET statement.calls")


def test_explain_tells_the_order_and_what_it_rests_on(wide: World) -> None:
    def lines(sql: str) -> list[str]:
        return [row[0] for row in wide.engine.sql(sql).fetchall() if row[0].startswith("order: ")]

    assert lines("EXPLAIN SELECT i FROM t WHERE f(v) AND g(v)") == [
        "order: #1, then #2  (until 24 arguments of each show their pass rates)"
    ]
    assert lines("EXPLAIN SELECT i FROM t WHERE f(v) AND g('n' || (i % 10))") == [
        "order: #2, then #1  (by 10 and 1000 arguments; pass rates are not known before)"
    ]
    assert lines("EXPLAIN SELECT i FROM t WHERE f(v) AND g(v) LIMIT 3") == [
        "order: #1, then #2  (until answers show their pass rates)"
    ]
    (found,) = lines("EXPLAIN ANALYZE SELECT i FROM t WHERE f(v) AND g(v)")
    assert found.startswith("order: #2 (") and ", then #1 (" in found and "rows pass)" in found


@attrs.frozen
class Joined:
    """Three relations of so many rows, joined by equality or not at all, with a condition on each of the given columns."""

    rows: tuple[int, int, int]
    equal: tuple[bool, bool]
    conditions: tuple[tuple[str, str], ...]
    percent: tuple[int, ...]

    def tables(self) -> list[str]:
        return [
            f"CREATE OR REPLACE TABLE {name} AS SELECT i AS k, '{name}' || i AS v FROM range({rows}) r(i)"
            for name, rows in zip("abc", self.rows, strict=True)
        ]

    def pure(self) -> str:
        joins = [f"{left}.k = {right}.k" for (left, right), on in zip(("ab", "bc"), self.equal, strict=True) if on]
        return " AND ".join(["true", *joins])

    def sql(self) -> str:
        written = [f"{name}({' || '.join(f'{r}.v' for r in over)})" for name, over in self.conditions]
        return f"SELECT a.k, b.k, c.k FROM a, b, c WHERE {' AND '.join(written)} AND {self.pure()}"

    def calls(self, order: Sequence[int], outcome: Callable[[str, str], object]) -> int:
        """The distinct calls of the rows of all joins without calls, the conditions in this order, with short circuit."""
        asked = set()
        for row in itertools.product(*map(range, self.rows)):
            if any(on and row[i] != row[i + 1] for i, on in enumerate(self.equal)):
                continue
            for number in order:
                name, over = self.conditions[number]
                argument = "".join(f"{r}{row['abc'.index(r)]}" for r in over)
                asked.add((name, argument))
                if outcome(name, argument) is not True:
                    break
        return len(asked)


@st.composite
def joins(draw: st.DrawFn) -> Joined:
    names = draw(st.permutations(NAMES))[: draw(st.integers(2, 3))]
    over = [draw(st.sampled_from(["a", "b", "c", "ab", "bc", "ac"])) for _ in names]
    return Joined(
        tuple(draw(st.sampled_from([0, 3, 12])) for _ in "abc"),  # type: ignore[arg-type]
        (draw(st.booleans()), draw(st.booleans())),
        tuple(zip(names, over, strict=True)),
        tuple(draw(st.sampled_from([5, 33, 95])) for _ in names),
    )


@given(case=joins())
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_over_joins_calls_stay_near_those_of_the_best_order(world: World, rates: Rates, case: Joined) -> None:
    rates.percent.update({name: p for (name, _), p in zip(case.conditions, case.percent, strict=True)})
    world.setup(*case.tables())
    seen = world.kleene(case.sql())
    assert Counter(keyed(seen.rows)) == Counter(keyed(world.true(case.sql())))
    counts = [case.calls(order, world.outcome) for order in itertools.permutations(range(len(case.conditions)))]
    assert seen.count() <= 1.2 * min(counts) + FEW * (len(case.conditions) - 1)
    assert seen.count() <= max(counts) + PILOT * len(case.conditions)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT t.i, u.i FROM t JOIN u ON f(t.a || u.b) WHERE q(t.a)",
        "SELECT t.i, u.i FROM t JOIN u ON f(t.a || u.b) AND q(t.a)",
        "SELECT s.i, u.i FROM (SELECT * FROM t WHERE q(a)) s JOIN u ON f(s.a || u.b)",
    ],
)
def test_a_call_in_on_is_ordered_like_one_of_where(sql: str) -> None:
    setup = (
        "CREATE TABLE t AS SELECT i, 'a' || i AS a FROM range(20) r(i)",
        "CREATE TABLE u AS SELECT i, 'b' || i AS b FROM range(5) r(i)",
    )
    few = {"q": lambda argument: drawn("q", argument) < 20, "f": lambda argument: drawn("f", argument) < 50}
    with World(setup, few) as world:
        seen = world.kleene(sql)
        assert Counter(keyed(seen.rows)) == Counter(keyed(world.true(sql)))
        passing = sum(drawn("q", f"a{i}") < 20 for i in range(20))
        assert seen.count() == 20 + 5 * passing
