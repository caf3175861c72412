"""A model server on loopback that answers the seven workloads in the form each program asks for, and counts.

It speaks OpenAI's chat completions, JSON schemas and tools included, and its responses, over keep-alive connections. Tokens are
characters / 4: of all messages, tools and schemas, and of the reply. ``python scripts/peer_server.py LATENCY`` prints its port.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.workloads import fact, reply

TOKEN = 4  # characters


@attrs.frozen
class Count:
    """What the server saw: requests, and tokens in and out."""

    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out


# -- the forms of replies -------------------------------------------------------------------------------------------------------------------


def text_of(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content or ())


def answer(prompt: str) -> str:
    """The true answer in the words that the prompt asks for.

    >>> answer("How good is it? Document 1: [quality: 40] Document 2: [quality: 7]. Which Document?")
    'Document 1'
    """
    if "Document 2" in prompt and len(qualities := fact("quality", prompt)) > 1:  # LOTUS ranks by pairs
        one, other = (int(quality) for quality in qualities[-2:])
        return "Document 1" if one >= other else "Document 2"
    if "left and right tables" in prompt:  # ThalamusDB joins batches
        return pairs(prompt)
    if "(1 or 2)" in prompt and len(qualities := fact("quality", prompt)) == 2:  # so does Nirvana
        return f"<output>{1 if int(qualities[0]) >= int(qualities[1]) else 2}</output>"
    said = reply(prompt)
    if tag := re.search(r"<(\w+)> [^<]+ </\1>\n", prompt):  # Nirvana reads what stands between tags
        return f"<{tag[1]}>{said.title() if said in ('true', 'false') else said}</{tag[1]}>"
    if "generate a JSON object" in prompt:  # Palimpzest's fields
        names = re.findall(r"^- (\w+)", prompt.rpartition("OUTPUT FIELDS:\n")[2].partition("\n\n")[0], re.M)
        return f"By what the text states.\n\nANSWER:\n{json.dumps(dict.fromkeys(names, plain(said)))}\n---"
    if said not in ("true", "false"):
        return said
    if "1 for yes, 0 for no" in prompt:
        return "1" if said == "true" else "0"
    if "TRUE or FALSE" in prompt:
        return f"By what the text states.\n\nANSWER: {said.upper()}\n---"
    return said.title() if "True" in prompt else said


def pairs(prompt: str) -> str:
    """The pairs of a batch, as ``L0-R2,L1-R1.``."""
    question = prompt[: prompt.find("\nL0:")]
    sides: dict[str, list[tuple[str, str]]] = {"L": [], "R": []}
    for side, number, text in re.findall(r"(?:^|\n)([LR])(\d+):\n(.*?)(?=\n[LR]\d+:|\Z)", prompt, re.S):
        sides[side].append((f"{side}{number}", text))
    found = [f"{a}-{b}" for a, x in sides["L"] for b, y in sides["R"] if reply(f"{question}\n{x}\n{y}") == "true"]
    return ",".join(found) + "."


def plain(said: str) -> Any:
    """A reply as a JSON value."""
    return json.loads(said) if said in ("true", "false") or re.fullmatch(r"[0-9.]+", said) else said


def filled(schema: dict[str, Any], said: str) -> str:
    """The reply as an object of a schema: its only field, or all of them."""
    return json.dumps(dict.fromkeys(schema.get("properties", {"answer": None}), plain(said)))


def sent(completion: dict[str, Any], *, stream: bool) -> tuple[str, str]:
    """The type and text of a response: one object, or the events of a stream."""
    if not stream:
        return "application/json", json.dumps(completion)
    choice = completion["choices"][0]
    head = {k: completion[k] for k in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    events = (
        {"choices": [{"index": 0, "delta": choice["message"], "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
        {"choices": [], "usage": completion["usage"]},
    )
    lines = [json.dumps(head | event) for event in events] + ["[DONE]"]
    return "text/event-stream", "".join(f"data: {line}\n\n" for line in lines)


def response(model: str, said: str, usage: tuple[int, int]) -> dict[str, Any]:
    """An object of the responses API."""
    content = [{"type": "output_text", "text": said, "annotations": []}]
    return {
        "id": "loopback",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": model,
        "output": [{"type": "message", "id": "said", "role": "assistant", "status": "completed", "content": content}],
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "usage": {
            "input_tokens": usage[0],
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": usage[1],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": sum(usage),
        },
    }


# -- the server -----------------------------------------------------------------------------------------------------------------------------


class Server:
    """``GET /take`` gives the counts since the last take."""

    def __init__(self, latency: float):
        self.latency = latency
        self.count = Count()

    async def run(self) -> None:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection: socket.socket = writer.get_extra_info("socket")
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                # A client that sends head and body apart would else wait 40 ms for a delayed acknowledgement.
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, "TCP_QUICKACK", socket.TCP_NODELAY), 1)
                fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
                if fields.get(b"expect") == b"100-continue":
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await reader.readexactly(int(fields.get(b"content-length", 0)))
                if head.startswith(b"GET"):
                    kind, text = "application/json", json.dumps(attrs.asdict(self.take()))
                else:
                    kind, text = sent(await self.answer(asked := json.loads(body)), stream=bool(asked.get("stream")))
                lines = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(text.encode())}\r\n\r\n"
                writer.write((lines + text).encode())
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def take(self) -> Count:
        count, self.count = self.count, Count()
        return count

    async def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        messages = asked["input"] if "input" in asked else asked["messages"]
        prompt = "\n".join(text_of(message.get("content")) for message in messages)
        said, tool = answer(prompt), None
        schema = ((asked.get("response_format") or {}).get("json_schema") or {}).get("schema")
        if asked.get("tools"):
            function = asked["tools"][0]["function"]
            tool, said = function["name"], filled(function["parameters"], said)
        elif schema is not None:
            said = filled(schema, said)
        forms = json.dumps(asked["tools"]) if asked.get("tools") else "" if schema is None else json.dumps(schema)
        usage = ((len(prompt) + len(forms)) // TOKEN, max(1, len(said) // TOKEN))
        seen = self.count
        self.count = Count(seen.requests + 1, seen.tokens_in + usage[0], seen.tokens_out + usage[1])
        await asyncio.sleep(self.latency)
        if "input" in asked:
            return response(asked.get("model", "fake"), said, usage)
        message: dict[str, Any] = {"role": "assistant", "content": said}
        if tool is not None:
            call = {"id": "call_1", "type": "function", "function": {"name": tool, "arguments": said}}
            message |= {"content": None, "tool_calls": [call]}
        return {
            "id": "loopback",
            "object": "chat.completion",
            "created": 0,
            "model": asked.get("model", "fake"),
            "usage": {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)},
            "choices": [{"index": 0, "message": message, "finish_reason": "stop" if tool is None else "tool_calls"}],
        }


@contextmanager
def served(latency: float) -> Iterator[str]:
    """The base URL of a server, in a process of its own, that ends with the block."""
    child = subprocess.Popen([sys.executable, __file__, str(latency)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(child.stdout.readline())}/v1"
    finally:
        child.terminate()
        child.wait(10)
        child.stdout.close()


def take(url: str) -> Count:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url + "/take", timeout=10) as response:
        return Count(**json.load(response))


if __name__ == "__main__":
    asyncio.run(Server(float(sys.argv[1])).run())
