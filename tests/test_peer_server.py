"""The server of ``scripts/bench_peers.py``: each program gets the true answer in its own form, and what it sends is counted."""

from __future__ import annotations

import asyncio
import json

import pytest

from scripts.peer_server import Count, Server, answer, sent

SEA = "The place in the text lies by the sea. Text: a town [sea: yes; quality: 40]"
EVENT = "Both texts speak of the same event.\nIdentify pairs of items from the left and right tables."


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        (SEA, "true"),
        (SEA.replace("yes", "no"), "false"),
        (f"{SEA} Output 'True' or 'False'.", "True"),
        (f"{SEA} Answer with 1 for yes, 0 for no", "1"),
        (f"{SEA} Answer TRUE or FALSE.", "By what the text states.\n\nANSWER: TRUE\n---"),
        (
            "generate a JSON object\nHow good is it? [quality: 40]\nOUTPUT FIELDS:\n- score: a number\n\nrest",
            'By what the text states.\n\nANSWER:\n{"score": 0.4}\n---',
        ),
        ("How good? Document 1: [quality: 40] Document 2: [quality: 70]", "Document 2"),
        ("Say which topics the texts mention. Document 1: [topic: noise] Document 2: [topic: heat]", "topics: heat, noise"),
        (f"{SEA}\n<output> True or False </output>\n", "<output>True</output>"),
        ("Name the country.\n<land> fill in correct value </land>\n[country: Peru]", "<land>Peru</land>"),
        ("item number (1 or 2) Item 1: [quality: 40] Item 2: [quality: 70] How good?", "<output>2</output>"),
        (f"{EVENT}\nL0:\nx [event: e1]\nL1:\ny [event: e2]\nR0:\nz [event: e2]\nR1:\nw [event: e1]", "L0-R1,L1-R0."),
    ],
)  # fmt: skip
def test_each_form_says_what_is_true(prompt: str, said: str) -> None:
    assert answer(prompt) == said


def asked(**more: object) -> tuple[dict[str, object], Count]:
    server = Server(0.0)
    completion = asyncio.run(server.answer({"model": "m", "messages": [{"role": "user", "content": SEA}], **more}))
    return completion, server.take()


def test_tokens_are_those_of_messages_tools_schemas_and_replies() -> None:
    _, plain = asked()
    schema = {"type": "object", "properties": {"value": {"type": "boolean"}}}
    form, with_schema = asked(response_format={"type": "json_schema", "json_schema": {"schema": schema}})
    tools = [{"type": "function", "function": {"name": "give", "parameters": schema}}]
    call, with_tools = asked(tools=tools)
    assert plain == Count(1, len(SEA) // 4, 1)
    assert with_schema == Count(1, (len(SEA) + len(json.dumps(schema))) // 4, len('{"value": true}') // 4)
    assert with_tools.tokens_in == (len(SEA) + len(json.dumps(tools))) // 4
    assert form["choices"][0]["message"]["content"] == '{"value": true}'  # type: ignore[index]
    assert call["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"value": true}'  # type: ignore[index]


def test_the_responses_api_has_the_same_text_and_usage() -> None:
    server = Server(0.0)
    content = [{"type": "input_text", "text": SEA}]
    said = asyncio.run(server.answer({"model": "m", "input": [{"role": "user", "content": content}]}))
    assert server.take() == Count(1, len(SEA) // 4, 1)
    assert said["output"][0]["content"][0]["text"] == "true"
    assert (said["usage"]["input_tokens"], said["usage"]["output_tokens"]) == (len(SEA) // 4, 1)


def test_a_stream_has_the_same_text_and_usage() -> None:
    completion, _ = asked()
    kind, text = sent(completion, stream=True)
    *events, done = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    chunks = [json.loads(event) for event in events]
    assert (kind, done) == ("text/event-stream", "[DONE]")
    assert chunks[0]["choices"][0]["delta"]["content"] == "true"
    assert chunks[-1]["usage"] == completion["usage"]
