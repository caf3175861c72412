"""``embed`` and ``similarity`` in statements."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import kleene
from kleene.planner.errors import KleeneError, NoModel
from tests.kleene.engines import CountingModel, engine

VECTORS = {"apple": [1.0, 0.0], "pear": [0.8, 0.6], "car": [0.0, 1.0]}
FRUIT = "(VALUES ('apple'), ('pear'), ('car'), ('apple'), (NULL)) v(x)"


def vectors(prompt: str) -> Any:
    return VECTORS[prompt]


def test_a_text_becomes_a_vector_of_floats() -> None:
    with engine(CountingModel(vectors)) as (k, _):
        result = k.sql("SELECT embed('pear') AS v, typeof(embed('pear')) AS t")
        assert result.fetchall() == [([0.800000011920929, 0.6000000238418579], "FLOAT[]")]


def test_each_distinct_text_is_asked_once_and_null_never() -> None:
    with engine(CountingModel(vectors)) as (k, model):
        found = k.sql(f"SELECT x, round(similarity(embed(x), embed('apple')), 2) AS s FROM {FRUIT} ORDER BY s DESC, x")
        assert found.fetchall() == [
            ("apple", 1.0),
            ("apple", 1.0),
            ("pear", pytest.approx(0.8)),
            ("car", 0.0),
            (None, None),
        ]
        assert dict(model.asked) == {"apple": 1, "pear": 1, "car": 1}
        assert {(r.alias, r.wants, r.options.max_tokens) for r in model.requests} == {("embed", "embedding", 0)}


def test_a_vector_is_remembered_and_settings_of_chat_do_not_change_it() -> None:
    with engine(CountingModel(vectors)) as (k, model):
        k.sql("SELECT embed('pear')").fetchall()
        k.sql("SET max_tokens = 7; SET effort = 'low'; SET temperature = 1")
        assert k.sql("SELECT embed('pear')").usage.memo_hits == 1
        assert model.calls == 1


def test_similarity_alone_makes_no_call_and_is_named_as_it_was_written() -> None:
    with engine() as (k, model):
        result = k.sql("SELECT similarity([1, 0], [0.6, 0.8])")
        assert result.columns == ("similarity",)
        assert result.fetchall() == [(pytest.approx(0.6),)]
        assert k.sql("SELECT similarity(NULL, [1])").fetchall() == [(None,)]
        assert model.calls == 0


def test_both_stand_in_functions_of_the_user_and_in_conditions() -> None:
    with engine(CountingModel(vectors)) as (k, _):
        k.sql("CREATE FUNCTION near(a TEXT, b TEXT) RETURNS FLOAT AS SQL (SELECT similarity(embed(a), embed(b)))")
        assert k.sql("SELECT near('apple', 'car')").fetchall() == [(0.0,)]
        found = k.sql(f"SELECT DISTINCT x FROM {FRUIT} WHERE similarity(embed(x), embed('apple')) > 0.5 ORDER BY x")
        assert found.fetchall() == [("apple",), ("pear",)]


def test_both_exist_on_the_plain_connection() -> None:
    with engine(CountingModel(vectors)) as (k, _):
        found = k.con.sql("SELECT round(similarity(embed('apple'), embed('pear')), 2)").fetchall()
        assert found == [(pytest.approx(0.8),)]


def test_a_reply_that_is_no_vector_is_null_and_not_asked_again() -> None:
    with engine(CountingModel(lambda prompt: "true")) as (k, model):
        result = k.sql("SELECT embed('apple')")
        assert result.fetchall() == [(None,)]
        assert (result.usage.unknown, model.calls) == (1, 1)


def test_vectors_of_two_lengths_have_no_similarity() -> None:
    with engine() as (k, _), pytest.raises((KleeneError, duckdb.Error), match="dimensions must be equal"):
        k.sql("SELECT similarity([1, 0], [1])").fetchall()


def test_without_a_model_the_error_names_the_ways_to_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KLEENE_CONFIG_DIR", str(tmp_path))
    k = kleene.connect(store=":memory:", workspace=str(tmp_path))
    try:
        with pytest.raises(NoModel):
            k.sql("SELECT embed('x')").fetchall()
    finally:
        k.close()


def test_show_budget_tells_whole_calls_whole() -> None:
    with engine(budget=kleene.Budget(calls=2, dollars=0.5)) as (k, _):
        k.sql("SELECT llm('a')")
        found = {row[0]: row[1:] for row in k.sql("SHOW BUDGET").fetchall()}
        assert (found["calls"], found["dollars"], found["wall"]) == (("2", "1", "1"), ("0.5", "0", "0.5"), (None,) * 3)
