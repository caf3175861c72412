"""kleene.udfs.dispatch: every distinct prompt is paid once, kept before it is used, and never lost; what fails says so."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
import trio

from kleene.models.function_model import FunctionModel
from kleene.planner.errors import BudgetExceeded, CallFailed, Cancelled, ConfigError, KleeneError, Refused
from kleene.planner.specs import AnswerType, BudgetLimits, Template, Usage, Volatility
from kleene.store import Store, TraceWriter, read_events
from kleene.udfs.events import CallsFinished
from kleene.udfs.ledger import Ledger
from kleene.udfs.memo import MemoEntry
from kleene.udfs.protocols import Message, ProviderError, Reply, Request
from kleene.udfs.statement import Ask
from tests.patience import AT_ONCE_S, PATIENCE_S, until
from tests.udfs.calls import BOOL, PRICE, TEXT, Model, World, router, spec, world

# -- once ----------------------------------------------------------------------------------------------------------------------------------


def test_an_answer_is_the_models_reply() -> None:
    with world() as (w, model):
        context = w.context()
        assert w.ask(context, w.site(context), ["a", "b"]) == {"a": "about a", "b": "about b"}
        assert model.asked == {"a": 1, "b": 1}
        assert context.meter.usage == Usage(requests=2, items=2, input_tokens=2, output_tokens=4)


def test_two_sites_with_the_same_prompt_cost_one_call() -> None:
    with world(memo=False) as (w, model):
        context = w.context()
        one, two = w.site(context), w.site(context, spec(template=Template(("a ", 0))))
        asks = [Ask(one, "a b"), Ask(two, "b")]
        w.runtime.submit(w.dispatcher.answer, context, asks).wait(10)
        assert one.answers.answers == {"a b": "about a b"}
        assert two.answers.answers == {"b": "about a b"}
        assert model.calls == 1


def test_a_later_round_of_another_site_knows_what_an_earlier_one_asked() -> None:
    with world(memo=False) as (w, model):
        context = w.context()
        one, two = w.site(context), w.site(context)
        w.ask(context, one, ["a"])
        w.ask(context, two, ["a"])
        assert (model.calls, two.answers.answers) == (1, {"a": "about a"})


def test_prompts_are_asked_in_the_order_of_their_text() -> None:
    with world() as (w, model):
        context = w.context(concurrency=1)
        w.ask(context, w.site(context), ["c", "a", "b"])
        assert [r.prompt for r in model.requests] == ["a", "b", "c"]


def test_statements_share_what_is_in_flight() -> None:
    started, finish = threading.Event(), threading.Event()

    def slow(request: Request) -> str:
        started.set()
        finish.wait(5)
        return "late"

    with world(slow, threads=True) as (w, model):
        first, second = w.context(), w.context()
        one, two = w.site(first), w.site(second)
        tasks = [w.start(first, one, ["p"])]
        started.wait(5)
        tasks.append(w.start(second, two, ["p"]))
        time.sleep(0.05)
        finish.set()
        for task in tasks:
            task.wait(PATIENCE_S)
        assert (one.answers.answers, two.answers.answers) == ({"p": "late"}, {"p": "late"})
        assert model.calls == 1
        assert [c.coalesced for c in w.calls()] == [False, True]
        assert second.meter.usage == Usage()


def test_who_waits_for_a_call_that_is_cancelled_asks_itself() -> None:
    started = threading.Event()
    release = threading.Event()
    turns = iter([release.wait, lambda: None])

    def rule(request: Request) -> str:
        started.set()
        next(turns)()
        return "mine"

    with world(rule, threads=True) as (w, model):
        first, second = w.context(), w.context()
        one, two = w.site(first), w.site(second)
        task = w.start(first, one, ["p"])
        started.wait(5)
        waiting = w.start(second, two, ["p"])
        time.sleep(0.05)
        task.cancel()
        waiting.wait(5)
        release.set()
        assert two.answers.answers == {"p": "mine"}
        assert model.calls == 2
        assert w.dispatcher.in_flight == 0


# -- the memo ------------------------------------------------------------------------------------------------------------------------------


def test_the_memo_answers_before_the_model() -> None:
    with world() as (w, model):
        for _ in range(2):
            context = w.context()
            assert w.ask(context, w.site(context), ["a", "b"]) == {"a": "about a", "b": "about b"}
        assert model.calls == 2
        assert context.meter.usage == Usage(memo_hits=2)
        assert [(c.memo_hit, c.attempts, c.reply) for c in w.calls()[2:]] == [
            (True, 0, "about a"),
            (True, 0, "about b"),
        ]


def test_an_answer_is_on_disk_before_it_is_used() -> None:
    with world() as (w, _):
        context = w.context()
        site = w.site(context)
        seen: list[bool] = []

        class Watched(dict[Any, Any]):
            def __setitem__(self, key: Any, value: Any) -> None:
                lane = w.memo.lookup("m\npython\nm", spec().digest(), [key])  # type: ignore[union-attr]
                seen.append(len(lane) == 1)
                super().__setitem__(key, value)

        site.answers.answers = Watched()
        w.ask(context, site, ["a", "b", "c"])
        assert seen == [True, True, True]


def test_memo_off_asks_again_and_keeps_nothing() -> None:
    with world() as (w, model):
        for _ in range(2):
            context = w.context(memo=False)
            w.ask(context, w.site(context), ["a"])
        assert model.calls == 2
        assert w.memo._memo.stats().entries == 0  # type: ignore[union-attr]


def test_an_unknown_answer_is_asked_again_by_the_next_statement() -> None:
    with world(lambda r: "perhaps") as (w, model):
        for _ in range(2):
            context = w.context()
            assert w.ask(context, w.site(context, spec(BOOL)), ["a"]) == {"a": None}
            assert context.meter.unknown_kinds == {"unreadable": 1}
        assert model.calls == 4  # each time with its repair turn


def test_memo_unknown_keeps_it() -> None:
    with world(lambda r: "perhaps") as (w, model):
        for _ in range(2):
            context = w.context(memo_unknown=True)
            assert w.ask(context, w.site(context, spec(BOOL)), ["a"]) == {"a": None}
            assert context.meter.unknown_kinds == {"unreadable": 1}
        assert model.calls == 2


def test_a_refusal_is_remembered_as_unknown() -> None:
    with world(lambda r: Reply("no", stop="refusal")) as (w, model):
        for _ in range(2):
            context = w.context()
            assert w.ask(context, w.site(context), ["a"]) == {"a": None}
        assert (model.calls, context.meter.unknown_kinds) == (1, {"refused": 1})


def test_many_hits_are_one_row_of_the_trace() -> None:
    with world() as (w, _):
        keys = [f"k{i}" for i in range(1500)]
        for _ in range(2):
            context = w.context()
            site = w.site(context)
            w.ask(context, site, keys)
        hits = [c for c in w.calls() if c.memo_hit]
        assert [(c.batch_size, c.prompt) for c in hits] == [(1500, None)]
        assert site.answers.answers == {k: f"about {k}" for k in keys}


def test_hits_are_told_together_and_each_is_a_row(tmp_path: Path) -> None:
    """In the tables and in the event file: as the single calls of before, unknowns beside them."""

    def model(request: Request) -> Reply:
        return Reply("no", stop="refusal") if request.prompt == "k3" else Reply(request.prompt.upper())

    with Store.open(tmp_path / "run.duckdb") as store, TraceWriter(store) as writer, world(model) as (w, _):
        keys = [f"k{i}" for i in range(20)]
        for _ in range(2):
            context = w.context()
            w.ask(context, w.site(context), keys)
        blocks = [e for e in w.events if isinstance(e, CallsFinished) and e.memo_hit]
        assert list(map(len, blocks)) == [19]
        hits = {(c.prompt, c.reply, c.kind, c.attempts, c.dollars) for c in w.calls() if c.memo_hit}
        assert hits == {
            (k, "no" if k == "k3" else k.upper(), "refused" if k == "k3" else "answer", 0, 0.0) for k in keys
        }
        for event in w.events:
            writer(event)
        writer.flush()
        sql = "SELECT count(*), count(DISTINCT call), sum(attempts) FROM trace_calls WHERE memo_hit"
        with store.cursor() as cursor:
            assert cursor.execute(sql).fetchall() == [(20, 20, 0)]
        told = [e for e in read_events(tmp_path / "run.events.jsonl") if e.get("memo_hit")]
        assert {(e["prompt"], e["reply"]) for e in told} == {(h[0], h[1]) for h in hits}


def test_answers_of_another_candidate_count_too() -> None:
    first, second = FunctionModel(Model(), "one"), FunctionModel(Model(), "two")
    with world(handler=router(worker=[first, second])) as (w, _):
        entry = MemoEntry("two\npython\ntwo", spec().digest(), "a", "remembered")
        assert w.memo is not None
        w.memo.commit([entry])
        context = w.context()
        assert w.ask(context, w.site(context), ["a"]) == {"a": "remembered"}


# -- types and odd prompts -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prompt", ["", " ", "x" * 3_000_000, "a\x00b", "\U0001f600", "{0} {} %s", "'quoted\"", "line\nline"], ids=range(8)
)
def test_any_text_is_a_prompt(prompt: str) -> None:
    with world(lambda r: "ok") as (w, model):
        for _ in range(2):
            context = w.context()
            assert w.ask(context, w.site(context), [prompt]) == {prompt: "ok"}
        assert [r.prompt for r in model.requests] == [prompt]


@pytest.mark.parametrize(
    ("said", "kept"), [("\ud83d\ude00", "\U0001f600"), ("a\ud83d", "a\ufffd"), ("a\x00b", "a\x00b")]
)
def test_a_lone_surrogate_in_a_reply_is_mended_before_it_is_kept(said: str, kept: str) -> None:
    with world(lambda r: said) as (w, model):
        for _ in range(2):
            context = w.context()
            assert w.ask(context, w.site(context), ["p"]) == {"p": kept}
        assert model.calls == 1


def test_no_wants_make_no_call() -> None:
    with world() as (w, model):
        context = w.context()
        assert w.ask(context, w.site(context), []) == {}
        assert model.calls == 0


def test_several_arguments_fill_the_template() -> None:
    with world() as (w, _):
        context = w.context()
        site = w.site(context, spec(template=Template((0, " or ", 1))))
        assert w.ask(context, site, [("a", "b")]) == {("a", "b"): "about a or b"}


# -- volatile ------------------------------------------------------------------------------------------------------------------------------


def test_a_volatile_call_is_made_for_every_row_and_kept_nowhere() -> None:
    replies = iter(range(100))
    with world(lambda r: str(next(replies))) as (w, _):
        context = w.context()
        one, two = (w.site(context, volatility=Volatility.VOLATILE) for _ in range(2))
        asks = [Ask(one, ("1", "p")), Ask(one, ("2", "p")), Ask(two, ("1", "p"))]
        w.runtime.submit(w.dispatcher.answer, context, asks).wait(5)
        found = [*one.answers.answers.values(), *two.answers.answers.values()]
        assert sorted(found) == ["0", "1", "2"]
        assert w.memo._memo.stats().entries == 0  # type: ignore[union-attr]


# -- repair and retries --------------------------------------------------------------------------------------------------------------------


def test_the_repair_turn_shows_the_reply_and_what_was_wrong() -> None:
    replies = iter(["perhaps", "true"])
    with world(lambda r: next(replies)) as (w, model):
        context = w.context()
        assert w.ask(context, w.site(context, spec(BOOL)), ["Is it?"]) == {"Is it?": True}
        assert model.requests[1].messages == (
            Message("user", "Is it?"),
            Message("assistant", "perhaps"),
            Message(
                "user",
                'Your reply could not be used: the reply is "perhaps", not true or false. '
                'Reply with JSON only: {"answer": true} or {"answer": false}',
            ),
        )
        assert context.meter.usage.requests == 2
        assert [c.attempts for c in w.calls()] == [2]


def test_an_empty_reply_is_asked_for_again_as_it_was() -> None:
    replies = iter(["", "word"])
    with world(lambda r: next(replies)) as (w, model):
        context = w.context()
        assert w.ask(context, w.site(context), ["p"]) == {"p": "word"}
        assert model.requests[0] == model.requests[1]


def test_a_repair_that_does_not_fit_the_budget_leaves_the_answer_unknown() -> None:
    with world(lambda r: "perhaps") as (w, model):
        context = w.context(BudgetLimits(calls=1))
        assert w.ask(context, w.site(context, spec(BOOL)), ["p"]) == {"p": None}
        assert (model.calls, context.ledger.used.requests) == (1, 1)


def failing(*errors: ProviderError | str, then: str = "ok") -> Callable[[Request], str]:
    todo = iter(errors)

    def rule(request: Request) -> str:
        found = next(todo, then)
        if isinstance(found, ProviderError):
            raise found
        return found

    return rule


def test_a_failure_that_may_pass_is_tried_again_and_every_request_is_booked() -> None:
    errors = [
        ProviderError("network", "reset", retryable=True, billed=False),
        ProviderError("overloaded", "529", retryable=True),
    ]
    with world(failing(*errors)) as (w, model):
        context = w.context()
        assert w.ask(context, w.site(context), ["a prompt"]) == {"a prompt": "ok"}
        assert model.calls == 3
        assert context.ledger.used.requests == 3
        # The first was refused before any work, the second may be billed: its input is booked.
        assert context.ledger.used.input_tokens == (len("a prompt") // 4 + 1) + 2
        assert context.ledger.reserved == BudgetLimits(calls=0, tokens=0, dollars=0.0)
        assert [c.attempts for c in w.calls()] == [3]


def test_attempts_end() -> None:
    with world(failing(*[ProviderError("network", "reset", retryable=True)] * 9)) as (w, model):
        context = w.context()
        with pytest.raises(CallFailed, match=r"f\('p'\) failed: reset"):
            w.ask(context, w.site(context), ["p"])
        assert model.calls == 4


def test_rate_limits_use_up_patience_and_no_attempts() -> None:
    limited = ProviderError("rate_limited", "429", retryable=True, retry_after=0.001, billed=False)
    with world(failing(*[limited] * 20)) as (w, model):
        context = w.context()
        assert w.ask(context, w.site(context), ["p"]) == {"p": "ok"}
        assert model.calls == 21


def test_patience_ends() -> None:
    limited = ProviderError("rate_limited", "slow down", retryable=True, retry_after=0.02, billed=False)
    with world(failing(*[limited] * 200), patience_s=0.1) as (w, model):
        context = w.context()
        with pytest.raises(CallFailed, match="slow down"):
            w.ask(context, w.site(context), ["p"])
        assert model.calls < 10


def test_another_candidate_takes_over_and_is_remembered_under_its_own_name() -> None:
    broken, sound = Model(failing(*[ProviderError("auth", "no key")] * 9)), Model()
    models = [FunctionModel(broken, "one"), FunctionModel(sound, "two")]
    with world(handler=router(worker=models)) as (w, _):
        context = w.context()
        assert w.ask(context, w.site(context), ["a"]) == {"a": "about a"}
        assert (broken.calls, sound.calls) == (1, 1)
        assert [(c.model, c.attempts) for c in w.calls()] == [("two", 2)]
        assert w.memo is not None
        assert len(w.memo.lookup("two\npython\ntwo", spec().digest(), ["a"])) == 1
        assert len(w.memo.lookup("one\npython\none", spec().digest(), ["a"])) == 0


def test_a_call_that_takes_too_long_is_given_up_and_tried_again() -> None:
    waits = iter([5.0, 0.0])

    async def rule(request: Request) -> str:
        await trio.sleep(next(waits))
        return "ok"

    with world(handler=router(FunctionModel(rule, "m"))) as (w, _):
        context = w.context(timeout=0.05)
        assert w.ask(context, w.site(context), ["p"]) == {"p": "ok"}
        assert context.meter.usage.requests == 2


# -- failures ------------------------------------------------------------------------------------------------------------------------------


def bad(*prompts: str, kind: str = "bad_request") -> Callable[[Request], str]:
    def rule(request: Request) -> str:
        if request.prompt in prompts:
            raise ProviderError(kind, "not today", hint="try tomorrow")
        return "ok"

    return rule


def test_the_first_failing_argument_is_named() -> None:
    with world(bad("c", "d")) as (w, model):
        context = w.context(concurrency=1)
        with pytest.raises(CallFailed) as caught:
            w.ask(context, w.site(context), ["d", "c", "b", "a"])
        assert str(caught.value) == "f('c') failed: not today"
        assert (caught.value.call, caught.value.kind, caught.value.hint) == ("f('c')", "bad_request", "try tomorrow")
        assert model.calls == 3


def test_long_arguments_are_cut_in_the_message() -> None:
    with world(bad("x\n" * 50)) as (w, _):
        context = w.context()
        with pytest.raises(CallFailed) as caught:
            w.ask(context, w.site(context), ["x\n" * 50])
        assert str(caught.value) == "f('" + ("x\\n" * 28 + "x...") + "') failed: not today"


def test_what_was_answered_before_a_failure_is_kept() -> None:
    with world(bad("c")) as (w, model):
        context = w.context(concurrency=1)
        with pytest.raises(CallFailed):
            w.ask(context, w.site(context), ["a", "b", "c", "d"])
        again = w.context()
        w.ask(again, w.site(again), ["a", "b"])
        assert again.meter.usage.memo_hits == 2
        assert model.asked == {"a": 1, "b": 1, "c": 1}


def test_calls_in_flight_end_with_the_first_failure() -> None:
    ended: list[str] = []

    async def rule(request: Request) -> str:
        if request.prompt == "bad":
            await trio.sleep(0.02)
            raise ProviderError("auth", "no key")
        try:
            await trio.sleep(30)
        finally:
            ended.append(request.prompt)
        return "never"

    with world(handler=router(FunctionModel(rule, "m"))) as (w, _):
        context = w.context()
        started = time.monotonic()
        with pytest.raises(CallFailed, match="no key"):
            w.ask(context, w.site(context), ["bad", "slow 1", "slow 2"])
        assert time.monotonic() - started < AT_ONCE_S
        assert sorted(ended) == ["slow 1", "slow 2"]
        assert w.dispatcher.in_flight == 0
        assert context.ledger.reserved.calls == 0
        assert sorted((c.prompt, c.error) for c in w.calls()) == [
            ("bad", "no key"),
            ("slow 1", "cancelled"),
            ("slow 2", "cancelled"),
        ]


def test_on_error_null_gives_null_and_counts() -> None:
    with world(bad("b")) as (w, _):
        context = w.context(on_error="null")
        assert w.ask(context, w.site(context), ["a", "b", "c"]) == {"a": "ok", "b": None, "c": "ok"}
        assert (context.meter.failed, context.meter.first_failure) == (1, "f('b') failed: not today")
        assert context.meter.usage.unknown == 0
        assert [c.error for c in w.calls() if c.prompt == "b"] == ["not today"]


def test_a_failed_call_is_not_remembered() -> None:
    with world(bad("b")) as (w, model):
        for _ in range(2):
            context = w.context(on_error="null")
            w.ask(context, w.site(context), ["b"])
        assert model.calls == 2


@pytest.mark.parametrize("kind", ["auth", "quota"])
def test_what_would_fail_for_every_row_fails_the_statement(kind: str) -> None:
    with world(bad("b", kind=kind)) as (w, _):
        context = w.context(on_error="null")
        with pytest.raises(CallFailed, match="not today"):
            w.ask(context, w.site(context), ["b"])


def test_a_type_that_cannot_be_read_is_told_before_a_call() -> None:
    with world() as (w, model):
        context = w.context()
        with pytest.raises(KleeneError):
            w.ask(context, w.site(context, spec(AnswerType("typed", "NO SUCH TYPE"))), ["a"])
        assert model.calls == 0


class FullDisk:
    """A memo writer whose disk is full."""

    def lookup(self, *_: Any) -> dict[int, MemoEntry]:
        return {}

    def submit(self, entries: Sequence[MemoEntry], done: Callable[[BaseException | None], None]) -> None:
        threading.Timer(0.01, done, [duckdb.IOException("IO Error: Could not write: No space left on device")]).start()


def test_an_answer_that_cannot_be_kept_fails_the_statement_and_ends_its_flights() -> None:
    model = Model()
    made = World(router(FunctionModel(model, "m")), FullDisk())  # type: ignore[arg-type]
    try:
        context = made.context()
        with pytest.raises(KleeneError) as caught:
            made.ask(context, made.site(context), ["a", "b"])
        assert str(caught.value) == (
            "an answer could not be kept in the memo: IO Error: Could not write: No space left on device"
        )
        assert caught.value.hint == (
            "make room on the store's disk and run it again before you close the engine: it still has what was paid for"
        )
        assert made.dispatcher.in_flight == 0
        context = made.context(memo=False)
        assert made.ask(context, made.site(context), ["a"]) == {"a": "about a"}
    finally:
        made.runtime.close()


# -- cancelling ----------------------------------------------------------------------------------------------------------------------------


def test_a_cancel_ends_everything_at_once_and_keeps_what_was_paid() -> None:
    ended = threading.Event()

    async def rule(request: Request) -> str:
        if request.prompt == "quick":
            return "ok"
        try:
            await trio.sleep(30)
        finally:
            ended.set()
        return "never"

    with world(handler=router(FunctionModel(rule, "m"))) as (w, _):
        context = w.context()
        site = w.site(context)
        task = w.start(context, site, ["quick", "slow"])
        until(lambda: "quick" in site.answers.answers)
        started = time.monotonic()
        task.cancel()
        with pytest.raises(Cancelled):
            task.wait(PATIENCE_S)
        assert time.monotonic() - started < AT_ONCE_S
        assert ended.is_set()
        assert w.dispatcher.in_flight == 0
        again = w.context()
        w.ask(again, w.site(again), ["quick"])
        assert again.meter.usage.memo_hits == 1


def test_closing_the_runtime_ends_its_tasks() -> None:
    async def rule(request: Request) -> str:
        await trio.sleep(30)
        return "never"

    with world(handler=router(FunctionModel(rule, "m"))) as (w, _):
        context = w.context()
        task = w.start(context, w.site(context), ["p"])
        time.sleep(0.05)
        started = time.monotonic()
        w.runtime.close()
        with pytest.raises(Cancelled, match="cancelled: the engine was closed"):
            task.wait(PATIENCE_S)
        assert time.monotonic() - started < AT_ONCE_S
        with pytest.raises(KleeneError, match="the engine is closed"):
            w.start(context, w.site(context), ["p"])


# -- budgets -------------------------------------------------------------------------------------------------------------------------------


def test_a_round_that_does_not_fit_is_refused_before_it_spends() -> None:
    with world() as (w, model):
        context = w.context(BudgetLimits(calls=2))
        with pytest.raises(Refused) as caught:
            w.ask(context, w.site(context), ["a", "b", "c"])
        assert str(caught.value) == "refused before sending: the statement needs 3 calls and 2 remain"
        assert caught.value.hint == "add a filter or LIMIT, use a cheaper alias, or raise budget.calls"
        assert (caught.value.dimension, caught.value.needed, caught.value.remaining) == ("calls", 3, 2)
        assert model.calls == 0


def test_what_the_memo_has_needs_no_budget() -> None:
    with world() as (w, model):
        context = w.context()
        w.ask(context, w.site(context), ["a", "b"])
        poor = w.context(BudgetLimits(calls=1))
        assert len(w.ask(poor, w.site(poor), ["a", "b", "c"])) == 3
        assert model.calls == 3


def test_retries_count_and_the_call_beyond_the_budget_is_not_sent() -> None:
    error = ProviderError("network", "reset", retryable=True)
    with world(failing(error, error, error)) as (w, model):
        context = w.context(BudgetLimits(calls=2))
        with pytest.raises(BudgetExceeded, match="calls budget exceeded: 3 > 2"):
            w.ask(context, w.site(context), ["p"])
        assert model.calls == 2
        assert context.ledger.used.requests == 2


def test_a_dollar_budget_needs_a_price() -> None:
    async def rule(request: Request) -> str:
        return "ok"

    class Unpriced(FunctionModel):
        free = False  # type: ignore[assignment]

    with world(handler=router(Unpriced(rule, "mystery"))) as (w, _):
        context = w.context(BudgetLimits(dollars=1))
        with pytest.raises(ConfigError) as caught:
            w.ask(context, w.site(context), ["p"])
        assert str(caught.value) == "a dollar budget needs a price, and mystery has none"
        assert caught.value.hint == (
            'add to kleene.toml: [pricing."mystery"] input_per_mtok = 1.0, output_per_mtok = 5.0'
        )


def test_dollars_are_booked_as_the_provider_says_or_by_price() -> None:
    replies = {"a": Reply("x", 1_000_000, 0), "b": Reply("x", 5, 5, dollars=0.25)}
    with world(lambda r: replies[r.prompt], price=PRICE) as (w, _):
        context = w.context()
        w.ask(context, w.site(context), ["a", "b"])
        assert context.ledger.used.dollars == 1.25


@pytest.mark.parametrize("slow_on", ["trio", "threads"])
def test_the_wall_ends_a_statement_whatever_its_calls_do(slow_on: str) -> None:
    async def sleeping(request: Request) -> str:
        await trio.sleep(30)
        return "never"

    release = threading.Event()

    def blocking(request: Request) -> str:
        release.wait(30)
        return "never"

    model = FunctionModel(sleeping, "m") if slow_on == "trio" else FunctionModel(blocking, "m", threads=True)
    with world(handler=router(model)) as (w, _):
        started = time.monotonic()
        context = w.context(BudgetLimits(wall=0.1))  # its time runs from here
        with pytest.raises(BudgetExceeded) as caught:
            w.ask(context, w.site(context), ["a", "b"])
        assert 0.1 <= time.monotonic() - started < AT_ONCE_S
        assert caught.value.dimension == "wall"
        assert w.dispatcher.in_flight == 0
        assert context.ledger.reserved.calls == 0
        release.set()


def test_the_wall_ends_a_turn() -> None:
    async def rule(request: Request) -> str:
        await trio.sleep(30)
        return "never"

    with world(handler=router(FunctionModel(rule, "m"))) as (w, _):
        ledger = Ledger(BudgetLimits(wall=0.05))
        request = Request("worker", (Message("user", "hello"),), path="root/1")
        with pytest.raises(BudgetExceeded, match="wall budget exceeded"):
            w.runtime.submit(w.dispatcher.ask_turn, request, ledger, "root").wait(5)
        assert ledger.reserved.calls == 0


# -- estimates and turns -------------------------------------------------------------------------------------------------------------------


def test_an_estimate_sends_nothing_and_is_what_an_answer_then_sends() -> None:
    with world(price=PRICE) as (w, model):
        context = w.context()
        w.ask(context, w.site(context), ["a"])
        asks = [Ask(w.site(context), k) for k in ("a", "b", "c")]
        found = w.runtime.submit(w.dispatcher.estimate, w.context(), asks).wait(5)
        assert (found.calls, found.hits, found.unpriced) == (2, 1, 0)
        assert model.calls == 1


def test_a_turn_is_retried_budgeted_and_traced_but_not_remembered() -> None:
    error = ProviderError("network", "reset", retryable=True)
    with world(failing(error)) as (w, _):
        ledger = Ledger(BudgetLimits(calls=5))
        request = Request("worker", (Message("user", "hello"),), path="root/1")
        reply, usage = w.runtime.submit(w.dispatcher.ask_turn, request, ledger, "root").wait(5)
        assert (reply.text, usage.requests, ledger.used.requests) == ("ok", 2, 2)
        assert [(c.session, c.statement, c.attempts, c.prompt) for c in w.calls()] == [("root", None, 2, "hello")]


def test_a_turn_that_fails_is_named_by_its_path() -> None:
    with world(failing(ProviderError("auth", "no key", hint="set one"))) as (w, _):
        request = Request("worker", (Message("user", "hello"),), path="root/1")
        with pytest.raises(CallFailed) as caught:
            w.runtime.submit(w.dispatcher.ask_turn, request, Ledger(), "root").wait(5)
        assert (str(caught.value), caught.value.call, caught.value.hint) == ("no key", "turn root/1", "set one")


def test_concurrency_bounds_what_is_in_flight() -> None:
    inside, most = 0, 0

    async def rule(request: Request) -> str:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await trio.sleep(0.005)
        inside -= 1
        return "ok"

    with world(handler=router(FunctionModel(rule, "m"))) as (w, _):
        context = w.context(concurrency=5)
        w.ask(context, w.site(context), [str(i) for i in range(40)])
        assert most == 5


def test_texts_are_read_as_their_type() -> None:
    with world(lambda r: '{"answer": 3}') as (w, _):
        context = w.context()
        assert w.ask(context, w.site(context, spec(AnswerType("bigint", "BIGINT"))), ["p"]) == {"p": 3}
        assert w.ask(context, w.site(context, spec(TEXT)), ["p"]) == {"p": '{"answer": 3}'}
