"""A table for people: it fits the screen, and nothing in a cell can drive the terminal."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import TextIO

import attrs

from kleene.rendering.rows import Cells, Relation, as_text, is_number

# Control characters (escape sequences among them), line and paragraph separators, and what turns the direction of writing.
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")
SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
LEAST = 6  # the narrowest a column gets before rows are printed as records


@attrs.frozen
class Limits:
    """``width`` in terminal columns and ``rows`` are None for all there is. ``color`` dims NULL, which is a word otherwise.

    ``whole``: each value on lines of its own, nothing cut. ``rest`` is what gives the rows that are not shown.
    """

    width: int | None = None
    rows: int | None = None
    color: bool = False
    whole: bool = False
    rest: str = "--format csv prints all"


def table_lines(relation: Relation, limits: Limits) -> Iterator[str]:
    """The lines of a table: header, rows, and how many rows there are. Rows that are too many to fit side by side become records."""
    total = relation.to_arrow_table().num_rows
    rows = first(as_text(relation), total if limits.rows is None else limits.rows)
    if limits.whole:
        yield from whole_records([visible(name) for name in relation.columns], rows, limits)
        yield footer(total, len(rows), limits.rest)
        return
    cells = [tuple(None if c is None else visible(c) for c in row) for row in rows]
    head = [visible(name) for name in relation.columns]
    widths = fit(natural(head, cells), limits.width)
    if widths is None:
        yield from records(head, cells, limits)
    else:
        yield from grid(head, cells, widths, [is_number(t) for t in relation.types], limits)
    yield footer(total, len(cells), limits.rest)


def show_result(result: Relation, limit: int = 40, out: TextIO | None = None) -> None:
    """Print the first ``limit`` rows of a result, as wide as the terminal where there is one. Nothing is printed of one without columns."""
    stream = sys.stdout if out is None else out
    if not result.columns:
        return
    for line in result_lines(result, limit, stream):
        print(line, file=stream)


def result_lines(result: Relation, limit: int, stream: TextIO) -> Iterator[str]:
    """The first ``limit`` rows of a result as a table for ``stream``."""
    width = shutil.get_terminal_size().columns if stream.isatty() else None
    return table_lines(result, Limits(width, limit, rest="fetchall() has all"))


def first(batches: Iterator[list[Cells]], count: int) -> list[Cells]:
    rows: list[Cells] = []
    for batch in batches:
        rows += batch
        if len(rows) >= count:
            break
    return rows[:count]


def footer(total: int, shown: int, rest: str = Limits().rest) -> str:
    """
    >>> footer(1, 1), footer(1234, 100)
    ('1 row', '1,234 rows: the first 100 are shown, --format csv prints all')
    """
    rows = f"{total:,} row{'' if total == 1 else 's'}"
    return rows if shown >= total else f"{rows}: the first {shown:,} are shown, {rest}"


def visible(text: str) -> str:
    """The text with control characters as escapes.

    >>> visible("one" + chr(10) + "two" + chr(27) + "[2J")
    'one\\\\ntwo\\\\x1b[2J'
    """
    return UNSAFE.sub(
        lambda m: SHORT.get(m[0]) or (f"\\x{ord(m[0]):02x}" if ord(m[0]) < 256 else f"\\u{ord(m[0]):04x}"), text
    )


def natural(head: Sequence[str], rows: Sequence[Cells]) -> list[int]:
    from rich.cells import cell_len

    return [
        max([cell_len(name), *(4 if row[i] is None else cell_len(row[i] or "") for row in rows)])
        for i, name in enumerate(head)
    ]


def fit(widths: list[int], width: int | None) -> list[int] | None:
    """Widths that fit, the widest columns cut first; None where even narrow columns do not.

    >>> fit([3, 50, 20], 40), fit([3, 50, 20], None), fit([50, 50], 12)
    ([3, 14, 13], [3, 50, 20], None)
    """
    if width is None:
        return widths
    room = width - 3 * len(widths) - 1
    if sum(min(w, LEAST) for w in widths) > room:
        return None
    cap = max(widths, default=0)
    while sum(min(w, cap) for w in widths) > room:
        cap -= 1
    spare = room - sum(min(w, cap) for w in widths)
    out = []
    for w in widths:
        extra = min(spare, max(0, w - cap))
        out.append(min(w, cap) + extra)
        spare -= extra
    return out


def cut(text: str, width: int) -> str:
    """The text at most ``width`` terminal columns wide, with an ellipsis where it was cut.

    >>> cut("abcdef", 4), cut("日本語", 4), cut("abc", 3)
    ('abc…', '日…', 'abc')
    """
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…"


def padded(cell: str | None, width: int, right: bool, color: bool) -> str:
    from rich.cells import cell_len

    text = cut("NULL" if cell is None else cell, width)
    space = " " * (width - cell_len(text))
    if cell is None and color:
        text = f"\x1b[2m{text}\x1b[0m"
    return space + text if right else text + space


def grid(
    head: Sequence[str], rows: Sequence[Cells], widths: Sequence[int], right: Sequence[bool], limits: Limits
) -> Iterator[str]:
    def rule(left: str, mid: str, end: str) -> str:
        return left + mid.join("─" * (w + 2) for w in widths) + end

    def line(cells: Sequence[str | None]) -> str:
        inner = " │ ".join(padded(c, w, r, limits.color) for c, w, r in zip(cells, widths, right, strict=True))
        return f"│ {inner} │"

    yield rule("┌", "┬", "┐")
    yield line(head)
    yield rule("├", "┼", "┤")
    for row in rows:
        yield line(row)
    yield rule("└", "┴", "┘")


def records(head: Sequence[str], rows: Sequence[Cells], limits: Limits) -> Iterator[str]:
    """One line a value, one block a row."""
    from rich.cells import cell_len

    name_width = min(max(map(cell_len, head), default=0), max(LEAST, (limits.width or 80) // 3))
    value_width = max(LEAST, (limits.width or 80) - name_width - 3)
    for n, row in enumerate(rows, 1):
        yield f"── row {n} " + "─" * max(0, min(40, (limits.width or 80) - 10))
        for name, cell in zip(head, row, strict=True):
            value = padded(cell, value_width, False, limits.color).rstrip()
            yield f"{padded(name, name_width, False, False)} │ {value}".rstrip()


def whole_records(head: Sequence[str], rows: Sequence[Cells], limits: Limits) -> Iterator[str]:
    """One block a row, each value in full: its own lines, folded at the width."""
    from rich.cells import cell_len

    name_width = min(max(map(cell_len, head), default=0), max(LEAST, (limits.width or 80) // 3))
    room = None if limits.width is None else max(LEAST, limits.width - name_width - 3)
    for n, row in enumerate(rows, 1):
        yield f"── row {n} " + "─" * max(0, min(40, (limits.width or 80) - 10))
        for name, cell in zip(head, row, strict=True):
            label = padded(name, name_width, False, False)
            if cell is None:
                yield f"{label} │ {padded(None, 4, False, limits.color)}"
                continue
            for line in folded(cell, room):
                yield f"{label} │ {line}".rstrip()
                label = " " * name_width


def folded(text: str, width: int | None) -> Iterator[str]:
    """The lines of a text, safe to print, each at most ``width`` terminal columns.

    >>> list(folded("one" + chr(10) + "日本語です", 4))
    ['one', '日本', '語で', 'す']
    """
    from rich.cells import chop_cells

    for line in text.split("\n"):
        safe = visible(line)
        yield from (chop_cells(safe, width) or [""]) if width is not None and safe else [safe]
