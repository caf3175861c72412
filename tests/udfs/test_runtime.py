"""kleene.udfs.runtime and kleene.udfs.asking: the bridge between threads and the loop."""

from __future__ import annotations

import threading
import time

import pytest
import trio

from kleene.models.function_model import FunctionModel
from kleene.planner.errors import BudgetExceeded, CallFailed, Cancelled, KleeneError
from kleene.planner.specs import BudgetLimits
from kleene.udfs.asking import Caller
from kleene.udfs.ledger import Ledger
from kleene.udfs.protocols import ProviderError, Request
from kleene.udfs.runtime import Runtime, unwrap
from kleene.udfs.statement import Wanted
from kleene.udfs.walls import alarm, wall_error
from tests.patience import AT_ONCE_S
from tests.udfs.calls import router, world


@pytest.fixture
def runtime():  # type: ignore[no-untyped-def]
    made = Runtime()
    yield made
    made.close()


async def double(value: int) -> int:
    await trio.lowlevel.checkpoint()
    return 2 * value


def test_a_task_gives_its_result(runtime: Runtime) -> None:
    assert runtime.submit(double, 21).wait(5) == 42


def test_no_thread_runs_before_the_first_task() -> None:
    before = threading.active_count()
    made = Runtime()
    assert threading.active_count() == before
    made.close()
    assert threading.active_count() == before


def test_the_thread_ends_with_the_runtime() -> None:
    before = threading.active_count()
    made = Runtime()
    made.submit(double, 1).wait(5)
    made.close()
    made.close()
    assert threading.active_count() == before


def test_an_error_keeps_its_type(runtime: Runtime) -> None:
    async def fail() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 10)
            raise CallFailed("no", call="f('x')")

    with pytest.raises(CallFailed) as caught:
        runtime.submit(fail).wait(5)
    assert caught.value.call == "f('x')"


def test_a_cancel_is_told_as_one(runtime: Runtime) -> None:
    task = runtime.submit(trio.sleep, 30)
    task.cancel()
    with pytest.raises(Cancelled, match=r"^cancelled$"):
        task.wait(5)
    task.cancel()


def test_a_task_that_is_done_calls_back(runtime: Runtime) -> None:
    called = threading.Event()
    runtime.submit(double, 1).on_done(called.set)
    assert called.wait(5)


def test_what_was_registered_is_closed_with_the_loop(runtime: Runtime) -> None:
    closed: list[str] = []

    async def close() -> None:
        closed.append("closed")

    runtime.on_close(close)
    runtime.submit(double, 1).wait(5)
    runtime.close()
    assert closed == ["closed"]


def test_a_closed_runtime_takes_no_task(runtime: Runtime) -> None:
    runtime.close()
    with pytest.raises(KleeneError) as caught:
        runtime.submit(double, 1)
    assert (str(caught.value), caught.value.hint) == ("the engine is closed", "attach again: k = kleene.attach(con)")


def test_of_several_errors_the_one_that_is_no_cancel_is_told() -> None:
    wrong = KeyError("x")
    assert unwrap(ExceptionGroup("", [ExceptionGroup("", [wrong])])) is wrong


def test_an_alarm_rings_during_its_block_only() -> None:
    rung = threading.Event()
    with alarm(0.01, rung.set):
        assert rung.wait(5)
    rung.clear()
    with alarm(5.0, rung.set):
        pass
    with alarm(None, rung.set):
        pass
    assert not rung.is_set()


def test_the_walls_error_comes_even_a_tick_early() -> None:
    ledger = Ledger(BudgetLimits(wall=0.02))
    assert isinstance(wall_error(ledger), BudgetExceeded)


# -- asking --------------------------------------------------------------------------------------------------------------------------------


def test_a_caller_waits_for_all_it_asked() -> None:
    with world() as (w, _):
        context = w.context()
        site = w.site(context)
        caller = Caller(w.runtime, w.dispatcher, context)
        caller.ask([Wanted(site, ["a"])])
        caller.ask([Wanted(site, ["b"])])
        assert caller.wait(early=False, not_before=0.0) is True
        assert site.answers.answers == {"a": "about a", "b": "about b"}


def test_an_early_wait_ends_when_there_is_room_for_more() -> None:
    release = trio.Event()

    async def rule(request: Request) -> str:
        if request.prompt == "slow":
            await release.wait()
        return "ok"

    with world(handler=router(FunctionModel(rule, "m"))) as (w, _):
        context = w.context()
        site = w.site(context)
        caller = Caller(w.runtime, w.dispatcher, context)
        caller.ask([Wanted(site, ["slow", "quick"])])
        assert caller.wait(early=True, not_before=0.0) is False
        assert site.answers.answers == {"quick": "ok"}
        w.runtime.soon(release.set)
        assert caller.wait(early=True, not_before=0.0) is True


def test_an_early_wait_rests_as_long_as_it_is_told() -> None:
    async def rule(request: Request) -> str:
        await trio.sleep(5 if request.prompt == "slow" else 0)
        return "ok"

    with world(handler=router(FunctionModel(rule, "m"))) as (w, _):
        context = w.context()
        caller = Caller(w.runtime, w.dispatcher, context)
        caller.ask([Wanted(w.site(context), ["slow", "quick"])])
        started = time.monotonic()
        assert caller.wait(early=True, not_before=started + 0.1) is False
        assert time.monotonic() - started >= 0.1
        caller.close()


def test_the_first_error_ends_all_that_is_out() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def rule(request: Request) -> str:
        if request.prompt == "bad":
            raise ProviderError("auth", "no key")
        begun.set()
        try:
            await trio.sleep(30)
        finally:
            ended.set()
        return "never"

    with world(handler=router(FunctionModel(rule, "m"))) as (w, _):
        context = w.context()
        site = w.site(context)
        caller = Caller(w.runtime, w.dispatcher, context)
        caller.ask([Wanted(site, ["slow"])])
        assert begun.wait(10)
        caller.ask([Wanted(site, ["bad"])])
        with pytest.raises(CallFailed, match="no key"):
            caller.wait(early=True, not_before=0.0)
        assert ended.is_set()
        assert w.dispatcher.in_flight == 0


def test_a_cancelled_caller_asks_no_more() -> None:
    async def rule(request: Request) -> str:
        await trio.sleep(30)
        return "never"

    with world(handler=router(FunctionModel(rule, "m"))) as (w, _):
        context = w.context()
        site = w.site(context)
        caller = Caller(w.runtime, w.dispatcher, context)
        caller.ask([Wanted(site, ["a"])])
        threading.Timer(0.05, caller.cancel).start()
        started = time.monotonic()
        with pytest.raises(Cancelled):
            caller.wait(early=False, not_before=0.0)
        assert time.monotonic() - started < AT_ONCE_S
        with pytest.raises(Cancelled):
            caller.ask([Wanted(site, ["b"])])


def test_a_statements_own_condition_is_checked_after_each_wait() -> None:
    def check() -> None:
        raise CallFailed("2 answers are unknown", kind="unknown")

    with world() as (w, _):
        context = w.context()
        caller = Caller(w.runtime, w.dispatcher, context, check)
        caller.ask([Wanted(w.site(context), ["a"])])
        with pytest.raises(CallFailed, match="2 answers are unknown"):
            caller.wait(early=False, not_before=0.0)
