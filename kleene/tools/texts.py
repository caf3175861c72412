"""Files as text: which encoding they have, whether they are text at all, and their lines without holding the file."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator

import attrs

from kleene.planner.errors import ToolError
from kleene.tools.jail import File

BLOCK = 1 << 20
"""Bytes read at a time. A longer line is handed on in pieces of about this size."""

SNIFFED = 8192
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def mark_of(head: bytes) -> tuple[bytes, str] | None:
    """The byte order mark a file begins with, and the encoding it means."""
    return next((found for found in _MARKS if head.startswith(found[0])), None)


def is_binary(head: bytes) -> bool:
    """True for content with a NUL byte and without a mark: no text that any tool would read."""
    return b"\0" in head[:SNIFFED] and mark_of(head) is None


def decode(data: bytes) -> str:
    """A whole file as text: by its mark, as UTF-8, else by what it looks like; bytes that fit nothing become U+FFFD. Line ends become LF."""
    mark = mark_of(data)
    if mark is not None:
        text = data[len(mark[0]) :].decode(mark[1], "replace")
    else:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = data.decode(legacy_encoding(data), "replace")
    return text.replace("\r\n", "\n") if "\r" in text else text


def legacy_encoding(data: bytes) -> str:
    """The encoding of text that is not UTF-8: what charset-normalizer says where it is installed, else Windows-1252."""
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return "cp1252"
    # Short samples of a western text look like anything; the web's own fallback is then the better guess.
    best = from_bytes(data[:BLOCK]).best() if len(data) > 256 else None
    return best.encoding if best is not None else "cp1252"


@attrs.frozen
class Block:
    """Lines of a file, the first of them numbered ``first`` (from 1). ``ends``: the last line is whole, its LF taken off."""

    text: str
    first: int
    ends: bool


def blocks(file: File) -> Iterator[Block]:
    """The file as text, about 1 MiB at a time, cut at line ends; nothing for a binary file. Only LF ends a line; a CR before it stays."""
    head = os.read(file.fd, BLOCK)
    if is_binary(head):
        return
    mark = mark_of(head)
    if mark is not None and mark[1] != "utf-8":
        yield from _wide(file, head[len(mark[0]) :], mark[1])
        return
    data, encoding, line = head[3:] if mark else head, "utf-8", 1
    while data:
        more = os.read(file.fd, BLOCK)
        cut = len(data) if not more else data.rfind(b"\n") + 1
        if cut == 0:
            if len(data) < BLOCK:
                data += more
                continue
            cut = _whole_characters(data)
        piece, data = data[:cut], data[cut:] + more
        try:
            text = piece.decode(encoding, "strict" if encoding == "utf-8" else "replace")
        except UnicodeDecodeError:
            encoding = legacy_encoding(piece)
            text = piece.decode(encoding, "replace")
        yield Block(text.removesuffix("\n"), line, text.endswith("\n"))
        line += piece.count(b"\n")


def _wide(file: File, head: bytes, encoding: str) -> Iterator[Block]:
    """A file in UTF-16 or UTF-32."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    line, held, data = 1, "", head
    while True:
        held += decoder.decode(data, final=not data)
        cut = held.rfind("\n") + 1 or (len(held) if len(held) > BLOCK or not data else 0)
        if cut and held:
            piece, held = held[:cut], held[cut:]
            yield Block(piece.removesuffix("\n"), line, piece.endswith("\n"))
            line += piece.count("\n")
        if not data:
            if held:
                yield Block(held, line, False)
            return
        data = os.read(file.fd, BLOCK)


def _whole_characters(data: bytes) -> int:
    """Where to cut a line of UTF-8 so that no character is cut."""
    for back in range(1, 4):
        if data[-back] & 0xC0 != 0x80:
            return len(data) - back if data[-back] & 0xC0 == 0xC0 else len(data)
    return len(data)


def numbered(file: File, limit: int) -> Iterator[tuple[int, str]]:
    """The lines with their numbers from 1, without LF and CRLF. A line end at the end of the file begins no line.

    Raises ``ToolError`` (too large) for a line of more than ``limit`` characters.
    """
    number, held = 1, ""
    for block in blocks(file):
        lines = block.text.split("\n")
        lines[0] = held + lines[0]
        held = "" if block.ends else lines.pop()
        if len(held) > limit:
            raise ToolError(f"{file.path} has a line of more than {limit:,} characters", kind="too large")
        number = block.first
        for text in lines:
            yield number, text.removesuffix("\r")
            number += 1
    if held:
        yield number, held.removesuffix("\r")
