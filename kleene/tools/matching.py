"""Regular expressions of Python over many lines, in a process of their own: a pattern that would run for years is ended, and the interpreter
of whoever asked never waits for it (``re`` holds the interpreter's lock and cannot be interrupted)."""

from __future__ import annotations

import array
import re
import selectors
import struct
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

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


def compiled(pattern: str) -> re.Pattern[str]:
    """Raises ``ToolError`` (invalid arguments) that says what is wrong, and where."""
    if len(pattern) > MAX_PATTERN:
        raise ToolError(f"the pattern has more than {MAX_PATTERN:,} characters", kind="invalid arguments")
    try:
        with _quiet():
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
    literal: Literal | None = None
    _process: subprocess.Popen[bytes] | None = None

    @classmethod
    def of(cls, pattern: str, work: Work) -> Matcher:
        """Raises ``ToolError`` for a pattern that cannot be read."""
        return cls(pattern, work, required(pattern, compiled(pattern).flags))

    def lines(self, text: str) -> Sequence[int]:
        """Which lines of a block match, counted from 0. A CR before a line's end is not part of it."""
        if self.literal is None or (self.literal.any_case and not text.isascii()):
            return self._ask(text)
        candidates = _holding(text.lower() if self.literal.any_case else text, self.literal.text)
        if not candidates or self.literal.whole:
            return candidates
        lines = text.split("\n")
        held = self._ask("\n".join(lines[number] for number in candidates))
        return [candidates[number] for number in held]

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


@attrs.frozen
class Literal:
    """A text that every match holds: lines without it need not be looked at. ``whole``: the pattern is nothing else. ``any_case``: it is in
    small letters, and so are ASCII lines to be before it is looked for."""

    text: str
    whole: bool
    any_case: bool


def required(pattern: str, flags: int) -> Literal | None:
    r"""The longest text that every match of a pattern holds, None where none is found.

    >>> required(r"def (\w+)\(self", 0)
    Literal(text='(self', whole=False, any_case=False)
    >>> required("needle", 0).whole, required("a|b", 0)
    (True, None)
    """
    try:
        from re import _parser  # type: ignore[attr-defined]

        with _quiet():
            runs = list(_runs(_parser.parse(pattern, flags & ~re.UNICODE)))
    except Exception:  # a module of the standard library without promises: without it all lines are looked at
        return None
    best = max(runs, key=len, default="")
    any_case = bool(flags & re.IGNORECASE)
    if not best.strip() or not best.isprintable() or (any_case and not best.isascii()) or flags & re.LOCALE:
        return None
    whole = best == pattern and len(runs) == 1 and not any_case
    return Literal(best.lower() if any_case else best, whole, any_case)


@contextmanager
def _quiet() -> Iterator[None]:
    """Python warns of patterns that another version may read otherwise; whoever wrote the pattern would not see it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _runs(items: Iterable[tuple[Any, Any]]) -> Iterator[str]:
    """The texts of a sequence that stand in every match, each as long as it goes on."""
    held = ""
    for kind, value in items:
        name = str(kind)
        if name == "LITERAL":
            held += chr(value)
            continue
        inner = None
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and value[0] >= 1:
            inner = value[2]
            if len(inner) == 1 and str(inner[0][0]) == "LITERAL":
                # x{3,5} holds xxx, and what follows does not follow at once.
                yield held + chr(inner[0][1]) * min(value[0], 100)
                held = ""
                continue
        elif name == "SUBPATTERN" and not value[1] and not value[2]:  # without flags of its own
            inner = value[3]
        elif name == "ATOMIC_GROUP":
            inner = value
        yield held
        held = ""
        if inner is not None:
            yield from _runs(inner)
    yield held


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
