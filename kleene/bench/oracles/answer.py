"""An answer as oracles see it, and what they say of it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any

import attrs


@attrs.frozen
class Answer:
    """The rows of a FINAL, as Python values of DuckDB's."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def cell(self, column: str, otherwise: int = 0) -> Any:
        """The first row's cell of a column of this name, whatever its case, else the one at ``otherwise``; None where there is none."""
        names = [name.casefold() for name in self.columns]
        at = names.index(column) if column in names else otherwise
        return self.rows[0][at] if self.rows and at < len(self.rows[0]) else None


@attrs.frozen
class Verdict:
    """``solved`` is None where a person must say; ``score`` from 0 to 1 where the oracle grades; ``detail`` says why, in a line."""

    solved: bool | None
    detail: str = ""
    score: float | None = None


_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_WIDE = Context(prec=5000)


def number_of(value: object) -> Decimal | None:
    """A cell as a number: what is one, or a text that is nothing else. NaN, infinities, booleans and NULL are none.

    >>> number_of(3), number_of(" 2.50 "), number_of("2 apples"), number_of(True)
    (Decimal('3'), Decimal('2.50'), None, None)
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, float):
        return Decimal(repr(value)) if math.isfinite(value) else None
    if isinstance(value, int):
        return _WIDE.create_decimal(value)
    if isinstance(value, Decimal):
        return value if value.is_finite() else None
    text = str(value).strip()
    return Decimal(text) if isinstance(value, str) and len(text) < 1000 and _NUMBER.fullmatch(text) else None


def normal(value: object) -> str | None:
    """A cell for comparing: trimmed and caseless text, numbers to six decimals; NULL stays None.

    >>> normal(" Harbor "), normal(2), normal("2.0"), normal(0.1 + 0.2), normal(-0.0), normal(None)
    ('harbor', '2', '2', '0.3', '0', None)
    """
    if value is None:
        return None
    number = number_of(value)
    if number is not None:
        text = f"{number.quantize(Decimal('0.000001'), ROUND_HALF_EVEN, _WIDE):f}".rstrip("0").rstrip(".")
        return "0" if text in ("-0", "") else text
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return f"[{', '.join(str(normal(item)) for item in value)}]"
    return str(value).strip().casefold()


def shown(rows: Sequence[Sequence[Any]], limit: int = 3) -> str:
    """The first rows in a line, for a verdict's detail."""
    cells = "; ".join(", ".join(" ".join(str(value).split())[:60] for value in row) for row in rows[:limit])
    more = f"; ... {len(rows):,} rows" if len(rows) > limit else ""
    return cells + more if rows else "no rows"
