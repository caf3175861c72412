"""Chat completions: OpenAI, llama.cpp, vLLM, Ollama, LM Studio, gateways."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import urlsplit

from kleene.models.addresses import OPENAI_URL
from kleene.models.failures import Origin, from_body
from kleene.models.http import Endpoint, checked_key, checked_url, json_of
from kleene.models.http_provider import OTHER_FORM, HttpProvider, cost, count, reported, with_line
from kleene.models.provider import Capabilities, OnText, one_text_only, vector_text
from kleene.models.schemas import WireSchema, for_openai
from kleene.planner.errors import NoModel
from kleene.planner.specs import Price
from kleene.udfs.answers import instruction_of
from kleene.udfs.jsontext import clean
from kleene.udfs.protocols import Message, ProviderError, Reply, Request, ToolSpec, ToolUse
from kleene.udfs.vectors import placed

EMBED_BATCH = 64
"""Texts in one request for vectors. OpenAI takes 2,048 (https://platform.openai.com/docs/api-reference/embeddings/create); reading so many takes
seconds, in which nothing else moves."""
LISTS_LOST = 3  # then the server is taken to want one text at a time
STOPS = {"stop": "end", "length": "length", "content_filter": "refusal", "tool_calls": "end", "function_call": "end"}


class OpenAIEndpoint(HttpProvider):
    """A model behind OpenAI's endpoint or one that is like it, whichever of its wires is spoken."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        price: Price | None = None,
        context_window: int | None = None,
        extra: Mapping[str, Any] | None = None,
        connections: int = 64,
    ) -> None:
        connection = openai_endpoint(self.name, model, base_url, api_key, connections)
        super().__init__(model, connection, price=price, context_window=context_window, extra=extra)


class OpenAI(OpenAIEndpoint):
    """``OpenAI("gpt-5.4-mini", base_url=..., api_key=...)``. Without them OPENAI_BASE_URL and OPENAI_API_KEY decide; a key is needed for
    OpenAI's own endpoint only. ``extra`` is merged into every request's body. Raises ``ConfigError`` on a bad URL or key."""

    name: ClassVar[str] = "openai"
    path: ClassVar[str] = "/chat/completions"
    _lists_lost: int = 0  # how often a list of texts brought no vector; -1: one did

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            streaming=True,
            tools=True,
            json_schema=self.degrade.structured == "schema",
            reasoning_control=self.degrade.effort,
            embeddings=True,
            embed_batch=EMBED_BATCH,
            context_window=self.context_window,
        )

    def body(self, request: Request) -> dict[str, Any]:
        options = request.options
        structured, messages = structured_messages(self, request)
        body: dict[str, Any] = {
            "model": self.model,
            "messages": ([{"role": "system", "content": request.system}] if request.system else [])
            + [item for m in messages for item in _items(m)],
            self._max_tokens_name(): options.max_tokens,
        }
        if structured is not None:
            body |= _asked(structured, self.degrade.structured)
        elif request.tools:
            body["tools"] = [{"type": "function", "function": function_of(tool)} for tool in request.tools]
        if options.effort is not None and self.degrade.effort:
            body["reasoning_effort"] = options.effort
        if options.temperature is not None and self.degrade.temperature:
            body["temperature"] = options.temperature
        if options.seed is not None and self.degrade.seed:
            body["seed"] = options.seed
        return body

    async def embed(self, request: Request) -> Reply:
        """The vectors of the request's texts, by ``/embeddings``: of one, or of a list. Raises ``ProviderError``."""
        texts = [m.text for m in request.messages]
        if len(texts) > 1 and self._lists_lost >= LISTS_LOST:
            raise one_text_only(self.name, self.model)
        given = texts[0] if len(texts) == 1 else texts
        body = {"model": self.model, "input": given, "encoding_format": "float", **self.extra}
        try:
            reply = await self.connection.request("/embeddings", body, request.options.timeout)
        except ProviderError as refusal:
            if len(texts) > 1 and refusal.kind == "bad_request":
                self._list_brought(nothing=True)
            raise
        value = json_of(self.connection.origin, reply)
        error = from_body(self.connection.origin, reply.headers, value)
        if error is not None:
            raise error
        try:
            if len(texts) > 1:
                vectors = placed(value["data"], len(texts))
                self._list_brought(nothing=all(v is None for v in vectors))
            else:
                vectors = [value["data"][0]["embedding"]]
                if not isinstance(vectors[0], list):
                    raise TypeError(vectors)
            usage, model = value.get("usage"), value.get("model")
        except OTHER_FORM:
            raise self.malformed(value) from None
        asked = count(usage, "prompt_tokens")
        return Reply(
            "\n".join("null" if v is None else vector_text(v) for v in vectors),
            asked if reported(asked) else None,
            0,
            cost(usage),
            model=clean(model) if isinstance(model, str) else None,
        )

    def _list_brought(self, *, nothing: bool) -> None:
        """Once a list brought a vector, it is what is in a list that costs it its vectors."""
        if not nothing:
            self._lists_lost = -1
        elif self._lists_lost >= 0:
            self._lists_lost += 1

    def read(self, value: Any, request: Request) -> Reply:
        choice = value["choices"][0]
        message = choice["message"]
        refusal = message.get("refusal")
        stop = "refusal" if refusal else STOPS.get(choice.get("finish_reason") or "stop", "other")
        text = content_text(message.get("content"))
        calls = message.get("tool_calls") or []
        if calls and request.schema is not None:
            text = calls[0]["function"]["arguments"]
        if request.schema is not None and self.degrade.structured != "text":
            text = self.wire(request.schema, for_openai).unwrap(text)
        usage = value.get("usage")
        asked, said = count(usage, "prompt_tokens"), count(usage, "completion_tokens")
        cached = min(count(usage, "prompt_tokens_details", "cached_tokens"), asked)
        written = min(count(usage, "prompt_tokens_details", "cache_write_tokens"), asked - cached)
        known = reported(asked, said)
        return Reply(
            text if not refusal else content_text(refusal),
            asked - cached - written if known else None,
            said if known else None,
            cost(usage),
            stop,
            cached,
            written,
            value.get("model") if isinstance(value.get("model"), str) else None,
            uses=tuple(
                ToolUse(c.get("id") or f"call_{n}", c["function"]["name"], c["function"].get("arguments") or "{}")
                for n, c in enumerate(calls if request.tools else [])
            ),
        )

    def fold(self, on_text: OnText) -> ChatFold:
        return ChatFold(on_text)

    def streaming(self) -> dict[str, Any]:
        return {"stream": True, "stream_options": {"include_usage": True}}

    def _max_tokens_name(self) -> str:
        """OpenAI's newer models refuse max_tokens, most other servers know nothing else; a refusal swaps the two."""
        host = urlsplit(self.connection.base_url).hostname or ""
        newer = (host == "openai.com" or host.endswith((".openai.com", ".azure.com"))) != self.degrade.swap_max_tokens
        return "max_completion_tokens" if newer else "max_tokens"


