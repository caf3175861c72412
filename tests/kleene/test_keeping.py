"""When a statement's pure blocks are kept in temp tables, and that nothing of them stays."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import duckdb
import pytest

import kleene
from kleene.planner.errors import Cancelled
from tests.kleene.engines import CountingModel, engine

NESTED = "SELECT i, h(w(s)) AS x FROM counted(40) WHERE i % 2 = 0"


class Counted:
    """A table macro whose rows pass a function that counts: how often the pure part of a statement is computed."""

    def __init__(self, con: duckdb.DuckDBPyConnection):
        self.runs = 0
        con.create_function("tick", self._tick, ["BIGINT"], "BIGINT", side_effects=False)
        con.execute(
            "CREATE MACRO counted(n) AS TABLE SELECT tick(i) AS i, 's' || i % 5 AS s FROM (SELECT range AS i FROM range(n)) r"
        )

    def _tick(self, value: int) -> int:
        self.runs += value == 0
        return value

    def take(self) -> int:
        runs, self.runs = self.runs, 0
        return runs


Kept = tuple[kleene.Engine, CountingModel, Counted]


@pytest.fixture
def kept() -> Iterator[Kept]:
    con = duckdb.connect()
    with engine(CountingModel(lambda prompt: prompt[:6]), con) as (k, model):
        k.sql("SET memo = off")
        for name in ("h", "w"):
            k.sql(f"CREATE FUNCTION {name}(x TEXT) RETURNS TEXT AS PROMPT '{name}{{x}}'")
        yield k, model, Counted(con)


def tables(k: kleene.Engine) -> list[object]:
    return k.con.execute("SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'kleene%'").fetchall()


WANTED = [(i, f"hws{i % 5}") for i in range(0, 40, 2)]


def test_a_quick_statement_keeps_nothing(kept: Kept) -> None:
    k, model, counted = kept
    assert k.sql(NESTED).fetchall() == WANTED
    assert (model.take(), counted.take()) == (10, 3)


def test_a_slow_one_computes_its_pure_part_twice(kept: Kept) -> None:
    k, model, counted = kept
    k.sql("SET materialise_ms = 0")
    assert k.sql(NESTED).fetchall() == WANTED
    assert (model.take(), counted.take()) == (10, 2)
    assert tables(k) == []


def test_the_depth_of_calls_does_not_matter(kept: Kept) -> None:
    k, _, counted = kept
    k.sql("SET materialise_ms = 0")
    assert len(k.sql("SELECT i, h(w(h(w(h(w(s)))))) AS x FROM counted(9)")) == 9
    assert counted.take() == 2


def test_conditions_in_an_order_of_their_own_read_the_kept_rows(kept: Kept) -> None:
    k, model, counted = kept
    sql = "SELECT i FROM counted(40) WHERE h(s) <> 'hs1' AND (w(s || i) <> 'ws22' OR h(s || i) = 'hs44') AND i % 2 = 0"
    wanted = [(i,) for i in range(0, 40, 2) if i % 5 != 1 and i != 2]
    assert k.sql(sql).fetchall() == wanted
    assert "order" in k.explain(sql).rules
    model.take(), counted.take()
    k.sql("SET materialise_ms = 0")
    assert sorted(k.sql(sql).fetchall()) == wanted
    calls, runs = model.take(), counted.take()
    assert tables(k) == []
    k.sql("SET rules.order = off")
    assert sorted(k.sql(sql).fetchall()) == wanted
    assert (model.take() >= calls, runs) == (True, 2)


def test_the_rule_can_be_switched_off(kept: Kept) -> None:
    k, _, counted = kept
    k.sql("SET materialise_ms = 0")
    k.sql("SET rules.materialise = off")
    assert k.sql(NESTED).fetchall() == WANTED
    assert counted.take() == 3


def test_nothing_is_kept_in_the_users_transaction(kept: Kept) -> None:
    k, _, counted = kept
    k.sql("SET materialise_ms = 0")
    k.con.begin()
    assert k.sql(NESTED).fetchall() == WANTED
    assert counted.take() == 3
    k.con.execute("SELECT 1").fetchall()  # the transaction lives
    k.con.rollback()


@pytest.mark.parametrize("given", [["!", "s1"], {"mark": "!", "other": "s1"}], ids=["positions", "names"])
def test_parameters_go_where_they_are_named(kept: Kept, given: object) -> None:
    k, _, counted = kept
    k.sql("SET materialise_ms = 0")
    mark, other = ("?", "?") if isinstance(given, list) else ("$mark", "$other")
    rows = k.sql(f"SELECT i, h(w(s || {mark})) AS x FROM counted(40) WHERE s <> {other}", given).fetchall()
    assert rows == [(i, f"hws{i % 5}!") for i in range(40) if i % 5 != 1]
    assert counted.take() == 2


def test_a_created_table_has_the_kept_rows(kept: Kept) -> None:
    k, _, counted = kept
    k.sql("SET materialise_ms = 0")
    k.sql(f"CREATE TABLE made AS {NESTED}")
    assert k.con.execute("FROM made").fetchall() == WANTED
    assert counted.take() == 2
    assert tables(k) == []


def test_the_order_of_rows_is_kept(kept: Kept) -> None:
    k, _, _ = kept
    k.con.execute("CREATE TABLE big AS SELECT (i * 7919) % 300000 AS i, 's' || i % 3 AS s FROM range(300000) r(i)")
    k.sql("SET materialise_ms = 0")
    found = [i for i, _ in k.sql("SELECT i, h(w(s)) AS x FROM big").fetchall()]
    assert found == [(i * 7919) % 300000 for i in range(300000)]


def test_the_tables_go_when_a_call_fails(kept: Kept) -> None:
    k, model, _ = kept
    k.sql("SET materialise_ms = 0")

    def fails(prompt: str) -> str:
        if prompt.startswith("hw"):
            raise ValueError("no")
        return prompt

    model._rule = fails
    with pytest.raises(kleene.KleeneError):
        k.sql(NESTED)
    assert tables(k) == []


def test_the_tables_go_when_the_statement_is_cancelled(kept: Kept) -> None:
    k, model, _ = kept
    k.sql("SET materialise_ms = 0")
    reached = threading.Event()

    def slow(prompt: str) -> str:
        if prompt.startswith("hw"):
            reached.set()
            threading.Event().wait(0.05)
        return prompt

    model._rule = slow
    canceller = threading.Thread(target=lambda: (reached.wait(10), k.cancel()))
    canceller.start()
    with pytest.raises(Cancelled):
        k.sql(NESTED)
    canceller.join()
    assert tables(k) == []
    assert k.sql("SELECT 1").fetchall() == [(1,)]


def test_rows_that_change_from_run_to_run_are_kept(kept: Kept) -> None:
    """The order in which the texts are joined is another in each run; their kept join is one text."""
    k, model, _ = kept
    order = iter(range(1000))
    k.con.create_function("drift", lambda x: next(order), ["BIGINT"], "BIGINT", side_effects=True)
    result = k.sql("SELECT h(w(s)) AS x FROM (SELECT drift(range) AS s FROM range(3))")
    assert len(result) == 3
    assert result.warnings == ()
    assert model.take() <= 3 + 3 + 3 + 3  # the first run's arguments were asked before the change was seen


def test_explain_names_the_rule_where_a_run_is_slow(kept: Kept) -> None:
    k, _, _ = kept
    assert "materialise" not in k.explain(NESTED).text
    k.sql("SET materialise_ms = 0")
    assert k.explain(NESTED).text.splitlines()[-1] == (
        "rules: materialise (1 block without calls kept in temp tables while it runs)"
    )
