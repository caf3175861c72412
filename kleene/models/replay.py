"""Recording what models said, and saying it again without them."""

from __future__ import annotations

import datetime as dt
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from kleene.models.provider import Handler, OnText
from kleene.models.recording import (
    FORMAT,
    Entry,
    Recording,
    dump_line,
    error_from_json,
    error_to_json,
    is_packed,
    key_of,
    open_recording,
    previous,
    read_recording,
    reply_to_json,
    request_to_json,
    route_to_json,
    sort_lines,
    write_recording,
)
from kleene.planner.errors import ConfigError, did_you_mean
from kleene.udfs.protocols import Message, ProviderError, Reply, Request, Route, ToolSpec
from kleene.version import VERSION

RECORD_AGAIN = "the prompt, the data or the model changed since: record again with --record FILE"


class Recorder:
    """A ``CallHandler`` that writes down what passes through another.

    Every line is on disk before its reply is used; ``aclose`` rewrites the file sorted, so that two recordings of one run are equal byte for
    byte. A file named .gz is packed. An existing file is replaced at once. Raises ``ConfigError`` where the file cannot be written.
    """

    def __init__(
        self, handler: Handler, path: str | Path, about: Mapping[str, Any] | None = None, *, version: str = ""
    ) -> None:
        self._handler = handler
        self.keeps_time: bool = getattr(handler, "keeps_time", False)
        self._path = Path(path)
        self._lock = threading.Lock()
        self._lines: list[dict[str, Any]] = []
        self._counts: dict[str, int] = {}
        self._turns: dict[str, Request] = {}
        self._routes: dict[str, Route] = {}
        self._header = {
            "kleene_recording": FORMAT,
            "version": version or VERSION,
            "date": dt.datetime.now(dt.UTC).date().isoformat(),
            "about": dict(about or {}),
            "routes": {},
        }
        self._file: IO[str] | None = self._open()
        self._write(self._header)

    def route(self, alias: str) -> Route:
        route = self._handler.route(alias)
        if alias not in self._routes:
            with self._lock:
                self._routes[alias] = route
                self._write({"alias": alias, "route": route_to_json(route)})
        return route

    def known_aliases(self) -> tuple[str, ...]:
        return self._handler.known_aliases()

    async def send(self, request: Request, route: Route, on_text: OnText | None = None) -> Reply:
        key = key_of(request, route)
        try:
            reply = await self._handler.send(request, route, on_text)
        except ProviderError as error:
            self._keep(request, key, "error", error_to_json(error))
            raise
        self._keep(request, key, "reply", reply_to_json(reply))
        return reply

    async def aclose(self) -> None:
        """Close the handler and put the file in order."""
        await self._handler.aclose()
        self.finish()

    def finish(self) -> None:
        """Rewrite the file sorted, with every model in its header. Safe to call twice."""
        with self._lock:
            if self._file is None:
                return
            self._file.close()
            self._file = None
            self._header["routes"] = {alias: route_to_json(route) for alias, route in sorted(self._routes.items())}
            partial = self._path.with_name(self._path.name + ".partial")
            lines = (dump_line(value) for value in [self._header, *sort_lines(self._lines)])
            write_recording(partial, lines, packed=is_packed(self._path))
            os.replace(partial, self._path)

    def _keep(self, request: Request, key: str, name: str, value: dict[str, Any]) -> None:
        with self._lock:
            nth = self._counts.get(key, 0)
            self._counts[key] = nth + 1
            base = None
            if request.path is not None:
                base = self._turns.get(previous(request.path) or "")
                self._turns[request.path] = request
            line = {"key": key, "nth": nth, **request_to_json(request, base), name: value}
            self._lines.append(line)
            self._write(line)

    def _open(self) -> IO[str]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return open_recording(self._path)
        except OSError as error:
            raise ConfigError(
                f"cannot write the recording {self._path}: {error.strerror}", hint="check --record FILE"
            ) from None

    def _write(self, value: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write(dump_line(value))
            self._file.flush()


class Replay:
    """A ``CallHandler`` over a recording: no network, no key, no waiting.

    A statement's call is found by its fingerprint, a session's turn by its path; a turn whose text differs is answered all the same and
    ``warn`` is told the first difference, or refused with ``strict``. The n-th request of a key gets its n-th reply or failure, later ones
    the last reply. A call that is not in the recording raises ``ProviderError`` (not_found). Raises ``ConfigError`` on a bad file.
    """

    def __init__(self, path: str | Path, strict: bool = False, *, warn: Callable[[str], None] | None = None) -> None:
        self.path = str(path)
        self.strict = strict
        self.recording: Recording = read_recording(self.path)
        self.warnings: list[str] = []
        self._warn = warn
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}

    def route(self, alias: str) -> Route:
        routes = self.recording.routes
        if alias in routes:
            return routes[alias]
        near = did_you_mean(alias, routes)
        hint = (
            f"did you mean {near}?"
            if near
            else f"it has {', '.join(sorted(routes)) or 'no calls at all'}; {RECORD_AGAIN}"
        )
        raise ConfigError(f"the recording {self.path} has no model for alias {alias}", hint=hint)

    def known_aliases(self) -> tuple[str, ...]:
        return tuple(self.recording.routes)

    async def send(self, request: Request, route: Route, on_text: OnText | None = None) -> Reply:
        key = key_of(request, route)
        entry = self._take(key)
        if entry is None:
            what = f"turn {request.path}" if request.path else "this call"
            start = " ".join(request.prompt[:80].split())
            raise ProviderError(
                "not_found",
                f"the recording {self.path} has no reply for {what}: {start!r}",
                sent=False,
                hint=RECORD_AGAIN,
            )
        if request.path is not None and (difference := first_difference(entry, request)):
            self._drifted(request.path, difference)
        if isinstance(entry.reply, dict):
            raise error_from_json(entry.reply)
        if on_text is not None:
            on_text(entry.reply.text)
        return entry.reply

    async def aclose(self) -> None:
        """Nothing is open."""

    def _take(self, key: str) -> Entry | None:
        entries = self.recording.entries.get(key)
        if not entries:
            return None
        with self._lock:
            nth = self._counts.get(key, 0)
            self._counts[key] = nth + 1
        if nth < len(entries):
            return entries[nth]
        return None if self.strict or isinstance(entries[-1].reply, dict) else entries[-1]

    def _drifted(self, path: str, difference: str) -> None:
        message = f"turn {path} differs from the recording {self.path}: {difference}"
        if self.strict:
            raise ProviderError("not_found", message, sent=False, hint=RECORD_AGAIN)
        with self._lock:
            self.warnings.append(message)
        if self._warn is not None:
            self._warn(message)


