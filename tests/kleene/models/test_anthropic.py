"""What only Anthropic's wire has: cache marks, thinking, effort, and stop reasons of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kleene.models import Anthropic
from kleene.udfs.protocols import Message, Options, Request
from tests.fake_server import FakeServer, Raw, Say, message
from tests.kleene.models.wires import BOOL, ask, provider, send

MARK = {"type": "ephemeral"}


def body(request: Request, model: str = "claude-sonnet-5") -> dict[str, Any]:
    return Anthropic(model, base_url="http://127.0.0.1:1", api_key="k").body(request)


def test_the_system_text_and_the_end_of_a_conversation_are_marked_for_the_cache() -> None:
    talk = Request("root", (Message("user", "a"), Message("assistant", "b"), Message("user", "c")), "Be brief.")
    made = body(talk)
    assert made["system"] == [{"type": "text", "text": "Be brief.", "cache_control": MARK}]
    assert [m["content"] for m in made["messages"]] == [
        "a",
        "b",
        [{"type": "text", "text": "c", "cache_control": MARK}],
    ]


def test_one_prompt_is_not_marked_and_nothing_is_with_cache_prefix_off() -> None:
    assert body(ask("a"))["messages"] == [{"role": "user", "content": "a"}]
    talk = Request(
        "root",
        (Message("user", "a"), Message("assistant", "b"), Message("user", "c")),
        "s",
        options=Options(cache_prefix=False),
    )
    assert "cache_control" not in json.dumps(body(talk))


def test_effort_turns_thinking_on_and_old_haiku_has_none() -> None:
    asked = ask(effort="high", schema=BOOL)
    assert (body(asked)["thinking"], body(asked)["output_config"]["effort"]) == ({"type": "adaptive"}, "high")
    for model in (
        "claude-haiku-4-5",
        "claude-haiku-4-5-20251001",
        "claude-3-5-haiku-latest",
        "vendor/claude-haiku-4-5",
    ):
        assert "thinking" not in body(asked, model) and "effort" not in body(asked, model)["output_config"]
    assert body(asked, "claude-haiku-5-5")["output_config"]["effort"] == "high"
    assert "thinking" not in body(ask())


def test_thinking_excludes_temperature_and_a_forced_tool() -> None:
    assert "temperature" not in body(ask(effort="low", temperature=0.5))
    model = Anthropic("claude-sonnet-5", base_url="http://127.0.0.1:1", api_key="k")
    model.degrade.structured = "tool"
    made = model.body(ask(effort="low", schema=BOOL))
    assert "thinking" not in made and made["tool_choice"] == {"type": "tool", "name": "answer"}


def test_thinking_blocks_are_not_part_of_the_text() -> None:
    def rule(a: Any) -> Raw:
        whole = message(a, Say("It is."))
        whole["content"].insert(0, {"type": "thinking", "thinking": "hm", "signature": "s"})
        return Raw(json.dumps(whole).encode(), 200, {"content-type": "application/json"})

    with FakeServer(rule) as server:
        assert send(provider("anthropic", server.url), ask()).text == "It is."


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("stop_sequence", "end"), ("model_context_window_exceeded", "length"), ("pause_turn", "other"), (None, "other")],
)
def test_stop_reasons_become_the_four_words(reason: str | None, stop: str) -> None:
    def rule(a: Any) -> Raw:
        return Raw(
            json.dumps({**message(a, Say("x")), "stop_reason": reason}).encode(),
            200,
            {"content-type": "application/json"},
        )

    with FakeServer(rule) as server:
        assert send(provider("anthropic", server.url), ask()).stop == stop


def test_cache_writes_are_counted_apart() -> None:
    def rule(a: Any) -> Raw:
        whole = message(a, Say("x", usage=(7, 2), cached=30))
        whole["usage"]["cache_creation_input_tokens"] = 50
        return Raw(json.dumps(whole).encode(), 200, {"content-type": "application/json"})

    with FakeServer(rule) as server:
        reply = send(provider("anthropic", server.url), ask())
    assert (reply.input_tokens, reply.cache_read_tokens, reply.cache_write_tokens) == (7, 30, 50)


def test_the_base_url_may_end_in_v1() -> None:
    assert Anthropic("m", base_url="http://127.0.0.1:1/v1/", api_key="k").endpoint == "http://127.0.0.1:1"


def test_a_schema_that_messages_cannot_say_is_asked_for_in_words() -> None:
    schema = '{"type": "object", "additionalProperties": {"type": "integer"}}'
    made = body(ask("How many?", schema=schema))
    assert "output_config" not in made
    assert (
        made["messages"][0]["content"] == f"How many?\n\nReply with JSON only, valid against this JSON schema: {schema}"
    )
