"""Reads a text as lines of clean Unicode, whatever its encoding marks and line ends are."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

from kleene.planner.errors import ConfigError

_BAD_BYTE = re.compile("[\udc80-\udcff]")
_BINARY = {
    b"%PDF": "a PDF file",
    b"PK\x03\x04": "a zip archive or office file",
    b"\x1f\x8b": "a gzip file",
    b"SQLite f": "an SQLite database",
}
SNIFFED = 8192


def lines(stream: BinaryIO, label: str, on_bad_bytes: Callable[[int], None]) -> Iterator[str]:
    """The lines of a stream, each ending in LF (the last perhaps not), decoded as UTF-8 or as what a UTF-16 mark says.

    CRLF and CR become LF. A byte that is not UTF-8 becomes U+FFFD; when the stream ends, ``on_bad_bytes`` is told how many there were, if any.
    Raises ``ConfigError`` for binary content. The stream is not closed.
    """
    # A wrapper of our own, detached at the end: closing it would close standard input.
    buffered = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", stream))
    head = buffered.peek(SNIFFED)[:SNIFFED]
    utf16 = head[:2] in (b"\xff\xfe", b"\xfe\xff")
    kind = None if utf16 else binary_kind(head)
    if kind is not None:
        raise ConfigError(f"{label} is {kind}, not a text", hint="convert it to a text first")
    wrapper = io.TextIOWrapper(
        buffered,
        encoding="utf-16" if utf16 else "utf-8-sig",
        errors="replace" if utf16 else "surrogateescape",
        newline=None,
    )
    bad = 0
    try:
        for line in wrapper:
            if line.isascii():
                yield line
                continue
            clean, count = _BAD_BYTE.subn("\ufffd", line)
            bad += count
            yield clean
    finally:
        wrapper.detach()
    if bad:
        on_bad_bytes(bad)


def binary_kind(head: bytes) -> str | None:
    """What a binary file is, told by its first bytes; None for a text."""
    if head[8:12] == b"DUCK":
        return "a DuckDB database"
    return next(
        (kind for magic, kind in _BINARY.items() if head.startswith(magic)), "a binary file" if b"\0" in head else None
    )
