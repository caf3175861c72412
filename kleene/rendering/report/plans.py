"""Statements with their plans: what was estimated beside what was counted."""

from __future__ import annotations

from collections.abc import Callable

from kleene.rendering.markup import Markup, tag
from kleene.rendering.report.costs import cost_table
from kleene.rendering.report.figures import count, dollars, noun, seconds, tokens
from kleene.rendering.report.parts import block, folded, section, table
from kleene.rendering.report.timeline import anchor_of
from kleene.reports.report import Node, Report, Statement

FAR = 3.0  # an estimate off by more than this factor is marked


def plans(report: Report) -> Markup | None:
    if not report.statements:
        return None
    return section(
        "Plans",
        "plans",
        *(plan(s, open_=i == 0) for i, s in enumerate(report.statements)),
        note="statements that called, in the order in which they ran: estimated → counted, and the calls of each place in the text",
    )


def plan(statement: Statement, *, open_: bool = False) -> Markup:
    first = next((line.strip() for line in statement.sql.splitlines() if line.strip()), "")
    return folded(
        f"{name_of(statement)} · {', '.join(figures_of(statement))} · {first[:90]}",
        block(statement.sql),
        tag("p", statement.error, class_="error") if statement.error else None,
        tag("p", f"rules: {statement.rules}", class_="note") if statement.rules else None,
        nodes(statement.nodes) if statement.nodes else None,
        cost_table(statement.sites, "call site") if statement.sites else None,
        runs(statement) if len(statement.runs) > 1 else None,
        rounds(statement) if statement.rounds else None,
        open_=open_,
        anchor=anchor_of(statement.key),
    )


def name_of(statement: Statement) -> str:
    return f"statement {statement.key.rpartition('.')[2]}"


def figures_of(statement: Statement) -> list[str]:
    """What a statement came to, in words."""
    said = [noun(statement.answers, "call")] if statement.answers else []
    said += [f"{count(statement.memo_hits)} from memo"] if statement.memo_hits else []
    said += [f"{count(statement.unknown)} unknown"] if statement.unknown else []
    said += [dollars(statement.dollars)] if statement.dollars else []
    said += [noun(statement.rows or 0, "row")] if statement.error is None and statement.seconds is not None else []
    said += ["failed"] if statement.error else []
    return [*said, seconds(statement.seconds) if statement.seconds is not None else "no end"]


def nodes(found: tuple[Node, ...]) -> Markup:
    """The plan as a table: the operators indented, each figure estimated and counted."""
    rows = []
    for node in found:
        name = tag("span", tag("b", node.operator), f" {node.detail}", style=f"padding-left:{node.depth * 14}px")
        rows.append(
            (
                name,
                both(node.est_rows, node.rows, count),
                both(node.est_calls, node.calls, count),
                both(node.est_tokens, node.tokens, tokens),
                both(node.est_dollars, node.dollars, dollars),
                count(node.memo_hits) if node.memo_hits is not None else None,
                seconds(node.seconds) if node.seconds is not None else None,
            )
        )
    return table(("operator", "rows", "calls", "tokens", "dollars", "from memo", "DuckDB's time"), rows, class_="plan")


def both(estimated: float | None, counted: float | None, form: Callable[[float | None], str]) -> Markup:
    """Estimated → counted, marked where they are far from each other; one of them alone where the other is not known."""
    if estimated is None and counted is None:
        return tag("span", "–", class_="dim")
    if estimated is None:
        return tag("span", form(counted))
    if counted is None:
        return tag("span", f"≈ {form(estimated)}", class_="dim")
    return tag(
        "span",
        tag("span", f"{form(estimated)} → ", class_="dim"),
        tag("b", form(counted)),
        class_="off" if far(estimated, counted) else None,
    )


def far(estimated: float, counted: float) -> bool:
    """Whether an estimate was wrong by more than ``FAR`` times; small counts are never far.

    >>> far(100, 100), far(100, 400), far(1, 4), far(400, 100)
    (False, True, False, True)
    """
    low, high = sorted((estimated, counted))
    return high > FAR * low and not (high == int(high) and high < 10)


def runs(statement: Statement) -> Markup:
    rows = ((str(i), count(n), count(a), seconds(s)) for i, (n, a, s) in enumerate(statement.runs, 1))
    return folded(
        f"DuckDB ran it {noun(len(statement.runs), 'time')}",
        table(("run", "answers missing", "answers known", "time"), rows),
    )


def rounds(statement: Statement) -> Markup:
    rows = ((f"{r.cte}, round {r.number}", count(r.delta_rows), count(r.total_rows)) for r in statement.rounds)
    return folded(noun(len(statement.rounds), "round"), table(("recursive table", "new rows", "rows so far"), rows))
