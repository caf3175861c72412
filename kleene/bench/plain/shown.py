"""What calls give, as text for the model: cut where it is long, with what is left out said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

ROWS = 200
CHARACTERS = 12_000
"""Of one result; those of one turn share four times as much."""

CELL = 4_000
VARYING = ("duration_ms", "mtime")
"""Columns of tools that are others each time. They are left out, so that a replay finds what was recorded."""


def rows_text(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], limit: int = CHARACTERS, *, more: bool = False
) -> str:
    """Rows under a line of column names, tabs between; a row alone a line a column; one text alone as it is. ``more``: there are rows beyond these.

    >>> rows_text(("n", "text"), [(1, "a"), (2, None)])
    'n\\ttext\\n1\\ta\\n2\\tNULL'
    """
    if not columns:
        return "done"
    if len(rows) == 1 and len(columns) == 1 and not more:
        return cut("NULL" if rows[0][0] is None else str(rows[0][0]), limit)
    if len(rows) == 1 and not more:
        return cut("\n".join(f"{name}:{_beside(value)}" for name, value in zip(columns, rows[0], strict=True)), limit)
    lines, size = ["\t".join(columns)], 0
    for row in rows[:ROWS]:
        line = "\t".join(_cell(value) for value in row)
        if size + len(line) > limit and len(lines) > 1:
            break
        lines.append(line)
        size += len(line) + 1
    left = len(rows) - (len(lines) - 1)
    if left or more:
        lines.append(
            f"[cut: {f'{left:,} ' if left else ''}more rows{' and beyond' if left and more else ''}; narrow the call]"
        )
    return "\n".join(lines) if rows else f"{lines[0]}\n(no rows)"


def without_varying(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[list[str], list[list[Any]]]:
    """The columns that the same workspace always gives."""
    kept = [n for n, name in enumerate(columns) if name not in VARYING]
    return [columns[n] for n in kept], [[row[n] for n in kept] for row in rows]


def cut(text: str, limit: int) -> str:
    """A text's beginning and end, with how much is left out between.

    >>> cut("abcdefghij", 4)
    'ab\\n[cut: 6 characters are left out here]\\nij'
    """
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[cut: {len(text) - 2 * half:,} characters are left out here]\n{text[-half:]}"


def _beside(value: Any) -> str:
    text = "NULL" if value is None else str(value).rstrip("\n")
    return f"\n{text}\n" if "\n" in text else f" {text}"


def _cell(value: Any) -> str:
    text = "NULL" if value is None else str(value)
    return cut(text, CELL).replace("\t", " ").replace("\r", " ").replace("\n", " ⏎ ")
