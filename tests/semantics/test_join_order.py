"""The rule ``join_order``: rows are the truth's, and calls those that the whole product would make in the order that was chosen."""

from __future__ import annotations

import itertools
import json
import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kleene.planner.joining import JoinSpec
from kleene.planner.joinspace import LIKE, MAX_SEARCHED, Condition, Part, Search
from kleene.planner.rules.join_order import FEW, SAMPLE
from tests.semantics.world import World, keyed

RELATIONS = "abcd"
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
        made.engine.sql("SET measure_ms = 60_000")  # a busy machine must not stop the count
        yield made


@attrs.frozen
class Joined:
    """Relations of so many rows with so many distinct values (one of them NULL where ``nulls``), equalities between some neighbours, and
    conditions over some relations."""

    rows: tuple[int, ...]
    values: tuple[int, ...]
    nulls: bool
    equal: tuple[bool, ...]
    conditions: tuple[tuple[str, str], ...]
    percent: tuple[int, ...]

    def value(self, relation: int, row: int) -> str | None:
        number = row % self.values[relation]
        return None if self.nulls and number == 1 else f"{RELATIONS[relation]}{number}"

    def tables(self) -> list[str]:
        made = []
        for i, rows in enumerate(self.rows):
            listed = ", ".join(
                f"({row}, {'NULL' if (v := self.value(i, row)) is None else repr(v)})" for row in range(rows)
            )
            body = f"SELECT * FROM (VALUES {listed}) r(k, v)" if rows else "SELECT 0 AS k, '' AS v WHERE false"
            made.append(f"CREATE OR REPLACE TABLE {RELATIONS[i]} AS {body}")
        return made

    def sql(self) -> str:
        names = RELATIONS[: len(self.rows)]
        joins = [f"{a}.k = {b}.k" for (a, b), on in zip(itertools.pairwise(names), self.equal, strict=True) if on]
        calls = [f"{name}({' || '.join(f'{r}.v' for r in over)})" for name, over in self.conditions]
        shown = ", ".join(f"{n}.k, {n}.v" for n in names)
        return f"SELECT {shown} FROM {', '.join(names)} WHERE {' AND '.join([*calls, *joins])}"

    def calls(self, order: Sequence[int], outcome: Callable[[str, str], object]) -> int:
        """The distinct calls of the rows of the whole product, the conditions in this order, with short circuit."""
        asked = set()
        for row in itertools.product(*map(range, self.rows)):
            if any(on and row[i] != row[i + 1] for i, on in enumerate(self.equal)):
                continue
            for number in order:
                name, over = self.conditions[number]
                values = [self.value(RELATIONS.index(r), row[RELATIONS.index(r)]) for r in over]
                if None in values:
                    break
                argument = "".join(v or "" for v in values)
                asked.add((name, argument))
                if outcome(name, argument) is not True:
                    break
        return len(asked)


@st.composite
def joins(draw: st.DrawFn) -> Joined:
    count = draw(st.integers(2, 4))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    over = st.lists(st.sampled_from(RELATIONS[:count]), min_size=1, max_size=min(3, count), unique=True).map(
        lambda found: "".join(sorted(found))
    )
    return Joined(
        tuple(draw(st.sampled_from([0, 1, 3, 6])) for _ in range(count)),
        tuple(draw(st.sampled_from([2, 6])) for _ in range(count)),
        draw(st.booleans()),
        tuple(draw(st.sampled_from([False, False, True])) for _ in range(count - 1)),
        tuple((name, draw(over)) for name in names),
        tuple(draw(st.sampled_from([0, 5, 50, 95, 100])) for _ in names),
    )


@given(case=joins())
@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_calls_are_those_of_the_whole_product_in_the_order_that_is_told(
    world: World, rates: Rates, case: Joined
) -> None:
    rates.percent.update({name: p for (name, _), p in zip(case.conditions, case.percent, strict=True)})
    world.setup(*case.tables())
    truth = Counter(keyed(world.true(case.sql())))
    seen = world.kleene(case.sql())
    assert Counter(keyed(seen.rows)) == truth
    counts = {o: case.calls(o, world.outcome) for o in itertools.permutations(range(len(case.conditions)))}
    assert seen.count() <= 1.2 * min(counts.values()) + FEW * (len(case.conditions) - 1)
    assert seen.count() <= max(counts.values())
    staged = world.kleene(case.sql(), off=["order"])
    assert Counter(keyed(staged.rows)) == truth
    found = world.engine.explain(case.sql()).joins
    if found:
        assert staged.count() == counts[found[0].order.conditions]
        assert seen.count() == staged.count() or _shares_a_part(found[0])


