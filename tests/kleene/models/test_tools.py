"""Functions that a model may call: told on three wires, called by the model, answered, and recorded; in words where a server has no tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

import kleene
from kleene.config import Config
from kleene.models import build_handler
from kleene.models.recording import fingerprint
from kleene.models.tool_words import read_uses
from kleene.udfs.protocols import Message, Reply, Request, Route, ToolResult, ToolSpec, ToolUse
from tests.fake_server import FakeServer, Raw, failure
from tests.kleene.models.wires import WIRES, provider, send

GREP = ToolSpec("grep", "finds lines", '{"type": "object", "properties": {"pattern": {"type": "string"}}}')
USES = (ToolUse("id1", "grep", '{"pattern": "a"}'), ToolUse("id2", "grep", '{"pattern": "b"}'))
TALK = (
    Message("user", "Find a and b."),
    Message("assistant", "I look.", USES),
    Message("user", "One turn is left.", results=(ToolResult("id1", "1: a"), ToolResult("id2", "2: b"))),
)
REQUEST = Request("root", TALK, "Be brief.", tools=(GREP,), path="plain/2")

CALLS: dict[str, dict[str, Any]] = {
    "openai": {
        "choices": [
            {
                "finish_reason": "tool_calls",
                "message": {
                    "content": None,
                    "tool_calls": [
                        {"id": u.id, "type": "function", "function": {"name": u.name, "arguments": u.arguments}}
                        for u in USES
                    ],
                },
            }
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4},
    },
    "anthropic": {
        "content": [{"type": "tool_use", "id": u.id, "name": u.name, "input": json.loads(u.arguments)} for u in USES],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 9, "output_tokens": 4},
    },
    "responses": {
        "status": "completed",
        "output": [{"type": "function_call", "call_id": u.id, "name": u.name, "arguments": u.arguments} for u in USES],
        "usage": {"input_tokens": 9, "output_tokens": 4},
    },
}


def answer(body: dict[str, Any]) -> Raw:
    return Raw(json.dumps(body).encode(), headers={"content-type": "application/json"})


@pytest.mark.parametrize("wire", sorted(WIRES))
def test_calls_are_read(wire: str) -> None:
    with FakeServer(lambda a: answer(CALLS[wire])) as server:
        assert send(provider(wire, server.url), REQUEST) == Reply("", 9, 4, uses=USES)


def test_a_conversation_with_calls_goes_out_as_each_wire_has_it() -> None:
    sent = {}
    for wire in WIRES:
        with FakeServer(lambda a: "ok") as server:
            send(provider(wire, server.url), REQUEST)
        sent[wire] = server.asks[0].body
    calls = [{"id": u.id, "type": "function", "function": {"name": u.name, "arguments": u.arguments}} for u in USES]
    assert sent["openai"]["messages"][1:] == [
        {"role": "user", "content": "Find a and b."},
        {"role": "assistant", "content": "I look.", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "id1", "content": "1: a"},
        {"role": "tool", "tool_call_id": "id2", "content": "2: b"},
        {"role": "user", "content": "One turn is left."},
    ]
    schema = json.loads(GREP.parameters)
    function = {"name": "grep", "description": "finds lines", "parameters": schema}
    assert sent["openai"]["tools"] == [{"type": "function", "function": function}]
    assert sent["anthropic"]["messages"][1]["content"] == [
        {"type": "text", "text": "I look."},
        *({"type": "tool_use", "id": u.id, "name": u.name, "input": json.loads(u.arguments)} for u in USES),
    ]
    assert sent["anthropic"]["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "id1", "content": "1: a"},
        {"type": "tool_result", "tool_use_id": "id2", "content": "2: b"},
        {"type": "text", "text": "One turn is left.", "cache_control": {"type": "ephemeral"}},
    ]
    assert sent["anthropic"]["tools"] == [{"name": "grep", "description": "finds lines", "input_schema": schema}]
    assert sent["responses"]["input"][1:] == [
        {"role": "assistant", "content": "I look."},
        *({"type": "function_call", "call_id": u.id, "name": u.name, "arguments": u.arguments} for u in USES),
        {"type": "function_call_output", "call_id": "id1", "output": "1: a"},
        {"type": "function_call_output", "call_id": "id2", "output": "2: b"},
        {"role": "user", "content": "One turn is left."},
    ]
    assert sent["responses"]["tools"] == [{"type": "function", **function, "strict": False}]


def test_arguments_that_are_no_object_go_back_as_one_where_the_wire_needs_it() -> None:
    broken = (Message("user", "x"), Message("assistant", "", (ToolUse("i", "grep", "{pattern"),)), TALK[2])
    body = provider("anthropic", "http://127.0.0.1:1").body(Request("root", broken, tools=(GREP,)))
    assert body["messages"][1]["content"] == [
        {"type": "tool_use", "id": "i", "name": "grep", "input": {"text": "{pattern"}}
    ]


def test_streamed_calls_are_put_together_by_their_index() -> None:
    pieces: list[dict[str, Any]] = [
        {"index": 0, "id": "id1", "function": {"name": "grep", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"pattern"'}},
        {"index": 1, "id": "id2", "function": {"name": "grep", "arguments": '{"pattern": "b"}'}},
        {"index": 0, "function": {"arguments": ': "a"}'}},
    ]
    events: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"tool_calls": [p]}, "finish_reason": None}]} for p in pieces
    ]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    data = "".join(f"data: {json.dumps(e)}\n\n" for e in events) + "data: [DONE]\n\n"
    with FakeServer(lambda a: Raw(data.encode(), headers={"content-type": "text/event-stream"})) as server:
        assert send(provider("openai", server.url), REQUEST, on_text=lambda _: None).uses == USES


@pytest.mark.parametrize("wire", sorted(WIRES))
def test_a_server_without_tools_is_told_them_in_words(wire: str) -> None:
    def rule(a: Any) -> Any:
        if a.body.get("tools"):
            return failure(400, "tools param requires --jinja flag")
        return 'I look.\n```json\n[{"name": "grep", "arguments": {"pattern": "c"}}]\n```'

    with FakeServer(rule) as server:
        model = provider(wire, server.url)
        with pytest.raises(kleene.udfs.protocols.ProviderError) as refused:  # type: ignore[attr-defined]
            send(model, REQUEST)
        assert refused.value.retryable
        reply = send(model, REQUEST)
    assert (reply.text, reply.uses, reply.degraded) == (
        "I look.",
        (ToolUse("call_0", "grep", '{"pattern": "c"}'),),
        "tools: text",
    )
    seen = server.asks[-1]
    assert "- grep: finds lines" in str(seen.system)
    assert seen.prompt == "grep gave:\n1: a\n\ngrep gave:\n2: b\n\nOne turn is left."


def test_a_function_calls_with_uses_or_in_words() -> None:
    words = 'Look.\n```json\n[{"name": "grep", "arguments": {"pattern": "a"}}]\n```'

    async def ask(request: Request, said: Any) -> Reply:
        return await kleene.FunctionModel(lambda r: said).send(request)

    assert trio.run(ask, REQUEST, words).uses == (ToolUse("call_0", "grep", '{"pattern": "a"}'),)
    assert trio.run(ask, REQUEST, Reply("", uses=USES)).uses == USES
    assert trio.run(ask, Request("root", TALK[:1]), words).text == words, "nothing was offered"


@pytest.mark.parametrize(
    "text",
    ["No call.", "[1, 2]", '{"name": "x"}', "[{", '{"a": {"name": "x"}}', ""],
)
def test_text_that_asks_for_no_call_stays_as_it_is(text: str) -> None:
    assert read_uses(Reply(text)) == Reply(text)


def test_a_recorded_turn_with_calls_is_replayed_and_its_drift_named(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    model = kleene.FunctionModel(lambda request: Reply("", uses=USES) if len(request.messages) < 3 else "done")
    first = Request("root", TALK[:1], "Be brief.", tools=(GREP,), path="plain/1")

    async def both(handler: Any) -> list[Reply]:
        route = handler.route("root")
        found = [await handler.send(first, route), await handler.send(REQUEST, route)]
        await handler.aclose()
        return found

    said = trio.run(both, build_handler(model, Config(), record=file))
    replay = build_handler(None, Config(), replay=file)
    assert trio.run(both, replay) == said and said[0].uses == USES
    assert replay.warnings == []  # type: ignore[attr-defined]

    file.write_text(file.read_text().replace("1: a", "1: z"))
    replay = build_handler(None, Config(), replay=file)
    trio.run(both, replay)
    assert replay.warnings == [  # type: ignore[attr-defined]
        f"turn plain/2 differs from the recording {file}: message 3 (user), line 2: "
        "recorded '...ne turn is left.\\n1: z\\n2: b', now '...ne turn is left.\\n1: a\\n2: b'"
    ]


def test_tools_and_calls_are_of_the_fingerprint() -> None:
    route = Route("root", "p", "e", "m")
    requests = [Request("root", TALK[:1]), Request("root", TALK[:1], tools=(GREP,)), Request("root", TALK)]
    assert len({fingerprint(r, route) for r in requests}) == 3
    bare = Request("root", (TALK[0], Message("assistant", "I look."), Message("user", "One turn is left.")))
    assert bare.characters() < Request("root", TALK).characters() < REQUEST.characters() <= REQUEST.bytes_bound()
