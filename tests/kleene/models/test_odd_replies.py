"""Replies of another form than the wire says: every value of a good one in turn replaced by what JSON can hold, or left out."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from kleene.models.http_provider import MOST_DOLLARS, MOST_TOKENS, _Stream
from kleene.udfs.protocols import ProviderError, Reply
from tests.fake_server import Ask, Say, write
from tests.kleene.models.test_tools import CALLS, REQUEST
from tests.kleene.models.wires import BOOL, WIRES, ask, provider

ODD = [None, True, -1, 400, 1e999, float("nan"), 10**400, 10**19, "x", [], {}, [None], {"a": 1}, "\ud800"]
LEFT_OUT = object()
SAY = Say("true", cost=0.5)
every_wire = pytest.mark.parametrize("wire", sorted(WIRES))


def good(wire: str, *, stream: bool) -> bytes:
    kind = {"openai": "chat", "anthropic": "messages", "responses": "responses"}[wire]
    return write(Ask(0, kind, "/", {}, {"model": "fake-1", "stream": stream}, 1), SAY).body


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield from places(below, (*path, key))


def changed(value: Any) -> Iterator[Any]:
    """The value with each of its places changed in turn, as it comes out of JSON."""
    yield from ODD
    for path in places(value):
        for odd in (*ODD, LEFT_OUT):
            whole = copy.deepcopy(value)
            at = whole
            for key in path[:-1]:
                at = at[key]
            if odd is LEFT_OUT:
                del at[path[-1]]
            else:
                at[path[-1]] = odd
            yield whole


def check(reply: Reply) -> None:
    """It can be booked and shown."""
    used = "".join(use.name + use.arguments for use in reply.uses)
    "".join((reply.text, reply.said, reply.model or "", reply.stop, used)).encode()
    tokens = (reply.input_tokens, reply.output_tokens, reply.cache_read_tokens, reply.cache_write_tokens)
    assert all(n is None or (type(n) is int and 0 <= n <= MOST_TOKENS) for n in tokens)
    assert reply.dollars is None or 0 <= reply.dollars <= MOST_DOLLARS


@every_wire
def test_an_odd_call_of_a_tool_is_read_or_an_error_by_name(wire: str) -> None:
    model = provider(wire, "http://model.invalid")
    assert model._whole(REQUEST, {}, CALLS[wire]).uses
    for value in changed(CALLS[wire]):
        try:
            check(model._whole(REQUEST, {}, value))
        except ProviderError as error:
            error.message.encode()


def shown(text: str) -> None:
    assert text.encode()


@every_wire
@pytest.mark.parametrize("schema", [None, BOOL], ids=["text", "schema"])
def test_an_odd_reply_is_read_or_an_error_by_name(wire: str, schema: str | None) -> None:
    model = provider(wire, "http://model.invalid")
    for value in changed(json.loads(good(wire, stream=False))):
        try:
            check(model._whole(ask(schema=schema), {}, value))
        except ProviderError as error:
            error.message.encode()


@every_wire
def test_an_odd_event_is_read_or_an_error_by_name(wire: str) -> None:
    model = provider(wire, "http://model.invalid")
    events = [event.split("\n") for event in good(wire, stream=True).decode().rstrip().split("\n\n")]
    for place, lines in enumerate(events):
        *names, data = lines
        if data == "data: [DONE]":
            continue
        for value in changed(json.loads(data.removeprefix("data: "))):
            new = [*events[:place], [*names, f"data: {json.dumps(value)}"], *events[place + 1 :], [""]]
            stream = _Stream(model, shown)
            try:
                stream.take({}, "\n\n".join("\n".join(lines) for lines in new).encode())
                check(model._whole(ask(), {}, stream.whole({})))
            except ProviderError as error:
                error.message.encode()


@every_wire
def test_a_character_cut_in_two_is_shown_whole(wire: str) -> None:
    """Its halves come in two events: an emoji, then one half alone."""
    model = provider(wire, "http://model.invalid")
    kind = {"openai": "chat", "anthropic": "messages", "responses": "responses"}[wire]
    said = Say("a\ud83d\ude00b\ud83d", pieces=5)
    parts: list[str] = []
    stream = _Stream(model, parts.append)
    stream.take({}, write(Ask(0, kind, "/", {}, {"model": "fake-1", "stream": True}, 1), said).body)
    assert model._whole(ask(), {}, stream.whole({})).text == "a\U0001f600b\ufffd"
    assert "".join(parts) == "a\U0001f600b"
    assert all(part.encode() for part in parts)
