"""Blocks of calls to a model that answers at once: the same answers, money, memo and trace as calls one by one."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import kleene
from kleene.planner.errors import BudgetExceeded, CallFailed, Cancelled, KleeneError
from kleene.planner.specs import BudgetLimits, Volatility
from kleene.udfs.events import CallsFinished
from kleene.udfs.protocols import ProviderError, Reply
from tests.udfs.calls import BOOL, PRICE, Model, World, spec, world


def odd(request: Any) -> Any:
    """By its prompt: text, a refusal, something unreadable, nothing, a failure, a failure that passes, a reply that was read from a cache."""
    prompt, asked = request.prompt, len(request.messages)
    if prompt.startswith("refused"):
        return Reply("no", stop="refusal")
    if prompt.startswith("mended"):
        return "true" if asked > 1 else "perhaps"
    if prompt.startswith("unread"):
        return "perhaps"
    if prompt.startswith("empty"):
        return ""
    if prompt.startswith("failed"):
        raise ProviderError("bad_request", "not this")
    if prompt.startswith("cached"):
        return Reply("false", 3, 1, cache_read_tokens=5)
    return "true" if len(prompt) % 2 else "false"


KINDS = ("plain", "refused", "mended", "unread", "empty", "failed", "cached")


def told(w: World, context: Any) -> list[tuple[Any, ...]]:
    return sorted(
        (
            (
                c.prompt,
                c.kind,
                c.error,
                c.attempts,
                c.input_tokens,
                c.output_tokens,
                c.cache_read_tokens,
                c.dollars,
                c.reply,
                c.digest,
            )
            for c in w.calls()
        ),
        key=repr,
    )


@settings(max_examples=10, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 30)), max_size=40, unique=True), st.booleans())
def test_blocks_and_single_calls_are_the_same(picked: list[tuple[str, int]], priced: bool) -> None:
    keys = [f"{kind} {n}" for kind, n in picked]
    seen = []
    for at_once in (True, False):
        model = Model(odd)
        with world(model, price=PRICE if priced else None) as (w, _):
            if not at_once:
                w.dispatcher._at_once = lambda works: {}  # type: ignore[method-assign]
            context = w.context(on_error="null")
            found = w.ask(context, w.site(context, spec(BOOL)), keys)
            ledger = context.ledger
            assert (ledger.reserved.calls, ledger.reserved.tokens, ledger.reserved.dollars) == (0, 0, 0)
            assert w.dispatcher.in_flight == 0
            used, metered = ledger.used, context.meter.usage
            assert any(isinstance(e, CallsFinished) for e in w.events) <= at_once
            again = w.context(on_error="null")
            w.ask(again, w.site(again, spec(BOOL)), keys)
            seen.append((found, told(w, context), model.asked, used, metered, again.meter.usage.memo_hits))
    left, right = seen
    assert left[:3] == right[:3]
    assert left[5] == right[5]
    for mine, theirs in ((left[3], right[3]), (left[4], right[4])):
        assert mine.dollars == pytest.approx(theirs.dollars)
        assert (mine.requests, mine.items, mine.tokens, mine.unknown) == (
            theirs.requests,
            theirs.items,
            theirs.tokens,
            theirs.unknown,
        )


@settings(max_examples=10, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.integers(1, 200), st.integers(0, 40_000))
def test_a_tight_budget_is_never_exceeded(rows: int, tokens: int) -> None:
    with world() as (w, model):
        context = w.context(BudgetLimits(tokens=tokens), memo=False)
        try:
            w.ask(context, w.site(context), [f"prompt {i}" for i in range(rows)])
        except BudgetExceeded:
            assert context.ledger.used.tokens <= tokens
        except KleeneError:
            assert model.calls == 0
        assert context.ledger.used.tokens <= tokens
        assert context.ledger.used.requests == model.calls
        assert context.ledger.reserved.tokens == 0


def test_thousands_are_told_in_few_events_and_numbered_apart() -> None:
    with world() as (w, model):
        context = w.context()
        found = w.ask(context, w.site(context), [f"prompt {i}" for i in range(3000)])
        assert len(found) == model.calls == 3000
        blocks = [e for e in w.events if isinstance(e, CallsFinished)]
        assert sum(map(len, blocks)) == 3000 == len({c.call for c in w.calls()})


def test_a_failure_ends_the_statement_and_what_was_answered_before_is_kept() -> None:
    def rule(request: Any) -> str:
        if request.prompt == "b":
            raise ValueError("broken")
        return "fine"

    with world(rule) as (w, model):
        context = w.context()
        with pytest.raises(CallFailed, match=r"f\('b'\) failed: m raised ValueError: broken") as caught:
            w.ask(context, w.site(context), ["a", "b", "c"])
        assert (
            caught.value.hint
            == "what was answered is kept; SET on_error = 'null' gives NULL where a call fails, and goes on"
        )
        assert model.calls == 2
        again = w.context()
        assert w.ask(again, w.site(again), ["a"]) == {"a": "fine"}
        assert model.calls == 2
        assert [c.error for c in w.calls() if c.prompt == "b"] == ["m raised ValueError: broken"]


def test_a_function_that_returns_an_awaitable_is_asked_one_by_one_from_then_on() -> None:
    asked: list[str] = []

    async def later(prompt: str) -> str:
        asked.append(prompt)
        return "later"

    with world(lambda request: later(request.prompt)) as (w, _):
        context = w.context()
        assert w.ask(context, w.site(context), ["a", "b"]) == {"a": "later", "b": "later"}
        assert sorted(asked) == ["a", "b"]


def test_volatile_calls_are_not_shared() -> None:
    with world() as (w, model):
        context = w.context()
        site = w.site(context, volatility=Volatility.VOLATILE)
        assert len(w.ask(context, site, [("1", "a"), ("2", "a")])) == 2
        assert model.asked["a"] == 2


def statement(model: Any, **options: Any) -> Any:
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT 'is it ' || i AS x FROM range(300) r(i)")
    return kleene.attach(con, models=kleene.FunctionModel(model), **{"store": ":memory:", **options})


def test_what_a_cancelled_slice_left_keeps_nobody_waiting() -> None:
    broken, begun = True, threading.Event()

    def model(request: Any) -> str:
        begun.set()
        if broken:
            raise ProviderError("overloaded", "try later", retryable=True, sent=True, billed=False)
        return "yes"

    with statement(model) as k:
        k.sql("SET on_error = 'null'")
        ender = threading.Thread(target=lambda: begun.wait(10) and (time.sleep(0.2), k.cancel()))
        ender.start()
        with pytest.raises(Cancelled):
            k.sql("SELECT llm_bool(x) FROM t")
        ender.join()
        assert k.services.dispatcher.in_flight == 0
        broken = False
        watch = threading.Timer(20, k.cancel)
        watch.start()
        assert k.sql("SELECT count(*) FROM t WHERE llm_bool(x)").fetchall() == [(300,)]
        watch.cancel()


def test_a_reply_that_is_none_keeps_nobody_waiting() -> None:
    broken = True
    with statement(lambda request: Reply(None, 1, 1) if broken else "yes") as k:  # type: ignore[arg-type]
        with pytest.raises(AttributeError):
            k.sql("SELECT llm_bool(x) FROM t LIMIT 3").fetchall()
        assert k.services.dispatcher.in_flight == 0 and k.ledger.reserved.calls == 0
        broken = False
        assert k.sql("SELECT count(*) FROM t WHERE llm_bool(x)").fetchall() == [(300,)]


def test_figures_of_numpy_are_written_as_json(tmp_path: Path) -> None:
    reply = Reply("yes", dollars=np.float64(0.01), input_tokens=np.int64(3), output_tokens=np.int64(1))  # type: ignore[arg-type]
    with statement(lambda request: reply, store=tmp_path / "run.duckdb") as k:
        k.sql("SELECT count(*) FROM t WHERE llm_bool(x)").fetchall()
    calls = [json.loads(line) for line in (tmp_path / "run.events.jsonl").read_text().splitlines()]
    assert sum(call["dollars"] for call in calls if call["event"] == "CallFinished") == pytest.approx(3.0)
