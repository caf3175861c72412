"""A loopback model server that tests own: all three wires, answered by a Python rule, and every bad day a server can have.

    with FakeServer(lambda ask: "true" if "apple" in ask.prompt else "false") as server:
        OpenAI("fake", base_url=server.url + "/v1")
        Anthropic("fake", base_url=server.url, api_key="k")

The rule returns text, a ``Say`` (text with usage, stop, ...), or a ``Raw`` (bytes as told, cut, slow, or reset).
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    429: "Too Many Requests",
    500: "Internal Server Error",
}


@attrs.frozen
class Ask:
    """One request as the server saw it. ``wire``: chat, messages, responses or embeddings."""

    number: int
    wire: str
    path: str
    headers: Mapping[str, str]
    body: Any
    connection: int

    @property
    def stream(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def prompt(self) -> str:
        """The last user message's text."""
        messages = self.body.get("messages") or self.body.get("input") or []
        if isinstance(messages, str):
            return messages
        if messages and isinstance(messages[0], str):
            return "\n".join(messages)
        return next((text_of(m["content"]) for m in reversed(messages) if m["role"] == "user"), "")

    @property
    def system(self) -> str:
        if self.wire == "messages":
            return text_of(self.body.get("system") or "")
        if self.wire == "responses":
            return self.body.get("instructions") or ""
        return next((text_of(m["content"]) for m in self.body["messages"] if m["role"] == "system"), "")

    @property
    def schema(self) -> Any:
        """The JSON schema that was asked for natively, else None."""
        formats = {
            "chat": (self.body.get("response_format") or {}).get("json_schema") or {},
            "messages": (self.body.get("output_config") or {}).get("format") or {},
            "responses": (self.body.get("text") or {}).get("format") or {},
        }
        return formats.get(self.wire, {}).get("schema")

    @property
    def tool(self) -> str | None:
        """The name of a forced tool."""
        choice = self.body.get("tool_choice") or {}
        return choice.get("name") or (choice.get("function") or {}).get("name")


@attrs.frozen
class Say:
    """A good answer. ``usage`` None: the usage block is left out. ``cost``: dollars that the server reports."""

    text: str
    stop: str = "end"
    usage: tuple[int, int] | None = (10, 5)
    cached: int = 0
    cost: float | None = None
    refusal: bool = False
    delay: float = 0.0
    pieces: int = 3


@attrs.frozen
class Raw:
    """Bytes as told. ``length``: the Content-Length to claim (None: true one). ``cut``: send only so many bytes of the body, then close.

    ``reset``: end with a TCP reset. ``chunk``: send the body in pieces of so many bytes, ``pause`` seconds apart. ``close``: close the
    connection afterwards without having said so. ``silent``: send nothing at all.
    """

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)
    length: int | None = None
    cut: int | None = None
    reset: bool = False
    chunk: int | None = None
    pause: float = 0.0
    delay: float = 0.0
    close: bool = False
    silent: bool = False


Rule = Callable[[Ask], "str | Say | Raw"]


def failure(
    status: int,
    message: str = "no",
    kind: str = "error",
    headers: Mapping[str, str] | None = None,
    code: str | None = None,
) -> Raw:
    """An error reply in the form that OpenAI and Anthropic share."""
    error = {"type": kind, "message": message, **({"code": code} if code else {})}
    return Raw(
        json.dumps({"type": "error", "error": error}).encode(),
        status,
        {"content-type": "application/json", **(headers or {})},
    )