class ChatFold:
    """A chat completion out of its chunks."""

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}
        self._finish: str | None = None
        self._usage: Any = None
        self._model: Any = None

    def take(self, value: Any, event: str) -> None:
        if not isinstance(value, dict):
            raise ValueError(value)
        self._usage = value.get("usage") or self._usage
        self._model = value.get("model") or self._model
        for choice in value.get("choices") or []:
            delta = choice.get("delta") or {}
            if text := content_text(delta.get("content")):
                self._text.append(text)
                self._on_text(text)
            if delta.get("refusal"):
                self._refusal.append(delta["refusal"])
            for call in delta.get("tool_calls") or []:
                self._call(call)
            self._finish = choice.get("finish_reason") or self._finish

    def _call(self, call: dict[str, Any]) -> None:
        """A piece of a call: its id and name come with the first, its arguments in all."""
        found = self._calls.setdefault(call.get("index") or 0, {"id": "", "name": "", "arguments": ""})
        function = call.get("function") or {}
        found["id"] = found["id"] or call.get("id") or ""
        found["name"] = found["name"] or function.get("name") or ""
        found["arguments"] += function.get("arguments") or ""

    @property
    def complete(self) -> bool:
        return self._finish is not None

    def whole(self) -> Any:
        message: dict[str, Any] = {"content": "".join(self._text), "refusal": "".join(self._refusal) or None}
        if self._calls:
            message["tool_calls"] = [
                {"id": c["id"], "function": {"name": c["name"], "arguments": c["arguments"]}}
                for _, c in sorted(self._calls.items())
            ]
        return {
            "choices": [{"message": message, "finish_reason": self._finish}],
            "usage": self._usage,
            "model": self._model,
        }


def openai_endpoint(provider: str, model: str, base_url: str | None, api_key: str | None, connections: int) -> Endpoint:
    """The endpoint for OpenAI's two wires. Raises ``NoModel`` where OpenAI's own endpoint has no key."""
    url = checked_url(base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL, "the base_url")
    key = checked_key(api_key if api_key is not None else os.environ.get("OPENAI_API_KEY"), "the OpenAI key")
    if key is None and url == OPENAI_URL:
        raise NoModel(
            f"{provider}:{model} needs a key",
            hint="set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own, or run kleene setup",
        )
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return Endpoint(url, Origin(provider, model, (key,) if key else ()), headers, connections)


def structured_messages(provider: HttpProvider, request: Request) -> tuple[WireSchema | None, tuple[Any, ...]]:
    """The schema to ask for natively (None: none, or in words) and the messages, with the schema in words where the endpoint has no better."""
    if request.schema is None:
        return None, request.messages
    if provider.degrade.structured == "text":
        return None, with_line(request.messages, instruction_of(request.schema))
    return provider.wire(request.schema, for_openai), request.messages


def function_of(tool: ToolSpec) -> dict[str, Any]:
    """A tool as both of OpenAI's wires describe it."""
    return {"name": tool.name, "description": tool.description, "parameters": json.loads(tool.parameters)}


def _items(message: Message) -> list[dict[str, Any]]:
    """A message as this wire has it: what calls gave are messages of their own."""
    if message.uses:
        calls = [
            {"id": u.id, "type": "function", "function": {"name": u.name, "arguments": u.arguments}}
            for u in message.uses
        ]
        return [{"role": message.role, "content": message.text or None, "tool_calls": calls}]
    given = [{"role": "tool", "tool_call_id": r.id, "content": r.text} for r in message.results]
    return [*given, *([{"role": message.role, "content": message.text}] if message.text or not given else [])]


def content_text(content: Any) -> str:
    """The text of a content that is a string, null, or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(p if isinstance(p, str) else p.get("text") or p.get("refusal") or "" for p in content)
    if content is None:
        return ""
    raise ValueError(content)


def _asked(wire: WireSchema, how: str) -> dict[str, Any]:
    if how == "schema":
        return {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": wire.schema, "strict": wire.strict},
            }
        }
    function = {"name": "answer", "description": "Give the answer.", "parameters": wire.schema}
    return {
        "tools": [{"type": "function", "function": function}],
        "tool_choice": {"type": "function", "function": {"name": "answer"}},
    }
