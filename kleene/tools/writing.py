"""Effects on files: ``write_file``, ``append_file``, ``patch``, ``mkdir``, ``remove``.

Each path goes through the jail, which knows what may be written and puts a file in its place in one step. Text keeps the line ends of the file
that it goes into.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

from kleene.planner.errors import ToolError
from kleene.tools.base import Row, Work
from kleene.tools.building import built
from kleene.tools.effects import counted, shortened
from kleene.tools.jail import Stamp, too_large
from kleene.tools.patching import line_end, patched, unified

_OFFICE = (".docx", ".xlsx")


def describe_write_file(given: tuple[Any, ...]) -> str:
    return f"write {_shown(given)} ({counted(_at(given, 1))})"


def describe_append_file(given: tuple[Any, ...]) -> str:
    return f"append to {_shown(given)} ({counted(_at(given, 1))})"


def describe_patch(given: tuple[Any, ...]) -> str:
    return f"patch {_shown(given)}: {shortened(str(_at(given, 1)), 40)!r} -> {shortened(str(_at(given, 2)), 40)!r}"


def describe_mkdir(given: tuple[Any, ...]) -> str:
    return f"make folder {_shown(given)}"


def describe_remove(given: tuple[Any, ...]) -> str:
    return f"remove {_shown(given)}"


def _at(given: tuple[Any, ...], place: int) -> Any:
    return given[place] if len(given) > place else None


def _shown(given: tuple[Any, ...]) -> str:
    return shortened(str(_at(given, 0)), 200)


# What they do


def write_file(work: Work, arguments: tuple[Any, ...]) -> Iterable[Row]:
    path, text = arguments
    data = built(path, text, work.check)
    if data is None:
        data = _encoded(_as_in(work, path, text))
    if len(data) > work.limits.file_bytes:
        raise too_large(path, len(data), work.limits.file_bytes)
    work.workspace.write(path, data)
    yield (path, len(data))


def append_file(work: Work, arguments: tuple[Any, ...]) -> Iterable[Row]:
    path, text = arguments
    if PurePosixPath(path).suffix.lower() in _OFFICE:
        raise ToolError(f"nothing can be appended to {path}", kind="unsupported", hint="write it anew with write_file")
    data = _encoded(_as_in(work, path, text))
    work.workspace.append(path, data, limit=work.limits.file_bytes)
    yield (path, len(data))


def patch(work: Work, arguments: tuple[Any, ...]) -> Iterable[Row]:
    path, old, new = arguments
    before, stamp = _text_of(work, path)
    done = patched(before, old, new, name=path)
    data = _encoded(done.text)
    if len(data) > work.limits.file_bytes:
        raise too_large(path, len(data), work.limits.file_bytes)
    work.workspace.write(path, data, expected=stamp)
    yield (path, 1, unified(before, done.text, path))


def mkdir(work: Work, arguments: tuple[Any, ...]) -> Iterable[Row]:
    work.workspace.mkdir(arguments[0])
    yield (arguments[0],)


def remove(work: Work, arguments: tuple[Any, ...]) -> Iterable[Row]:
    work.workspace.remove(arguments[0])
    yield (arguments[0],)


# Text


def _text_of(work: Work, path: str) -> tuple[str, Stamp]:
    """A file's text so that encoding it again gives its bytes, also where they are no UTF-8; and its state when it was read."""
    with work.workspace.open(path) as file:
        data, stamp = file.read(work.limits.file_bytes), file.stamp
    if b"\0" in data[:8192]:
        raise ToolError(f"{path} is no text", kind="unsupported", hint="write it anew with write_file")
    return data.decode("utf-8", "surrogateescape"), stamp


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _as_in(work: Work, path: str, text: str) -> str:
    """The text with the line ends of the file that is there, where it has no CR of its own."""
    status = work.workspace.status(path)
    if "\r" in text or "\n" not in text or status is None or status.st_size > work.limits.file_bytes:
        return text
    try:
        before, _ = _text_of(work, path)
    except ToolError:
        return text  # a folder, a pipe, no text: writing it says what is wrong
    return text.replace("\n", "\r\n") if line_end(before) == "\r\n" else text
