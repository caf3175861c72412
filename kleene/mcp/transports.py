"""The two ways to a server: a program's standard streams, and streamable HTTP. Each bounds what one message may hold.

The library's own stdio transport takes a line of any length, and gives the program more of the environment than it needs; so this one
speaks the same framing (a JSON-RPC message a line) with a bound, a fixed environment, and the end of what the program wrote to stderr.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
import attrs
import httpx2
import mcp_types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

if TYPE_CHECKING:
    from anyio.abc import Process

    from kleene.mcp.entries import Entry

MESSAGE_BYTES = 16 << 20
NOISE_LINES = 100
"""So many lines that are no messages are passed over: programs greet on stdout."""
STDERR_BYTES = 4096
READ_BYTES = 1 << 16
CONNECT_S = 10.0
GRACE_S = 0.5  # between closing stdin, SIGTERM and SIGKILL
INHERITED = ("PATH", "HOME", "LANG")

Streams = tuple[Any, Any]


@attrs.define(eq=False)
class Watch:
    """What is known of a connection from outside the protocol. ``reason`` is why it ended or cannot be used, empty while it can.

    ``refused``: what was sent last did not reach the server. ``noise`` is the first line that was no message, ``stderr`` the end of what the program wrote there.
    """

    reason: str = ""
    refused: bool = False
    noise: str = ""
    stderr: bytes = b""
    process: Process | None = None
    over: bool = False
    _ended: anyio.Event | None = None

    def opened(self) -> None:
        self._ended = anyio.Event()
        if self.reason:
            self._ended.set()

    def fail(self, reason: str) -> None:
        """The first reason is kept."""
        self.reason = self.reason or reason
        if self._ended is not None:
            self._ended.set()

    async def wait(self) -> None:
        assert self._ended is not None
        await self._ended.wait()

    def look(self) -> str:
        """The reason, having asked the system whether the program still runs. On the loop only."""
        if not self.reason and self.process is not None and self.process.returncode is not None:
            self.fail(said_end(self.process.returncode))
        return self.reason

    def told(self) -> str:
        """The reason with what the program said of it."""
        text = self.reason or "it does not answer"
        if self.noise:
            text += f"; it printed {self.noise!r} where messages are expected"
        lines = [line.strip() for line in self.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        shown = " | ".join("".join(c if c.isprintable() else "?" for c in line) for line in lines[-3:])
        return f"{text}; its last words: {shown[-400:]}" if shown else text

    def kill(self) -> None:
        """End the program and what it started, at once, from any thread."""
        if self.process is not None and not self.over:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)


def said_end(code: int) -> str:
    """
    >>> said_end(-9), said_end(3)
    ('it was killed by signal 9', 'it ended with exit code 3')
    """
    return f"it was killed by signal {-code}" if code < 0 else f"it ended with exit code {code}"


def environment_of(given: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """What a program sees: PATH, HOME and LANG, and what its entry gives."""
    return {**{n: environ[n] for n in INHERITED if n in environ}, **given}


@asynccontextmanager
async def stdio(entry: Entry, workspace: str, environ: Mapping[str, str], watch: Watch) -> AsyncIterator[Streams]:
    """Start the program of an entry in a process group of its own, and end all of it at the end of the block. Raises ``OSError``."""
    process = await anyio.open_process(
        [entry.command, *entry.args],
        env=environment_of(entry.env, environ),
        cwd=os.path.join(workspace, os.path.expanduser(entry.cwd)),
        start_new_session=True,
    )
    watch.process = process
    to_client, read_stream = anyio.create_memory_object_stream[Any](0)
    write_stream, from_client = anyio.create_memory_object_stream[Any](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_read, process, to_client, watch)
        group.start_soon(_write, process, from_client, watch)
        group.start_soon(_overhear, process, watch)
        try:
            yield read_stream, write_stream
        finally:
            with anyio.CancelScope(shield=True):
                read_stream.close()
                write_stream.close()
                await _end(process)
                watch.over = True
            group.cancel_scope.cancel()


async def _read(process: Process, to_client: Any, watch: Watch) -> None:
    """Its stdout, a message a line. The end of it is the end of the connection; so is what no server may send."""
    assert process.stdout is not None
    held: list[bytes] = []
    size = noise = 0
    async with to_client:
        try:
            while True:
                *lines, rest = (await process.stdout.receive(READ_BYTES)).split(b"\n")
                for line in lines:
                    message = _message(b"".join([*held, line]), watch)
                    held, size = [], 0
                    if message is not None:
                        await to_client.send(message)
                        continue
                    noise += 1
                    if watch.reason or noise > NOISE_LINES:
                        return watch.fail("it does not speak MCP on its standard output")
                held.append(rest)
                size += len(rest)
                if size > MESSAGE_BYTES:
                    return watch.fail(f"it sent a message of more than {MESSAGE_BYTES:,} bytes")
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            with anyio.move_on_after(GRACE_S):  # for its exit code, and for an answer that it gave before
                while process.returncode is None:
                    await anyio.sleep(0.005)
            await anyio.sleep(0.01)
            watch.look()
            watch.fail("it closed its standard output")


def _message(line: bytes, watch: Watch) -> SessionMessage | None:
    """The message of a line; None for a line that is none. A broken object is the end: the reply that it was would be waited for."""
    if not line.strip():
        return None
    try:
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except (ValueError, RecursionError):
        watch.noise = watch.noise or line[:80].decode("utf-8", "replace")
        if line.lstrip().startswith((b"{", b"[")):
            watch.fail("it sent a malformed message")
        return None


async def _write(process: Process, from_client: Any, watch: Watch) -> None:
    assert process.stdin is not None
    try:
        async with from_client:
            async for message in from_client:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(text.encode() + b"\n")
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        watch.look()
        watch.fail("it closed its standard input")


async def _overhear(process: Process, watch: Watch) -> None:
    assert process.stderr is not None
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        while True:
            watch.stderr = (watch.stderr + await process.stderr.receive(READ_BYTES))[-STDERR_BYTES:]


async def _end(process: Process) -> None:
    """Close its stdin, as the protocol has it; then SIGTERM and SIGKILL to it and all that it started."""
    assert process.stdin is not None
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        await process.stdin.aclose()
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
        with anyio.move_on_after(GRACE_S):
            while process.returncode is None:
                await anyio.sleep(0.005)
            break
    with suppress(ProcessLookupError, PermissionError):  # what it left behind
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            await stream.aclose()


@asynccontextmanager
async def http(entry: Entry, watch: Watch) -> AsyncIterator[Streams]:
    """Streamable HTTP. ``watch`` learns when the server cannot be reached or has forgotten the session."""
    timeout = httpx2.Timeout(CONNECT_S, read=None)  # every request has a deadline of its own
    transport = _Bounded(watch)
    async with (
        httpx2.AsyncClient(headers=dict(entry.headers), timeout=timeout, transport=transport) as client,
        streamable_http_client(entry.url, http_client=client, max_sse_event_size=MESSAGE_BYTES) as streams,
    ):
        yield streams


class _Bounded(httpx2.AsyncHTTPTransport):
    """Bodies that are read whole end at ``MESSAGE_BYTES``; event streams have a bound for each event."""

    def __init__(self, watch: Watch):
        super().__init__()
        self._watch = watch

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await super().handle_async_request(request)
        except httpx2.TransportError as error:
            if request.method == "POST":
                self._watch.refused = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
                self._watch.fail(f"it cannot be reached: {str(error) or type(error).__name__}")
            raise
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Cut(response.stream)
        if response.status_code in (400, 404) and request.method == "POST" and "mcp-session-id" in request.headers:
            await self._look(response)
        return response

    async def _look(self, response: httpx2.Response) -> None:
        """The protocol has 404 for a session that is not known; the reference implementations say 400 and "session"."""
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        body = b"".join([chunk async for chunk in response.stream])
        await response.stream.aclose()
        response.stream = httpx2.ByteStream(body)
        if response.status_code == 404 or b"session" in body.lower():
            self._watch.refused = True
            self._watch.fail("it has forgotten the session")


class _Cut(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream):
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > MESSAGE_BYTES:
                raise httpx2.StreamError(f"more than {MESSAGE_BYTES:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