def _shares_a_part(join: JoinSpec) -> bool:
    """Some conditions are asked together, where ``order`` chooses."""
    read = [set(join.conditions[c].relations) for c in join.order.conditions]
    return any(later <= set().union(*read[:n]) for n, later in enumerate(read) if n)


# -- what it saves -------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def chain(world: World, rates: Rates) -> World:
    """Three tables of 20 rows."""
    rates.percent.update(f=30, g=30, q=50)
    world.setup(*(f"CREATE OR REPLACE TABLE {r} AS SELECT i AS k, '{r}' || i AS v FROM range(20) r(i)" for r in "abc"))
    return world


def test_twenty_rows_thrice_with_two_conditions_make_at_most_sixty_calls(chain: World) -> None:
    seen = chain.check("SELECT a.k, b.k, c.k FROM a, b, c WHERE f(a.v) AND g(b.v || c.v) AND b.k = c.k")
    assert 20 < seen.count() <= 60


def test_the_whole_product_is_never_made(world: World, rates: Rates) -> None:
    """600 rows thrice are 216,000,000 combinations; the conditions look at 3,600."""
    rates.percent.update(f=2, g=2, q=50)
    world.setup(
        *(f"CREATE OR REPLACE TABLE {r} AS SELECT i AS k, '{r}' || i % 6 AS v FROM range(600) r(i)" for r in "abc")
    )
    (join,) = world.engine.explain("SELECT count(*) FROM a, b, c WHERE f(a.v) AND g(b.v) AND q(c.v)").joins
    assert join.order.rows < 5000
    seen = world.kleene("SELECT count(*) FROM a, b, c WHERE f(a.v) AND g(b.v) AND q(c.v)")
    assert seen.count() <= 18


def test_an_empty_relation_makes_no_call_whatever_stands_before_it(chain: World) -> None:
    chain.check("SELECT a.k FROM a, b, c WHERE f(a.v) AND g(b.v || c.v) AND c.k > 99", least=0)


def test_a_condition_that_leaves_nothing_spares_the_others(chain: World, rates: Rates) -> None:
    rates.percent.update(f=0)
    chain.check("SELECT a.k FROM a, b, c WHERE c.k < 3 AND g(a.v || b.v) AND f(c.v)", least=3)


def test_a_sample_shows_what_counts_cannot(world: World, rates: Rates) -> None:
    """Two rows by 400 by two: whichever condition goes first asks 800; the other one what it leaves."""
    rates.percent.update(f=95, g=3)
    world.setup(
        "CREATE OR REPLACE TABLE a AS SELECT i AS k, 'a' || i AS v FROM range(2) r(i)",
        "CREATE OR REPLACE TABLE b AS SELECT i AS k, 'b' || i AS v FROM range(400) r(i)",
        "CREATE OR REPLACE TABLE c AS SELECT i AS k, 'c' || i AS v FROM range(2) r(i)",
    )
    sql = "SELECT a.k, b.k, c.k FROM a, b, c WHERE f(a.v || b.v) AND g(b.v || c.v)"
    written = world.kleene(sql, off=["join_order", "order"]).count()
    seen = world.check(sql)
    assert seen.count() <= 860 + 2 * SAMPLE < 0.7 * written
    (line,) = [row[0] for row in world.engine.sql(f"EXPLAIN ANALYZE {sql}").fetchall() if "join order" in row[0]]
    assert line.startswith("join order: #2 over b, c, then #1 over a, b: ≈ ")
    assert "pass rates #1 9" in line


