"""The vendors' own Python packages as judges: their clients talk to our fake, their request types accept what we send.

They are in the ``vendors`` extra; without them these tests are skipped, and say so.
"""

from __future__ import annotations

from typing import Any

import pytest

from kleene.planner.specs import AnswerType
from kleene.udfs.answers import schema_for
from kleene.udfs.protocols import Message, Options, Request, ToolResult, ToolSpec, ToolUse
from tests.fake_server import Ask, FakeServer, Raw, Say, failure
from tests.kleene.models.wires import provider, send

TOOL_SCHEMA: Any = {"type": "object", "properties": {"answer": {"type": "boolean"}}}


def rule(a: Ask) -> str | Say | Raw:
    return failure(429, "slow", "rate_limit_error") if "fail" in a.prompt else '{"answer": true}'


def requests() -> list[Request]:
    """One of every shape that leaves Kleene."""
    kinds = [
        ("bool", "BOOLEAN"),
        ("score", "DOUBLE"),
        ("list", "VARCHAR[]"),
        ("typed", "STRUCT(a DATE, b VARCHAR[])"),
        ("typed", "MAP(VARCHAR, INTEGER)"),
    ]
    schemas = [
        None,
        "{}",
        '{"type": "array", "items": {"type": "string"}}',
        *(schema_for(AnswerType(*k), 3) for k in kinds),
    ]
    user, talk = (Message("user", "hi"),), (Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
    tool = ToolSpec("grep", "finds lines", '{"type": "object", "properties": {"pattern": {"type": "string"}}}')
    uses = tuple(ToolUse(f"call_{n}", "grep", '{"pattern": "a"}') for n in range(2))
    called = Message("assistant", "I look.", uses), Message("assistant", "", uses)
    told = tuple(ToolResult(u.id, "1: a") for u in uses)
    talks = [
        (*user, said, Message("user", text, results=told)) for said in called for text in ("", "One turn is left.")
    ]
    options = [Options(), Options(effort="max"), Options(effort="low", temperature=0.5, seed=1, cache_prefix=False)]
    return [
        Request("worker", m, system, s, o)
        for m in (user, talk)
        for system in (None, "Be brief.")
        for s in schemas
        for o in options
    ] + [Request("root", m, "Be brief.", None, o, tools=(tool,)) for m in (user, *talks) for o in options]


def bodies(wire: str, degrade: str) -> list[dict[str, Any]]:
    model = provider(wire, "http://127.0.0.1:1")
    model.degrade.structured = degrade
    return [model.body(r) for r in requests()]


@pytest.mark.parametrize("degrade", ["schema", "tool", "text"])
@pytest.mark.parametrize("wire", ["openai", "anthropic", "responses"])
def test_every_body_is_of_the_vendors_request_type(wire: str, degrade: str) -> None:
    pydantic = pytest.importorskip("pydantic")
    if wire == "anthropic":
        kind = pytest.importorskip("anthropic.types.message_create_params").MessageCreateParamsNonStreaming
    elif wire == "openai":
        kind = pytest.importorskip("openai.types.chat.completion_create_params").CompletionCreateParamsNonStreaming
    else:
        kind = pytest.importorskip("openai.types.responses.response_create_params").ResponseCreateParamsNonStreaming
    judge = pydantic.TypeAdapter(kind, config=None)
    # The newest Messages type has no temperature; it goes out when asked for, and is left out once an endpoint refuses it.
    known = set(kind.__required_keys__ | kind.__optional_keys__) | {"temperature"}
    for body in bodies(wire, degrade):
        judge.validate_python(body)
        assert set(body) <= known


def test_openais_client_is_at_home_on_the_fake() -> None:
    openai = pytest.importorskip("openai")
    user: Any = [{"role": "user", "content": "hi"}]
    with FakeServer(rule) as server, openai.OpenAI(base_url=server.url + "/v1", api_key="k", max_retries=0) as client:
        said = client.chat.completions.create(model="m", messages=user)
        assert (said.choices[0].message.content, said.usage.prompt_tokens) == ('{"answer": true}', 10)
        chunks = list(
            client.chat.completions.create(
                model="m", messages=user, stream=True, stream_options={"include_usage": True}
            )
        )
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == '{"answer": true}'
        assert chunks[-1].usage.completion_tokens == 5
        tool: Any = {"type": "function", "function": {"name": "answer", "parameters": TOOL_SCHEMA}}
        choice: Any = {"type": "function", "function": {"name": "answer"}}
        used = client.chat.completions.create(model="m", messages=user, tools=[tool], tool_choice=choice)
        assert used.choices[0].message.tool_calls[0].function.arguments == '{"answer": true}'
        with client.responses.stream(model="m", input="hi") as stream:
            assert "".join(e.delta for e in stream if e.type == "response.output_text.delta") == '{"answer": true}'
            assert stream.get_final_response().output_text == '{"answer": true}'
        assert client.responses.create(model="m", input="hi").usage.input_tokens == 10
        assert client.embeddings.create(model="m", input=["a", "bb"], encoding_format="float").data[1].embedding == [
            2.0,
            1.0,
            0.0,
        ]
        with pytest.raises(openai.RateLimitError):
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "fail"}])


def test_anthropics_client_is_at_home_on_the_fake() -> None:
    anthropic = pytest.importorskip("anthropic")
    user: Any = [{"role": "user", "content": "hi"}]
    with FakeServer(rule) as server, anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0) as client:
        said = client.messages.create(model="m", max_tokens=9, messages=user)
        assert (said.content[0].text, said.usage.input_tokens, said.stop_reason) == ('{"answer": true}', 10, "end_turn")
        with client.messages.stream(model="m", max_tokens=9, messages=user) as stream:
            assert "".join(stream.text_stream) == '{"answer": true}'
            assert stream.get_final_message().usage.output_tokens == 5
        tools: Any = [{"name": "answer", "input_schema": TOOL_SCHEMA}]
        used = client.messages.create(
            model="m", max_tokens=9, messages=user, tools=tools, tool_choice={"type": "tool", "name": "answer"}
        )
        assert used.content[0].input == {"answer": True}
        with pytest.raises(anthropic.RateLimitError):
            client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "fail"}])


def test_the_fake_serves_our_own_providers_alike() -> None:
    with FakeServer(rule) as server:
        assert {send(provider(w, server.url), requests()[0]).text for w in ("openai", "anthropic", "responses")} == {
            '{"answer": true}'
        }
