"""Reads documents in processes of their own, which end with their time, their memory or the statement.

The libraries that read documents cannot be interrupted, and a file made for it keeps them busy for hours: ``<!--`` a hundred thousand times
costs Python's HTML parser the square of that (3.11). So whatever needs a library to be read (HTML, office files, PDF, mail) is read by a process
that is started at the first such file, answers for many, and is killed when it does not. Texts and CSV are read here.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from kleene.planner.errors import Cancelled, ToolError
from kleene.tools import documents
from kleene.tools.documents import Kind, Page, Source, Table
from kleene.tools.documents.base import Cell
from kleene.tools.replies import HEAD, Request, TooLarge, received

SECONDS = 60.0
"""For one document, where its reader does not ask for less: so long may one wait for it."""
START_S = 30.0
"""For a process to start, on a machine that has other things to do."""
ALARM_S = 5.0
"""So much longer than that an orphan may live, where the system does not tell it that it is one."""
MOST = 4
PATIENCE_S = 0.25
"""So long is waited for a process that reads another document before one more is started."""
POLL_S = 0.02
ATTEMPTS = 3
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH")
_PROGRAM = "import sys; sys.path[:] = sys.argv[4:]; from kleene.tools.reader import main; main()"


@attrs.frozen
class Bounds:
    """Of a process: ``memory_bytes`` of address space (the interpreter and the libraries take some 150 MiB of it), ``idle_s`` until it ends by
    itself. ``output_bytes``: of one document."""

    memory_bytes: int = 2 << 30
    output_bytes: int = 256 << 20
    idle_s: float = 60.0


class Readers:
    """The processes of one engine, for all its threads: one, and up to three more while it is busy. What ``kleene.tools.documents`` does, with
    the same errors; further ones are ``ToolError``: timed out after ``seconds``, too large above 256 MiB of output or 2 GiB of memory, other
    where the process died over a document. Whatever ``Source.check`` raises ends the process that reads.

    A source must have a file descriptor. ``close`` ends all processes; a document that is read after it has a process for itself.
    """

    def __init__(self, bounds: Bounds | None = None) -> None:
        self._bounds = bounds or Bounds()
        self._changed = threading.Condition()
        self._all: list[_Reader] = []
        self._idle: list[_Reader] = []
        self._closed = False
        self._cancelled = threading.Event()
        weakref.finalize(self, _end_all, self._all, os.getpid())

    def kind(self, source: Source, *, seconds: float = SECONDS) -> Kind | None:
        """As ``documents.kind_of``."""
        if not documents.is_container(source):
            return documents.kind_of(source)
        (message,) = self._ask(source, Request(source.name, "kind"), "kind", seconds)
        return None if message[1] is None else Kind[message[1]]

    def text(self, source: Source, *, seconds: float = SECONDS) -> str:
        """As ``documents.text``."""
        if documents.is_plain(source):
            return documents.text(source)
        (message,) = self._ask(source, Request(source.name, "text"), "text", seconds)
        return str(message[1])

    def pages(self, source: Source, *, seconds: float = SECONDS) -> Iterator[Page]:
        """As ``documents.pages``."""
        if documents.is_plain(source):
            yield from documents.pages(source)
            return
        for message in self._ask(source, Request(source.name, "pages"), "page", seconds):
            yield Page(*message[1:])

    def tables(self, source: Source, wanted: str | None = None, *, seconds: float = SECONDS) -> Iterator[Table]:
        """As ``documents.tables``: the rows of a table are to be read before the next. Those that are not ``wanted`` have none."""
        if documents.is_plain(source):
            for number, table in enumerate(documents.tables(source), 1):
                yield table if documents.is_wanted(table.name, number, wanted) else attrs.evolve(table, rows=())
            return
        with closing(self._ask(source, Request(source.name, "tables", wanted), "table rows", seconds)) as messages:
            ahead = _Ahead(messages)
            while ahead.next is not None:
                name = str(ahead.take()[1])
                rows = ahead.rows()
                yield Table(name, rows)
                for _ in rows:  # of a table that nobody read
                    pass

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes there are."""
        with self._changed:
            return tuple(reader.process.pid for reader in self._all)

    def cancel(self) -> None:
        """Whatever is read now or later raises ``Cancelled``."""
        self._cancelled.set()

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    def _check(self, check: Callable[[], None]) -> None:
        if self.is_cancelled:
            raise Cancelled("reading was cancelled")
        check()

    def close(self) -> None:
        """Ends all processes. Whoever waits for one gets an error."""
        with self._changed:
            self._closed = True
            for reader in self._idle:
                self._all.remove(reader)
                reader.end()
            self._idle.clear()
            for reader in self._all:
                reader.process.kill()

    # A process for a document

    def _ask(self, source: Source, request: Request, said: str, seconds: float) -> Generator[Any, None, None]:
        """The messages of the kinds ``said``, up to the end of the document."""
        request = attrs.evolve(request, seconds=seconds + ALARM_S)
        source = attrs.evolve(source, check=partial(self._check, source.check))
        for attempt in range(ATTEMPTS):
            reader = self._take(source.check)
            try:
                for message in reader.ask(source, request, seconds):
                    if message[0] not in said.split():
                        raise ToolError(f"{source.name} could not be read: {message[0]!r} is no answer")
                    yield message
                return
            except _Gone:
                if attempt == ATTEMPTS - 1:
                    raise ToolError(f"{source.name} could not be read: the reader does not stay") from None
            finally:
                self._give(reader)

    def _take(self, check: Callable[[], None]) -> _Reader:
        begun = time.monotonic()
        with self._changed:
            while True:
                for reader in [r for r in self._idle if r.process.poll() is not None]:  # it had nothing to do for long
                    self._idle.remove(reader)
                    self._all.remove(reader)
                    reader.end()
                if self._idle:
                    return self._idle.pop()
                if not self._all or (len(self._all) < MOST and time.monotonic() - begun > PATIENCE_S):
                    reader = _Reader.start(self._bounds)
                    self._all.append(reader)
                    return reader
                self._changed.wait(POLL_S)
                check()

    def _give(self, reader: _Reader) -> None:
        with self._changed:
            if reader.fit and not self._closed:
                self._idle.append(reader)
            else:
                self._all.remove(reader)
                reader.end()
            self._changed.notify()


