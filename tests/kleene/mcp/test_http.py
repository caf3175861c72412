"""Streamable HTTP: a server of the standard library that answers, and answers wrongly."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kleene
from kleene.planner.errors import CallFailed

pytest.importorskip("mcp")

NOTHING = {"type": "object", "properties": {}}
TOOLS = [
    {"name": n, "inputSchema": NOTHING, "annotations": {"readOnlyHint": True}}
    for n in ("good", "huge", "broken", "odd", "down", "gone", "endless")
]


class Web:
    """``headers`` are those of the requests, ``starts`` how often a session began, ``calls`` which tools were used."""

    def __init__(self) -> None:
        self.headers: list[Any] = []
        self.starts = 0
        self.calls: list[str] = []
        web = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments: Any) -> None:
                pass

            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["content-length"])))
                web.headers.append(dict(self.headers))
                web.answer(self, message)

            def do_GET(self) -> None:
                send(self, 405, b"")

            do_DELETE = do_GET

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/mcp"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, to: Any, message: dict[str, Any]) -> None:
        method, result = message.get("method"), None
        name = (message.get("params") or {}).get("name", "")
        if "id" not in message:
            return send(to, 202, b"")
        if method == "initialize":
            self.starts += 1
            info = {"name": "web", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        elif method == "tools/list":
            result = {"tools": TOOLS}
        elif method == "tools/call":
            self.calls.append(name)
            result = {"content": [{"type": "text", "text": name}]}
        if name == "huge":
            return send(to, 200, b'{"x": "' + b"x" * (20 << 20) + b'"}')
        if name == "endless":
            return send(to, 200, b"data: " + b"x" * (20 << 20), kind="text/event-stream")
        if name == "broken":
            return send(to, 200, b'{"jsonrpc": "2.0", ')
        if name == "odd":
            return send(to, 200, b"<html>", kind="text/html")
        if name == "down":
            return send(to, 500, b"oh no")
        if name == "gone" and self.calls.count("gone") == 1:
            return send(to, 404, b"")
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        body |= {"result": result} if result is not None else {"error": {"code": -32601, "message": "unknown"}}
        send(to, 200, json.dumps(body).encode(), session="s1" if method == "initialize" else "")


def send(to: Any, status: int, body: bytes, *, kind: str = "application/json", session: str = "") -> None:
    try:
        to.send_response(status)
        to.send_header("content-type", kind)
        to.send_header("content-length", str(len(body)))
        if session:
            to.send_header("mcp-session-id", session)
        to.end_headers()
        to.wfile.write(body)
    except OSError:  # the client has seen enough
        to.close_connection = True


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web()
    yield web
    web.server.shutdown()
    web.server.server_close()


@pytest.fixture
def k(web: Web, folders: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[kleene.Engine]:
    monkeypatch.setenv("WEB_TOKEN", "t0k")
    entry = {"url": web.url, "headers": {"Authorization": "Bearer ${WEB_TOKEN}"}}
    with kleene.connect(store=":memory:", workspace=folders / "work", mcp={"w": entry}) as k:
        assert k.notes == []
        yield k


def test_a_tool_is_used_with_the_headers_of_its_entry(k: kleene.Engine, web: Web) -> None:
    assert k.sql("SELECT * FROM w_good()").fetchall() == [("good",)]
    assert {h.get("Authorization", h.get("authorization")) for h in web.headers} == {"Bearer t0k"}


@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
def test_a_wrong_answer_is_an_error_of_its_statement(k: kleene.Engine, web: Web) -> None:
    for tool in ("huge", "broken", "odd", "down", "endless"):
        with pytest.raises(CallFailed, match=f"w_{tool}"):
            k.sql(f"SELECT * FROM w_{tool}()")
        assert k.sql("SELECT * FROM w_good()").fetchall() == [("good",)]


def test_a_session_that_was_forgotten_is_begun_again(k: kleene.Engine, web: Web) -> None:
    assert k.sql("SELECT * FROM w_gone()").fetchall() == [("gone",)]
    assert (web.starts, web.calls) == (2, ["gone", "gone"])
    assert k.notes == ["the MCP server w was started again: it has forgotten the session"]
