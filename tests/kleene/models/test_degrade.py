"""What an endpoint turns out to lack."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import kleene
from kleene.models.degrade import Degrade
from kleene.planner.specs import AnswerType
from kleene.udfs.answers import schema_for
from kleene.udfs.protocols import Message, ProviderError, Reply, Request
from tests.fake_server import Ask, FakeServer, failure
from tests.kleene.models.wires import BOOL, ask, provider, run, send


@pytest.mark.parametrize(
    ("replies", "structured"),
    [
        ([Reply("The answer lies in", stop="length")] * 2, "tool"),
        ([Reply("It is.")] * 2, "tool"),
        ([Reply('{"answer": tr', stop="length")] * 4, "schema"),
        ([Reply("It is."), Reply('{"answer": true}'), Reply("It is.")], "schema"),
        ([Reply("no", stop="refusal")] * 4, "schema"),
        ([Reply("It is.")] * 9, "text"),
    ],
    ids=["cut prose", "prose", "cut JSON", "once in a while", "refusals", "always"],
)
def test_two_replies_in_a_row_that_are_no_json_show_that_a_schema_is_ignored(
    replies: list[Reply], structured: str
) -> None:
    degrade = Degrade()
    for reply in replies:
        degrade.saw(reply)
    assert degrade.structured == structured


def test_a_responses_server_that_needs_typed_items_gets_them() -> None:
    def rule(ask: Ask) -> object:
        assistant = ask.body["input"][1]
        return "b" if assistant.get("type") == "message" else failure(400, "Cannot determine type of 'item'")

    messages = (Message("user", "Say a."), Message("assistant", "a"), Message("user", "Say b."))
    with FakeServer(rule) as server:  # type: ignore[arg-type]
        model = provider("responses", server.url)

        async def work() -> list[str]:
            said = []
            for _ in range(2):
                try:
                    said.append((await model.send(Request("root", messages))).text)
                except Exception as error:
                    said.append(str(error.retryable))  # type: ignore[attr-defined]
            await model.aclose()
            return said

        assert run(work) == ["True", "b"]
        assert server.asks[1].body["input"][1] == {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "a"}],
        }


# -- what a call went without is said in its reply, and in the trace -----------------------------------------------------------------------

SCORE = schema_for(AnswerType("score", "DOUBLE"))
OPEN_MAP = '{"type": "object", "additionalProperties": {"type": "integer"}}'


def refusing(*names: str) -> Callable[[Ask], Any]:
    """A server that knows none of these parameters."""

    def rule(ask: Ask) -> Any:
        found = next((n for n in names if f'"{n}"' in json.dumps(ask.body)), None)
        if found is not None:
            return failure(400, f"{found} is not supported")
        return '{"answer": true}'

    return rule


def told(wire: str, rule: Callable[[Ask], Any], request: Request, model: str = "fake-1") -> str:
    """What the first reply says, each refusal learned from."""
    with FakeServer(rule) as server:
        asked = provider(wire, server.url)
        asked.model = model
        for _ in range(6):
            try:
                return send(asked, request).degraded
            except ProviderError as error:
                assert error.retryable, error.message
    raise AssertionError("refused for ever")


@pytest.mark.parametrize(
    ("wire", "lacking", "request_", "degraded"),
    [
        ("openai", (), ask(schema=BOOL, effort="low", temperature=0.5, seed=1), ""),
        ("openai", ("response_format",), ask(schema=BOOL), "json_schema: tool"),
        ("openai", ("response_format", "tools"), ask(schema=BOOL), "json_schema: text"),
        ("openai", ("response_format", "tools"), ask(), ""),
        (
            "openai",
            ("reasoning_effort", "temperature"),
            ask(effort="low", temperature=0.5),
            "effort: left out; temperature: left out",
        ),
        ("openai", ("seed",), ask(seed=1), "seed: left out"),
        ("openai", (), ask(schema=SCORE), "logprobs: a number in the reply"),
        ("responses", ("json_schema",), ask(schema=BOOL, seed=1), "json_schema: tool; seed: left out"),
        ("responses", ("reasoning",), ask(effort="low"), "effort: left out"),
        ("anthropic", (), ask(schema=BOOL, system="Be brief."), ""),
        ("anthropic", ("output_config",), ask(schema=BOOL), "json_schema: tool"),
        ("anthropic", ("output_config",), ask(schema=BOOL, effort="low"), "json_schema: tool; effort: left out"),
        ("anthropic", (), ask(effort="low", temperature=0.5), "temperature: left out"),
        ("anthropic", (), ask(schema=OPEN_MAP), "json_schema: text"),
        ("anthropic", (), ask(seed=1), "seed: left out"),
        ("anthropic", ("cache_control",), ask(system="Be brief."), "prompt_cache: left out"),
        ("anthropic", ("cache_control",), ask(), ""),
    ],
)
def test_a_reply_says_what_its_request_went_without(
    wire: str, lacking: tuple[str, ...], request_: Request, degraded: str
) -> None:
    assert told(wire, refusing(*lacking), request_) == degraded


def test_haiku_has_no_effort() -> None:
    assert told("anthropic", lambda a: "ok", ask(effort="low"), "claude-haiku-4-5") == "effort: left out"


def test_a_forced_tool_excludes_thinking_and_says_so() -> None:
    with FakeServer(lambda a: '{"answer": true}') as server:
        model = provider("anthropic", server.url)
        model.degrade.structured = "tool"
        assert send(model, ask(schema=BOOL, effort="low")).degraded == "json_schema: tool; thinking: left out"
        assert "thinking" not in server.asks[0].body


def test_a_model_that_takes_no_forced_tool_is_asked_in_words() -> None:
    def answer(asked: Ask) -> Any:
        if "output_config" in asked.body:
            return failure(400, "output_config.format: structured outputs are not available here")
        if "tool_choice" in asked.body:
            return failure(400, 'tool_choice: type "tool" and "any" are not supported for this model.')
        return '{"answer": true}'

    assert told("anthropic", answer, ask(schema=BOOL), "claude-sonnet-5-5") == "json_schema: text"


def test_the_trace_says_once_a_call_what_it_went_without() -> None:
    with FakeServer(refusing("response_format")) as server:
        model = kleene.OpenAI("m", base_url=server.url + "/v1", api_key="k")
        with kleene.connect(store=":memory:", models=model) as k:
            for prompt in ("a", "b", "a"):
                assert k.sql("SELECT llm_bool(?)", [prompt]).fetchall() == [(True,)]
            assert k.sql("SELECT llm('c')").fetchall() == [('{"answer": true}',)]
            calls = k.sql("SELECT prompt, attempts, memo_hit, degraded FROM trace_calls ORDER BY started_at").fetchall()
        assert calls == [
            ("a", 2, False, "json_schema: tool"),
            ("b", 1, False, "json_schema: tool"),
            ("a", 0, True, None),
            ("c", 1, False, None),
        ]


def test_text_that_is_no_answer_is_repaired_once_and_the_trace_says_how_it_was_asked() -> None:
    def rule(ask: Ask) -> Any:
        if "response_format" in ask.body or "tools" in ask.body:
            return failure(400, "response_format and tools are not supported")
        return "certainly" if len(ask.body["messages"]) == 1 else "true"

    with FakeServer(rule) as server:
        model = kleene.OpenAI("m", base_url=server.url + "/v1", api_key="k")
        model.degrade.structured = "tool"
        with kleene.connect(store=":memory:", models=model) as k:
            assert k.sql("SELECT llm_bool('a')").fetchall() == [(True,)]
            assert k.sql("SELECT attempts, degraded FROM trace_calls").fetchall() == [(3, "json_schema: text")]


def test_a_batch_and_a_turn_say_it_too() -> None:
    def rule(ask: Ask) -> Any:
        if "reasoning_effort" in ask.body:
            return failure(400, "reasoning_effort is not supported")
        return "```sql\nFINAL(1)\n```" if "FINAL" in ask.system else '{"1": "x", "2": "y"}'

    with FakeServer(rule) as server:
        model = kleene.OpenAI("m", base_url=server.url + "/v1", api_key="k")
        with kleene.connect(store=":memory:", models=model) as k:
            k.sql("CREATE AGENT a EFFORT 'low'; SELECT answer FROM spawn('a', 'Go')")
            k.sql("SET effort = 'low'; SET batch = 2; SELECT llm(x) FROM (VALUES ('a'), ('b')) t(x)")
            rows = k.sql("SELECT batch_size, degraded FROM trace_calls WHERE reply NOT LIKE '[%' ORDER BY started_at")
            assert rows.fetchall()[:2] == [(1, "effort: left out"), (2, "effort: left out")]
