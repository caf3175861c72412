"""Writes results, errors and the footer for a model: exact, compact, and the same text for the same outcome.

A table is a header (`name TYPE | name TYPE`), one line a row and the count of rows. Twenty rows are shown, or as many more, up to 100, as
have 4,000 characters in all; a cell has 200 characters, or more where few rows leave room: the cells of a column share 20 x 200. What is over by less than a quarter is
shown whole, as cutting it would save little and cost a turn. Rows too
wide to read as lines are written as records, a line a column. A cut cell shows its beginning and its end, or, where the statement looked for
a text that stands between them, what is around that.
"""

from __future__ import annotations

import re
from itertools import accumulate

import attrs

from kleene.planner.errors import KleeneError, caret, number
from kleene.planner.identifiers import written
from kleene.planner.specs import BudgetLimits, Usage
from kleene.session.places import finder
from kleene.session.text import count, middle, one_line
from kleene.session.values import cell, is_cut, literal, plain, window
from kleene.session.world import Outcome


@attrs.frozen
class Limits:
    """How much of a result is shown: rows, characters a cell, and characters of the whole table. ``line`` is the widest row of the line form.
    More rows than ``rows`` are shown, up to ``most``, as long as all together have at most ``fill`` characters."""

    rows: int = 20
    most: int = 100
    fill: int = 4_000
    cell: int = 200
    table: int = 12_000
    line: int = 480

    def width(self, rows: int) -> int:
        """Characters for each cell when ``rows`` rows are shown."""
        return max(self.cell, self.rows * self.cell // max(1, rows))


TYPE = 60
"""Characters of a type: a STRUCT of ENUMs can take more than the rows."""

SHORT = Limits(rows=3, most=3, cell=100, table=1_000)
"""For the later results of a turn that has shown a great deal already."""


def outcome(result: Outcome, limits: Limits = Limits()) -> str:
    """A statement's outcome: its message or its rows, what its calls cost, and its warnings."""
    lines = _rows(result, limits) if result.columns else [middle(result.message or "done", limits.table)]
    if result.usage.requests or result.usage.memo_hits:
        lines.append(spent(result.usage))
    lines.extend(f"warning: {one_line(w, 300)}" for w in result.warnings)
    return "\n".join(lines)


def in_brief(result: Outcome) -> str:
    """A result that the turn has no room left for: what there is, without its rows.

    >>> in_brief(Outcome(columns=("a",), types=("BIGINT",), rows=[(1,)], row_count=1))
    '1 row, not shown: a turn shows only so much'
    """
    if not result.columns:
        return one_line(result.message or "done", 100)
    return f"{count(result.row_count, 'row')}, not shown: a turn shows only so much"


def spent(usage: Usage) -> str:
    """What a statement's calls cost, on one line.

    >>> spent(Usage(requests=3, memo_hits=2, input_tokens=1200, output_tokens=4, dollars=0.0012))
    '3 calls, 2 from memo, 1,204 tokens, $0.0012'
    """
    parts = [count(usage.requests, "call")]
    if usage.memo_hits:
        parts.append(f"{usage.memo_hits:,} from memo")
    parts.append(count(usage.tokens, "token"))
    parts.append("unpriced" if usage.unpriced and not usage.dollars else f"${number(usage.dollars)}")
    return ", ".join(parts)


def footer(turn: int, max_turns: int, usage: Usage, remaining: BudgetLimits) -> str:
    """Where the session stands: turn, calls, tokens and dollars, each used/limit where there is a limit.

    Time is left out: the same run gives the same text.
    """
    calls = _against(usage.requests, remaining.calls, "call")
    if usage.memo_hits:
        calls += f" (and {usage.memo_hits:,} from memo)"
    dollars = f"${number(round(usage.dollars, 6))}"
    if remaining.dollars is not None:
        dollars += f"/${number(round(usage.dollars + remaining.dollars, 6))}"
    return " · ".join([f"turn {turn}/{max_turns}", calls, _against(usage.tokens, remaining.tokens, "token"), dollars])


def error(problem: KleeneError, source: str | None = None) -> str:
    """An error in one to four lines: what, where (a line and carets, if the place is known), and what works instead.

    ``source`` is the text the span points into where the error does not carry it.
    """
    lines = [f"error: {one_line(problem.message, 800)}"]
    text = problem.source if problem.source is not None else source
    if problem.span is not None and text is not None:
        lines.extend(caret(text, problem.span))
    if problem.hint:
        lines.append(f"hint: {one_line(problem.hint, 500)}")
    return "\n".join(lines)


def _against(used: int, left: int | None, noun: str) -> str:
    return count(used, noun) if left is None else f"{used:,}/{used + max(0, left):,} {noun}s"


def _rows(result: Outcome, limits: Limits) -> list[str]:
    place, short = finder(result.sought), limits is SHORT
    shown = result.rows[: max(limits.rows, _fitting(result, limits))]
    lines: list[str] = []
    while True:
        width = limits.width(min(len(shown), result.row_count or len(shown)))
        lines = _lines(result, shown, width, limits, place)
        if len(shown) <= 1 or sum(len(line) + 1 for line in lines) <= limits.table:
            break
        shown = shown[: max(1, len(shown) * 3 // 4)]
        # Fewer rows must not mean wider cells here: the table is already too large.
        limits = attrs.evolve(limits, rows=len(shown))
    lines.extend(_rest(result, len(shown)))
    lines.extend(_cut_note(result, shown, width, place, short=short))
    return lines


def _fitting(result: Outcome, limits: Limits) -> int:
    """How many rows from the first have no more than ``fill`` characters in all, each cell cut as it would be; all where they are hardly more."""
    rows = result.rows[: limits.most]
    sizes = list(accumulate(sum(3 + min(limits.cell, _size(v)) for v in row) for row in rows))
    if not sizes or (len(rows) == result.row_count and sizes[-1] <= limits.fill + limits.fill // 4):
        return limits.most
    return sum(size <= limits.fill for size in sizes)


def _size(value: object) -> int:
    return len(value if isinstance(value, str) else plain(value))


def _lines(
    result: Outcome, shown: list[tuple[object, ...]], width: int, limits: Limits, place: re.Pattern[str] | None
) -> list[str]:
    header = " | ".join(f"{_name(n)} {one_line(t, TYPE)}" for n, t in zip(result.columns, result.types, strict=True))
    table = [[cell(v, t, width=width, place=place) for v, t in zip(row, result.types, strict=True)] for row in shown]
    lines = [" | ".join(row) for row in table]
    if len(result.columns) == 1 or max(map(len, lines), default=0) <= limits.line:
        return [header, *lines]
    names = [_name(n) for n in result.columns]
    records = [header]
    for position, row in enumerate(table, 1):
        records.append(f"[row {position}]")
        records.extend(f"{name}: {value}" for name, value in zip(names, row, strict=True))
    return records


def _rest(result: Outcome, shown: int) -> list[str]:
    more = result.row_count - shown
    if more <= 0:
        return [count(result.row_count, "row")]
    way = f"with an ORDER BY, LIMIT and OFFSET show what follows row {shown:,}; or aggregate"
    return [f"... {more:,} more {'row' if more == 1 else 'rows'} of the statement's {result.row_count:,}: {way}"]


def _cut_note(
    result: Outcome, shown: list[tuple[object, ...]], width: int, place: re.Pattern[str] | None, *, short: bool
) -> list[str]:
    cut = [i for i in range(len(result.columns)) if any(is_cut(row[i], width=width) for row in shown)]
    if not cut:
        return []
    if short:
        return ["cut cells: this turn has shown a great deal already; the next turn shows more"]
    whole = Limits().width(1)
    texts = [i for i in cut if result.types[i].upper() == "VARCHAR"]
    if not texts:
        return [f"cut cells: fewer rows show more of each; a part of one shows {whole:,} characters"]
    name, named = written(result.columns[texts[0]]), ""
    if "(" in name:
        name, named = "t", "name it (AS t), then "
    if len(shown) > 1:
        return [
            f"cut cells: fewer rows show more of each; {named}substr({name}, 1, {whole}) of one row shows {whole:,} characters"
        ]
    text = str(shown[0][texts[0]])
    length, tail = len(text), width // 4
    found = window(text, width, place)
    if found is not None:
        begin, end = found
        return [
            f"cut: characters {begin + 1:,} to {end:,} of {length:,} are shown, around what was looked for; "
            f"{named}substr({name}, {end + 1}, {whole}) shows what follows"
        ]
    begin, end = width - tail + 1, length - tail
    return [
        f"cut: characters {begin:,} to {end:,} of {length:,} are hidden; {named}substr({name}, {begin}, {whole}) shows what follows"
    ]


def _name(name: str) -> str:
    """A column's name as a header shows it: as it must be written, except the text of an expression, which nobody writes again."""
    if "\n" in name:
        return one_line(literal(name), 80)
    return one_line(name if "(" in name else written(name), 80)
