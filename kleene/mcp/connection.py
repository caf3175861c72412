"""One server: started with its first use, shared by threads, started again once when it dies, ended with the engine.

It has a loop in a thread of its own: a server whose messages take long to read holds up nobody else.
"""

from __future__ import annotations

import concurrent.futures
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import attrs
import mcp_types
from mcp import Client, MCPError
from pydantic import ValidationError

from kleene.mcp.shapes import ERROR_CHARACTERS
from kleene.mcp.transports import Watch, http, stdio
from kleene.planner.errors import ToolError
from kleene.udfs.runtime import Runtime, unwrap
from kleene.version import VERSION

if TYPE_CHECKING:
    from kleene.mcp.entries import Entry
    from kleene.tools.base import Work

T = TypeVar("T")

START_S = 30.0
POLL_S = 0.05
MAX_TOOLS = 500
MAX_PAGES = 50
LIST_BYTES = 1 << 20
DEATHS = 2
"""So often in a row, without an answer between, a server may die: the first time it is started again."""


@attrs.frozen
class Answer:
    """What a tool gave: ``structured`` as JSON, and each item of its content as text."""

    structured: Any
    texts: tuple[str, ...]


class _Gone(Exception):
    """The server ended. ``sent``: the request may have reached it."""

    def __init__(self, told: str, *, sent: bool):
        super().__init__(told)
        self.told = told
        self.sent = sent


@attrs.define(eq=False)
class _Link:
    """One run of the server. ``ready`` has its tools (as JSON) once it can be asked."""

    watch: Watch = attrs.field(factory=Watch)
    ready: concurrent.futures.Future[list[dict[str, Any]]] = attrs.field(factory=concurrent.futures.Future)
    client: Client | None = None
    counted: bool = False


class Server:
    """``say`` is told when it was started again; ``listed`` what tools it has, whenever it starts."""

    def __init__(
        self,
        entry: Entry,
        workspace: str,
        say: Callable[[str], None],
        listed: Callable[[list[dict[str, Any]]], None],
        environ: Mapping[str, str] | None = None,
    ):
        # Without a handler of the user's, Python would print what the library logs to stderr.
        logging.getLogger("mcp").addHandler(logging.NullHandler())
        self.name = entry.name
        self._entry = entry
        self._workspace = workspace
        self._say = say
        self._listed = listed
        self._environ = os.environ if environ is None else environ
        self._lock = threading.Lock()
        self._runtime = Runtime(f"kleene-mcp-{entry.name}")
        self._link: _Link | None = None
        self._deaths = 0

    # -- from any thread -----------------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start it, if it does not run, without waiting."""
        self._linked()

    def tools(self, seconds: float = START_S) -> list[dict[str, Any]]:
        """Its tools as it declares them, as JSON. Raises ``ToolError`` where it does not start."""
        link = self._link or self._linked()
        deadline = time.monotonic() + seconds

        def check() -> None:
            if time.monotonic() > deadline:
                raise self._error(f"did not start within {seconds:g} seconds", link.watch, kind="timed out")

        return _waited(link.ready, check)

    def call(self, tool: str, arguments: Mapping[str, Any], work: Work, *, again: bool) -> Answer:
        """Use a tool. ``again``: it only looks, so that a server that died while it was asked may be asked once more.

        Raises ``ToolError``; ``Cancelled`` within 0.1 seconds of the statement's cancel, which the server is told.
        """
        while True:
            link = self._linked()
            _waited(link.ready, work.check)
            try:
                found = self._ask(link, tool, arguments, work)
            except _Gone as gone:
                if gone.sent and not again:
                    raise ToolError(
                        f"the MCP server {self.name} ended while {tool} ran: {gone.told}",
                        hint="it may have been done or not: look before doing it again",
                    ) from None
                continue
            self._deaths = 0
            return found

    def stop(self) -> None:
        """Begin to end it, without waiting."""
        link = self._link
        if link is not None:
            self._runtime.soon(lambda: link.watch.fail("the engine was closed"))

    def close(self) -> None:
        """End it and its loop. Raises nothing."""
        self.stop()
        self._runtime.close()
        if self._link is not None:
            self._link.watch.kill()

    # -- its life ------------------------------------------------------------------------------------------------------------------------

    def _linked(self) -> _Link:
        """The run that can be asked: the present one, or a new one. Raises ``ToolError`` where it has died too often."""
        with self._lock:
            link = self._link
            if link is not None:
                if not link.watch.reason:
                    return link
                if not link.counted:
                    link.counted = True
                    self._deaths += 1
                if self._deaths >= DEATHS:
                    raise self._error("ended twice and is left alone", link.watch)
                self._say(f"the MCP server {self.name} was started again: {link.watch.told()}")
            self._link = link = _Link()
            self._runtime.submit(self._live, link)
            return link

    async def _live(self, link: _Link) -> None:
        watch = link.watch
        watch.opened()
        try:
            entry = self._entry.expanded(self._environ)
            transport = http(entry, watch) if entry.url else stdio(entry, self._workspace, self._environ, watch)
            with anyio.move_on_after(START_S) as start:
                async with _client(transport) as client:
                    found = await self._list(client, watch)
                    start.deadline = float("inf")
                    link.client = client
                    self._listed(found)
                    link.ready.set_result(found)
                    await watch.wait()
            if not link.ready.done():
                watch.fail(f"it did not answer within {START_S:g} seconds")
        except BaseException as error:
            found_error = unwrap(error)
            if not isinstance(found_error, Exception):
                watch.fail("the engine was closed")
                raise
            watch.fail(_told(found_error))
        finally:
            watch.fail("it ended")
            if not link.ready.done():
                link.ready.set_exception(self._error("cannot be used", watch))

    async def _list(self, client: Client, watch: Watch) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor, size = None, 0
        for _ in range(MAX_PAGES):
            page = await self._watched(client.list_tools(cursor=cursor), watch)
            for tool in page.tools:
                kept = _kept(tool)
                size += len(json.dumps(kept))
                found.append(kept)
                if size > LIST_BYTES or len(found) > MAX_TOOLS:
                    raise ToolError(f"it lists more than {MAX_TOOLS} tools or {LIST_BYTES:,} bytes of them")
            cursor = page.next_cursor
            if not cursor:
                return found
        raise ToolError(f"it lists its tools on more than {MAX_PAGES} pages")

    # -- one request ---------------------------------------------------------------------------------------------------------------------

    def _ask(self, link: _Link, tool: str, arguments: Mapping[str, Any], work: Work) -> Answer:
        task = self._runtime.submit(self._request, link, tool, arguments)
        try:
            return _waited(task._future, work.check)
        except BaseException:
            task.cancel()
            raise

    async def _request(self, link: _Link, tool: str, arguments: Mapping[str, Any]) -> Answer:
        client = link.client
        if client is None or link.watch.look():
            raise _Gone(link.watch.told(), sent=False)
        try:
            result = await self._watched(client.call_tool(tool, dict(arguments)), link.watch)
        except MCPError as error:
            if link.watch.look():
                raise _Gone(link.watch.told(), sent=not link.watch.refused) from None
            kind = "invalid arguments" if error.code == mcp_types.INVALID_PARAMS else "other"
            raise ToolError(_cut(error.message) or f"error {error.code}", kind=kind) from None
        except (ValidationError, RuntimeError, ValueError, TypeError, RecursionError) as error:
            raise ToolError(f"its result is malformed: {_cut(str(error))}", hint="this is the server's fault") from None
        texts = tuple(_texts(result.content))
        if result.is_error:
            raise ToolError(_cut("\n".join(texts)) or "it failed and does not say why")
        return Answer(result.structured_content, texts)

    async def _watched(self, request: Any, watch: Watch) -> Any:
        """The answer to a request, or the end of the connection, whichever comes first."""
        found: list[Any] = []

        async def ask() -> None:
            found.append(await request)
            group.cancel_scope.cancel()

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                await watch.wait()
                group.cancel_scope.cancel()
        except BaseExceptionGroup as errors:
            raise unwrap(errors) from None
        if not found:
            raise _Gone(watch.told(), sent=not watch.refused)
        return found[0]

    def _error(self, what: str, watch: Watch, kind: str = "io") -> ToolError:
        return ToolError(
            f"the MCP server {self.name} {what}: {watch.told()}",
            kind=kind,
            hint=f"python -m kleene mcp list shows it; it runs {self._entry.line}"[:ERROR_CHARACTERS],
        )


