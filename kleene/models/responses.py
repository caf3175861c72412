"""Open Responses: OpenAI's newer wire and the gateways that speak it and report their cost."""

from __future__ import annotations

from typing import Any, ClassVar

from kleene.models.http_provider import LEFT_OUT, cost, count, reported
from kleene.models.openai import OpenAIEndpoint, function_of, structured_messages
from kleene.models.provider import Capabilities, OnText
from kleene.models.schemas import WireSchema, for_openai
from kleene.udfs.protocols import Message, Reply, Request, ToolUse

_INCOMPLETE = {"max_output_tokens": "length", "content_filter": "refusal"}


class Responses(OpenAIEndpoint):
    """``Responses("gpt-5.4-mini", base_url=..., api_key=...)``, with the same defaults as ``OpenAI``. Nothing is stored at the provider."""

    name: ClassVar[str] = "responses"
    path: ClassVar[str] = "/responses"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            streaming=True,
            tools=True,
            json_schema=self.degrade.structured == "schema",
            reasoning_control=self.degrade.effort,
            cost_reported=True,
            context_window=self.context_window,
        )

    def body(self, request: Request) -> dict[str, Any]:
        options = request.options
        structured, messages = structured_messages(self, request)
        body: dict[str, Any] = {
            "model": self.model,
            "input": [item for m in messages for item in _items(m, self.degrade.typed_items)],
            "max_output_tokens": options.max_tokens,
            "store": False,
        }
        if request.system:
            body["instructions"] = request.system
        if structured is not None:
            body |= _asked(structured, self.degrade.structured)
        elif request.tools:
            body["tools"] = [{"type": "function", **function_of(tool), "strict": False} for tool in request.tools]
        if options.effort is not None and self.degrade.effort:
            body["reasoning"] = {"effort": options.effort}
        if options.temperature is not None and self.degrade.temperature:
            body["temperature"] = options.temperature
        return body

    def lacks(self, request: Request) -> dict[str, str]:
        found = super().lacks(request)
        return found if request.options.seed is None else {**found, "seed": LEFT_OUT}  # the wire has none

    def read(self, value: Any, request: Request) -> Reply:
        said: list[str] = []
        refused: list[str] = []
        arguments: str | None = None
        uses: list[ToolUse] = []
        for item in value["output"]:
            if item.get("type") == "function_call":
                arguments = item["arguments"]
                uses.append(
                    ToolUse(item.get("call_id") or f"call_{len(uses)}", item.get("name") or "", arguments or "{}")
                )
            for part in item.get("content") or [] if item.get("type") == "message" else []:
                if part.get("type") == "refusal":
                    refused.append(part["refusal"])
                elif part.get("type") == "output_text":
                    said.append(part["text"])
        stop = "refusal" if refused else _stop(value)
        text = "".join(refused or said)
        if request.schema is not None and self.degrade.structured != "text" and not refused:
            text = self.wire(request.schema, for_openai).unwrap(text if arguments is None else arguments)
        usage = value.get("usage")
        asked, answered = count(usage, "input_tokens"), count(usage, "output_tokens")
        cached = min(count(usage, "input_tokens_details", "cached_tokens"), asked)
        written = min(count(usage, "input_tokens_details", "cache_write_tokens"), asked - cached)
        known = reported(asked, answered)
        if stop == "end" and answered >= request.options.max_tokens:
            stop = "length"  # llama.cpp says completed where it cut
        model = value.get("model")
        return Reply(
            text,
            asked - cached - written if known else None,
            answered if known else None,
            cost(usage),
            stop,
            cached,
            written,
            model if isinstance(model, str) else None,
            uses=tuple(uses if request.tools else ()),
        )

    def fold(self, on_text: OnText) -> ResponseFold:
        return ResponseFold(on_text)


def _item(message: Message, typed: bool) -> dict[str, Any]:
    """A message as a short item, which all servers but llama.cpp's take for both roles; typed, as the model's own output item."""
    if not typed or message.role != "assistant":
        return {"role": message.role, "content": message.text}
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": message.text}]}


def _items(message: Message, typed: bool) -> list[dict[str, Any]]:
    """A message, the calls in it and what calls gave: items of their own each."""
    given = [{"type": "function_call_output", "call_id": r.id, "output": r.text} for r in message.results]
    calls = [{"type": "function_call", "call_id": u.id, "name": u.name, "arguments": u.arguments} for u in message.uses]
    more = bool(given or calls)
    return [*given, *([_item(message, typed)] if message.text or not more else []), *calls]


class ResponseFold:
    """A response out of its semantic events: the last one carries the whole."""

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._response: Any = None

    def take(self, value: Any, event: str) -> None:
        kind = value.get("type") or event
        if kind == "response.output_text.delta":
            self._on_text(value["delta"])
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            self._response = value["response"]

    @property
    def complete(self) -> bool:
        return self._response is not None

    def whole(self) -> Any:
        return self._response


def _stop(value: Any) -> str:
    if value.get("status") == "incomplete":
        return _INCOMPLETE.get((value.get("incomplete_details") or {}).get("reason") or "", "other")
    return "end" if value.get("status") in ("completed", None) else "other"


def _asked(wire: WireSchema, how: str) -> dict[str, Any]:
    if how == "schema":
        return {
            "text": {"format": {"type": "json_schema", "name": "answer", "schema": wire.schema, "strict": wire.strict}}
        }
    tool = {
        "type": "function",
        "name": "answer",
        "description": "Give the answer.",
        "parameters": wire.schema,
        "strict": wire.strict,
    }
    return {"tools": [tool], "tool_choice": {"type": "function", "name": "answer"}}