def test_no_sample_is_asked_that_cannot_pay(world: World, rates: Rates) -> None:
    """100 arguments before 40,000 or after them: whatever passes, the small condition goes first. Without a sample the calls are those of the
    best order exactly."""
    rates.percent.update(f=3, g=50)
    world.setup(
        *(
            f"CREATE OR REPLACE TABLE {r} AS SELECT i AS k, '{r}' || i AS v FROM range({rows}) r(i)"
            for r, rows in (("a", 100), ("b", 200), ("c", 3))
        )
    )
    sql = "SELECT count(*) FROM a, b, c WHERE g(a.v || b.v) AND f(a.v || c.k % 1)"
    (join,) = world.engine.explain(sql).joins
    assert join.sample is None and join.order.conditions == (1, 0)
    passing = sum(world.outcome("f", f"a{i}0") is True for i in range(100))
    world.check(sql, least=100 + 200 * passing)


def test_two_copies_of_a_table_are_not_sampled_as_pairs_of_the_same(world: World) -> None:
    world.setup("CREATE OR REPLACE TABLE a AS SELECT i AS k, 'a' || i AS v FROM range(30) r(i)")
    asked = world.kleene("SELECT count(*) FROM a x, a y, a z WHERE f(x.v || ' ' || y.v) AND g(y.v || ' ' || z.v)").calls
    sample = [argument.split() for name, argument in asked if name == "f"][:SAMPLE]
    assert sum(left == right for left, right in sample) < SAMPLE // 3


# -- where it stands aside -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM a LEFT JOIN b ON a.k = b.k + 5 CROSS JOIN c WHERE f(a.v) AND (g(b.v) OR b.v IS NULL) AND q(c.v)",
        "SELECT v, count(*) FROM a JOIN b USING (v), c WHERE f(c.v) AND g(v) GROUP BY v",
        "SELECT x.v FROM a x JOIN b ON f(x.v || b.v) JOIN c ON g(c.v) WHERE c.k < 4 ORDER BY x.v, b.v, c.v",
        "WITH r AS (SELECT a.k, c.v FROM a, b, c WHERE f(a.v) AND g(b.v || c.v)) SELECT * FROM r UNION ALL SELECT * FROM r",
        "SELECT (SELECT count(*) FROM a, b WHERE f(a.v) AND g(b.v)), c.k FROM c",
        "SELECT c.k, l.k FROM c, LATERAL (SELECT a.k FROM a, b WHERE a.k = c.k AND f(a.v) AND g(b.v)) l",
        "SELECT count(*) FROM a, b, c WHERE (f(a.v) OR g(b.v)) AND NOT q(c.v) AND a.k IN (SELECT k FROM b WHERE k < 7)",
        "SELECT a.k, u.x FROM a, b, unnest([a.k, 7]) u(x) WHERE f(u.x::TEXT) AND g(b.v) AND h(a.v) = 'a'",
        "SELECT a.k FROM a SEMI JOIN b ON a.k = b.k CROSS JOIN c WHERE f(a.v) AND g(c.v)",
        "SELECT max(h(a.v)) OVER (), a.v AS x FROM a, b, c WHERE f(a.v) AND g(b.v) AND q(c.v) QUALIFY row_number() OVER (ORDER BY a.k, b.k, c.k) < 5",
        "(SELECT a.k FROM a, b WHERE f(a.v) AND g(b.v)) EXCEPT SELECT k FROM c ORDER BY 1",
        "SELECT count(*) FROM (SELECT a.k FROM a, b WHERE f(a.v) AND g(b.v) LIMIT 3) r",
    ],
)
def test_blocks_of_all_kinds_keep_their_rows(chain: World, sql: str) -> None:
    assert chain.check(sql).count() <= chain.kleene(sql, off=["join_order"]).count() + FEW


def test_an_error_of_the_order_is_not_the_statements(world: World, rates: Rates) -> None:
    """``q`` says which texts are numbers: the cast fails on the others."""
    world.setup(
        "CREATE OR REPLACE TABLE mixed AS SELECT i AS k, CASE WHEN i % 2 = 0 THEN i::TEXT ELSE 'no' END AS v FROM range(9) r(i)",
        "CREATE OR REPLACE TABLE b AS SELECT i AS k, 'b' || i AS v FROM range(9) r(i)",
    )
    own = world.answers["q"]
    world.answers["q"] = str.isdigit
    try:
        seen = world.kleene(
            "SELECT b.k FROM mixed m, b WHERE q(m.v) AND g(CAST(CAST(m.v AS INTEGER) + 1 AS TEXT)) AND f(b.v)"
        )
    finally:
        world.answers["q"] = own
    wanted = world.true(
        "SELECT b.k FROM mixed m, b WHERE k % 2 = 0 AND g((m.k + 1)::TEXT) AND f(b.v)".replace(" k %", " m.k %")
    )
    assert Counter(seen.rows) == Counter(wanted)


