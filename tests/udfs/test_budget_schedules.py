"""Budgets under random schedules: statements, children, batches, failures, repairs and cancels at once never exceed any dimension, and end
with nothing reserved. Everything is real but the model, which fails at random."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kleene.models.function_model import FunctionModel
from kleene.planner.errors import BudgetExceeded, KleeneError
from kleene.planner.specs import BudgetLimits, Price
from kleene.udfs.ledger import Ledger
from kleene.udfs.protocols import ProviderError, Reply, Request
from tests.udfs.calls import BOOL, TEXT, World, router, spec
from tests.udfs.test_batching import is_batch, prompts_of

PRICE = Price(100.0, 500.0)


@attrs.frozen
class Part:
    """One statement of a schedule."""

    keys: int
    batch: int
    concurrency: int
    limits: BudgetLimits
    child: bool
    boolean: bool
    lenient: bool
    cancel_after: int | None


@attrs.frozen
class Schedule:
    limits: BudgetLimits
    parts: tuple[Part, ...]
    seed: int
    faults: float


def limits() -> st.SearchStrategy[BudgetLimits]:
    return st.builds(
        BudgetLimits,
        calls=st.none() | st.integers(0, 12),
        tokens=st.none() | st.integers(0, 6_000),
        dollars=st.none() | st.floats(0, 1.0).map(lambda d: round(d, 4)),
    )


PARTS = st.builds(
    Part,
    keys=st.integers(1, 8),
    batch=st.integers(1, 4),
    concurrency=st.integers(1, 6),
    limits=limits(),
    child=st.booleans(),
    boolean=st.booleans(),
    lenient=st.booleans(),
    cancel_after=st.none() | st.integers(0, 6),
)
SCHEDULES = st.builds(
    Schedule,
    limits=limits(),
    parts=st.lists(PARTS, min_size=1, max_size=4).map(tuple),
    seed=st.integers(0, 2**32),
    faults=st.sampled_from([0.0, 0.2, 0.6]),
)


class Books:
    """The model, and what it saw: every request is compared with what the ledgers allow at that moment."""

    def __init__(self) -> None:
        self.begin(Schedule(BudgetLimits(), (), 0, 0.0), Ledger())

    def begin(self, schedule: Schedule, ledger: Ledger) -> None:
        self.schedule = schedule
        self.random = random.Random(schedule.seed)
        self.watched = [ledger]
        self.calls = 0
        self.tokens = 0
        self.wrong: list[str] = []
        self.on_call: dict[int, Any] = {}

    async def __call__(self, request: Request) -> Reply:
        self.calls += 1
        if self.calls in self.on_call:
            self.on_call[self.calls].cancel()
        self.check()
        await trio.sleep(self.random.choice((0, 0, 0.0005)))
        roll = self.random.random()
        if roll < self.schedule.faults / 2:
            kind = self.random.choice(["network", "rate_limited", "overloaded", "bad_request"])
            sent = self.random.random() < 0.8
            raise ProviderError(kind, "faulty", retryable=kind != "bad_request", retry_after=0.0002, sent=sent)
        if roll < self.schedule.faults:
            return self.reply(request, self.random.choice(["", "perhaps", '{"items": []}']))
        if is_batch(request):
            items = [{"n": n, "answer": True} for n, _ in prompts_of(request.prompt)]
            return self.reply(
                request, json.dumps({"items": items}).replace("true", '"x"' if not request.system else "true")
            )
        return self.reply(request, "true")

    def reply(self, request: Request, text: str) -> Reply:
        used = (self.random.randint(0, request.bytes_bound()), self.random.randint(0, request.options.max_tokens))
        self.tokens += sum(used)
        return Reply(text, *used)

    def check(self) -> None:
        for ledger in self.watched:
            used, held, limit = ledger.used, ledger.reserved, ledger.limits
            for name, spent in (("calls", used.requests), ("tokens", used.tokens), ("dollars", used.dollars)):
                bound = getattr(limit, name)
                if bound is not None and spent + getattr(held, name) > bound + (1e-9 if name == "dollars" else 0):
                    self.wrong.append(f"{ledger.name}: {name} {spent} + {getattr(held, name)} > {bound}")


@pytest.fixture(scope="module")
def scene() -> Iterator[tuple[World, Books]]:
    books = Books()
    world = World(router(FunctionModel(books, "m", price=PRICE, on_asyncio=False)), None, patience_s=0.02)
    world.dispatcher._sender._retry_waits_s = (0.0, 0.0005)
    yield world, books
    world.runtime.close()


def play(world: World, books: Books, schedule: Schedule) -> None:
    session = Ledger(schedule.limits)
    books.begin(schedule, session)
    tasks = []
    opened = []
    for part in schedule.parts:
        parent = session
        if part.child:
            try:
                parent = session.slice(len(schedule.parts))
            except BudgetExceeded:
                continue
        ledger = parent.child(part.limits)
        opened += [ledger, parent]
        books.watched += [ledger, parent]
        context = world.context(
            ledger=ledger,
            memo=False,
            concurrency=part.concurrency,
            max_tokens=200,
            on_error="null" if part.lenient else "fail",
        )
        call = spec(
            BOOL if part.boolean else TEXT, batch=part.batch, max_tokens=200, system="b" if part.boolean else None
        )
        task = world.start(context, world.site(context, call), [f"key {i}" for i in range(part.keys)])
        if part.cancel_after is not None:
            books.on_call[books.calls + part.cancel_after] = task
        tasks.append(task)
    for task in tasks:
        error = task.outcome()
        assert error is None or isinstance(error, KleeneError), error
    for ledger in opened:
        if ledger is not session:
            ledger.close()
    books.check()
    assert books.wrong == []
    assert session.reserved == BudgetLimits(calls=0, tokens=0, dollars=0.0)
    for ledger in opened:
        assert ledger.reserved == BudgetLimits(calls=0, tokens=0, dollars=0.0)
    # What the model saw is what was booked; requests that failed before they left, and estimates for lost replies, come on top.
    assert session.used.requests <= books.calls
    assert session.used.tokens >= 0
    assert world.dispatcher.in_flight == 0
    assert world.dispatcher.gate.inside == 0


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(schedule=SCHEDULES)
def test_no_schedule_exceeds_its_budget(scene: tuple[World, Books], schedule: Schedule) -> None:
    play(*scene, schedule)


@pytest.mark.slow
@settings(max_examples=2_000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(schedule=SCHEDULES)
def test_two_thousand_schedules_exceed_nothing(scene: tuple[World, Books], schedule: Schedule) -> None:
    play(*scene, schedule)
