"""kleene.udfs.gate: what is in flight is bounded, adapts to who is overloaded, and is shared by turns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from kleene.udfs.gate import Endpoint, Gate, Party
from kleene.udfs.protocols import Route

HERE = Route("worker", "p", "here", "m")
THERE = Route("worker", "p", "there", "m")


def run(function: Callable[[], Awaitable[Any]]) -> Any:
    async def bounded() -> Any:
        with trio.fail_after(5):
            return await function()

    return trio.run(bounded)


def test_no_more_than_the_bound_are_inside() -> None:
    async def main() -> int:
        gate = Gate(3)
        most = 0

        async def call() -> None:
            nonlocal most
            endpoint = await gate.enter(HERE, Party("s"))
            most = max(most, gate.inside)
            await trio.lowlevel.checkpoint()
            gate.leave(endpoint, Party("s"))

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(call)
        assert gate.inside == 0
        return most

    assert run(main) == 3


def test_parties_are_let_in_by_turns() -> None:
    async def main() -> list[str]:
        gate = Gate(1)
        order: list[str] = []
        first = await gate.enter(HERE, Party("x"))

        async def call(party: str) -> None:
            endpoint = await gate.enter(HERE, Party(party))
            order.append(party)
            gate.leave(endpoint, Party(party))

        async with trio.open_nursery() as nursery:
            for party in ["big"] * 6 + ["small"] * 2:
                nursery.start_soon(call, party)
                await trio.testing.wait_all_tasks_blocked()
            gate.leave(first, Party("x"))
        return order

    order = run(main)
    assert order[:4] in (["big", "small"] * 2, ["small", "big"] * 2)
    assert order[4:] == ["big"] * 4


def test_who_is_cancelled_while_waiting_takes_no_place() -> None:
    async def main() -> int:
        gate = Gate(1)
        inside = await gate.enter(HERE, Party("x"))
        with trio.move_on_after(0.01):
            await gate.enter(HERE, Party("y"))
        gate.leave(inside, Party("x"))
        again = await gate.enter(HERE, Party("z"))
        assert gate.inside == 1
        gate.leave(again, Party("z"))
        return gate.inside

    assert run(main) == 0


def test_who_is_cancelled_as_it_is_let_in_gives_its_place_back() -> None:
    async def main() -> int:
        gate = Gate(1)
        first = await gate.enter(HERE, Party("x"))
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def call() -> None:
                    gate.leave(await gate.enter(HERE, Party("y")), Party("y"))

                nursery.start_soon(call)
                await trio.testing.wait_all_tasks_blocked()
                gate.leave(first, Party("x"))
                scope.cancel()
        return gate.inside

    assert run(main) == 0


def test_an_overloaded_endpoint_is_halved_once_a_wave() -> None:
    endpoint = Endpoint()
    endpoint.inside = 16
    for _ in range(5):
        endpoint.throttled(now=10.0, started=9.0, wait_s=0.0)
    assert endpoint.room == 8
    endpoint.throttled(now=11.0, started=10.5, wait_s=0.0)
    assert endpoint.room == 4


def test_room_never_falls_below_one() -> None:
    endpoint = Endpoint()
    endpoint.inside = 1
    for now in range(1, 9):
        endpoint.throttled(now=float(now), started=now - 0.5, wait_s=0.0)
    assert endpoint.room == 1


def test_replies_let_one_more_in_each_round_until_the_bound_holds_again() -> None:
    endpoint = Endpoint()
    endpoint.inside = 8
    endpoint.throttled(now=1.0, started=0.0, wait_s=0.0)
    assert endpoint.room == 4
    for _ in range(5):
        endpoint.replied(bound=8)
    assert endpoint.room == pytest.approx(5, abs=0.15)
    for _ in range(40):
        endpoint.replied(bound=8)
    assert endpoint.room is None


def test_other_endpoints_are_not_slowed() -> None:
    async def main() -> None:
        gate = Gate(8)
        slow = await gate.enter(HERE, Party("s"))
        slow.throttled(now=1.0, started=0.0, wait_s=0.0)
        with trio.move_on_after(0.01) as scope:
            await gate.enter(HERE, Party("s"))
        assert scope.cancelled_caught
        for _ in range(7):
            await gate.enter(THERE, Party("s"))
        assert gate.inside == 8

    run(main)


def test_an_endpoint_that_names_a_wait_is_left_alone_so_long() -> None:
    async def main() -> float:
        gate = Gate(8, clock=trio.current_time)
        endpoint = await gate.enter(HERE, Party("s"))
        endpoint.throttled(trio.current_time(), trio.current_time() - 1, wait_s=0.05)
        gate.leave(endpoint, Party("s"))
        started = trio.current_time()
        gate.leave(await gate.enter(HERE, Party("s")), Party("s"))
        return trio.current_time() - started

    assert run(main) >= 0.05


def test_a_party_keeps_to_its_own_bound_and_leaves_room_to_others() -> None:
    async def main() -> int:
        gate = Gate(8)
        small = Party("small", bound=2)
        endpoint = await gate.enter(HERE, small)
        await gate.enter(HERE, small)
        with trio.move_on_after(0.01) as scope:
            await gate.enter(HERE, small)
        assert scope.cancelled_caught
        await gate.enter(HERE, Party("big", bound=8))
        gate.leave(endpoint, small)
        await gate.enter(HERE, small)
        return gate.inside

    assert run(main) == 3
