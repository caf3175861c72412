"""Regular expressions of Python over many lines, in a process of their own: a pattern that would run for years is ended, and the interpreter
of whoever asked never waits for it (``re`` holds the interpreter's lock and cannot be interrupted)."""

from __future__ import annotations

import array
import re
import selectors
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

import attrs

from kleene.planner.errors import ToolError
from kleene.tools.base import Work

MAX_PATTERN = 10_000
POLL_S = 0.02

_CHILD = r"""
import re, struct, sys
from array import array
source, sink = sys.stdin.buffer, sys.stdout.buffer
def message():
    head = source.read(4)
    return source.read(struct.unpack("<I", head)[0]).decode("utf-8", "surrogatepass") if len(head) == 4 else None
search = re.compile(message()).search
while (text := message()) is not None:
    found = array("I", [n for n, line in enumerate(text.split("\n")) if search(line.removesuffix("\r"))])
    data = found.tobytes()
    sink.write(struct.pack("<I", len(data)) + data)
    sink.flush()
"""

_SPECIAL = frozenset("\\^$.|?*+()[]{}\n\r")


def compiled(pattern: str) -> re.Pattern[str]:
    """Raises ``ToolError`` (invalid arguments) that says what is wrong, and where."""
    if len(pattern) > MAX_PATTERN:
        raise ToolError(f"the pattern has more than {MAX_PATTERN:,} characters", kind="invalid arguments")
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ToolError(
            f"{pattern!r} is no regular expression: {error}",
            kind="invalid arguments",
            hint="write a backslash before a character that is meant as itself",
        ) from None


@attrs.define
class Matcher:
    """One pattern over blocks of lines. A context manager, which ends the process. The process is started when it is first needed."""

    pattern: str
    work: Work
    _process: subprocess.Popen[bytes] | None = None

    @classmethod
    def of(cls, pattern: str, work: Work) -> Matcher:
        """Raises ``ToolError`` for a pattern that cannot be read."""
        compiled(pattern)
        return cls(pattern, work)

    def lines(self, text: str) -> Sequence[int]:
        """Which lines of a block match, counted from 0. A CR before a line's end is not part of it."""
        if self.pattern and _SPECIAL.isdisjoint(self.pattern):
            return _holding(text, self.pattern)
        return self._ask(text)

    def _ask(self, text: str) -> Sequence[int]:
        process = self._process or self._start()
        try:
            self._send(process, text)
            (size,) = struct.unpack("<I", self._receive(process, 4))
            return array.array("I", self._receive(process, size))
        except BrokenPipeError:
            raise self._died() from None

    def _start(self) -> subprocess.Popen[bytes]:
        if not sys.executable:
            raise ToolError("this program has no Python to run a regular expression with", kind="unsupported")
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
        )
        self._send(self._process, self.pattern)
        return self._process

    def _send(self, process: subprocess.Popen[bytes], text: str) -> None:
        # The other side reads all of a message before it works on it, so that writing never waits for a match.
        assert process.stdin is not None
        data = text.encode("utf-8", "surrogatepass")
        process.stdin.write(struct.pack("<I", len(data)))
        process.stdin.write(data)
        process.stdin.flush()

    def _receive(self, process: subprocess.Popen[bytes], size: int) -> bytes:
        assert process.stdout is not None
        data = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while len(data) < size:
                self.work.check()
                if selector.select(POLL_S):
                    piece = process.stdout.read1(size - len(data))  # type: ignore[attr-defined]
                    if not piece:
                        raise self._died()
                    data += piece
        return data

    def _died(self) -> ToolError:
        return ToolError(f"the process that looks for {self.pattern!r} ended", kind="other")

    def __enter__(self) -> Matcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()
            process.wait()


def _holding(text: str, plain: str) -> list[int]:
    """The lines that hold a text, found without cutting the block into lines.

    >>> _holding("a x\\nb\\nx x\\n", "x")
    [0, 2]
    """
    found, line, start = [], 0, 0
    at = text.find(plain)
    while at >= 0:
        line += text.count("\n", start, at)
        found.append(line)
        end = text.find("\n", at)
        if end < 0:
            break
        line, start = line + 1, end + 1
        at = text.find(plain, start)
    return found
