"""What a statement would ask and cost, as one page. No call was made for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from kleene.rendering.markup import Markup, tag
from kleene.rendering.report.figures import NOTHING, count, dollars, noun, percent, tokens
from kleene.rendering.report.parts import block, folded, meter, section, table, tiles
from kleene.rendering.report.style import page


class SiteEstimate(Protocol):
    """A call of ``kleene.Plan`` and what is expected of it, as far as it is shown."""

    @property
    def site(self) -> Any: ...
    @property
    def calls(self) -> int | None: ...
    @property
    def hits(self) -> int: ...
    @property
    def tokens(self) -> int: ...
    @property
    def dollars(self) -> float: ...
    @property
    def exact(self) -> bool: ...
    @property
    def why(self) -> str: ...
    @property
    def uses(self) -> int: ...


class Plan(Protocol):
    """What is shown of a ``kleene.Plan``, which stands above this package."""

    @property
    def sites(self) -> Sequence[SiteEstimate]: ...
    @property
    def estimate(self) -> Any: ...
    @property
    def exact(self) -> bool: ...
    @property
    def rules(self) -> Sequence[str]: ...
    @property
    def order(self) -> Sequence[str]: ...
    @property
    def text(self) -> str: ...
    @property
    def duckdb_sql(self) -> str: ...


def plan_page(plan: Plan, sql: str) -> str:
    """The whole file: totals, each call with what its figures rest on, the rules, and the SQL that DuckDB is given."""
    estimate = plan.estimate
    hits = sum(s.hits for s in plan.sites)
    sign = "" if plan.exact else "≈ "
    share = hits / (hits + estimate.calls) if hits + estimate.calls else None
    figures = [
        ("calls", sign + count(estimate.calls), "exact" if plan.exact else "estimated"),
        ("memo share", percent(share), f"{noun(hits, 'answer')} known" if hits else None),
        ("tokens", "≈ " + tokens(estimate.tokens) if estimate.tokens else tokens(estimate.tokens), None),
        ("dollars", "unpriced" if estimate.unpriced else sign + dollars(estimate.dollars), None),
    ]
    first = next((line.strip() for line in sql.splitlines() if line.strip()), "statement")
    return page(
        f"{first[:80]} · Kleene",
        tag("h1", "What this statement would ask"),
        tag("p", "No call was made for this plan.", class_="note"),
        block(sql.strip()),
        tiles(figures),
        sites(plan),
        section("Text", "text", block(plan.text)),
        section("DuckDB SQL", "sql", folded("what DuckDB is given", block(plan.duckdb_sql))),
    )


def sites(plan: Plan) -> Markup:
    if not plan.sites:
        return section("Calls", "calls", note="no calls: DuckDB runs the statement as it is")
    priced = not plan.estimate.unpriced and any(s.dollars for s in plan.sites)
    most = max((weight(s, priced=priced) for s in plan.sites), default=0) or 1
    note = "rules: " + ", ".join(plan.rules) if plan.rules else None
    head = ("", "call", "asks", "rests on", "calls", "from memo", "tokens", "dollars")
    rows = (site(s, weight(s, priced=priced) / most, unpriced=plan.estimate.unpriced) for s in plan.sites)
    return section("Calls", "calls", table(head, rows, words=4), *order(plan), note=note)


def weight(site: SiteEstimate, *, priced: bool) -> float:
    return site.dollars if priced else float(site.calls or 0)


def site(found: SiteEstimate, share: float, *, unpriced: bool) -> tuple[str | None, ...]:
    spec = found.site.spec
    known = found.calls is not None and spec.session != "tool"
    calls = (
        f"{'' if found.exact else '≈ '}{count(found.calls)}"
        if known
        else f"{count(found.uses)} uses"
        if found.uses
        else NOTHING
    )
    return (
        f"#{found.site.number}",
        tag("code", found.site.label),
        "tool" if spec.session == "tool" else "child sessions" if spec.session else spec.alias,
        found.why or ("counted" if found.exact else ""),
        meter(share, calls),
        count(found.hits),
        tokens(found.tokens),
        NOTHING if unpriced else dollars(found.dollars),
    )


def order(plan: Plan) -> list[Markup]:
    return [tag("p", line, class_="note") for line in plan.order]