def _client(transport: Any) -> Client:
    info = mcp_types.Implementation(name="kleene", version=VERSION)
    return Client(transport, client_info=info, cache=None)


def _waited(future: concurrent.futures.Future[T], check: Callable[[], None]) -> T:
    """The future's result; ``check`` is called while it is waited for, and may raise."""
    while True:
        try:
            return future.result(POLL_S)
        except TimeoutError:
            if future.done():
                return future.result()
            check()


def _kept(tool: Any) -> dict[str, Any]:
    """What is kept of a tool, under the names that the protocol has."""
    kept = {
        "name": tool.name,
        "description": (tool.description or "")[:ERROR_CHARACTERS],
        "inputSchema": tool.input_schema,
    }
    if tool.output_schema:
        kept["outputSchema"] = tool.output_schema
    if tool.annotations is not None and tool.annotations.read_only_hint:
        kept["annotations"] = {"readOnlyHint": True}
    return kept


def _texts(content: list[Any]) -> Iterator[str]:
    """Each item as text: what is none is named in brackets."""
    for item in content:
        if isinstance(item, mcp_types.TextContent):
            yield item.text
        elif isinstance(item, mcp_types.EmbeddedResource):
            text = getattr(item.resource, "text", None)
            yield text if isinstance(text, str) else f"[resource {item.resource.uri}]"
        elif isinstance(item, mcp_types.ResourceLink):
            yield f"[{item.name}]({item.uri})"
        else:
            size = len(getattr(item, "data", "")) * 3 // 4
            yield f"[{item.type} {getattr(item, 'mime_type', '')}, {size:,} bytes]"


def _told(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"there is no program {error.filename}"
    if isinstance(error, _Gone):
        return error.told
    return _cut(str(getattr(error, "message", "") or error) or type(error).__name__)


def _cut(text: str) -> str:
    text = text.strip()
    return text if len(text) <= ERROR_CHARACTERS else text[: ERROR_CHARACTERS - 1] + "…"
