"""The servers of an engine as tools. What a server offers is remembered by the digest of its entry, so that opening an engine starts none.

A tool that the server calls read-only (``readOnlyHint``: its own word, which trusting the server means to take) is a table function, every
other has effects and runs under CALL.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kleene.config import cache_dir, save_private
from kleene.mcp.entries import Entry, find_entries, read_entries
from kleene.mcp.shapes import Shape, arguments_json, rows_of, shape_of, tool_name, unique
from kleene.planner.errors import ConfigError, ToolError
from kleene.planner.specs import Volatility
from kleene.tools.base import Row, Tool, Work

if TYPE_CHECKING:
    from kleene.mcp.connection import Server

LISTED_BYTES = 4 << 20
OPENING_S = 30.0
"""So long an engine that opens waits for servers whose tools it does not know yet."""

Say = Callable[[str], None]


class Servers:
    """Starts each server with the first use of one of its tools; ``close`` ends them. ``say`` is told what a person should know."""

    def __init__(self, entries: Iterable[Entry], workspace: str | Path, say: Say, cache: Path | None = None):
        self._entries = {e.name: e for e in entries}
        self._workspace = os.path.realpath(workspace)
        self._say = say
        self._cache = (cache_dir() if cache is None else cache) / "mcp"
        self._lock = threading.Lock()
        self._running: dict[str, Server] = {}
        self._used: dict[str, list[dict[str, Any]]] = {}
        self._closed = False

    def tools(self, taken: Collection[str] = ()) -> tuple[Tool, ...]:
        """Every server's tools, named ``<server>_<tool>``; names that are ``taken`` get a number. A server that does not start has none,
        which is said. Raises ``ConfigError`` where the library is missing."""
        if not self._entries:
            return ()
        require_library(f"{_counted(len(self._entries))} configured")
        listed = {name: self._remembered(entry) for name, entry in self._entries.items()}
        for name in [n for n, found in listed.items() if found is None]:
            self._server(name).begin()
        made: list[Tool] = []
        for name, remembered in listed.items():
            try:
                declared = self._server(name).tools(OPENING_S) if remembered is None else remembered
            except ToolError as error:
                self._say(f"{error.message}. Its tools are not there")
                continue
            self._used[name] = declared
            made += self.made(name, declared, {*taken, *(t.name for t in made)})
        return tuple(made)

    def made(self, server: str, declared: Iterable[Mapping[str, Any]], taken: Collection[str]) -> list[Tool]:
        """The tools of one server; one that SQL cannot call is left out, which is said."""
        tools: list[Tool] = []
        for one in declared:
            called = one["name"]
            try:
                shape = shape_of(one)
            except ToolError as error:
                self._say(f"the tool {called} of the MCP server {server} is left out: {error.message}")
                continue
            (name,) = unique([tool_name(server, called)], {*taken, *(t.name for t in tools)})
            tools.append(self._tool(name, server, called, shape))
        return tools

    def refresh(self, server: str) -> list[dict[str, Any]]:
        """Start a server and ask it for its tools. Raises ``ToolError``."""
        require_library("it is needed to start MCP servers")
        return self._server(server).tools()

    def close(self) -> None:
        """End every server that runs. Safe to call twice."""
        with self._lock:
            self._closed = True
            running = list(self._running.values())
            self._running.clear()
        for server in running:
            server.stop()
        for server in running:
            server.close()

    def _tool(self, name: str, server: str, called: str, shape: Shape) -> Tool:
        def run(work: Work, values: tuple[Any, ...]) -> Iterable[Row]:
            try:
                given = arguments_json(shape, values)
                answer = self._server(server).call(called, given, work, again=shape.read_only)
                return rows_of(shape, answer.structured, answer.texts)
            except ToolError as error:
                if not error.message.startswith("the MCP server"):
                    error.message = f"{name}: {error.message}"
                raise

        volatility = Volatility.STABLE if shape.read_only else Volatility.VOLATILE
        return Tool(name, shape.params, shape.required, shape.columns, run, volatility, shape.description, group=server)

    def _server(self, name: str) -> Server:
        from kleene.mcp.connection import Server

        with self._lock:
            if self._closed:
                raise ToolError("the engine is closed")
            if name not in self._running:
                entry = self._entries[name]
                self._running[name] = Server(entry, self._workspace, self._say, lambda found: self._keep(entry, found))
            return self._running[name]

    # -- what is remembered --------------------------------------------------------------------------------------------------------------

    def _file(self, entry: Entry) -> Path:
        key = hashlib.sha256(f"{entry.digest}\n{self._workspace}".encode()).hexdigest()
        return self._cache / f"{key}.json"

    def _remembered(self, entry: Entry) -> list[dict[str, Any]] | None:
        """The tools of the server when it ran last; None where it never did."""
        try:
            with open(self._file(entry), "rb") as source:
                found = json.loads(source.read(LISTED_BYTES))
        except (OSError, ValueError, RecursionError):
            return None
        known = isinstance(found, list) and all(isinstance(t, dict) and isinstance(t.get("name"), str) for t in found)
        return found if known else None

    def _keep(self, entry: Entry, found: list[dict[str, Any]]) -> None:
        """Called whenever a server has started."""
        used = self._used.get(entry.name)
        if used == found:
            return
        with contextlib.suppress(OSError):  # without a cache it is asked each time
            save_private(self._file(entry), json.dumps(found))
        if used is not None:
            self._say(
                f"the MCP server {entry.name} offers other tools than before: they are there when Kleene is opened again"
            )


def open_servers(mcp: bool | str | Path | Mapping[str, Any], workspace: str | Path, say: Say) -> Servers:
    """The servers that ``attach(mcp=...)`` asks for: True the configured ones, a path those of that file, a mapping those in it.

    Raises ``ConfigError``.
    """
    if mcp is False:
        return Servers((), workspace, say)
    if mcp is True:
        found = find_entries(workspace)
        for note in found.notes:
            say(note)
        return Servers(found.on.values(), workspace, say)
    if isinstance(mcp, Mapping):
        written = mcp.get("mcpServers", mcp)
        if not isinstance(written, Mapping):
            raise ConfigError("mcpServers is no mapping", hint="mcp={'time': {'command': 'mcp-server-time'}}")
        return Servers([Entry.read(n, w, "given", "mcp") for n, w in written.items()], workspace, say)
    if not isinstance(mcp, str | Path):
        raise ConfigError(f"mcp is {mcp!r}", hint="True, False, the path of an mcpServers file, or a mapping")
    if not Path(mcp).is_file():
        raise ConfigError(f"there is no file {mcp} of MCP servers")
    entries = [e for e in read_entries(Path(mcp), "given") if not e.disabled]
    return Servers(entries, workspace, say)


def require_library(why: str) -> None:
    """Raises ``ConfigError`` where the library ``mcp`` is not installed."""
    if importlib.util.find_spec("mcp") is None:
        raise ConfigError(
            f"the library mcp is not installed: {why}", hint="pip install 'kleene[mcp]' (or go without: --mcp off)"
        )


def _counted(count: int) -> str:
    return f"{count} MCP server{' is' if count == 1 else 's are'}"