def first_difference(entry: Entry, request: Request) -> str | None:
    """Where a turn's text leaves the recorded one, with some characters of both; None where they are equal."""
    if (entry.system or "") != (request.system or ""):
        return _where("the system text", entry.system or "", request.system or "")
    if entry.schema != request.schema:
        return _where("the schema", entry.schema or "", request.schema or "")
    if entry.tools != request.tools:
        return _where("the tools", _tools(entry.tools), _tools(request.tools))
    for number, (old, new) in enumerate(zip(entry.messages, request.messages, strict=False), 1):
        if old != new:
            return _where(
                f"message {number} ({new.role})",
                _told(old) if old.role == new.role else f"{old.role}: {_told(old)}",
                _told(new),
            )
    if len(entry.messages) != len(request.messages):
        return f"it has {len(request.messages)} messages, recorded were {len(entry.messages)}"
    return None


def _told(message: Message) -> str:
    return f"{message.text}\n{message.more}" if message.more else message.text


def _tools(tools: tuple[ToolSpec, ...]) -> str:
    return "\n".join(f"{t.name} {t.description} {t.parameters}" for t in tools)


def _where(what: str, old: str, new: str) -> str:
    at = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    line = new.count("\n", 0, at) + 1
    return f"{what}, line {line}: recorded {_around(old, at)}, now {_around(new, at)}"


def _around(text: str, at: int) -> str:
    start = max(0, at - 20)
    return repr(("..." if start else "") + text[start : at + 20] + ("..." if at + 20 < len(text) else ""))