class FakeServer:
    """Listens on 127.0.0.1 on a free port from ``with`` to its end. ``asks`` holds every request, ``connections`` counts them."""

    def __init__(self, rule: Rule, *, tls: ssl.SSLContext | None = None) -> None:
        self.rule = rule
        self.tls = tls
        self.asks: list[Ask] = []
        self.connections = 0
        self.most_at_once = 0
        self._busy = 0
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(256)
        self.port = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def count(self) -> int:
        return len(self.asks)

    def __enter__(self) -> FakeServer:
        self._accepting = threading.Thread(target=self._accept, name="fake-server", daemon=True)
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        # close() alone does not wake a thread in accept().
        with socket.socket() as knock:
            self._closing = True
            knock.connect(("127.0.0.1", self.port))
        self._accepting.join(5)
        self._listener.close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)

    _closing = False

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            if self._closing:
                connection.close()
                return
            with self._lock:
                self.connections += 1
                self._open.add(connection)
            thread = threading.Thread(target=self._serve, args=(connection, self.connections), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        plain = connection
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
            buffer = b""
            while not self._closing:
                found = _receive(connection, buffer)
                if found is None:
                    return
                head, body, buffer = found
                if not self._answer(connection, self._ask(head, body, number)):
                    return
        except (OSError, ssl.SSLError):
            pass
        finally:
            with self._lock:
                self._open.discard(plain)
            connection.close()

    def _ask(self, head: str, body: bytes, connection: int) -> Ask:
        first, *lines = head.split("\r\n")
        path = first.split(" ")[1]
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
        ends = {
            "chat/completions": "chat",
            "messages": "messages",
            "responses": "responses",
            "embeddings": "embeddings",
        }
        wire = next((w for end, w in ends.items() if path.endswith(end)), "unknown")
        with self._lock:
            ask = Ask(len(self.asks), wire, path, headers, json.loads(body) if body else {}, connection)
            self.asks.append(ask)
        return ask

    def _answer(self, connection: socket.socket, ask: Ask) -> bool:
        """Send what the rule says; False where the connection is over."""
        with self._lock:
            self._busy += 1
            self.most_at_once = max(self.most_at_once, self._busy)
        try:
            said = self.rule(ask)
            said = Say(said) if isinstance(said, str) else said
            if said.delay:
                time.sleep(said.delay)
        finally:
            with self._lock:
                self._busy -= 1
        return _send(connection, said if isinstance(said, Raw) else write(ask, said))


def write(ask: Ask, say: Say) -> Raw:
    """A good answer on the wire that was asked on, streamed where that was asked for."""
    if ask.stream:
        events = {"chat": chat_events, "messages": message_events, "responses": response_events}[ask.wire](ask, say)
        return Raw(sse(events), 200, {"content-type": "text/event-stream"})
    whole = {"chat": chat, "messages": message, "responses": response, "embeddings": embeddings}[ask.wire](ask, say)
    return Raw(
        json.dumps(whole).encode(), 200, {"content-type": "application/json", "x-request-id": f"req_{ask.number}"}
    )


def sse(events: Sequence[tuple[str, Any]]) -> bytes:
    """Events as bytes: a name (empty: none) and JSON, or the literal text where it is a string."""
    lines = []
    for name, data in events:
        text = data if isinstance(data, str) else json.dumps(data)
        lines.append((f"event: {name}\n" if name else "") + f"data: {text}\n\n")
    return "".join(lines).encode()


def text_of(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def pieces(say: Say) -> list[str]:
    size = max(1, -(-len(say.text) // say.pieces))
    return [say.text[i : i + size] for i in range(0, len(say.text), size)]


def chat(ask: Ask, say: Say) -> dict[str, Any]:
    finish = {"end": "stop", "length": "length", "refusal": "content_filter"}[say.stop]
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if say.refusal else say.text,
        "refusal": say.text if say.refusal else None,
    }
    if ask.tool is not None:
        call = {"id": "call_1", "type": "function", "function": {"name": ask.tool, "arguments": say.text}}
        message |= {"content": None, "tool_calls": [call]}
        finish = "tool_calls"
    made: dict[str, Any] = {
        "id": f"chatcmpl-{ask.number}",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": ask.body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
    }
    return made if say.usage is None else {**made, "usage": chat_usage(say)}


def chat_usage(say: Say) -> dict[str, Any]:
    asked, said = say.usage or (0, 0)
    usage: dict[str, Any] = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
    usage["prompt_tokens_details"] = {"cached_tokens": say.cached}
    return usage if say.cost is None else {**usage, "cost": say.cost}


def chat_events(ask: Ask, say: Say) -> list[tuple[str, Any]]:
    whole = chat(ask, say)
    base = {k: whole[k] for k in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    finish = whole["choices"][0]["finish_reason"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if ask.tool is not None:
        call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": ask.tool, "arguments": ""}}
        deltas.append({"tool_calls": [call]})
        deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": p}}]} for p in pieces(say)]
    else:
        deltas += [{"refusal" if say.refusal else "content": p} for p in pieces(say)]
    events: list[tuple[str, Any]] = [
        ("", {**base, "choices": [{"index": 0, "delta": d, "finish_reason": None, "logprobs": None}]}) for d in deltas
    ]
    events.append(("", {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish, "logprobs": None}]}))
    if say.usage is not None and (ask.body.get("stream_options") or {}).get("include_usage"):
        events.append(("", {**base, "choices": [], "usage": chat_usage(say)}))
    return [*events, ("", "[DONE]")]


def message(ask: Ask, say: Say) -> dict[str, Any]:
    stop = {"end": "end_turn", "length": "max_tokens", "refusal": "refusal"}[say.stop]
    content: list[dict[str, Any]] = [{"type": "text", "text": say.text}] if say.text else []
    if ask.tool is not None:
        content, stop = (
            [{"type": "tool_use", "id": "toolu_1", "name": ask.tool, "input": json.loads(say.text)}],
            "tool_use",
        )
    return {
        "id": f"msg_{ask.number}",
        "type": "message",
        "role": "assistant",
        "model": ask.body["model"],
        "content": content,
        "stop_reason": "refusal" if say.refusal else stop,
        "stop_sequence": None,
        "usage": message_usage(say),
    }


def message_usage(say: Say) -> dict[str, Any]:
    asked, said = say.usage or (0, 0)
    return {
        "input_tokens": asked,
        "output_tokens": said,
        "cache_read_input_tokens": say.cached,
        "cache_creation_input_tokens": 0,
    }


def message_events(ask: Ask, say: Say) -> list[tuple[str, Any]]:
    whole = message(ask, say)
    start = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    events: list[tuple[str, Any]] = [
        ("message_start", {"type": "message_start", "message": start}),
        ("ping", {"type": "ping"}),
    ]
    if ask.tool is not None:
        block = {"type": "tool_use", "id": "toolu_1", "name": ask.tool, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": p} for p in pieces(say)]
    else:
        block = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": p} for p in pieces(say)]
    events.append(("content_block_start", {"type": "content_block_start", "index": 0, "content_block": block}))
    events += [("content_block_delta", {"type": "content_block_delta", "index": 0, "delta": d}) for d in deltas]
    events.append(("content_block_stop", {"type": "content_block_stop", "index": 0}))
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": whole["usage"]["output_tokens"]}
    events.append(("message_delta", {"type": "message_delta", "delta": delta, "usage": usage}))
    return [*events, ("message_stop", {"type": "message_stop"})]


def response(ask: Ask, say: Say) -> dict[str, Any]:
    part = (
        {"type": "refusal", "refusal": say.text}
        if say.refusal
        else {"type": "output_text", "text": say.text, "annotations": []}
    )
    item: dict[str, Any] = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    if ask.tool is not None:
        item = {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": ask.tool,
            "arguments": say.text,
            "status": "completed",
        }
    reason = {"length": "max_output_tokens", "refusal": "content_filter"}.get(say.stop)
    made: dict[str, Any] = {
        "id": f"resp_{ask.number}",
        "object": "response",
        "created_at": 1_790_000_000,
        "model": ask.body["model"],
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "error": None,
        "instructions": None,
        "metadata": {},
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "temperature": 1.0,
        "top_p": 1.0,
    }
    return made if say.usage is None else {**made, "usage": response_usage(say)}


def response_usage(say: Say) -> dict[str, Any]:
    asked, said = say.usage or (0, 0)
    usage: dict[str, Any] = {"input_tokens": asked, "output_tokens": said, "total_tokens": asked + said}
    usage |= {"input_tokens_details": {"cached_tokens": say.cached}, "output_tokens_details": {"reasoning_tokens": 0}}
    return usage if say.cost is None else {**usage, "cost_usd": say.cost}


def response_events(ask: Ask, say: Say) -> list[tuple[str, Any]]:
    whole = response(ask, say)
    item = {**whole["output"][0], "status": "in_progress", "content": []}
    kinds: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
    ]
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    if ask.tool is None and not say.refusal:
        empty = {"type": "output_text", "text": "", "annotations": []}
        kinds.append({"type": "response.content_part.added", **place, "part": empty})
        kinds += [{"type": "response.output_text.delta", **place, "delta": p, "logprobs": []} for p in pieces(say)]
        kinds.append({"type": "response.output_text.done", **place, "text": say.text, "logprobs": []})
    kinds.append({"type": "response.output_item.done", "output_index": 0, "item": whole["output"][0]})
    kinds.append({"type": f"response.{whole['status']}", "response": whole})
    return [(k["type"], {**k, "sequence_number": n}) for n, k in enumerate(kinds)]


def embeddings(ask: Ask, say: Say) -> dict[str, Any]:
    """What the rule says is a vector as JSON; any other text stands for vectors made of each input's length."""
    said = json.loads(say.text) if say.text.startswith("[") else None
    given = ask.body["input"]
    texts = [given] if isinstance(given, str) else given
    vectors = [[float(len(t)), 1.0, 0.0] if said is None else said for t in texts]
    data = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors)]
    return {
        "object": "list",
        "model": ask.body["model"],
        "data": data,
        "usage": {"prompt_tokens": (say.usage or (0, 0))[0], "total_tokens": (say.usage or (0, 0))[0]},
    }


def _receive(connection: socket.socket, buffer: bytes) -> tuple[str, bytes, bytes] | None:
    while b"\r\n\r\n" not in buffer:
        data = connection.recv(65536)
        if not data:
            return None
        buffer += data
    head, _, rest = buffer.partition(b"\r\n\r\n")
    text = head.decode("latin-1")
    length = next(
        (int(line.partition(":")[2]) for line in text.split("\r\n") if line.lower().startswith("content-length:")), 0
    )
    while len(rest) < length:
        data = connection.recv(65536)
        if not data:
            return None
        rest += data
    return text, rest[:length], rest[length:]


def _send(connection: socket.socket, raw: Raw) -> bool:
    if not raw.silent:
        length = len(raw.body) if raw.length is None else raw.length
        lines = [
            f"HTTP/1.1 {raw.status} {REASONS.get(raw.status, 'Status')}",
            *(f"{k}: {v}" for k, v in raw.headers.items()),
        ]
        head = "\r\n".join([*lines, f"content-length: {length}", "", ""]).encode("latin-1")
        body = raw.body if raw.cut is None else raw.body[: raw.cut]
        if raw.chunk is None:
            connection.sendall(head + body)
        else:
            connection.sendall(head)
            for start in range(0, len(body), raw.chunk):
                connection.sendall(body[start : start + raw.chunk])
                time.sleep(raw.pause)
    if raw.reset:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return not (raw.reset or raw.close or raw.silent or raw.cut is not None)
