"""One suite for the three wires: what goes out, and what comes back as the one vendor-neutral reply."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
import trio

from kleene.udfs.protocols import Message, Reply, Request
from tests.fake_server import FakeServer, Raw, Say, failure, sse, write
from tests.kleene.models.wires import BOOL, WIRES, ask, provider, run, send

pytestmark = pytest.mark.parametrize("wire", sorted(WIRES))
ARRAY = '{"type": "array", "items": {"type": "string"}}'


def test_a_reply_is_text_and_usage(wire: str) -> None:
    with FakeServer(lambda a: Say("It is.", usage=(12, 3))) as server:
        assert send(provider(wire, server.url), ask()) == Reply("It is.", 12, 3, model="fake-1")


def test_a_request_is_system_prompt_and_limit(wire: str) -> None:
    with FakeServer(lambda a: "ok") as server:
        send(provider(wire, server.url), ask("Is apple red?", system="Be brief.", max_tokens=77))
    seen = server.asks[0]
    assert (seen.prompt, seen.system, seen.body["model"]) == ("Is apple red?", "Be brief.", "fake-1")
    limit = {"openai": "max_tokens", "anthropic": "max_tokens", "responses": "max_output_tokens"}[wire]
    assert seen.body[limit] == 77
    assert not seen.stream


def test_a_conversation_keeps_its_order_and_roles(wire: str) -> None:
    messages = (Message("user", "one"), Message("assistant", "two"), Message("user", "three"))
    with FakeServer(lambda a: "ok") as server:
        send(provider(wire, server.url), Request("root", messages))
    sent = server.asks[0].body.get("messages") or server.asks[0].body["input"]
    assert [m["role"] for m in sent] == ["user", "assistant", "user"]
    assert server.asks[0].prompt == "three"


def test_a_schema_is_asked_for_natively(wire: str) -> None:
    with FakeServer(lambda a: '{"answer": true}') as server:
        assert send(provider(wire, server.url), ask(schema=BOOL)).text == '{"answer": true}'
    assert server.asks[0].schema == json.loads(BOOL)
    assert server.asks[0].prompt == "Is apple red?"


def test_a_schema_whose_root_is_no_object_is_wrapped_and_unwrapped(wire: str) -> None:
    with FakeServer(lambda a: '{"answer": ["a", "b"]}') as server:
        assert send(provider(wire, server.url), ask(schema=ARRAY)).text == '["a","b"]'
    assert server.asks[0].schema["properties"] == {"answer": json.loads(ARRAY)}


def test_a_server_without_schemas_is_asked_with_a_tool_then_in_words(wire: str) -> None:
    def rule(a: Any) -> Any:
        if a.schema is not None:
            name = {"chat": "response_format", "messages": "output_config", "responses": "text.format"}[a.wire]
            return failure(400, f"{name} is not supported", "invalid_request_error")
        if a.tool is not None and tools_refused:
            return failure(400, "tools are not supported", "invalid_request_error")
        return '{"answer": true}'

    tools_refused = False
    with FakeServer(rule) as server:
        model = provider(wire, server.url)

        async def work() -> list[str]:
            said = []
            for _ in range(3):
                try:
                    said.append((await model.send(ask(schema=BOOL))).text)
                except Exception as error:
                    said.append(f"{error.kind} {error.retryable}")  # type: ignore[attr-defined]
            await model.aclose()
            return said

        assert run(work) == ["bad_request True", '{"answer": true}', '{"answer": true}']
        assert (model.capabilities.json_schema, model.degrade.notes) == (
            False,
            ("no JSON schema: one forced tool instead",),
        )
        tools_refused = True
        assert run(work) == ["bad_request True", '{"answer": true}', '{"answer": true}']
    assert server.asks[-1].prompt == 'Is apple red?\n\nReply with JSON only: {"answer": true} or {"answer": false}'
    assert model.degrade.notes == ("no JSON schema: asked for in words, validated",)


def test_a_server_that_ignores_schemas_is_asked_with_a_tool_then_in_words(wire: str) -> None:
    def rule(a: Any) -> Any:
        words = "Reply with JSON only" in a.prompt
        return (
            Say('{"answer": true}')
            if words
            else Raw(write(attrs.evolve(a, body=without_tools(a)), Say("It is red.")).body, 200)
        )

    with FakeServer(rule) as server:
        model = provider(wire, server.url)

        async def work() -> list[str]:
            said = [(await model.send(ask(schema=BOOL))).text for _ in range(6)]
            await model.aclose()
            return said

        assert run(work) == ["It is red."] * 4 + ['{"answer": true}'] * 2
    assert [(a.schema is not None, a.tool) for a in server.asks[::2]] == [
        (True, None),
        (False, "answer"),
        (False, None),
    ]


def without_tools(a: Any) -> dict[str, Any]:
    return {k: v for k, v in a.body.items() if k not in ("tools", "tool_choice")}


def test_tool_arguments_that_are_not_json_come_back_as_they_are(wire: str) -> None:
    text = '{"answer": tru' if wire != "anthropic" else '{"answer": "tru"}'  # Messages carries a tool's input as JSON
    with FakeServer(lambda a: text) as server:
        model = provider(wire, server.url)
        model.degrade.structured = "tool"
        assert send(model, ask(schema=BOOL)).text == text


def test_a_reply_cut_by_the_limit_says_length(wire: str) -> None:
    with FakeServer(lambda a: Say('{"answer": tr', stop="length")) as server:
        reply = send(provider(wire, server.url), ask(schema=BOOL))
    assert (reply.text, reply.stop) == ('{"answer": tr', "length")


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_says_refusal(wire: str, stream: bool) -> None:
    with FakeServer(lambda a: Say("I cannot.", refusal=True)) as server:
        assert send(provider(wire, server.url), ask(), (lambda _: None) if stream else None).stop == "refusal"


def test_a_content_filter_says_refusal(wire: str) -> None:
    with FakeServer(lambda a: Say("", stop="refusal")) as server:
        reply = send(provider(wire, server.url), ask())
    assert (reply.text, reply.stop) == ("", "refusal")


def test_cached_tokens_are_counted_apart(wire: str) -> None:
    with FakeServer(lambda a: Say("ok", usage=(100, 2), cached=80)) as server:
        reply = send(provider(wire, server.url), ask())
    fresh = 100 if wire == "anthropic" else 20
    assert (reply.input_tokens, reply.cache_read_tokens, reply.output_tokens) == (fresh, 80, 2)


@pytest.mark.parametrize("usage", [None, (0, 0)], ids=["missing", "zero"])
@pytest.mark.parametrize("stream", [False, True])
def test_usage_that_says_nothing_is_not_reported(wire: str, usage: tuple[int, int] | None, stream: bool) -> None:
    with FakeServer(lambda a: Say("ok", usage=usage)) as server:
        reply = send(provider(wire, server.url), ask(), (lambda _: None) if stream else None)
    if wire == "anthropic" and stream:
        assert reply.output_tokens in (None, 0)
    else:
        assert (reply.input_tokens, reply.output_tokens) == (None, None)


def test_a_streamed_reply_is_the_same_reply(wire: str) -> None:
    said: list[str] = []
    with FakeServer(lambda a: Say("one two three", usage=(12, 3), cached=4)) as server:
        whole = send(provider(wire, server.url), ask())
        streamed = send(provider(wire, server.url), ask(), said.append)
    assert streamed == whole
    assert len(said) > 1 and "".join(said) == "one two three"


def test_a_streamed_structured_reply_is_unwrapped_at_the_end(wire: str) -> None:
    with FakeServer(lambda a: '{"answer": ["a"]}') as server:
        assert send(provider(wire, server.url), ask(schema=ARRAY), lambda _: None).text == '["a"]'


def test_a_server_that_does_not_stream_is_read_whole(wire: str) -> None:
    from tests import fake_server

    whole = {"openai": fake_server.chat, "anthropic": fake_server.message, "responses": fake_server.response}[wire]
    said: list[str] = []
    with FakeServer(
        lambda a: Raw(json.dumps(whole(a, Say("ok"))).encode(), 200, {"content-type": "application/json"})
    ) as server:
        assert send(provider(wire, server.url), ask(), said.append).text == "ok"
    assert said == ["ok"]


@pytest.mark.parametrize("cut", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
def test_a_stream_cut_at_every_byte_with_comments_and_no_last_blank_line_is_read(wire: str, cut: str) -> None:
    from tests import fake_server

    events = {
        "openai": fake_server.chat_events,
        "anthropic": fake_server.message_events,
        "responses": fake_server.response_events,
    }[wire]

    def rule(a: Any) -> Raw:
        body = b": ping\n\n" + sse(events(a, Say("h\u00e9llo \U0001f600", pieces=2))).replace(b": ", b":", 1)
        body = body.rstrip(b"\n").replace(b"\n", cut.encode())
        return Raw(body, 200, {"content-type": "text/event-stream"}, chunk=1)

    with FakeServer(rule) as server:
        assert send(provider(wire, server.url), ask(), lambda _: None).text == "h\u00e9llo \U0001f600"


def test_a_stream_that_ends_early_is_an_error_to_retry(wire: str) -> None:
    from tests import fake_server
    from tests.kleene.models.wires import fail

    events = {
        "openai": fake_server.chat_events,
        "anthropic": fake_server.message_events,
        "responses": fake_server.response_events,
    }[wire]

    def rule(a: Any) -> Raw:
        return Raw(sse(events(a, Say("one two three"))[:-3]), 200, {"content-type": "text/event-stream"})

    with FakeServer(rule) as server:
        error = fail(provider(wire, server.url), None, lambda _: None)
    assert (error.kind, error.retryable, error.billed) == ("network", True, True)
    assert error.message == f"{wire} (fake-1): the stream ended before the reply was complete"


def test_lone_surrogates_become_replacement_characters_both_ways(wire: str) -> None:
    with FakeServer(lambda a: "\ud83d and \ud83d\ude00") as server:
        assert send(provider(wire, server.url), ask("a \ud83d b")).text == "\ufffd and \U0001f600"
    assert server.asks[0].prompt == "a \ufffd b"


def test_a_connection_is_reused_and_requests_run_side_by_side(wire: str) -> None:
    with FakeServer(lambda a: Say("ok", delay=0.05)) as server:
        model = provider(wire, server.url)

        async def work() -> None:
            for _ in range(2):
                async with trio.open_nursery() as nursery:
                    for _ in range(8):
                        nursery.start_soon(model.send, ask())
            await model.aclose()

        run(work)
        assert (server.count, server.connections, server.most_at_once) == (16, 8, 8)


def test_one_provider_serves_two_loops(wire: str) -> None:
    with FakeServer(lambda a: "ok") as server:
        model = provider(wire, server.url)
        assert [send(model, ask()).text, send(model, ask()).text] == ["ok", "ok"]


def test_a_cancel_closes_the_request_at_once(wire: str) -> None:
    with FakeServer(lambda a: Say("ok", delay=0.4)) as server:
        model = provider(wire, server.url)

        async def work() -> float:
            start = trio.current_time()
            with trio.move_on_after(0.1):
                await model.send(ask())
            ended = trio.current_time() - start
            await model.aclose()
            return ended

        assert run(work) < 0.35


def test_options_go_out_only_when_asked(wire: str) -> None:
    with FakeServer(lambda a: "ok") as server:
        send(provider(wire, server.url), ask())
        send(provider(wire, server.url), ask(temperature=0.5, effort="low"))
    plain, asked = (a.body for a in server.asks)
    assert "temperature" not in plain and "thinking" not in plain and "reasoning" not in json.dumps(plain)
    if wire == "openai":
        assert (asked["temperature"], asked["reasoning_effort"]) == (0.5, "low")
    elif wire == "responses":
        assert (asked["temperature"], asked["reasoning"]) == (0.5, {"effort": "low"})
    else:
        assert (asked["thinking"], asked["output_config"]) == ({"type": "adaptive"}, {"effort": "low"})


def test_extra_is_merged_into_the_body(wire: str) -> None:
    with FakeServer(lambda a: "ok") as server:
        send(provider(wire, server.url, extra={"service_tier": "flex"}), ask())
    assert server.asks[0].body["service_tier"] == "flex"


def test_the_first_text_arrives_within_milliseconds(wire: str) -> None:
    """The rest of the stream takes a second; the first piece must not wait for it."""
    from tests import fake_server

    events = {
        "openai": fake_server.chat_events,
        "anthropic": fake_server.message_events,
        "responses": fake_server.response_events,
    }[wire]

    def rule(a: Any) -> Raw:
        body = sse(events(a, Say("one two three")))
        first = body.find(b"one") + 8
        first = body.find(b"\n\n", first) + 2
        return Raw(body, 200, {"content-type": "text/event-stream"}, chunk=first, pause=0.2)

    with FakeServer(rule) as server:
        model = provider(wire, server.url)
        seen: list[float] = []

        async def work() -> float:
            await model.send(ask(), lambda _: seen.append(trio.current_time()))
            ended = trio.current_time()
            await model.aclose()
            return ended

        assert run(work) - seen[0] > 0.15
