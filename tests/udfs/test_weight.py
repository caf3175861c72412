"""What a run's arguments weigh is bounded, in every form in which they are looked up."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kleene.planner.errors import PlanError
from kleene.planner.settings import KEYS
from kleene.udfs.weight import Weight, distinct_bytes
from tests.kleene.engines import CountingModel, engine

MESSAGE = "the arguments of the calls of one run weigh more than 100000 bytes"
HINT = "ask about fewer rows at a time (LIMIT, or INSERT INTO in parts) or with shorter texts; SET round_bytes = n is the bound"
HEAVY = [
    "SELECT llm(repeat('x', 1000) || i) FROM range(200) t(i)",
    "SELECT llm(repeat('x', 200000))",
    "SELECT count(*) FROM range(200) t(i) WHERE llm_bool(repeat('x', 1000) || i)",
    "SELECT count(*) FROM range(200) t(i) WHERE llm_bool(repeat('x', 1000) || i) AND llm_bool(repeat('y', 1000) || i)",
    "SELECT i FROM range(20000) t(i) WHERE llm_bool(repeat('x', 1000) || i) LIMIT 1",
    "SELECT EXISTS (FROM range(20000) t(i) WHERE llm_bool(repeat('x', 1000) || i))",
    "SELECT count(*) FROM range(200) t(i), LATERAL chunks(repeat('x', 1000) || i, 100)",
    "SELECT i = 5 OR llm_bool(repeat('x', 1000) || i) FROM range(200) t(i)",
    "SELECT llm(repeat('x', 1000) || random()) FROM range(200)",
    "EXPLAIN SELECT count(*) FROM range(200) t(i) WHERE llm_bool(repeat('x', 1000) || i)",
]


@pytest.mark.parametrize("statement", HEAVY)
def test_a_run_that_asks_with_too_much_is_refused_and_asks_nothing(statement: str) -> None:
    with engine(CountingModel(lambda prompt: "false")) as (k, model):
        k.sql("SET round_bytes = 100000")
        k.sql("SET measure_ms = 60000")
        with pytest.raises(PlanError) as caught:
            k.sql(statement).fetchall()
        assert (caught.value.message, caught.value.hint, model.calls) == (MESSAGE, HINT, 0)
        k.sql("SET round_bytes = 500000000")
        assert k.sql("SELECT llm_bool('still here')").fetchall() == [(False,)]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT count(llm(repeat('x', 1000) || i % 7)) FROM range(20000) t(i)",
        "SELECT count(*) FROM range(3000) t(i), LATERAL chunks(repeat('x', 20000), 10000)",
        "SELECT count(llm(repeat('x', 20000) || i % 2)) FROM range(3000) t(i)",
    ],
)
def test_one_argument_in_many_rows_weighs_once(statement: str) -> None:
    with engine() as (k, model):
        k.sql("SET round_bytes = 100000")
        assert k.sql(statement).fetchall()[0][0] in (3000, 20000)
        assert model.calls in (7, 0, 2)


def test_a_model_cannot_raise_the_bound() -> None:
    assert [key.key for key in KEYS if key.key in ("round_bytes", "batch") and key.may_model_set] == ["batch"]


TEXTS = st.lists(st.none() | st.text("aé😀", max_size=4))


@given(TEXTS, TEXTS)
def test_the_weight_of_columns_is_that_of_their_distinct_values(
    first: list[str | None], second: list[str | None]
) -> None:
    expected = sum(len(text.encode()) for column in (first, second) for text in {t for t in column if t})
    columns = [pa.array(first, pa.string()), pa.array(second, pa.string()).slice(0)]
    assert distinct_bytes(columns, 10**9) == expected
    assert distinct_bytes(columns, expected - 1) == expected or expected == 0


@given(st.lists(TEXTS, max_size=6), st.integers(0, 200))
def test_what_is_let_pass_is_never_heavier_than_the_bound(vectors: list[list[str | None]], limit: int) -> None:
    held: set[str] = set()
    refused: list[object] = []
    weight = Weight(limit, lambda: sum(len(t.encode()) for t in held), refused.append)
    for vector in vectors:
        try:
            weight.add([pa.array(vector, pa.string())])
        except PlanError:
            break
        held |= {t for t in vector if t}
        assert sum(len(t.encode()) for t in held) <= limit
    assert len(refused) in (0, 1)
