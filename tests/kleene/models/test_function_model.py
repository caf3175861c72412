"""A Python function as a model, in every way it can be called."""

from __future__ import annotations

import asyncio
import functools
import gc
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

import kleene
from kleene.models import FunctionModel, Reply
from kleene.planner.specs import Price
from kleene.udfs.protocols import Message, ProviderError, Request
from tests.kleene.models.wires import ask, run
from tests.patience import PATIENCE_S


def reply_of(model: FunctionModel, request: Request | None = None) -> Reply:
    async def work() -> Reply:
        try:
            return await model.send(request or ask())
        finally:
            await model.aclose()

    return run(work)


def error_of(fn: Any, **options: Any) -> ProviderError:
    with pytest.raises(ProviderError) as error:
        reply_of(FunctionModel(fn, **{"name": "function", **options}))
    return error.value


def test_text_becomes_a_reply_with_a_quarter_of_its_characters_as_tokens() -> None:
    request = Request("root", (Message("user", "x" * 8), Message("assistant", "y" * 4)), system="z" * 5)
    assert reply_of(FunctionModel(lambda r: "12345"), request) == Reply("12345", 5, 2)


def test_the_function_sees_the_prompt_as_it_was_rendered() -> None:
    assert reply_of(FunctionModel(lambda r: r.prompt)).text == "Is apple red?"


def test_a_reply_keeps_what_it_says_and_gets_what_it_does_not() -> None:
    assert reply_of(FunctionModel(lambda r: Reply("ab", output_tokens=9, dollars=0.5, stop="length"))) == Reply(
        "ab", 4, 9, 0.5, "length"
    )
    assert reply_of(FunctionModel(lambda r: Reply("ab", 1, 2))) == Reply("ab", 1, 2)


def test_what_a_function_raises_ends_the_call_for_good() -> None:
    def broken(request: Request) -> str:
        raise KeyError("colour")

    error = error_of(broken, name="mine")
    assert (error.kind, error.retryable, error.message) == ("other", False, "mine raised KeyError: 'colour'")
    assert isinstance(error.__cause__, KeyError)


def test_a_provider_error_passes_as_it_is() -> None:
    def limited(request: Request) -> str:
        raise ProviderError("rate_limited", "later", retryable=True, retry_after=2)

    error = error_of(limited)
    assert (error.kind, error.retryable, error.retry_after) == ("rate_limited", True, 2)


@pytest.mark.parametrize("found", [None, True, 3, {"answer": True}, b"x"], ids=lambda v: type(v).__name__)
def test_anything_but_text_is_malformed(found: Any) -> None:
    error = error_of(lambda r: found)
    assert (error.kind, error.message, error.hint) == (
        "malformed",
        f"function returned {type(found).__name__}, not text",
        "return a str or a kleene.Reply(text)",
    )


def test_a_sync_function_runs_in_the_thread_of_the_calls() -> None:
    seen: list[int] = []
    reply_of(FunctionModel(lambda r: seen.append(threading.get_ident()) or "x"))  # type: ignore[func-returns-value]
    assert seen == [threading.get_ident()]


def test_threads_run_side_by_side_and_a_cancel_does_not_wait_for_them() -> None:
    """Each of the eight ends only when all have begun, and the ninth not before the test does."""
    all_are_in, goes_on = threading.Barrier(8), threading.Event()

    def meets_the_others(request: Request) -> str:
        if request.prompt == "never":
            goes_on.wait(PATIENCE_S)
        else:
            all_are_in.wait(PATIENCE_S)
        return "met"

    model = FunctionModel(meets_the_others, threads=True)

    async def work() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(model.send, ask())
        with trio.move_on_after(0.05) as scope:
            await model.send(ask("never"))
        assert scope.cancelled_caught
        assert not goes_on.is_set()
        goes_on.set()

    run(work)


async def on_asyncio(request: Request) -> str:
    await asyncio.sleep(0.01)
    return "asyncio"


async def on_trio(request: Request) -> str:
    await trio.sleep(0.01)
    return "trio"


async def through_another(request: Request) -> str:
    return await on_trio(request)


async def without_waiting(request: Request) -> str:
    return "at once"


class Callable_:
    async def __call__(self, request: Request) -> str:
        return await on_trio(request)


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (on_asyncio, "asyncio"),
        (on_trio, "trio"),
        (through_another, "trio"),
        (without_waiting, "at once"),
        (Callable_(), "trio"),
    ],
    ids=["asyncio", "trio", "through", "none", "object"],
)
def test_a_coroutine_function_runs_on_the_library_it_uses(fn: Any, text: str) -> None:
    assert reply_of(FunctionModel(fn)).text == text


def test_the_library_can_be_told() -> None:
    async def indirect(request: Request) -> str:
        return str(await globals()["on_" + "asyncio"](request))

    assert reply_of(FunctionModel(indirect, on_asyncio=True)).text == "asyncio"


