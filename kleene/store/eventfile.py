"""The event file beside the store, one JSON object a line: what a second process reads while the store is locked."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kleene.udfs.text import clean

ROTATE_BYTES = 64_000_000
WRITTEN_AT_ONCE = 1_000_000  # bytes, about
SEALED = "EventsSealed"  # the first line of a file: it says whose it is, and is no event
ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str)  # json.dumps builds one a call


def events_path(store: Path) -> Path:
    """The event file of a store.

    >>> events_path(Path("a/run.duckdb")).name
    'run.events.jsonl'
    """
    return store.with_name(store.name.removesuffix(".duckdb") + ".events.jsonl")


def older(path: Path) -> Path:
    """Where a full event file goes; the one that was there is replaced."""
    return path.with_name(path.name + ".1")


class EventFile:
    """Appends events, for one thread. Whole lines are written to a file in append mode, so that several writers do not mix them.

    ``head`` is the line that a new file begins with.
    """

    def __init__(self, path: Path, *, rotate_bytes: int = ROTATE_BYTES, head: dict[str, Any] | None = None):
        self.path = path
        self._head = b"" if head is None else line(head)
        self._rotate_bytes = rotate_bytes
        self._descriptor: int | None = None
        self._torn = False
        self._empty = False

    def append(self, events: Iterable[dict[str, Any]]) -> None:
        """Writes the events. Raises OSError; what was written in part is skipped by readers."""
        self.write(map(line, events))

    def write(self, lines: Iterable[bytes]) -> None:
        """Like ``append``, of events as ``line`` gives them."""
        descriptor: int | None = None
        for data in joined(lines):
            if descriptor is None:
                descriptor = self._open()
                data = (b"\n" if self._torn else b"") + (self._head if self._empty else b"") + data
            self._torn, self._empty = True, False
            while data:
                data = data[os.write(descriptor, data) :]
        if descriptor is not None:
            self._torn = False

    def close(self) -> None:
        """Closes the file; the next ``append`` opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        """The file to write to: another one where this one is full, or was moved or removed by somebody."""
        if self._descriptor is not None:
            mine = os.fstat(self._descriptor)
            try:
                there = os.stat(self.path)
            except FileNotFoundError:
                self.close()
            else:
                if mine.st_ino != there.st_ino:
                    self.close()
                elif there.st_size >= self._rotate_bytes:
                    self.close()
                    os.replace(self.path, older(self.path))
        if self._descriptor is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
            self._descriptor = os.open(self.path, flags, 0o600)
            self._empty = os.fstat(self._descriptor).st_size == 0
            if not self._empty:
                os.lseek(self._descriptor, -1, os.SEEK_END)
                self._torn = os.read(self._descriptor, 1) != b"\n"
            else:
                self._torn = False
        return self._descriptor


def joined(lines: Iterable[bytes], most: int = WRITTEN_AT_ONCE) -> Iterator[bytes]:
    """The lines in pieces of about ``most`` bytes, so that they are not all held twice; none where there are none."""
    part: list[bytes] = []
    held = 0
    for one in lines:
        part.append(one)
        held += len(one)
        if held > most:
            yield b"".join(part)
            part, held = [], 0
    if part:
        yield b"".join(part)


def line(event: dict[str, Any]) -> bytes:
    """One event as a line of UTF-8. Lone surrogates become U+FFFD."""
    return clean(ENCODER.encode(event)).encode() + b"\n"


def read_events(path: str | Path) -> Iterator[dict[str, Any]]:
    """The events of a file, those of its older part first. A line that was torn is left out, a missing file has none."""
    return read_parts((older(Path(path)), Path(path)))


def read_parts(parts: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """The events of these files."""
    for part in parts:
        try:
            file = part.open("rb")
        except FileNotFoundError:
            continue
        with file:
            for raw in file:
                try:
                    event = json.loads(raw)
                except ValueError:
                    continue
                if isinstance(event, dict) and isinstance(event.get("event"), str) and event["event"] != SEALED:
                    yield event
