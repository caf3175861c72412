"""The call runtime seen through SQL: batches, walls, stragglers and replies that come while the statement runs again."""

from __future__ import annotations

import json
import time

import duckdb
import pytest
import trio

import kleene
from tests.patience import AT_ONCE_S
from tests.udfs.test_batching import honest, is_batch, prompts_of

T = "CREATE TABLE t AS SELECT printf('%03d', i) AS id FROM range(60) r(i)"


@pytest.fixture
def con():  # type: ignore[no-untyped-def]
    with duckdb.connect() as con:
        con.execute(T)
        yield con


def test_set_batch_asks_many_rows_in_one_request(con: duckdb.DuckDBPyConnection) -> None:
    with kleene.attach(con, store=":memory:", models=kleene.FunctionModel(honest)) as k:
        k.sql("SET batch = 20")
        assert k.explain("SELECT llm('row ' || id) FROM t").estimate.calls == 3
        result = k.sql("SELECT id, llm('row ' || id) FROM t")
        assert result.fetchall() == [(f"{i:03}", f"about row {i:03}") for i in range(60)]
        assert (result.usage.requests, result.usage.items) == (3, 60)
        k.sql("SET batch = 1")
        assert k.sql("SELECT llm('row ' || id) FROM t").usage.memo_hits == 60


def test_a_function_says_its_own_batch(con: duckdb.DuckDBPyConnection) -> None:
    def rule(request: kleene.FunctionModel) -> str:  # type: ignore[type-arg]
        items = [{"n": n, "answer": p.endswith("7?")} for n, p in prompts_of(request.prompt)]  # type: ignore[attr-defined]
        assert is_batch(request)  # type: ignore[arg-type]
        return json.dumps({"items": items})

    with kleene.attach(con, store=":memory:", models=kleene.FunctionModel(rule)) as k:
        k.sql(
            "CREATE FUNCTION seven(a TEXT) RETURNS BOOLEAN AS PROMPT 'Does this number end in a seven: {a}?' BATCH 30"
        )
        result = k.sql("SELECT id FROM t WHERE seven(id)")
        assert result.fetchall() == [(f"{i:03}",) for i in range(7, 60, 10)]
        assert result.usage.requests == 2


def test_the_wall_ends_duckdbs_own_work(con: duckdb.DuckDBPyConnection) -> None:
    model = kleene.FunctionModel(lambda request: "ok")
    with kleene.attach(con, store=":memory:", models=model) as k:
        k.sql("SET budget.wall = 0.001")
        time.sleep(0.01)
        with pytest.raises(kleene.BudgetExceeded, match="wall budget exceeded"):
            k.sql("SELECT count(*) FROM range(1000000) a(x), range(1000000) b(y) WHERE x + y = 3")
        k.sql("RESET budget.wall")
        assert k.sql("SELECT 42").fetchall() == [(42,)]


def test_the_wall_ends_a_statement_that_duckdb_is_at(con: duckdb.DuckDBPyConnection) -> None:
    model = kleene.FunctionModel(lambda request: "ok")
    with kleene.attach(con, store=":memory:", models=model, budget=kleene.Budget(wall=0.5)) as k:
        started = time.monotonic()
        with pytest.raises(kleene.BudgetExceeded, match="wall budget exceeded"):
            k.sql("SELECT count(*) FROM range(1000000) a(x), range(1000000) b(y) WHERE x + y = 3")
        assert time.monotonic() - started < AT_ONCE_S
        assert con.sql("SELECT 42").fetchall() == [(42,)]


def test_a_straggler_does_not_hold_up_the_other_rows(con: duckdb.DuckDBPyConnection) -> None:
    """One slow filter of sixty answers when the second calls of all others were made: without early runs they would wait for it."""
    second: list[str] = []
    before_it: list[int] = []

    async def rule(request: object) -> str:
        prompt = request.prompt  # type: ignore[attr-defined]
        if prompt == "Is it? 007":
            with trio.move_on_after(20):
                while len(second) < 59:
                    await trio.sleep(0.005)
            before_it.append(len(second))
        elif prompt.startswith("Is it really?"):
            second.append(prompt)
        return "true"

    with kleene.attach(con, store=":memory:", models=kleene.FunctionModel(rule)) as k:
        result = k.sql("SELECT id FROM t WHERE llm_bool('Is it? ' || id) AND llm_bool('Is it really? ' || id)")
        assert len(result) == 60
        assert result.usage.requests == 120
    assert before_it == [59]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT llm_agg('Sum up', body) AS s FROM m LIMIT 1",
        "SELECT upper(llm_agg('Sum up', body)) FROM m ORDER BY 1 LIMIT 1",
        "SELECT (SELECT llm_agg('Sum up', body) FROM m LIMIT 1)",
        "CREATE TABLE z AS SELECT llm_agg('Sum up', body ORDER BY body) AS s FROM m LIMIT 1",
        "SELECT llm_agg('Sum up', body) FILTER (WHERE true), 1 FROM m LIMIT 3",
    ],
)
def test_a_limit_above_an_aggregate_cuts_none_of_its_rows(sql: str) -> None:
    seen: list[str] = []
    model = kleene.FunctionModel(lambda request: (seen.append(request.prompt), "x")[1])
    with kleene.connect(store=":memory:", models=model) as k:
        k.sql("CREATE TABLE m AS SELECT 'body ' || i AS body FROM range(8) t(i)")
        k.sql(sql)
    assert [p.count("body") for p in seen] == [8]
