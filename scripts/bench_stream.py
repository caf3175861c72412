"""How long a reply's first text takes from the socket to the terminal: ``python scripts/bench_stream.py [--turns 50]``.

A server on loopback streams a session's reply and notes when it sends the first piece; a terminal that writes nowhere notes when it is asked
to show it. In between lie the HTTP client, the event stream, and the progress display's thread. Server and client share this process, so
that both read one clock.
"""

from __future__ import annotations

import argparse
import http.server
import io
import json
import statistics
import threading
import time

import kleene
from kleene.cli.progress import Tally, shown
from kleene.cli.terminal import Terminal
from kleene.cli.turns import Turns

GOAL_MS = 5.0
MARK = "zebra"
PIECES = (f"The {MARK} comes first.\n", "```sql\n", "FINAL(42);\n", "```")


class Model(http.server.BaseHTTPRequestHandler):
    """Streams one reply, in pieces 20 ms apart."""

    protocol_version = "HTTP/1.1"
    sent_at: list[float]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self._event({"choices": [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}]})
        for number, piece in enumerate(PIECES):
            time.sleep(0.02)
            if number == 0:
                self.sent_at.append(time.perf_counter())
            self._event({"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]})
        self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        self._event({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 10}})
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _event(self, value: object) -> None:
        self._chunk(f"data: {json.dumps(value)}\n\n".encode())

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


class Screen(io.StringIO):
    """A terminal that notes when it is first asked to show the mark."""

    shown_at: float | None = None

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self.shown_at is None and MARK in text:
            self.shown_at = time.perf_counter()
        return len(text)


def measure(turns: int) -> list[float]:
    """Milliseconds of each turn."""
    took = []
    model = type("ThisModel", (Model,), {"sent_at": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        for _ in range(turns):
            screen = Screen()
            terminal = Terminal(io.StringIO(), io.StringIO(), screen, environ={"TERM": "xterm"})
            tally = Tally()
            provider = kleene.OpenAI("m", base_url=f"http://127.0.0.1:{server.server_address[1]}/v1", api_key="k")
            with kleene.connect(store=":memory:", models=provider, on_event=Turns(tally, terminal)) as k:
                with shown(tally, terminal, replies=True):
                    k.run("Which animal comes first?", budget=kleene.Budget(calls=3))
            if screen.shown_at is None:
                raise SystemExit("the reply was never shown")
            took.append((screen.shown_at - model.sent_at[-1]) * 1000)  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
    return took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=50, help="how many replies to stream")
    took = sorted(measure(parser.parse_args().turns))
    late = sum(t > GOAL_MS for t in took)
    print(
        f"first text on the screen after {statistics.median(took):.2f} ms (median of {len(took)} turns), "
        f"{took[0]:.2f} at best, {took[int(len(took) * 0.9)]:.2f} in nine of ten, {took[-1]:.2f} at worst; "
        f"{late} of {len(took)} later than {GOAL_MS:.0f} ms"
    )
    return int(statistics.median(took) > GOAL_MS)


if __name__ == "__main__":
    raise SystemExit(main())
