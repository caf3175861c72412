"""Anthropic's Messages."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from kleene.models.addresses import ANTHROPIC_URL
from kleene.models.failures import Origin
from kleene.models.http import Endpoint, checked_key, checked_url
from kleene.models.http_provider import LEFT_OUT, HttpProvider, cost, count, reported, with_line
from kleene.models.provider import Capabilities, OnText
from kleene.models.schemas import WireSchema, for_anthropic, for_openai
from kleene.planner.errors import NoModel
from kleene.planner.specs import Price
from kleene.udfs.answers import instruction_of
from kleene.udfs.protocols import Message, Reply, Request, ToolUse

VERSION = "2023-06-01"
OAUTH_BETA = "oauth-2025-04-20"
STOPS = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "end",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
_MARK = {"type": "ephemeral"}
_NO_EFFORT = re.compile(r"claude-(haiku-[34]|3)")


class Anthropic(HttpProvider):
    """``Anthropic("claude-sonnet-5-5", api_key=...)``. Without them ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN and ANTHROPIC_BASE_URL decide; a
    key or token is needed for Anthropic's own endpoint only. ``extra`` is merged into every request's body.

    The system text, and in a conversation its last message, carry a cache mark, so that the next request reads the prefix at the cache rate.
    Effort turns adaptive thinking on, for models that have it (all but Haiku before 5 and Claude 3). Models that think unless they are told
    otherwise (Sonnet 5, Haiku 5.5, ...) do so at their own effort where none is asked for. Raises ``ConfigError`` on a bad URL or key.
    """

    name: ClassVar[str] = "anthropic"
    path: ClassVar[str] = "/v1/messages"

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        auth_token: str | None = None,
        price: Price | None = None,
        context_window: int | None = None,
        extra: Mapping[str, Any] | None = None,
        connections: int = 64,
    ) -> None:
        connection = _endpoint(model, base_url, api_key, auth_token, connections)
        super().__init__(model, connection, price=price, context_window=context_window, extra=extra)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            streaming=True,
            tools=True,
            json_schema=self.degrade.structured == "schema",
            prompt_cache=self.degrade.cache,
            reasoning_control=self._thinks and self.degrade.effort,
            context_window=self.context_window,
        )

    @property
    def _thinks(self) -> bool:
        return _NO_EFFORT.match(self.model.rpartition("/")[2]) is None

    def body(self, request: Request) -> dict[str, Any]:
        options = request.options
        wire = None if request.schema is None or self.degrade.structured == "text" else self._wire(request.schema)
        messages = request.messages
        if request.schema is not None and wire is None:
            messages = with_line(messages, instruction_of(request.schema))
        body: dict[str, Any] = {"model": self.model, "max_tokens": options.max_tokens}
        if request.system:
            block: dict[str, Any] = {"type": "text", "text": request.system}
            body["system"] = [{**block, "cache_control": _MARK} if self._marks(request) else block]
        body["messages"] = _messages(messages, self._marks(request))
        thinks = options.effort is not None and self._thinks and self.degrade.effort
        config: dict[str, Any] = {"effort": options.effort} if thinks else {}
        if wire is not None and self.degrade.structured == "schema":
            config["format"] = {"type": "json_schema", "schema": wire.schema}
        elif wire is not None:
            body["tools"] = [{"name": "answer", "description": "Give the answer.", "input_schema": wire.schema}]
            body["tool_choice"] = {"type": "tool", "name": "answer"}
            thinks = False  # a forced tool and thinking exclude each other
        elif request.tools:
            body["tools"] = [
                {"name": t.name, "description": t.description, "input_schema": json.loads(t.parameters)}
                for t in request.tools
            ]
        if config:
            body["output_config"] = config
        if thinks:
            body["thinking"] = {"type": "adaptive"}
        elif options.temperature is not None and self.degrade.temperature:
            body["temperature"] = options.temperature
        return body

    def lacks(self, request: Request) -> dict[str, str]:
        found, options = super().lacks(request), request.options
        native = self.degrade.structured == "schema"
        if request.schema is not None and native and self._wire(request.schema) is None:
            found["json_schema"] = "text"
        if options.effort is not None and not self._thinks:
            found["effort"] = LEFT_OUT
        thinks = options.effort is not None and "effort" not in found
        if thinks and found.get("json_schema") == "tool":
            found["thinking"] = LEFT_OUT
        elif thinks and options.temperature is not None:
            found["temperature"] = LEFT_OUT
        if options.seed is not None:
            found["seed"] = LEFT_OUT  # the wire has none
        if options.cache_prefix and not self.degrade.cache and (request.system or len(request.messages) > 1):
            found["prompt_cache"] = LEFT_OUT
        return found

    def _marks(self, request: Request) -> bool:
        return request.options.cache_prefix and self.degrade.cache

    def read(self, value: Any, request: Request) -> Reply:
        blocks = value["content"]
        if not isinstance(blocks, list):
            raise ValueError(blocks)
        text = "".join(b["text"] for b in blocks if b.get("type") == "text")
        stop = STOPS.get(value.get("stop_reason") or "", "other")
        wire = self._wire(request.schema) if request.schema is not None and self.degrade.structured != "text" else None
        if wire is not None:
            used = next((b for b in blocks if b.get("type") == "tool_use"), None)
            text = wire.unwrap(text if used is None else _tool_text(used["input"]))
        usage = value.get("usage")
        asked, said = count(usage, "input_tokens"), count(usage, "output_tokens")
        read, written = count(usage, "cache_read_input_tokens"), count(usage, "cache_creation_input_tokens")
        known = reported(asked, said, read, written)
        model = value.get("model")
        return Reply(
            text,
            asked if known else None,
            said if known else None,
            cost(usage),
            stop,
            read,
            written,
            model if isinstance(model, str) else None,
            uses=tuple(
                ToolUse(b["id"], b["name"], _tool_text(b["input"]) or "{}")
                for b in blocks
                if b.get("type") == "tool_use"
            )
            if request.tools
            else (),
        )

    def fold(self, on_text: OnText) -> MessageFold:
        return MessageFold(on_text)

    def _wire(self, schema: str) -> WireSchema | None:
        return self.wire(schema, for_openai if self.degrade.structured == "tool" else for_anthropic)


class MessageFold:
    """A message out of its events."""

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._blocks: dict[int, dict[str, Any]] = {}
        self._json: dict[int, list[str]] = {}
        self._usage: dict[str, Any] = {}
        self._message: dict[str, Any] = {}
        self._stopped = False

    def take(self, value: Any, event: str) -> None:
        kind = value.get("type")
        if kind == "message_start":
            self._message = dict(value["message"])
            self._usage = dict(self._message.get("usage") or {})
        elif kind == "content_block_start":
            self._blocks[value["index"]] = dict(value["content_block"])
        elif kind == "content_block_delta":
            self._delta(value["index"], value["delta"])
        elif kind == "message_delta":
            self._message |= value["delta"]
            self._usage |= {k: v for k, v in (value.get("usage") or {}).items() if v is not None}
        elif kind == "message_stop":
            self._stopped = True

    def _delta(self, index: int, delta: dict[str, Any]) -> None:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        if delta.get("type") == "text_delta":
            block["text"] = block.get("text", "") + delta["text"]
            self._on_text(delta["text"])
        elif delta.get("type") == "input_json_delta":
            self._json.setdefault(index, []).append(delta["partial_json"])

    @property
    def complete(self) -> bool:
        return self._stopped

    def whole(self) -> Any:
        blocks = [
            {**b, "input": "".join(self._json[i])} if i in self._json else b for i, b in sorted(self._blocks.items())
        ]
        return {**self._message, "content": blocks, "usage": self._usage}


def _endpoint(
    model: str, base_url: str | None, api_key: str | None, auth_token: str | None, connections: int
) -> Endpoint:
    url = checked_url(base_url or os.environ.get("ANTHROPIC_BASE_URL") or ANTHROPIC_URL, "the base_url").removesuffix(
        "/v1"
    )
    given = api_key is not None or auth_token is not None
    key = checked_key(api_key if given else os.environ.get("ANTHROPIC_API_KEY"), "the Anthropic key")
    token = checked_key(auth_token if given else os.environ.get("ANTHROPIC_AUTH_TOKEN"), "the Anthropic token")
    if key is None and token is None and url == ANTHROPIC_URL:
        raise NoModel(f"anthropic:{model} needs a key", hint="set ANTHROPIC_API_KEY, or run kleene setup")
    headers = {"anthropic-version": VERSION}
    if key is not None:
        headers["x-api-key"] = key
    elif token is not None:
        headers |= {"authorization": f"Bearer {token}", "anthropic-beta": OAUTH_BETA}
    return Endpoint(url, Origin("anthropic", model, tuple(s for s in (key, token) if s)), headers, connections)


def _messages(messages: tuple[Message, ...], cache: bool) -> list[dict[str, Any]]:
    """The messages; in a conversation the last one is marked, so that the next turn finds everything up to it in the cache."""
    made: list[dict[str, Any]] = [{"role": m.role, "content": _content(m)} for m in messages]
    if cache and len(made) > 1:
        last = made[-1]["content"]
        blocks = [{"type": "text", "text": last}] if isinstance(last, str) else last
        made[-1]["content"] = [*blocks[:-1], {**blocks[-1], "cache_control": _MARK}]
    return made


def _content(message: Message) -> str | list[dict[str, Any]]:
    if not message.uses and not message.results:
        return message.text
    given = [{"type": "tool_result", "tool_use_id": r.id, "content": r.text} for r in message.results]
    uses = [{"type": "tool_use", "id": u.id, "name": u.name, "input": _input(u.arguments)} for u in message.uses]
    return [*given, *([{"type": "text", "text": message.text}] if message.text else []), *uses]


def _input(arguments: str) -> dict[str, Any]:
    """A call's arguments as the object that this wire wants; what the model wrote and is none goes back as such."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"text": arguments}


def _tool_text(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
