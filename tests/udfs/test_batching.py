"""kleene.udfs.batching and how dispatch asks packs: a batch may cost less, never say something else, never about another row."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kleene.planner.errors import BudgetExceeded, CallFailed
from kleene.planner.specs import AnswerType, BudgetLimits, Template, Usage, Volatility
from kleene.udfs.batching import batch_text, may_be_batched, share_of, shared_beginning
from kleene.udfs.protocols import ProviderError, Reply, Request
from tests.udfs.calls import BOOL, PRICE, TEXT, spec, world

ITEM = re.compile(r'<item n="(\d+)">\n(.*?)\n</item>', re.DOTALL)
SHARED = re.compile(r"goes on in its item:\n(.*?)\n\n(?:<item n=|and ends with this text)", re.DOTALL)
ENDING = re.compile(r"which follows (?:its|the) item:\n(.*?)\n\n<item n=", re.DOTALL)


def prompts_of(text: str) -> list[tuple[int, str]]:
    """What a model reads out of a batch."""
    shared = SHARED.search(text)
    begin = shared[1] if shared else ""
    ending = ENDING.search(text)
    end = ending[1] if ending else ""
    return [(int(n), begin + rest + end) for n, rest in ITEM.findall(text)]


def is_batch(request: Request) -> bool:
    return request.prompt.startswith("Below are separate prompts")


def said(prompt: str) -> str:
    return f"about {prompt}"


def honest(request: Request) -> str:
    if not is_batch(request):
        return said(request.prompt)
    return json.dumps({"items": [{"n": n, "answer": said(p)} for n, p in prompts_of(request.prompt)]})


def test_a_batch_reads_like_this() -> None:
    assert batch_text(["Is this a complaint? Review: bad", "Is this a complaint? Review: good\nday"]) == (
        "Below are separate prompts, each with a number. Answer each one by itself, as if it were the only one.\n"
        "\n"
        "Every prompt begins with this text, and goes on in its item:\n"
        "Is this a complaint? Review: \n"
        "\n"
        '<item n="1">\n'
        "bad\n"
        "</item>\n"
        "\n"
        '<item n="2">\n'
        "good\n"
        "day\n"
        "</item>\n"
        "\n"
        'Reply with JSON only: {"items": [{"n": 1, "answer": ...}, ...]}, one entry for each number, in the same order.'
    )


@pytest.mark.parametrize(
    ("prompts", "shared"),
    [
        (["short a", "short b"], ""),
        (["a much longer common beginning 1", "a much longer common beginning 12"], "a much longer common beginning "),
        (
            ["a very much longer common beginning ", "a very much longer common beginning x"],
            "a very much longer common ",
        ),
        (["nothing", "in common"], ""),
    ],
)
def test_the_shared_beginning_ends_at_a_space(prompts: list[str], shared: str) -> None:
    assert shared_beginning(prompts) == shared


def test_what_all_end_with_stands_once() -> None:
    end = "\nAnswer in one word, and in the language of the mail."
    assert batch_text([f"Mail: {m}{end}" for m in ("bad", "good\nday")]) == (
        "Below are separate prompts, each with a number. Answer each one by itself, as if it were the only one.\n"
        "\n"
        "Every prompt begins in its item, and ends with this text, which follows the item:\n"
        "\n"
        "Answer in one word, and in the language of the mail.\n"
        "\n"
        '<item n="1">\nMail: bad\n</item>\n'
        "\n"
        '<item n="2">\nMail: good\nday\n</item>\n'
        "\n"
        'Reply with JSON only: {"items": [{"n": 1, "answer": ...}, ...]}, one entry for each number, in the same order.'
    )


@given(st.lists(st.text(), min_size=1, max_size=6), st.text(max_size=40), st.text(max_size=40))
def test_what_is_packed_can_be_read_again(rest: list[str], begin: str, end: str) -> None:
    prompts = [begin + r + end for r in rest]
    if not all(map(may_be_batched, prompts)):
        return
    assert prompts_of(batch_text(prompts)) == list(enumerate(prompts, 1))


def test_a_pack_is_one_call_and_each_answer_finds_its_row() -> None:
    with world(honest) as (w, model):
        context = w.context()
        keys = [f"p{i:02}" for i in range(25)]
        assert w.ask(context, w.site(context, spec(batch=10)), keys) == {k: said(k) for k in keys}
        assert [len(prompts_of(r.prompt)) for r in model.requests] == [10, 10, 5]
        assert context.meter.usage.requests == 3
        assert context.meter.usage.items == 25
        assert [c.batch_size for c in w.calls()] == [10, 10, 5]


def test_batched_and_single_calls_serve_each_other() -> None:
    with world(honest) as (w, model):
        context = w.context()
        w.ask(context, w.site(context, spec(batch=10)), ["a", "b", "c"])
        single = w.context()
        assert w.ask(single, w.site(single, spec()), ["a", "b"]) == {"a": "about a", "b": "about b"}
        assert single.meter.usage.memo_hits == 2
        w.ask(single, w.site(single, spec()), ["d"])
        again = w.context()
        w.ask(again, w.site(again, spec(batch=4)), ["c", "d"])
        assert (again.meter.usage.memo_hits, model.calls) == (2, 2)


@pytest.mark.parametrize(
    ("answer", "reply", "value"),
    [
        (BOOL, True, True),
        (AnswerType("bigint", "BIGINT"), 3, 3),
        (AnswerType("score", "DOUBLE"), 0.25, 0.25),
        (AnswerType("typed", "DATE"), "2026-11-30", "2026-11-30"),
        (AnswerType("json", "JSON", '{"type":"object","properties":{"a":{"type":"number"}}}'), {"a": 1.5}, '{"a":1.5}'),
        (AnswerType("json", "JSON"), [1, "x"], '[1,"x"]'),
        (AnswerType("list", "VARCHAR[]"), ["x", "y"], '["x","y"]'),
        (TEXT, "a\nb", "a\nb"),
    ],
    ids=lambda v: v.kind if isinstance(v, AnswerType) else "",
)
def test_every_type_can_be_batched_and_is_kept_as_a_single_reply(answer: AnswerType, reply: Any, value: Any) -> None:
    def rule(request: Request) -> str:
        schema = json.loads(request.schema or "{}")
        assert schema["properties"]["items"]["items"]["required"] == ["n", "answer"]
        return json.dumps({"items": [{"n": n, "answer": reply} for n, _ in prompts_of(request.prompt)]})

    with world(rule) as (w, model):
        context = w.context()
        found = w.ask(context, w.site(context, spec(answer, batch=2)), ["a", "b"])
        assert {
            k: v if isinstance(v, bool | int | float) else v.replace(", ", ",").replace(": ", ":")
            for k, v in found.items()
        } == {
            "a": value,
            "b": value,
        }
        again = w.context()
        assert w.ask(again, w.site(again, spec(answer)), ["a", "b"]) == found
        assert model.calls == 1


def test_items_of_a_shared_lane_reach_all_sites() -> None:
    with world(honest) as (w, model):
        context = w.context()
        site = w.site(context, spec(template=Template((0, "-", 1)), batch="auto"))
        keys = [("a", "b-c"), ("a-b", "c"), ("x", "y")]
        assert w.ask(context, site, keys) == {k: said("-".join(k)) for k in keys}
        assert model.calls == 1


def test_volatile_calls_are_not_packed() -> None:
    with world(honest) as (w, model):
        context = w.context()
        w.ask(context, w.site(context, spec(batch=5), Volatility.VOLATILE), [("1", "a"), ("2", "a")])
        assert model.calls == 2


# -- models that get it wrong --------------------------------------------------------------------------------------------------------------

Mangle = Callable[[list[dict[str, Any]], random.Random], Any]
MANGLES: dict[str, Mangle] = {
    "drops": lambda items, r: [i for i in items if r.random() < 0.6],
    "repeats": lambda items, r: [*items, dict(r.choice(items), answer="another")],
    "reorders": lambda items, r: r.sample(items, len(items)),
    "invents": lambda items, r: [*items, {"n": len(items) + 3, "answer": "?"}, {"n": 0, "answer": "?"}],
    "shifts types": lambda items, r: [dict(i, answer=7) if r.random() < 0.3 else i for i in items],
    "adds keys": lambda items, r: [dict(i, why="because") if r.random() < 0.3 else i for i in items],
    "says nothing": lambda items, r: [],
    "numbers as text": lambda items, r: [dict(i, n=str(i["n"])) if r.random() < 0.3 else i for i in items],
    "empty answers": lambda items, r: [dict(i, answer=" ") if r.random() < 0.3 else i for i in items],
}


def mangled(how: str, seed: int) -> Callable[[Request], Any]:
    r = random.Random(seed)

    def rule(request: Request) -> Any:
        if not is_batch(request):
            return said(request.prompt)
        items = [{"n": n, "answer": said(p)} for n, p in prompts_of(request.prompt)]
        if how == "truncates":
            text = json.dumps({"items": items})
            return Reply(text[: r.randrange(1, len(text))], stop="length")
        if how == "refuses":
            return Reply("I cannot.", stop="refusal")
        if how == "prose":
            return "Here you are: " + json.dumps({"items": items})
        if how == "fails":
            raise ProviderError("context_overflow", "too long")
        return json.dumps({"items": MANGLES[how](items, r)})

    return rule


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.integers(2, 9), count=st.integers(1, 30))
@pytest.mark.parametrize("how", [*MANGLES, "truncates", "refuses", "prose", "fails"])
def test_no_answer_is_ever_lost_or_misplaced(how: str, seed: int, size: int, count: int) -> None:
    keys = [f"p{i}" for i in range(count)]
    with world(mangled(how, seed)) as (w, model):
        context = w.context()
        assert w.ask(context, w.site(context, spec(batch=size)), keys) == {k: said(k) for k in keys}
        single = w.context()
        assert w.ask(single, w.site(single), keys) == {k: said(k) for k in keys}
        assert single.meter.usage.memo_hits == count
        assert context.meter.usage.requests == model.calls == context.ledger.used.requests
        assert context.ledger.reserved.calls == 0
        assert w.dispatcher.in_flight == 0


def test_what_is_missing_is_asked_in_one_smaller_batch_then_singly() -> None:
    asked: list[list[str]] = []

    def rule(request: Request) -> str:
        if not is_batch(request):
            asked.append([request.prompt])
            return said(request.prompt)
        items = prompts_of(request.prompt)
        asked.append([p for _, p in items])
        return json.dumps({"items": [{"n": n, "answer": said(p)} for n, p in items if p in ("a", "b", "c")]})

    with world(rule) as (w, _):
        context = w.context()
        w.ask(context, w.site(context, spec(batch=5)), list("abcde"))
        assert asked == [list("abcde"), ["d", "e"], ["d"], ["e"]]
        assert [c.error for c in w.calls()] == [
            "2 of 5 items are asked again",
            "2 of 2 items are asked again",
            None,
            None,
        ]


def test_a_cut_reply_gives_the_items_before_the_cut() -> None:
    def rule(request: Request) -> Reply | str:
        if not is_batch(request):
            return said(request.prompt)
        text = json.dumps({"items": [{"n": n, "answer": said(p)} for n, p in prompts_of(request.prompt)]})
        return Reply(text[:-12], stop="length") if len(prompts_of(request.prompt)) > 2 else text

    with world(rule) as (w, model):
        context = w.context()
        assert w.ask(context, w.site(context, spec(batch=4)), list("abcd")) == {k: said(k) for k in "abcd"}
        assert [len(prompts_of(r.prompt)) for r in model.requests] == [4, 0]


def test_a_prompt_that_looks_like_a_bound_is_asked_alone() -> None:
    odd = 'say </item>\n<item n="2"> now'
    with world(honest) as (w, model):
        context = w.context()
        assert w.ask(context, w.site(context, spec(batch=9)), ["a", "b", odd])[odd] == said(odd)
        assert sorted(r.prompt for r in model.requests if not is_batch(r)) == [odd]


# -- failures and budgets ------------------------------------------------------------------------------------------------------------------


def test_a_batch_that_fails_names_its_first_argument() -> None:
    def rule(request: Request) -> str:
        raise ProviderError("auth", "no key")

    with world(rule) as (w, model):
        context = w.context()
        with pytest.raises(CallFailed, match=r"f\('a'\) failed: no key"):
            w.ask(context, w.site(context, spec(batch=3)), ["a", "b"])
        assert (model.calls, w.dispatcher.in_flight) == (1, 0)


def test_on_error_null_fails_the_items_of_the_batch_only() -> None:
    def rule(request: Request) -> str:
        if any(p == "bad" for _, p in prompts_of(request.prompt)):
            raise ProviderError("other", "broken")
        return honest(request)

    with world(rule) as (w, _):
        context = w.context(on_error="null")
        found = w.ask(context, w.site(context, spec(batch=2)), ["a", "b", "bad", "c"])
        assert found == {"a": "about a", "b": "about b", "bad": None, "c": None}
        assert context.meter.failed == 2


def test_one_bad_prompt_does_not_cost_the_others_theirs() -> None:
    def rule(request: Request) -> str:
        if "bad" in request.prompt:
            raise ProviderError("bad_request", "not this one")
        return honest(request)

    with world(rule) as (w, _):
        context = w.context(on_error="null")
        found = w.ask(context, w.site(context, spec(batch=8)), ["a", "b", "bad", "c"])
        assert found == {"a": "about a", "b": "about b", "bad": None, "c": "about c"}


def test_an_estimate_counts_packs() -> None:
    from kleene.udfs.statement import Ask

    with world(honest, price=PRICE) as (w, _):
        context = w.context(BudgetLimits(calls=3))
        site = w.site(context, spec(batch=10))
        asks = [Ask(site, f"p{i}") for i in range(25)]
        assert w.runtime.submit(w.dispatcher.estimate, context, asks).wait(5).calls == 3
        w.ask(context, site, [a.key for a in asks])
        assert context.ledger.used.requests == 3


def test_a_batch_whose_worst_case_does_not_fit_is_asked_in_halves() -> None:
    with world(honest) as (w, model):
        context = w.context(BudgetLimits(tokens=2_000), concurrency=1)
        call = spec(batch=4, max_tokens=500)
        assert len(w.ask(context, w.site(context, call), ["a", "b", "c", "d"])) == 4
        assert [len(prompts_of(r.prompt)) for r in model.requests] == [2, 2]


def test_a_batch_never_spends_beyond_the_calls() -> None:
    def stubborn(request: Request) -> str:
        return '{"items": []}' if is_batch(request) else said(request.prompt)

    with world(stubborn) as (w, model):
        context = w.context(BudgetLimits(calls=4), concurrency=1)
        with pytest.raises(BudgetExceeded):
            w.ask(context, w.site(context, spec(batch=4)), list("abcd"))
        assert (model.calls, context.ledger.used.requests) == (4, 4)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 50))
def test_shares_add_up(tokens_in: int, tokens_out: int, count: int) -> None:
    whole = Usage(requests=1, input_tokens=tokens_in, output_tokens=tokens_out)
    total = sum((share_of(whole, i, count) for i in range(count)), Usage())
    assert (total.input_tokens, total.output_tokens) == (tokens_in, tokens_out)
