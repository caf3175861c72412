"""Values on their way between SQL and tools: arguments from the text that a lookup's key is, rows as the JSON that DuckDB casts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from kleene.planner.specs import Param
from kleene.planner.tools import is_nested
from kleene.udfs.text import clean

AT_ONCE = 1_000
"""Rows that are written as JSON at a time: by the encoder's C part, which makes one text of them."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_INTEGERS = frozenset(
    [
        "TINYINT",
        "SMALLINT",
        "INTEGER",
        "INT",
        "BIGINT",
        "HUGEINT",
        "UTINYINT",
        "USMALLINT",
        "UINTEGER",
        "UBIGINT",
        "UHUGEINT",
        "LONG",
        "SHORT",
    ]
)
_FLOATS = frozenset(["DOUBLE", "FLOAT", "REAL", "FLOAT4", "FLOAT8"])
_TEXTS = frozenset(["VARCHAR", "TEXT", "STRING", "CHAR", "BPCHAR"])


def argument(text: str, kind: str) -> Any:
    """The Python value of an argument of a DuckDB type from its text; types without one in Python stay text.

    >>> argument("3", "BIGINT"), argument("true", "BOOLEAN"), argument('["a"]', "VARCHAR[]"), argument("2026-01-31", "DATE")
    (3, True, ['a'], '2026-01-31')
    """
    name = kind.strip().upper().partition("(")[0]
    if name in _TEXTS:
        return text
    if is_nested(kind):
        return json.loads(text)
    if name in _INTEGERS:
        return int(text)
    if name in _FLOATS:
        return float(text)
    if name in ("BOOLEAN", "BOOL"):
        return text == "true"
    return text


def rows_json(columns: Sequence[Param], rows: Iterable[Sequence[Any]]) -> str:
    """The rows as a JSON array of objects. Raises ``ValueError`` where a row has too few or too many values.

    >>> rows_json((Param("path", "VARCHAR"), Param("size", "BIGINT")), [("a.md", 3), ("b.md", None)])
    '[{"path":"a.md","size":3},{"path":"b.md","size":null}]'
    """
    names = [c.name for c in columns]
    pieces: list[str] = []
    held: list[dict[str, Any]] = []
    for row in rows:
        if len(row) != len(names):
            raise ValueError(f"a row has {len(row)} values for {len(names)} columns")
        held.append({name: v if type(v) is int else _plain(v) for name, v in zip(names, row, strict=True)})
        if len(held) == AT_ONCE:
            pieces.append(_ENCODER.encode(held)[1:-1])
            held = []
    if held:
        pieces.append(_ENCODER.encode(held)[1:-1])
    return "[" + ",".join(pieces) + "]"


def _plain(value: Any) -> Any:
    """The value as strict JSON has it: NaN, the infinities, times and decimals as texts, text without what UTF-8 cannot hold."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return value if value.isascii() else clean(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {clean(str(k)): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(v) for v in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    return clean(str(value))
