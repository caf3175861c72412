"""Results and plans as HTML for notebooks. Every value is escaped, nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from kleene.rendering.rows import Relation, as_text, is_number
from kleene.rendering.table import visible
from kleene.rendering.usage import usage_line

if TYPE_CHECKING:
    from kleene.planner.specs import Usage

ROWS = 50
CHARACTERS = 1_000  # of a cell
SMALL = "color:gray;font-size:smaller"


class ResultLike(Relation, Protocol):
    @property
    def usage(self) -> Usage: ...

    @property
    def warnings(self) -> Sequence[str]: ...

    @property
    def message(self) -> str | None: ...

    @property
    def plan(self) -> str | None: ...


def result_html(result: ResultLike, limit: int = ROWS) -> str:
    """Rows (the first ``limit``), how many there are, usage and warnings. Types stand in the headers' titles."""
    if result.plan is not None:
        return f"<pre>{escape(result.plan)}</pre>"
    parts = []
    if result.message is not None:
        parts.append(f"<p>{escape(result.message)}</p>")
    elif result.columns:
        parts += table_html(result, limit)
    parts += [f'<p style="color:darkorange">warning: {escape(w)}</p>' for w in result.warnings]
    line = usage_line(result.usage)
    if line:
        parts.append(f'<p style="{SMALL}">{escape(line)}</p>')
    return "<div>" + "".join(parts) + "</div>"


def table_html(relation: Relation, limit: int) -> list[str]:
    total = relation.to_arrow_table().num_rows
    right = [";text-align:right" if is_number(t) else ";text-align:left" for t in relation.types]
    head = "".join(
        f'<th title="{escape(type_)}" style="white-space:pre{side}">{escape(visible(name))}</th>'
        for name, type_, side in zip(relation.columns, relation.types, right, strict=True)
    )
    rows = []
    for row in islice((row for batch in as_text(relation) for row in batch), limit):
        cells = "".join(
            f'<td style="white-space:pre-wrap{side}">{cell_html(c)}</td>' for c, side in zip(row, right, strict=True)
        )
        rows.append(f"<tr>{cells}</tr>")
    said = f"{total:,} row{'' if total == 1 else 's'}"
    if total > len(rows):
        said += f": the first {len(rows):,} are shown"
    return [
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>",
        f'<p style="{SMALL}">{said}</p>',
    ]


def cell_html(cell: str | None) -> str:
    """
    >>> cell_html("<b>&"), cell_html(None)
    ('&lt;b&gt;&amp;', '<span style="color:gray">NULL</span>')
    """
    if cell is None:
        return '<span style="color:gray">NULL</span>'
    shown = cell if len(cell) <= CHARACTERS else cell[:CHARACTERS] + "…"
    return escape("\n".join(visible(line) for line in shown.split("\n")))


def plan_html(text: str, duckdb_sql: str) -> str:
    """A plan's text, and below it, folded, what DuckDB is given."""
    return f"<div><pre>{escape(text)}</pre><details><summary>DuckDB SQL</summary><pre>{escape(duckdb_sql)}</pre></details></div>"


def live_bundle(text: str) -> dict[str, str]:
    """Progress as a notebook shows it, and as text where it shows no HTML."""
    return {"text/plain": text, "text/html": f'<pre style="{SMALL}">{escape(text)}</pre>'}
