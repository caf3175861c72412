"""What documents are read from and become."""

from __future__ import annotations

import datetime as dt
import importlib
import io
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import BinaryIO, TypeAlias

import attrs

from kleene.planner.errors import KleeneError, ToolError

Cell: TypeAlias = str | int | float | bool | dt.date | dt.datetime | dt.time | None


@attrs.frozen
class Source:
    """A document to read: what it is called in errors, its content (seekable), and what is asked often whether to go on (it raises if not)."""

    name: str
    stream: BinaryIO
    check: Callable[[], None] = lambda: None
    depth: int = 0
    """How many documents (mail attachments) it lies in."""

    @classmethod
    def of(cls, name: str, data: bytes, check: Callable[[], None] = lambda: None, depth: int = 0) -> Source:
        return cls(name, io.BytesIO(data), check, depth)

    def head(self, size: int) -> bytes:
        self.stream.seek(0)
        head = self.stream.read(size)
        self.stream.seek(0)
        return head

    def bytes(self) -> bytes:
        self.stream.seek(0)
        return self.stream.read()

    @property
    def extension(self) -> str:
        """With its dot, in small letters."""
        return os.path.splitext(self.name)[1].lower()


@attrs.frozen
class Page:
    """A page, sheet, slide, section or attachment, numbered from 1."""

    number: int
    title: str | None
    text: str


@attrs.frozen
class Table:
    """A table: a sheet, or one in the text (``table 2``). ``rows`` are its cells with the row's number in the document, from 1, read once."""

    name: str
    rows: Iterable[tuple[int, list[Cell]]]


Pages: TypeAlias = Callable[[Source], Iterator[Page]]
Tables: TypeAlias = Callable[[Source], Iterator[Table]]


def library(name: str, kind: str) -> ModuleType:
    """Imports a library of the extra. Raises ``ToolError`` (unsupported) that names the extra where it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ToolError(
            f"reading {kind} needs the library {name.partition('.')[0]}, which is not installed",
            kind="unsupported",
            hint="pip install 'kleene[documents]'",
        ) from None


def corrupt(source: Source, kind: str, error: object) -> ToolError:
    said = " ".join(str(error).split())[:200]
    name = type(error).__name__ if isinstance(error, BaseException) else ""
    return ToolError(f"{source.name} cannot be read as {kind}: {said or name}", kind="unsupported")


@contextmanager
def explained(source: Source, kind: str) -> Iterator[None]:
    """Whatever a library raises over a broken document is the document's fault, and said so."""
    try:
        yield
    except (KleeneError, GeneratorExit):
        raise
    except MemoryError:
        raise ToolError(f"{source.name} needs more memory than there is", kind="too large") from None
    except RecursionError:
        raise ToolError(f"{source.name} is nested too deep to be read as {kind}", kind="too large") from None
    except (
        Exception
    ) as error:  # libraries raise anything over broken input: KeyError, struct.error, zlib.error, their own
        raise corrupt(source, kind, error) from error


def shown(cell: Cell) -> str:
    """A cell as text: whole numbers without a point, dates as ISO 8601.

    >>> shown(3.0), shown(2.5), shown(True), shown(None), shown(dt.datetime(2024, 3, 1))
    ('3', '2.5', 'true', '', '2024-03-01')
    """
    value = plain(cell)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def plain(cell: Cell) -> str | int | float | bool | None:
    """A cell as JSON can hold it."""
    if isinstance(cell, dt.datetime):
        midnight = cell.hour == cell.minute == cell.second == cell.microsecond == 0
        return cell.date().isoformat() if midnight else cell.isoformat(sep=" ")
    if isinstance(cell, (dt.date, dt.time)):
        return cell.isoformat()
    if isinstance(cell, float):
        return int(cell) if cell.is_integer() and abs(cell) < 2**53 else cell
    if cell is None or isinstance(cell, (str, int, bool)):
        return cell
    return str(cell)


def markdown_table(rows: Iterable[list[Cell]]) -> str:
    """The rows as a table of Markdown, the first as its header; empty for no rows."""
    texts = [[_in_cell(cell) for cell in row] for row in rows]
    if not texts:
        return ""
    width = max(map(len, texts))
    lines = ["| " + " | ".join(row + [""] * (width - len(row))) + " |" for row in texts]
    lines.insert(1, "|" + " --- |" * width)
    return "\n".join(lines)


def _in_cell(cell: Cell) -> str:
    return " ".join(shown(cell).split()).replace("|", "\\|")
