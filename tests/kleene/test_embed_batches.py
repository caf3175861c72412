"""``embed`` of many texts: few requests, each text its own vector whatever the server does, every request paid once."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kleene
from kleene.models.openai import EMBED_BATCH
from kleene.planner.errors import BudgetExceeded, CallFailed, KleeneError
from kleene.planner.specs import BudgetLimits, Price
from kleene.udfs.protocols import Reply
from kleene.udfs.vectors import MOST_CHARACTERS, placed, vector_texts
from tests.fake_server import Ask, FakeServer, Raw, failure

TEXTS = [f"text number {i}" for i in range(150)]
SQL = "SELECT x, embed(x) FROM (SELECT unnest(?) AS x) t"
TEN = TEXTS[:10]
NOTHING = BudgetLimits(calls=0, tokens=0, dollars=0.0)


def vector(text: str) -> list[float]:
    return [float(len(text)), float(sum(map(ord, text)) % 997)]


def texts_of(ask: Ask) -> list[str]:
    given = ask.body["input"]
    return [given] if isinstance(given, str) else given


def entries_of(ask: Ask) -> list[dict[str, Any]]:
    return [{"object": "embedding", "index": i, "embedding": vector(t)} for i, t in enumerate(texts_of(ask))]


def answer(ask: Ask, entries: list[Any]) -> Raw:
    """An answer with these entries; a token a character."""
    tokens = sum(map(len, texts_of(ask)))
    body = {"object": "list", "model": "m", "data": entries, "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
    return Raw(json.dumps(body).encode(), 200, {"content-type": "application/json"})


def honest(ask: Ask) -> Raw:
    return answer(ask, entries_of(ask))


def on_lists(change: Callable[[list[dict[str, Any]], Ask], list[Any]]) -> Callable[[Ask], Raw]:
    """Honest to one text; of a list it gives what ``change`` makes of the entries."""
    return lambda ask: answer(ask, change(entries_of(ask), ask) if len(texts_of(ask)) > 1 else entries_of(ask))


def shuffled(entries: list[dict[str, Any]], ask: Ask) -> list[dict[str, Any]]:
    random.Random(len(entries)).shuffle(entries)
    return entries


@contextmanager
def world(rule: Callable[[Ask], Raw], **options: Any) -> Iterator[tuple[kleene.Engine, FakeServer]]:
    with FakeServer(rule) as server:
        model = kleene.OpenAI("m", base_url=server.url + "/v1", api_key="k", price=Price(2.0, 0.0))
        with kleene.connect(store=":memory:", models={"embed": model}, **options) as k:
            yield k, server


def rows(texts: list[str]) -> list[tuple[str, list[float]]]:
    return [(t, vector(t)) for t in texts]


def sizes(server: FakeServer) -> list[int]:
    return sorted((len(texts_of(a)) for a in server.asks), reverse=True)


def test_many_texts_are_few_requests_and_each_is_remembered_by_itself() -> None:
    with world(honest) as (k, server):
        plan = k.explain(SQL, [TEXTS])
        result = k.sql(SQL, [TEXTS + TEXTS[:5]])
        assert result.fetchall() == rows(TEXTS + TEXTS[:5])
        assert sizes(server) == [EMBED_BATCH, EMBED_BATCH, len(TEXTS) - 2 * EMBED_BATCH]
        usage, tokens = result.usage, sum(map(len, TEXTS))
        assert plan.estimate.calls == usage.requests == server.count == 3
        assert (usage.items, usage.input_tokens, usage.output_tokens) == (150, tokens, 0)
        assert usage.dollars == pytest.approx(tokens * 2 / 1e6)
        again = k.sql(SQL, [[*TEXTS[3:140:7], "one more"]])
        assert again.fetchall() == rows([*TEXTS[3:140:7], "one more"])
        assert (again.usage.memo_hits, again.usage.requests) == (20, 1)
        assert k.sql("SELECT count(*), sum(input_tokens), round(sum(dollars), 9) FROM memo").fetchall() == [
            (151, tokens + 8, round((tokens + 8) * 2 / 1e6, 9))
        ]
        calls = k.sql(
            "SELECT batch_size, attempts, input_tokens, error, reply IS NULL FROM trace_calls WHERE batch_size > 1"
        )
        assert sorted(c[:2] for c in calls.fetchall()) == [(22, 1), (64, 1), (64, 1)]


def test_one_text_is_sent_as_one_text() -> None:
    with world(honest) as (k, server):
        assert k.sql("SELECT embed('a')").fetchall() == [(vector("a"),)]
        assert server.asks[0].body["input"] == "a"


@pytest.mark.parametrize(
    ("change", "requests"),
    [
        (shuffled, [10]),
        (lambda entries, ask: entries[:-1], [10, 1]),
        (lambda entries, ask: entries[:4], [10, 6, 1, 1]),
        (lambda entries, ask: [], [10, 5, 3, *[1] * 10]),
        (lambda entries, ask: [*entries, entries[0]], [10, 1]),
        (lambda entries, ask: [*entries, {"index": 99, "embedding": [1.0]}, {"index": -1, "embedding": [1.0]}], [10]),
        (lambda entries, ask: [{**e, "index": 0} for e in entries], [10, 5, 3, *[1] * 10]),
        (lambda entries, ask: [{"embedding": e["embedding"]} for e in entries], [10]),
        (lambda entries, ask: [{"embedding": e["embedding"]} for e in entries[1:]], [10, 5, 3, *[1] * 10]),
        (
            lambda entries, ask: [{**e, "embedding": [] if e["index"] == 2 else e["embedding"]} for e in entries],
            [10, 1],
        ),
        (lambda entries, ask: [{**e, "embedding": [None]} if e["index"] == 2 else e for e in entries], [10, 1]),
        (lambda entries, ask: ["no entry", *entries[1:]], [10, 1]),
        (lambda entries, ask: [{**e, "index": str(e["index"])} for e in entries], [10, 5, 3, *[1] * 10]),
    ],
    ids=[
        "reordered",
        "one dropped",
        "most dropped",
        "all dropped",
        "one twice",
        "some invented",
        "all of one number",
        "no numbers",
        "no numbers and one dropped",
        "one empty",
        "one of no numbers",
        "one that is nothing",
        "numbers as text",
    ],
)
def test_each_text_gets_its_own_vector_whatever_comes_back(change: Any, requests: list[int]) -> None:
    with world(on_lists(change)) as (k, server):
        result = k.sql(SQL, [TEN])
        assert result.fetchall() == rows(TEN)
        assert sizes(server) == requests
        assert (result.usage.requests, result.usage.items) == (server.count, 10)
        assert result.usage.input_tokens == sum(len(t) for a in server.asks for t in texts_of(a))
        assert k.usage.requests == server.count
        assert k.ledger.reserved == NOTHING
        assert k.sql("SELECT count(*) FROM memo").fetchall() == [(10,)]


def test_a_server_that_errs_at_random_costs_requests_and_never_a_wrong_vector() -> None:
    chance = random.Random(0)

    def err(entries: list[dict[str, Any]], ask: Ask) -> list[Any]:
        chance.shuffle(entries)
        made: list[Any] = []
        for entry in entries:
            made += chance.choice(([entry], [entry], [entry], [], [entry, entry], [{**entry, "embedding": None}]))
        return made

    with world(on_lists(err)) as (k, server):

        @settings(max_examples=15, deadline=None)
        @given(seed=st.integers(), count=st.integers(1, 12))
        def one(seed: int, count: int) -> None:
            chance.seed(seed)
            texts = [f"{server.count} {i}" for i in range(count)]
            before = server.count
            result = k.sql(SQL, [texts])
            assert result.fetchall() == rows(texts)
            assert result.usage.requests == server.count - before

        one()


def test_a_vector_that_is_none_alone_either_is_unknown() -> None:
    def rule(ask: Ask) -> Raw:
        return answer(
            ask,
            [
                {**e, "embedding": [None] if t == TEN[4] else e["embedding"]}
                for e, t in zip(entries_of(ask), texts_of(ask), strict=True)
            ],
        )

    with world(rule) as (k, server):
        result = k.sql(SQL, [TEN])
        assert result.fetchall() == [(t, None if t == TEN[4] else vector(t)) for t in TEN]
        assert sizes(server) == [10, 1]
        assert (result.usage.unknown, len(result.warnings)) == (1, 1)


def test_one_refused_text_does_not_cost_the_others_theirs() -> None:
    def rule(ask: Ask) -> Raw:
        return failure(400, "this input is not allowed") if TEXTS[40] in texts_of(ask) else honest(ask)

    with world(rule) as (k, server):
        k.sql("SET on_error = 'null'")
        result = k.sql(SQL, [TEXTS[:64]])
        assert result.fetchall() == [(t, None if t == TEXTS[40] else vector(t)) for t in TEXTS[:64]]
        assert server.count <= 16
        k.sql("SET on_error = 'fail'")
        with pytest.raises(CallFailed, match="embed\\('text number 40'\\) failed"):
            k.sql(SQL, [TEXTS[:64]])


def test_blank_texts_are_asked_alone() -> None:
    with world(honest) as (k, server):
        assert k.sql(SQL, [["a", "", "b", " \n"]]).fetchall() == rows(["a", "", "b", " \n"])
        assert sizes(server) == [2, 1, 1]


def test_a_server_that_takes_no_lists_is_asked_singly_from_then_on() -> None:
    with world(
        lambda ask: honest(ask) if isinstance(ask.body["input"], str) else failure(400, "input must be text")
    ) as (k, server):
        assert k.sql(SQL, [TEN]).fetchall() == rows(TEN)
        lists = sum(s > 1 for s in sizes(server))
        assert lists == 3
        assert k.sql(SQL, [TEXTS[10:20]]).fetchall() == rows(TEXTS[10:20])
        assert sum(s > 1 for s in sizes(server)) == lists
        assert k.usage.requests == server.count


def test_a_request_holds_a_bounded_amount_of_text() -> None:
    long = [f"{i} " + "x" * (MOST_CHARACTERS // 3) for i in range(7)]
    with world(honest) as (k, server):
        assert k.sql("SELECT count(embed(x)) FROM (SELECT unnest(?) AS x) t", [long]).fetchall() == [(7,)]
        assert sizes(server) == [2, 2, 2, 1]


def test_a_failed_request_is_sent_again_and_counts() -> None:
    with world(lambda ask: failure(500, "down") if ask.number == 0 else honest(ask)) as (k, server):
        result = k.sql(SQL, [TEN])
        assert result.fetchall() == rows(TEN)
        assert (server.count, result.usage.requests) == (2, 2)


def test_budgets_bound_the_requests() -> None:
    with world(honest, budget=BudgetLimits(calls=2)) as (k, server):
        with pytest.raises(KleeneError, match="refused before sending: the statement needs 3 calls and 2 remain"):
            k.sql(SQL, [TEXTS])
        assert server.count == 0
        assert k.sql(SQL, [TEN]).fetchall() == rows(TEN)
    with world(on_lists(lambda entries, ask: entries[:5]), budget=BudgetLimits(calls=1)) as (k, server):
        with pytest.raises(BudgetExceeded):
            k.sql(SQL, [TEN])
        assert server.count == 1
        assert k.ledger.reserved == NOTHING
        assert k.sql(SQL, [TEN[:5]]).fetchall() == rows(TEN[:5])  # what was paid for was kept


def test_where_a_token_budget_holds_no_list_texts_are_asked_alone() -> None:
    texts = ["x" * 200 + str(i) for i in range(6)]
    with world(honest, budget=BudgetLimits(tokens=2_000)) as (k, server):
        result = k.sql("SELECT count(embed(x)) FROM (SELECT unnest(?) AS x) t", [texts])
        assert result.fetchall() == [(6,)]
        assert result.usage.tokens <= 2_000
        assert k.usage.requests == server.count


def test_a_chat_batch_setting_says_nothing_of_vectors() -> None:
    with world(honest) as (k, server):
        k.sql("SET batch = 3")
        assert k.sql(SQL, [TEN]).fetchall() == rows(TEN)
        assert sizes(server) == [10]


def test_two_statements_share_the_texts_that_are_on_their_way() -> None:
    with world(lambda ask: attrs.evolve(honest(ask), delay=0.2)) as (k, server):
        both = k.sql("SELECT count(embed(x)), count(embed(y)) FROM (SELECT unnest($1) AS x, unnest($1) AS y) t", [TEN])
        assert both.fetchall() == [(10, 10)]
        assert sizes(server) == [10]


def test_a_function_is_asked_one_text_at_a_time() -> None:
    asked: list[str] = []

    def model(request: Any) -> list[float]:
        asked.append(request.prompt)
        return vector(request.prompt)

    with kleene.connect(store=":memory:", models={"embed": kleene.FunctionModel(model)}) as k:
        assert k.sql(SQL, [TEN]).fetchall() == rows(TEN)
    assert sorted(asked) == sorted(TEN)


def test_a_function_that_takes_over_from_a_server_is_too() -> None:
    asked: list[str] = []

    def model(request: Any) -> list[float]:
        asked.append(request.prompt)
        return vector(request.prompt)

    with FakeServer(lambda ask: failure(401, "no key")) as server:
        models = [kleene.OpenAI("m", base_url=server.url + "/v1", api_key="k"), kleene.FunctionModel(model)]
        with kleene.connect(store=":memory:", models={"embed": models}) as k:
            assert k.sql(SQL, [TEN]).fetchall() == rows(TEN)
    assert sorted(asked) == sorted(TEN)


def test_a_replay_packs_as_the_recording_did(tmp_path: Any) -> None:
    recording = tmp_path / "vectors.jsonl"
    with world(honest, record=recording) as (k, server):
        assert k.sql(SQL, [TEN]).fetchall() == rows(TEN)
        assert server.count == 1
    with kleene.connect(store=":memory:", replay=recording) as k:
        result = k.sql(SQL, [TEN])
        assert (result.fetchall(), result.usage.requests) == (rows(TEN), 1)


def test_what_is_listed_finds_its_place() -> None:
    assert placed([{"index": True, "embedding": [1]}, {"index": 1, "embedding": [2]}], 2) == [None, [2]]
    assert placed([None, 3], 2) == [None, None]
    assert vector_texts(Reply(""), 2) == [None, None]
