"""The tools that read the workspace's texts: files, lines, grep."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator
from typing import Any

from kleene.planner.errors import ToolError
from kleene.tools import texts, tree
from kleene.tools.base import Row, Work
from kleene.tools.jail import File
from kleene.tools.matching import Matcher

CHECKED_LINES = 4096


def files(work: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
    (glob,) = arguments
    for found in tree.walk(work, glob):
        try:
            status = found.folder.status(found.entry.name)
        except OSError:  # it vanished since it was listed
            continue
        size = status.st_size if found.entry.kind == "file" else None
        yield found.path, size, _moment(status), found.entry.kind


def _moment(status: os.stat_result) -> dt.datetime:
    """The time of the last write, in UTC and without a zone, as DuckDB's TIMESTAMP is."""
    micros = status.st_mtime_ns // 1_000
    return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros)


def lines(work: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
    path, first, last = arguments
    first, last = (1 if first is None else first), (float("inf") if last is None else last)
    if first < 1:
        raise ToolError(f"lines are counted from 1, not {first}", kind="invalid arguments")
    with work.workspace.open(path) as file:
        _refuse_binary(file)
        for number, text in texts.numbered(file, work.limits.file_bytes):
            if number > last:
                return
            if number % CHECKED_LINES == 0:
                work.check()
            if number >= first:
                yield number, text


def _refuse_binary(file: File) -> None:
    head = os.pread(file.fd, texts.SNIFFED, 0)
    if texts.is_binary(head) or head.startswith((b"%PDF", b"PK\x03\x04")):
        raise ToolError(
            f"{file.path} is no text", kind="unsupported", hint="read documents with read(path) or read_pages(path)"
        )


def grep(work: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
    pattern, glob = arguments
    with Matcher.of(pattern, work) as matcher:
        # Small files are put together, so that a tree of many is not as many questions to the matcher's process.
        held: list[tuple[str, texts.Block]] = []
        size = 0
        for path, block in _blocks(work, glob):
            held.append((path, block))
            size += len(block.text) + 1
            if size >= texts.BLOCK:
                yield from _matching(matcher, held)
                held, size = [], 0
        yield from _matching(matcher, held)


def _blocks(work: Work, glob: str | None) -> Iterator[tuple[str, texts.Block]]:
    for found in tree.walk(work, glob):
        if found.entry.kind == "link" and glob == found.path:
            file = work.workspace.open(found.path)
        elif found.entry.kind != "file" or (opened := found.open()) is None:
            continue
        else:
            file = opened
        with file:
            for block in texts.blocks(file):
                work.check()
                yield found.path, block


def _matching(matcher: Matcher, held: list[tuple[str, texts.Block]]) -> Iterator[Row]:
    if not held:
        return
    together = "\n".join(block.text for _, block in held)
    numbers = iter(matcher.lines(together))
    number = next(numbers, None)
    first = 0  # the number of the block's first line in all of them
    for path, block in held:
        if number is None:
            return
        after = first + block.text.count("\n") + 1
        if number < after:
            lines = block.text.split("\n")
            while number is not None and number < after:
                yield path, block.first + number - first, lines[number - first].removesuffix("\r")
                number = next(numbers, None)
        first = after
