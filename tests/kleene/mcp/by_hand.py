"""An MCP server of the standard library alone, with every fault a server can have. What it is asked goes to the file LOG."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NOTHING = {"type": "object", "properties": {}}
LOOKS = {"readOnlyHint": True}
PEOPLE = {
    "type": "object",
    "properties": {
        "people": {"type": "array", "items": {"$ref": "#/$defs/Person"}},
        "total": {"type": "integer"},
    },
    "$defs": {
        "Person": {
            "type": "object",
            "properties": {
                "full-name": {"type": "string"},
                "age": {"type": ["integer", "null"]},
                "tags": {"type": "array"},
            },
        }
    },
}

TOOLS: list[dict[str, Any]] = [
    {"name": "echo", "description": "Says it again.\n\nAnd more.", "inputSchema": TEXT, "annotations": LOOKS},
    {"name": "note", "description": "Writes it down", "inputSchema": TEXT},
    {"name": "env", "inputSchema": NOTHING, "annotations": LOOKS},
    {"name": "pid", "inputSchema": NOTHING, "annotations": LOOKS},
    {
        "name": "args",
        "inputSchema": {
            "type": "object",
            "properties": {
                "late": {"type": "integer"},
                "a-b": {"type": "string"},
                "more": {"type": "object"},
                "names": {"type": "array", "items": {"type": "string"}},
                "share": {"type": "number"},
            },
            "required": ["a-b"],
        },
        "annotations": LOOKS,
    },
    {"name": "people", "inputSchema": NOTHING, "outputSchema": PEOPLE, "annotations": LOOKS},
    {"name": "fails", "inputSchema": NOTHING, "annotations": LOOKS},
    {"name": "refuses", "inputSchema": NOTHING, "annotations": LOOKS},
    {"name": "hangs", "inputSchema": NOTHING, "annotations": LOOKS},
    {"name": "huge", "inputSchema": NOTHING, "annotations": LOOKS},
    {"name": "broken", "inputSchema": NOTHING, "annotations": LOOKS},
    {"name": "noisy", "inputSchema": NOTHING, "annotations": LOOKS},
    {"name": "wrong", "inputSchema": NOTHING, "outputSchema": PEOPLE, "annotations": LOOKS},
    {"name": "dies", "inputSchema": NOTHING, "annotations": LOOKS},
    {"name": "dies_doing", "inputSchema": NOTHING},
    {"name": "dies_once", "inputSchema": NOTHING, "annotations": LOOKS},
]


def log(line: str) -> None:
    with open(os.environ["LOG"], "a", encoding="utf-8") as out:
        out.write(line + "\n")


def logged() -> list[str]:
    with open(os.environ["LOG"], encoding="utf-8") as source:
        return source.read().splitlines()


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(*items: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": t} for t in items], **more}


def call(name: str, given: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a tool, None where it gives none."""
    log(f"{name} {json.dumps(given, ensure_ascii=False)}")
    if name == "echo":
        return text(*given["text"].split("|"))
    if name == "env":
        return text(*sorted(os.environ))
    if name == "pid":
        return text(str(os.getpid()))
    if name == "args":
        return text(json.dumps(given, sort_keys=True))
    if name == "people":
        people = [{"full-name": "Ada", "age": 36, "tags": ["x"]}, {"full-name": "Ü", "age": None}]
        return text("not this", structuredContent={"people": people, "total": 2})
    if name == "wrong":
        return text("x", structuredContent={"people": "none", "total": 1})
    if name == "fails":
        return text("there is no such thing", isError=True)
    if name == "huge":
        for _ in range(20):
            sys.stdout.write("x" * (1 << 20))
            sys.stdout.flush()
    if name == "broken":
        sys.stdout.write('{"jsonrpc": "2.0", "id": \n')
        sys.stdout.flush()
    if name == "noisy":
        for i in range(200):
            sys.stdout.write(f"chatter {i}\n")
        sys.stdout.flush()
    if name in ("dies", "dies_doing") or (
        name == "dies_once" and sum(x.startswith("dies_once") for x in logged()) == 1
    ):
        sys.stderr.write("out of luck\n")
        sys.stderr.flush()
        os._exit(3)
    if name in ("hangs", "huge", "broken", "noisy"):
        return None
    return text(f"did {name}")


def main() -> None:
    if os.environ.get("GREETING"):
        print(os.environ["GREETING"], flush=True)
    time.sleep(float(os.environ.get("SLOW", "0")))
    log("started")
    for line in sys.stdin:
        message = json.loads(line)
        method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method == "initialize":
            info = {"name": "by hand", "version": "1"}
            say(
                {
                    "id": number,
                    "result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info},
                }
            )
        elif method == "tools/list":
            say({"id": number, "result": {"tools": TOOLS}})
        elif method == "tools/call" and params["name"] == "refuses":
            say({"id": number, "error": {"code": -32602, "message": "not like this"}})
        elif method == "tools/call":
            result = call(params["name"], params.get("arguments") or {})
            if result is not None:
                say({"id": number, "result": result})
        elif method == "notifications/cancelled":
            log("cancelled")
        elif number is not None:
            say({"id": number, "error": {"code": -32601, "message": "unknown"}})


if __name__ == "__main__":
    main()
