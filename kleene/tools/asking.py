"""One use of a tool, within its limits: what stands between the engine and ``Tool.run``."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from kleene.planner.errors import KleeneError, ToolError
from kleene.tools.base import Row, Tool, Work
from kleene.udfs.text import clean

CHECKED_ROWS = 256
"""So many rows pass between two looks at the clock."""


def ask(tool: Tool, work: Work, arguments: Sequence[Any]) -> Iterator[Row]:
    """The rows of one use, as they come. A NULL in a required argument gives none.

    Text that Python can hold and UTF-8 cannot is mended. Raises ``ToolError``: too large above the limits of rows or bytes, timed out after
    its seconds, invalid arguments for a wrong number of them; ``Cancelled``; whatever else the tool raises becomes a ``ToolError`` too.
    """
    given = (*arguments, *[None] * (len(tool.params) - len(arguments)))
    if len(given) > len(tool.params) or len(arguments) < tool.required:
        raise ToolError(f"{tool.name} takes {_counted(tool)}, got {len(arguments)}", kind="invalid arguments")
    if any(value is None for value in given[: tool.required]):
        return
    if tool.seconds is not None:
        work = attrs.evolve(work, limits=attrs.evolve(work.limits, seconds=tool.seconds))
    work = attrs.evolve(work, deadline=min(work.deadline, time.monotonic() + work.limits.seconds))
    work.check()
    try:
        yield from _bounded(tool, work, given)
    except KleeneError:
        raise
    except (OSError, ValueError, RecursionError, MemoryError, ArithmeticError, LookupError) as error:
        raise ToolError(f"{tool.name}: {str(error) or type(error).__name__}") from error


def _bounded(tool: Tool, work: Work, given: tuple[Any, ...]) -> Iterator[Row]:
    limits, held = work.limits, 0
    for count, row in enumerate(tool.run(work, given), 1):
        if count % CHECKED_ROWS == 0:
            work.check()
        if count > limits.rows:
            raise _too_much(tool, f"{limits.rows:,} rows")
        cleaned: list[Any] = []
        for value in row:
            if type(value) is str and value.isascii():  # most of what is read
                held += len(value)
            else:
                value = _clean(value)
                held += _size(value)
            cleaned.append(value)
        if held > limits.result_bytes:
            raise _too_much(tool, f"{limits.result_bytes:,} bytes")
        yield tuple(cleaned)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(str(key)): _clean(item) for key, item in value.items()}
    return value


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode())
    if isinstance(value, dict):
        return sum(_size(str(key)) + _size(item) for key, item in value.items()) + 8
    return sum(map(_size, value)) + 8 if isinstance(value, list) else 8


def _too_much(tool: Tool, limit: str) -> ToolError:
    return ToolError(
        f"{tool.name} gives more than {limit}",
        kind="too large",
        hint="narrow its arguments: a glob, a range, a pattern",
    )


def _counted(tool: Tool) -> str:
    least, most = tool.required, len(tool.params)
    return f"{most} argument{'' if most == 1 else 's'}" if least == most else f"{least} to {most} arguments"
