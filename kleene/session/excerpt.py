"""Shows a loaded table in the first message: whole when it is short, which saves the turn that would read it, else its first rows."""

from __future__ import annotations

from kleene.session import render
from kleene.session.world import Outcome

WHOLE = 12_000
"""Characters up to which a table is shown whole."""

FIRST = render.Limits(rows=3, most=3, cell=200, table=2_000, line=480)
ALL = render.Limits(rows=1_000, most=1_000, cell=WHOLE, table=4 * WHOLE, line=480)


def excerpt(name: str, table: Outcome) -> str:
    """The table's rows under a heading. ``table`` is the outcome of ``SELECT * FROM name`` with its first rows, in the order of the table.

    >>> print(excerpt("ctx", Outcome(columns=("ordinal", "text"), types=("BIGINT", "VARCHAR"), rows=[(1, "a"), (2, "b")], row_count=2)))
    All of ctx:
    ordinal BIGINT | text VARCHAR
    1 | a
    2 | b
    2 rows
    """
    if not table.row_count:
        return ""
    whole = len(table.rows) == table.row_count <= ALL.rows and _characters(table) <= WHOLE
    return f"{'All' if whole else 'The beginning'} of {name}:\n{render.outcome(table, ALL if whole else FIRST)}"


def _characters(table: Outcome) -> int:
    return sum(len(v) if isinstance(v, str) else len(str(v)) for row in table.rows for v in row)
