"""What it cost: by alias, by operator, by depth."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kleene.rendering.markup import Markup, join, tag
from kleene.rendering.report.figures import count, dollars, percent, seconds, tokens
from kleene.rendering.report.parts import meter, section, table
from kleene.reports.report import Cost, Costs, ToolUse


def costs(found: Costs) -> Markup:
    groups = (
        ("By alias and model", found.by_alias),
        ("By operator", found.by_operator),
        ("By depth", found.by_depth),
    )
    if not found.total.answers:
        return section("Cost", "cost", note="no call was made")
    note = "answers are what was needed; requests went to a model, retries and second tries included"
    return section(
        "Cost", "cost", *(join([tag("h3", title), cost_table(rows)]) for title, rows in groups if rows), note=note
    )


def cost_table(rows: Sequence[Cost], name: str = "") -> Markup:
    """One row a group; the bars are shares of dollars, or of requests where nothing had a price. A column of noughts is left
    out."""
    priced = any(r.dollars for r in rows)
    most = max((r.dollars or 0.0 if priced else r.requests for r in rows), default=0)

    def share(row: Cost) -> float:
        return ((row.dollars or 0.0) if priced else row.requests) / most if most else 0.0

    columns: list[tuple[str, Callable[[Cost], str], Callable[[Cost], object]]] = [
        ("answers", lambda r: count(r.answers), lambda r: True),
        ("from memo", lambda r: count(r.memo_hits), lambda r: r.memo_hits),
        ("memo share", lambda r: percent(r.memo_share), lambda r: r.memo_hits),
        ("shared", lambda r: count(r.coalesced), lambda r: r.coalesced),
        ("unknown", lambda r: count(r.unknown), lambda r: r.unknown),
        ("failed", lambda r: count(r.failed), lambda r: r.failed),
        ("requests", lambda r: count(r.requests) if priced else meter(share(r), count(r.requests)), lambda r: True),
        ("tokens", lambda r: tokens(r.tokens), lambda r: True),
        ("model time", lambda r: seconds(r.seconds), lambda r: True),
        ("dollars", lambda r: meter(share(r), dollars(r.dollars)), lambda r: priced),
    ]
    shown = [(head, cell) for head, cell, matters in columns if any(matters(r) for r in rows)]
    return table(
        (name, *(head for head, _ in shown)), ((r.name, *(cell(r) for _, cell in shown)) for r in rows), class_="costs"
    )


def tools(uses: Sequence[ToolUse]) -> Markup | None:
    if not uses:
        return None
    rows = ((u.name, count(u.uses), count(u.failed), seconds(u.seconds), f"{count(u.bytes_out)} B") for u in uses)
    return section("Tools", "tools", table(("", "uses", "failed", "time", "given back"), rows))