class _Ahead:
    """Messages with the next one in sight, which tells where a table ends."""

    def __init__(self, messages: Iterator[Any]) -> None:
        self._messages = messages
        self.next = next(messages, None)

    def take(self) -> Any:
        message, self.next = self.next, next(self._messages, None)
        return message

    def rows(self) -> Iterator[tuple[int, list[Cell]]]:
        while self.next is not None and self.next[0] == "rows":
            yield from self.take()[1]


class _Gone(Exception):
    """The process had ended for want of work before it saw the document."""


@attrs.define(eq=False)
class _Reader:
    """A process, used by one thread at a time. ``fit``: it is done with a document and may be given another;
    ``ready``: it has started."""

    bounds: Bounds
    process: subprocess.Popen[bytes]
    socket: socket.socket
    fit: bool = False
    ready: bool = False

    @classmethod
    def start(cls, bounds: Bounds) -> _Reader:
        """Raises ``ToolError`` where it cannot be started."""
        if not sys.executable:
            raise ToolError("this program has no Python to read documents with", kind="unsupported")
        ours, theirs = socket.socketpair()
        with theirs:
            told = map(str, (theirs.fileno(), bounds.memory_bytes, bounds.idle_s))
            try:
                process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", _PROGRAM, *told, *_path()],
                    stdin=subprocess.PIPE,  # its end tells the process that we are gone
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    env={"LANG": "C.UTF-8"} | {name: os.environ[name] for name in _PASSED_ON if name in os.environ},
                    cwd="/",
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise ToolError(f"documents cannot be read: {error.strerror or error}", kind="io") from error
        ours.settimeout(POLL_S)
        return cls(bounds, process, ours)

    def ask(self, source: Source, request: Request, seconds: float) -> Iterator[Any]:
        """The messages to a request before its end. Raises ``ToolError``, ``_Gone``, and what ``source.check`` does."""
        self.fit = False
        line = _Line(self.socket, source, self.bounds.output_bytes)
        begun = False
        try:
            self._send(request.packed(), source.stream.fileno())
            if not self.ready:
                line.left = START_S
                self.ready = received(line.read, line.most) == ["ready"]
            line.left = seconds
            while True:
                message = received(line.read, line.most)
                begun = True
                if message[0] == "end":
                    self.fit = message[1] is True
                    return
                if message[0] == "error":
                    _, text, kind, hint, fit = message
                    self.fit = fit is True
                    raise ToolError(str(text), kind=str(kind), hint=hint)
                yield message
        except (EOFError, ConnectionError):
            raise self._died(source.name, begun) from None
        except TooLarge:
            most = self.bounds.output_bytes >> 20
            raise ToolError(
                f"{source.name} could not be read: it holds more than {most:,} MiB", kind="too large"
            ) from None
        except (ValueError, LookupError, TypeError) as error:  # of a reader that is no longer ours
            raise ToolError(f"{source.name} could not be read: {error}") from None

    def _send(self, message: bytes, document: int) -> None:
        self.socket.settimeout(SECONDS)  # it waits for us: nothing else is on the line
        try:
            socket.send_fds(self.socket, [message[: HEAD.size]], [document])
            self.socket.sendall(message[HEAD.size :])
        finally:
            self.socket.settimeout(POLL_S)

    def _died(self, name: str, begun: bool) -> Exception:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(1)
        status = self.process.returncode
        if status == 0 and not begun:
            return _Gone()
        number = -(status or 0)
        if number in {s.value for s in signal.Signals}:
            return ToolError(f"{name} could not be read: the reader was ended by {signal.Signals(number).name}")
        return ToolError(f"{name} could not be read: the reader ended with {status}")

    def end(self) -> None:
        self.process.kill()
        self.socket.close()
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        self.process.wait()


@attrs.define
class _Line:
    """What a process says, for as long as one may wait: ``left`` seconds of waiting, ``most`` bytes."""

    socket: socket.socket
    source: Source
    most: int
    left: float = 0.0

    def read(self, size: int) -> bytes:
        """Raises ``ToolError`` (timed out), ``EOFError`` at the end of the process, and what ``source.check`` does."""
        self.most -= size
        data = bytearray()
        while len(data) < size:
            self.source.check()
            if self.left < 0:
                raise ToolError(
                    f"{self.source.name} could not be read in time", kind="timed out", hint="ask for less at once"
                )
            begun = time.monotonic()
            with suppress(TimeoutError):
                piece = self.socket.recv(min(size - len(data), 1 << 20))
                if not piece:
                    raise EOFError
                data += piece
            self.left -= time.monotonic() - begun
        return bytes(data)


def _end_all(readers: list[_Reader], owner: int) -> None:
    if os.getpid() == owner:  # a fork's copies belong to the parent
        for reader in readers:
            reader.end()


def _path() -> list[str]:
    """Where this process finds its modules, without the current folder (it may be a workspace, where a model writes), and Kleene itself."""
    found = [os.path.abspath(part) for part in sys.path if part]
    with suppress(FileNotFoundError):  # the current folder may be gone
        here = os.getcwd()
        found = [part for part in found if part != here]
    own = str(Path(__file__).resolve().parents[2])
    return found if own in found else [*found, own]
