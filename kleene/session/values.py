"""Writes one DuckDB value as a model reads it: exact, on one line, and never two values alike.

Numbers are not rounded. A text that can be read as nothing else stands bare; any other is an SQL literal: '' and 'NULL' are texts, NULL is not,
and a text with line ends or other control characters is written E'...' with escapes.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from kleene.session.text import middle

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
SHORTEST_TEXT = 50  # characters of a list's texts below which rather fewer of them are shown
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
# A bare text that would read as another value: NULL, or the whole of a quoted literal.
_AMBIGUOUS = re.compile(r"\A(?:NULL|\s.*|.*\s|[eE]?'.*)\Z", re.DOTALL)


def cell(value: Any, type_name: str = "", *, width: int = 200, place: re.Pattern[str] | None = None) -> str:
    """One value, at most about ``width`` characters of it. A longer text keeps its head and its tail, and says how long it is; where
    ``place`` matches in neither, what stands around its first match is kept instead."""
    if isinstance(value, str):
        return _cut_text(value, width, place) if is_cut(value, width=width) else literal(value)
    if is_cut(value, width=width) and is_list_of_texts(value):
        return _cut_list(value, width, place)
    return middle(plain(value, type_name), width) if is_cut(value, width=width) else plain(value, type_name)


def is_cut(value: Any, *, width: int) -> bool:
    """True when ``cell`` would leave out a part of the value: what is longer by less than a quarter is shown whole."""
    return len(value if isinstance(value, str) else plain(value)) > width + width // 4


def window(text: str, width: int, place: re.Pattern[str] | None) -> tuple[int, int] | None:
    """The part of a cut text that is shown in place of its head and tail: where they would hide the first match of ``place``."""
    hit = place.search(text) if place is not None else None
    if hit is None or hit.end() <= width - width // 4 or hit.start() >= len(text) - width // 4:
        return None
    begin = min(max(0, hit.start() - width // 4), len(text) - width)
    return begin, begin + width


def literal(text: str) -> str:
    """A text, bare where that is unambiguous.

    >>> [literal(t) for t in ("it's", "", "NULL", "a\\nb", "a | b")]
    ["it's", "''", "'NULL'", "E'a\\\\nb'", "'a | b'"]
    """
    if _CONTROL.search(text):
        return f"E'{_escape(text)}'"
    if not text or " | " in text or _AMBIGUOUS.match(text):
        return _quote(text)
    return text


def plain(value: Any, type_name: str = "") -> str:
    """A value that is not a top-level text, in full, in DuckDB's own spelling where it has one."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float(value, single=type_name.upper() in ("FLOAT", "REAL", "FLOAT4"))
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "".join(chr(b) if 32 <= b < 127 and b not in (39, 92) else f"\\x{b:02X}" for b in bytes(value))
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_nested(k)}: {_nested(v)}" for k, v in value.items()) + "}"
    if isinstance(value, tuple) and hasattr(value, "nanoseconds"):
        return _interval(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_nested(v) for v in value) + "]"
    return str(value)


def _nested(value: Any) -> str:
    """Texts inside lists and structs are always quoted, as their commas and braces would else be read as structure."""
    if isinstance(value, str):
        return f"E'{_escape(value)}'" if _CONTROL.search(value) else _quote(value)
    return plain(value)


def _interval(value: Any) -> str:
    """Arrow's interval of months, days and nanoseconds, each part kept apart: a month is not 30 days."""
    seconds, nanos = divmod(abs(value.nanoseconds), 1_000_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}" + (
        f".{nanos // 1000:06}" if nanos else ""
    )
    parts = [
        f"{n} {unit}" if n in (1, -1) else f"{n} {unit}s"
        for n, unit in ((value.months, "month"), (value.days, "day"))
        if n
    ]
    if value.nanoseconds or not parts:
        parts.append(("-" if value.nanoseconds < 0 else "") + clock)
    return " ".join(parts)


def _float(value: float, *, single: bool) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if single:  # the shortest digits that give this 32-bit float again: 0.1, not 0.10000000149011612
        return next(
            d for p in (6, 7, 8, 9) if struct.pack("f", float(d := f"{value:.{p}g}")) == struct.pack("f", value)
        )
    return repr(value)


def _cut_text(text: str, width: int, place: re.Pattern[str] | None) -> str:
    found = window(text, width, place)
    if found is not None:
        shown = text[found[0] : found[1]]
        shown = f"E'{_escape(shown)}'" if _CONTROL.search(shown) else shown
        more = len(text) - found[1]
        return f"[after {found[0]:,} characters]… {shown}" + (f" …[{more:,} more]" if more else "")
    tail = width // 4
    head, end = text[: width - tail], text[len(text) - tail :]
    escaped = _CONTROL.search(head + end) is not None
    first, last = (f"E'{_escape(t)}'" if escaped else t for t in (head, end))
    return f"{first} …[{len(text):,} characters]… {last}"


def is_list_of_texts(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and all(isinstance(v, str) for v in value)
        and not hasattr(value, "nanoseconds")
    )


def _cut_list(texts: Sequence[str], width: int, place: re.Pattern[str] | None) -> str:
    """A list's texts share the width, each cut by itself: what is looked for stands in any of them."""
    shown = texts[: max(1, width // SHORTEST_TEXT)]
    each = width // len(shown)
    cells = [_cut_text(t, each, place) if is_cut(t, width=each) else _nested(t) for t in shown]
    more = len(texts) - len(shown)
    return "[" + ", ".join(cells) + (f", …{more:,} more" if more else "") + "]"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _escape(text: str) -> str:
    doubled = text.replace("\\", "\\\\").replace("'", "''")
    return _CONTROL.sub(lambda m: _ESCAPES.get(m[0]) or f"\\x{ord(m[0]):02x}", doubled)
