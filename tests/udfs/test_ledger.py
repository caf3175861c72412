"""kleene.udfs.ledger: nothing is ever exceeded, and everything that was held comes back."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from kleene.planner.errors import BudgetExceeded, PolicyError
from kleene.planner.specs import BudgetLimits, Usage
from kleene.udfs.ledger import Ledger, Reservation


class HandClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_call_after_the_last_is_refused_and_named() -> None:
    ledger = Ledger(BudgetLimits(calls=20))
    for _ in range(20):
        ledger.reserve()
    with pytest.raises(BudgetExceeded) as caught:
        ledger.reserve()
    assert str(caught.value) == "calls budget exceeded: 21 > 20"
    assert caught.value.hint == "raise it: SET budget.calls = n, or start with --budget-calls n"
    assert (caught.value.dimension, caught.value.limit, caught.value.used) == ("calls", 20, 21)


@pytest.mark.parametrize(
    ("limits", "asked", "message"),
    [
        (BudgetLimits(tokens=100), {"tokens": 101}, "tokens budget exceeded: 101 > 100"),
        (BudgetLimits(dollars=0.1), {"dollars": 0.25}, "dollars budget exceeded: 0.25 > 0.1"),
        (BudgetLimits(calls=0), {}, "calls budget exceeded: 1 > 0"),
    ],
    ids=["tokens", "dollars", "no calls at all"],
)
def test_each_dimension_is_named(limits: BudgetLimits, asked: dict[str, float], message: str) -> None:
    with pytest.raises(BudgetExceeded) as caught:
        Ledger(limits).reserve(**asked)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_a_refused_reservation_holds_nothing_anywhere() -> None:
    session = Ledger(BudgetLimits(calls=10, dollars=1.0))
    statement = session.child(BudgetLimits(dollars=0.5))
    with pytest.raises(BudgetExceeded):
        statement.reserve(1, 50, 0.75)
    assert statement.reserved == session.reserved == BudgetLimits(calls=0, tokens=0, dollars=0.0)


def test_a_statement_draws_on_its_session() -> None:
    session = Ledger(BudgetLimits(calls=3))
    first, second = session.child(), session.child()
    first.reserve(2)
    second.reserve(1)
    with pytest.raises(BudgetExceeded, match="calls budget exceeded: 4 > 3"):
        second.reserve()
    assert first.remaining().calls == 0


def test_settling_replaces_the_worst_case_by_the_truth() -> None:
    ledger = Ledger(BudgetLimits(calls=10, tokens=1000, dollars=1.0))
    held = ledger.reserve(2, 800, 0.9)
    assert ledger.remaining() == BudgetLimits(calls=8, tokens=200, dollars=0.1)
    held.settle(Usage(requests=1, items=1, input_tokens=70, output_tokens=30, dollars=0.1, seconds=0.5))
    assert ledger.remaining() == BudgetLimits(calls=9, tokens=900, dollars=0.9)
    assert ledger.used == Usage(requests=1, items=1, input_tokens=70, output_tokens=30, dollars=0.1, seconds=0.5)


def test_a_reservation_ends_once() -> None:
    ledger = Ledger(BudgetLimits(calls=5))
    settled, released = ledger.reserve(2), ledger.reserve(1)
    settled.settle(Usage(requests=2))
    settled.settle(Usage(requests=2))
    settled.release()
    released.release()
    released.release()
    released.settle(Usage(requests=1))
    assert ledger.used.requests == 2
    assert ledger.remaining().calls == 3


def test_tokens_beyond_the_reservation_are_recorded_and_stop_the_next_call() -> None:
    ledger = Ledger(BudgetLimits(tokens=100))
    ledger.reserve(1, 90).settle(Usage(requests=1, input_tokens=120))
    assert ledger.used.tokens == 120
    assert ledger.remaining().tokens == 0
    with pytest.raises(BudgetExceeded, match="tokens budget exceeded: 130 > 100"):
        ledger.reserve(1, 10)


def test_more_requests_than_reserved_calls_are_recorded_and_complained_about() -> None:
    ledger = Ledger()
    with pytest.raises(ValueError, match="2 requests were sent on a reservation of 1 calls"):
        ledger.reserve(1).settle(Usage(requests=2))
    assert ledger.used.requests == 2


def test_dollars_add_up_without_rounding() -> None:
    ledger = Ledger(BudgetLimits(dollars=0.3))
    for _ in range(3):
        ledger.reserve(1, 0, 0.1).settle(Usage(requests=1, dollars=0.1))
    assert ledger.used.dollars == 0.3
    assert ledger.remaining().dollars == 0.0


def test_memo_hits_are_recorded_without_a_reservation() -> None:
    session = Ledger(BudgetLimits(calls=0))
    session.child().record(Usage(memo_hits=7))
    assert session.used == Usage(memo_hits=7)


def test_a_round_is_priced_before_it_is_sent() -> None:
    session = Ledger(BudgetLimits(calls=10, dollars=1.0))
    statement = session.child(BudgetLimits(calls=8))
    assert statement.fits(8, 10**9, 1.0) is None
    assert statement.fits(9) == ("calls", 9, 8)
    session.reserve(5)
    assert statement.fits(6) == ("calls", 6, 5)
    assert statement.fits(1, 0, 1.5) == ("dollars", 1.5, 1.0)
    assert Ledger().fits(10**9, 10**12, 1e9) is None


def test_nothing_is_reserved_after_the_wall() -> None:
    clock = HandClock()
    session = Ledger(BudgetLimits(wall=2.0), clock=clock)
    statement = session.child(BudgetLimits(wall=10.0))
    assert statement.deadline == 102.0
    clock.now = 101.5
    statement.check_wall()
    assert statement.remaining().wall == 0.5
    clock.now = 102.25
    for attempt in (statement.check_wall, statement.reserve):
        with pytest.raises(BudgetExceeded) as caught:
            attempt()
        assert str(caught.value) == "wall budget exceeded: 2.25 s > 2 s"
        assert caught.value.hint == "raise it: SET budget.wall = n, or start with --budget-wall n"
    assert session.remaining().wall == 0.0


def test_a_limit_may_be_lowered_and_not_raised() -> None:
    ledger = Ledger(BudgetLimits(calls=20))
    ledger.lower(BudgetLimits(calls=10, tokens=500))
    assert ledger.limits == BudgetLimits(calls=10, tokens=500)
    with pytest.raises(PolicyError) as caught:
        ledger.lower(BudgetLimits(calls=11))
    assert str(caught.value) == "budget.calls can only be lowered here: 11 > 10"
    assert caught.value.hint == "set it to at most 10"
    ledger.lower(BudgetLimits(calls=11), allow_raise=True)
    ledger.replace(BudgetLimits(tokens=500))
    assert ledger.limits == BudgetLimits(tokens=500)


def test_a_refused_change_changes_nothing() -> None:
    ledger = Ledger(BudgetLimits(calls=20, tokens=100))
    with pytest.raises(PolicyError):
        ledger.lower(BudgetLimits(calls=10, tokens=200))
    assert ledger.limits == BudgetLimits(calls=20, tokens=100)


def test_children_of_a_round_get_equal_shares_and_the_parent_keeps_one() -> None:
    parent = Ledger(BudgetLimits(calls=20, tokens=1000, dollars=1.0))
    slices = [parent.slice(left) for left in (4, 3, 2, 1)]
    assert [s.remaining().calls for s in slices] == [4, 4, 4, 4]
    assert [s.remaining().dollars for s in slices] == [0.2] * 4
    assert parent.remaining() == BudgetLimits(calls=4, tokens=200, dollars=0.2)


def test_a_slice_is_capped_by_its_role_and_shares_what_has_no_limit() -> None:
    parent = Ledger(BudgetLimits(calls=20))
    child = parent.slice(1, BudgetLimits(calls=3, tokens=100, wall=5.0))
    assert child.limits == BudgetLimits(calls=3, tokens=100, wall=5.0)
    assert parent.remaining().calls == 17
    child.reserve(3, 100, 50.0)
    with pytest.raises(BudgetExceeded) as caught:
        child.reserve()
    assert str(caught.value) == "calls budget exceeded: 4 > 3"
    assert caught.value.hint == (
        "a child has a share of its parent's budget; raise that before the child starts: "
        "SET budget.calls = n, or start with --budget-calls n"
    )
    assert parent.reserved.dollars == 50.0


def test_what_a_child_spends_its_parent_has_spent_at_once() -> None:
    parent = Ledger(BudgetLimits(calls=20, dollars=1.0))
    child = parent.slice(1)
    child.child().reserve(2, 0, 0.2).settle(Usage(requests=2, dollars=0.2))
    assert parent.used == Usage(requests=2, dollars=0.2)
    assert parent.remaining() == BudgetLimits(calls=10, dollars=0.5)
    child.close()
    assert parent.remaining() == BudgetLimits(calls=18, dollars=0.8)
    with pytest.raises(BudgetExceeded):
        child.reserve()


def test_what_is_in_flight_when_a_child_ends_stays_held_until_it_settles() -> None:
    parent = Ledger(BudgetLimits(calls=20))
    child = parent.slice(1)
    flying = child.reserve(4)
    child.close()
    child.close()
    assert parent.remaining().calls == 16
    flying.settle(Usage(requests=1))
    assert parent.remaining().calls == 19
    assert parent.reserved.calls == 0


def test_a_child_that_would_get_nothing_is_refused() -> None:
    parent = Ledger(BudgetLimits(calls=2))
    with pytest.raises(BudgetExceeded) as caught:
        parent.slice(2)
    assert str(caught.value) == "calls budget exceeded: a child would get nothing of the 2 that remain"
    assert parent.remaining().calls == 2


def test_children_go_no_deeper_than_allowed() -> None:
    root = Ledger(BudgetLimits(depth=2))
    grandchild = root.slice().slice()
    assert root.remaining().depth == 2
    assert grandchild.remaining().depth == 0
    with pytest.raises(BudgetExceeded) as caught:
        grandchild.child().slice()
    assert str(caught.value) == "depth budget exceeded: 3 > 2"
    assert caught.value.hint == "raise it: SET budget.depth = n"


def test_a_share_is_not_raised_even_by_the_host() -> None:
    child = Ledger(BudgetLimits(calls=20)).slice()
    with pytest.raises(PolicyError):
        child.lower(BudgetLimits(calls=15), allow_raise=True)
    with pytest.raises(PolicyError):
        child.replace(BudgetLimits())


def test_waiting_can_help_only_where_a_request_is_in_flight() -> None:
    session = Ledger(BudgetLimits(calls=20))
    kept = session.hold_back(2)
    child = session.slice()
    assert not session.has_reservations()
    in_child = child.child().reserve()
    assert session.has_reservations()
    assert child.has_reservations()
    in_child.release()
    in_session = session.reserve()
    assert not child.has_reservations(), "a child's share does not grow by what its parent settles"
    in_session.settle(Usage(requests=1))
    assert not session.has_reservations()
    kept.release()
    assert session.reserved.calls == child.limits.calls == 9


def test_a_negative_amount_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        Ledger().reserve(-1)


def test_four_children_at_once_cannot_share_the_last_dollar_twice() -> None:
    parent = Ledger(BudgetLimits(dollars=1.0))
    refused: list[BudgetExceeded] = []

    def turns(ledger: Ledger) -> None:
        try:
            while True:
                ledger.reserve(1, 0, 0.07).settle(Usage(requests=1, dollars=0.05))
        except BudgetExceeded as error:
            refused.append(error)

    in_threads([lambda: turns(parent.child(name="child")) for _ in range(4)])
    assert len(refused) == 4
    assert 0.93 < parent.used.dollars <= 1.0
    assert parent.reserved.dollars == 0.0


def in_threads(work: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=w) for w in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


amount = st.integers(0, 6)
maybe = st.none() | st.integers(0, 40)
money = st.sampled_from([0.0, 0.01, 0.1, 0.3, 1 / 3])
part = st.floats(0, 1)


class Books(RuleBasedStateMachine):
    """Any tree, any order: no limit is exceeded at any time, and at the end nothing is held."""

    ledgers = Bundle("ledgers")
    held = Bundle("held")

    def __init__(self) -> None:
        super().__init__()
        self.all: list[Ledger] = []
        self.open: list[Reservation] = []

    @rule(target=ledgers, calls=maybe, tokens=maybe, dollars=st.none() | st.sampled_from([0.0, 0.5, 2.0]))
    def session(self, calls: int | None, tokens: int | None, dollars: float | None) -> Ledger:
        return self.seen(Ledger(BudgetLimits(calls=calls, tokens=tokens, dollars=dollars)))

    @rule(target=ledgers, parent=ledgers, calls=maybe)
    def statement(self, parent: Ledger, calls: int | None) -> Ledger:
        return self.seen(parent.child(BudgetLimits(calls=calls)))

    @rule(target=ledgers, parent=ledgers, children=st.integers(1, 4), cap=maybe)
    def sliced(self, parent: Ledger, children: int, cap: int | None) -> Ledger:
        try:
            return self.seen(parent.slice(children, BudgetLimits(tokens=cap)))
        except BudgetExceeded:
            return parent

    @rule(target=held, ledger=ledgers, calls=amount, tokens=amount, dollars=money)
    def reserve(
        self, ledger: Ledger, calls: int, tokens: int, dollars: float
    ) -> tuple[Reservation, int, int, float] | None:
        fits = ledger.fits(calls, tokens, dollars)
        try:
            reservation = ledger.reserve(calls, tokens, dollars)
        except BudgetExceeded as error:
            assert fits is not None
            assert error.dimension == fits[0]
            return None
        assert fits is None or ledger.closed
        self.open.append(reservation)
        return reservation, calls, tokens, dollars

    @rule(held=held, share=part)
    def settle(self, held: tuple[Reservation, int, int, float] | None, share: float) -> None:
        if held is not None:
            reservation, calls, tokens, dollars = held
            reservation.settle(
                Usage(requests=int(calls * share), output_tokens=int(tokens * share), dollars=dollars * share)
            )

    @rule(held=held)
    def release(self, held: tuple[Reservation, int, int, float] | None) -> None:
        if held is not None:
            held[0].release()

    @rule(ledger=ledgers)
    def close(self, ledger: Ledger) -> None:
        ledger.close()

    def seen(self, ledger: Ledger) -> Ledger:
        self.all.append(ledger)
        return ledger

    @invariant()
    def nothing_is_exceeded(self) -> None:
        for ledger in self.all:
            used, held, limits = ledger.used, ledger.reserved, ledger.limits
            assert min(held.calls or 0, held.tokens or 0, held.dollars or 0.0) >= 0
            for spent, reserved, limit in (
                (used.requests, held.calls, limits.calls),
                (used.tokens, held.tokens, limits.tokens),
                (used.dollars, held.dollars, limits.dollars),
            ):
                assert limit is None or spent + (reserved or 0) <= limit + 1e-9

    @invariant()
    def a_parent_holds_at_least_what_its_children_hold(self) -> None:
        for ledger in self.all:
            if ledger.parent is not None:
                assert (ledger.parent.reserved.calls or 0) >= (ledger.reserved.calls or 0)
                assert ledger.parent.used.requests >= ledger.used.requests

    def teardown(self) -> None:
        for reservation in self.open:
            reservation.release()
        for ledger in reversed(self.all):
            ledger.close()
        assert all(ledger.reserved == BudgetLimits(calls=0, tokens=0, dollars=0.0) for ledger in self.all)


Books.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestBooks = Books.TestCase