@pytest.mark.parametrize("event", [asyncio.Event, trio.Event], ids=["asyncio", "trio"])
def test_async_calls_run_side_by_side_and_can_be_cancelled(event: Any) -> None:
    """Each of the fifty ends only when all have begun."""
    all_are_in, never = event(), event()
    inside: list[Request] = []

    async def meets_the_others(request: Request) -> str:
        inside.append(request)
        if len(inside) == 50:
            all_are_in.set()
        await (all_are_in if len(inside) <= 50 else never).wait()
        return "met"

    model = FunctionModel(meets_the_others, on_asyncio=event is asyncio.Event)

    async def work() -> None:
        with trio.fail_after(PATIENCE_S):
            async with trio.open_nursery() as nursery:
                for _ in range(50):
                    nursery.start_soon(model.send, ask())
            with trio.move_on_after(0.001) as scope:
                await model.send(ask())
            assert scope.cancelled_caught
            await model.aclose()
            await model.aclose()

    run(work)


@pytest.mark.filterwarnings("error")
def test_a_call_cancelled_before_its_first_step_leaves_nothing(caplog: pytest.LogCaptureFixture) -> None:
    held, goes_on = threading.Event(), threading.Event()

    async def holds(request: Request) -> str:
        held.set()
        goes_on.wait(PATIENCE_S)  # the loop itself stands still, so that the next call does not start
        return "held"

    async def hold_then(request: Request) -> str:
        return await (holds if request.prompt == "hold" else on_asyncio)(request)

    model = FunctionModel(hold_then, on_asyncio=True)

    async def work() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(model.send, ask("hold"))
            await trio.to_thread.run_sync(held.wait, PATIENCE_S)
            with trio.move_on_after(0.001) as scope:
                await model.send(ask("late"))
            assert scope.cancelled_caught
            goes_on.set()
        await model.aclose()

    run(work)
    gc.collect()
    assert [record.getMessage() for record in caplog.records] == []


def test_closing_ends_what_a_cancelled_call_still_does(caplog: pytest.LogCaptureFixture) -> None:
    began = threading.Event()
    ended: list[str] = []

    async def long(request: Request) -> str:
        began.set()
        try:
            await asyncio.sleep(PATIENCE_S)
        finally:
            await asyncio.sleep(0.01)
            ended.append("tidied")
        return "never"

    model = FunctionModel(long)

    async def work() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(model.send, ask())
            await trio.to_thread.run_sync(began.wait, PATIENCE_S)
            nursery.cancel_scope.cancel()
        await model.aclose()

    run(work)
    gc.collect()
    assert (ended, [record.getMessage() for record in caplog.records]) == (["tidied"], [])


def test_an_error_on_the_asyncio_side_arrives() -> None:
    async def broken(request: Request) -> str:
        await asyncio.sleep(0)
        raise ValueError("no")

    assert error_of(broken).message == "function raised ValueError: no"


def test_a_model_without_a_price_is_free_and_one_with_a_price_is_not() -> None:
    assert FunctionModel(lambda r: "x").free
    priced = FunctionModel(lambda r: "x", price=Price(1, 2), context_window=100)
    assert (priced.free, priced.price, priced.capabilities.context_window) == (False, Price(1, 2), 100)


def test_a_sync_function_costs_little_more_than_its_call() -> None:
    model, request = FunctionModel(lambda r: "true"), ask()

    async def work() -> float:
        start = time.perf_counter()
        for _ in range(5_000):
            await model.send(request)
        return (time.perf_counter() - start) / 5_000

    assert run(work) < 50e-6  # measured: 6 µs; the whole engine has 50 µs a call


# -- whose answers are remembered ------------------------------------------------------------------------------------------------------------


def shout(request: Request) -> str:
    return request.prompt.upper()


def quiet(request: Request) -> str:
    return request.prompt.lower()


def closure(said: str) -> Callable[[Request], str]:
    return lambda request: said


class Parrot:
    def __call__(self, request: Request) -> str:
        return request.prompt

    def say(self, request: Request) -> str:
        return request.prompt


HERE = "tests.kleene.models.test_function_model"


@pytest.mark.parametrize(
    ("fn", "name", "own"),
    [
        (shout, f"{HERE}.shout", True),
        (lambda request: "x", f"{HERE}.<lambda>", False),
        (closure("x"), f"{HERE}.closure.<locals>.<lambda>", False),
        (functools.partial(shout), f"{HERE}.shout", False),
        (Parrot(), f"{HERE}.Parrot", False),
        (Parrot().say, f"{HERE}.Parrot.say", False),
        (str, "builtins.str", False),
    ],
)
def test_a_model_without_a_name_is_called_as_its_function(fn: Any, name: str, own: bool) -> None:
    one, two = FunctionModel(fn), FunctionModel(fn)
    assert (one.name, one.model) == (name, name)
    assert (one.endpoint == two.endpoint == "python") is own
    assert FunctionModel(fn, "m").endpoint == "python"


def test_functions_without_a_name_share_no_answers(tmp_path: Path) -> None:
    def said(models: FunctionModel) -> tuple[str, int]:
        with kleene.connect(store=tmp_path / "run.duckdb", models=models) as k:
            result = k.sql("SELECT llm('Hi')")
            return result.fetchall()[0][0], result.usage.memo_hits

    a, b = closure("a"), closure("b")
    assert [said(FunctionModel(fn)) for fn in (shout, quiet, shout)] == [("HI", 0), ("hi", 0), ("HI", 1)]
    assert [said(FunctionModel(fn)) for fn in (a, b)] == [("a", 0), ("b", 0)]
    assert [said(FunctionModel(fn, "v1")) for fn in (a, b)] == [("a", 0), ("a", 1)]
