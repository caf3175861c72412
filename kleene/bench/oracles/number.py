"""``number``: the first cell of the first row, of which digits, points and minus signs are kept, within an absolute tolerance."""

from __future__ import annotations

import re
from decimal import Decimal

from kleene.bench.oracles.answer import Answer, Verdict, number_of
from kleene.bench.verify import Number


def number(verify: Number, answer: Answer) -> Verdict:
    """A cell that is a number already is taken as it is: of 1e-7 the signs alone would make another."""
    cell = answer.rows[0][0] if answer.rows and answer.rows[0] else None
    found = number_of(cell)
    if found is None and isinstance(cell, str):
        found = number_of(re.sub(r"[^0-9.-]", "", cell))
    if found is None:
        return Verdict(False, f"{_short(cell)} is no number")
    # In decimals: of 0.3 and 0.1 within 0.2, floats would say no.
    near = abs(found - Decimal(repr(verify.value))) <= Decimal(repr(verify.tolerance))
    return Verdict(near, "" if near else f"{found} instead of {verify.value:g} ± {verify.tolerance:g}")


def _short(cell: object) -> str:
    return "no cell" if cell is None else repr(str(cell)[:60])