def test_writes_parameters_and_a_transaction(chain: World) -> None:
    sql = "SELECT a.k, b.k AS l, c.k AS m FROM a, b, c WHERE f(a.v) AND g(b.v || c.v)"
    wanted = Counter(chain.true(sql))
    chain.kleene(f"CREATE OR REPLACE TABLE log AS {sql}")
    assert Counter(chain.con.execute("FROM log").fetchall()) == wanted
    chain.kleene(f"INSERT INTO log {sql}")
    assert chain.con.execute("SELECT count(*) FROM log").fetchall() == [(2 * wanted.total(),)]
    found = chain.engine.sql(f"{sql} AND a.k < ?", [9]).fetchall()
    assert Counter(found) == Counter({row: n for row, n in wanted.items() if row[0] < 9})
    chain.con.execute("BEGIN")
    try:
        assert Counter(chain.kleene(sql).rows) == wanted
    finally:
        chain.con.execute("COMMIT")


def test_explain_tells_orders_their_prices_and_the_plan_space(chain: World) -> None:
    sql = "SELECT count(*) FROM a, b, c WHERE g(b.v || c.v) AND f(a.v) AND q(a.v || b.v)"
    lines = [row[0] for row in chain.engine.sql(f"EXPLAIN {sql}").fetchall()]
    assert [line for line in lines if line.startswith(("join order", "plan space"))] == [
        "join order: #2 over a, then #3 over a, b, then #1 over b, c: ≈ 619 calls  "
        "(20, 400 and 400 arguments; pass rate 0.5 assumed); else #1, #2, #3 ≈ 620 calls; #3, #2, #1 ≈ 819 calls",
        "plan space: 3 relations, 6 orders of 3 conditions, 6 subsets priced, 1 pruned",
    ]
    found = json.loads("\n".join(row[0] for row in chain.engine.sql(f"EXPLAIN (FORMAT json) {sql}").fetchall()))[
        "joins"
    ][0]
    assert found["relations"] == 3 and found["orders"] == 6 and found["subsets_priced"] + found["subsets_pruned"] <= 7
    assert [c["arguments"] for c in found["conditions"]] == [400, 20, 400]
    assert found["order"]["conditions"] == [2, 3, 1]
    assert min(other["calls"] for other in found["alternatives"]) >= found["order"]["calls"]


# -- the search ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_the_search_finds_the_cheapest_of_all_orders(seed: int) -> None:
    draw = random.Random(seed)
    parts = [Part(rows := draw.choice([0, 1, 3, 20, 500]), draw.randint(0, rows)) for _ in range(draw.randint(2, 5))]
    conditions = []
    for _ in range(draw.randint(2, 5)):
        read = draw.sample(range(len(parts)), min(len(parts), draw.choice([1, 2, 2, 3])))
        arguments = 1.0
        for p in read:
            arguments *= parts[p].values
        rate = draw.choice([0, 0.05, 0.5, 0.9, 1])
        conditions.append(Condition(sum(1 << p for p in read), arguments, draw.choice([1, 1, 2]), rate))
    search = Search(parts, conditions)
    found, space = search.best()
    every = [search.priced(order) for order in itertools.permutations(range(len(conditions)))]
    assert found.calls <= LIKE * min(order.calls for order in every) + 1e-9
    assert space.orders == len(every)
    assert space.priced + space.pruned <= 2 ** len(conditions)


def test_a_dozen_relations_are_searched_whole() -> None:
    conditions = [Condition(0b11 << i, 400.0) for i in range(MAX_SEARCHED)]
    _, space = Search([Part(20, 20)] * (MAX_SEARCHED + 1), conditions).best()
    assert space.priced + space.pruned > 2 ** (MAX_SEARCHED - 1)
