"""EXPLAIN ANALYZE: what a statement was estimated to cost beside what it did, on every operator of DuckDB's last run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from kleene.explain import Plan, count_of, who_answers
from kleene.guesses import SiteEstimate
from kleene.planner.callplan import CallPlan, Site
from kleene.planner.errors import number
from kleene.profile import Operator, Profiling, read_profile
from kleene.udfs.events import OperatorMeasured

if TYPE_CHECKING:
    from kleene.connection import Params
    from kleene.planner.specs import Usage
    from kleene.result import Result
    from kleene.runner import Running, Then

SPENT = """\
SELECT site, CAST(sum(CASE WHEN memo_hit OR coalesced THEN 0 ELSE greatest(attempts, 1) END) AS BIGINT),
    CAST(sum(CASE WHEN memo_hit THEN batch_size ELSE 0 END) AS BIGINT), CAST(sum(input_tokens + output_tokens) AS BIGINT),
    coalesce(sum(dollars), 0.0), max(epoch(finished_at)) - min(epoch(started_at))
FROM main.trace_calls WHERE statement = $1 AND site IS NOT NULL GROUP BY site"""


@attrs.frozen
class Spent:
    """What the calls of one site took. ``seconds`` from the first one's start to the last one's end; ``uses`` are those of a tool."""

    calls: int = 0
    memo_hits: int = 0
    tokens: int = 0
    dollars: float = 0.0
    seconds: float = 0.0
    uses: int = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(*(a + b for a, b in zip(attrs.astuple(self), attrs.astuple(other), strict=True)))


@attrs.frozen
class Node:
    """One line of the plan that ran. ``seconds`` are DuckDB's in this operator, in the last run. ``sites`` are those whose calls are told
    here: each at the lowest operator that looks them up."""

    number: int
    parent: int | None
    depth: int
    name: str
    detail: str
    estimated_rows: int | None = None
    rows: int | None = None
    seconds: float | None = None
    sites: tuple[int, ...] = ()


@attrs.frozen
class Analysis:
    """A statement as estimated and as it ran."""

    plan: Plan
    nodes: tuple[Node, ...]
    estimates: Mapping[int, SiteEstimate]
    spent: Mapping[int, Spent]
    rows: int
    usage: Usage
    order: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        lines = [line for node in self.nodes for line in self._lines(node)]
        lines.append(f"estimated: {self._estimated()}")
        lines.append(actual(self.rows, self.usage))
        lines += self.order
        if self.plan.rules:
            lines.append("rules: " + ", ".join(self.plan.rules))
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """For programs: the plan with its estimates, and the nodes with both."""
        return {
            **self.plan.to_dict(),
            "rows": self.rows,
            "actual": {
                "calls": self.usage.requests,
                "memo_hits": self.usage.memo_hits,
                "tokens": self.usage.tokens,
                "dollars": self.usage.dollars,
                "seconds": self.usage.seconds,
            },
            "nodes": [self._node(node) for node in self.nodes],
            "order": [line.removeprefix("order: ") for line in self.order],
        }

    def events(self, statement: str) -> list[OperatorMeasured]:
        """The nodes for ``trace_operators``."""
        found = []
        for node in self.nodes:
            estimates = [self.estimates[s] for s in node.sites]
            spent = self._spent(node)
            known = [e for e in estimates if e.calls is not None]
            found.append(
                OperatorMeasured(
                    at=time.time(),
                    statement=statement,
                    node=node.number,
                    parent=node.parent,
                    operator=node.name,
                    detail=node.detail,
                    est_rows=node.estimated_rows,
                    rows=node.rows,
                    est_calls=sum(e.calls or 0 for e in known) if known else None,
                    calls=spent.calls if node.sites else None,
                    est_tokens=sum(e.tokens for e in known) if known else None,
                    tokens=spent.tokens if node.sites else None,
                    est_dollars=sum(e.dollars for e in known) if known else None,
                    dollars=spent.dollars if node.sites else None,
                    memo_hits=spent.memo_hits if node.sites else None,
                    seconds=node.seconds,
                )
            )
        return found

    def _spent(self, node: Node) -> Spent:
        return sum((self.spent.get(s, Spent()) for s in node.sites), Spent())

    def _node(self, node: Node) -> dict[str, Any]:
        return {
            "node": node.number,
            "parent": node.parent,
            "operator": node.name,
            "detail": node.detail,
            "estimated_rows": node.estimated_rows,
            "rows": node.rows,
            "seconds": node.seconds,
            "sites": [
                {
                    "site": s,
                    "estimated_calls": self.estimates[s].calls,
                    "estimated_memo_hits": self.estimates[s].hits,
                    "estimated_tokens": self.estimates[s].tokens,
                    "estimated_dollars": self.estimates[s].dollars,
                    **attrs.asdict(self.spent.get(s, Spent())),
                }
                for s in node.sites
            ],
        }

    def _lines(self, node: Node) -> list[str]:
        """The operator's line, and below it one for each site whose calls are told here."""
        depth = node.depth
        lines = []
        if node.name:
            parts = []
            if node.rows is not None:
                guess = "" if node.estimated_rows is None else f"~{number(node.estimated_rows)} → "
                parts.append(f"{guess}{count_of(node.rows, 'row')}")
            if node.seconds is not None and node.seconds >= 0.0005:
                parts.append(f"{1000 * node.seconds:.0f} ms")
            head = " ".join(part for part in (node.name, node.detail) if part)
            lines.append("  " * depth + f"{head}  {', '.join(parts)}".rstrip())
            depth += 1
        for site_number in node.sites:
            site = self.estimates[site_number].site
            costs = _costs(
                self.estimates[site_number], self.spent.get(site_number, Spent()), unpriced=self._is_unpriced()
            )
            lines.append("  " * depth + f"#{site_number} {site.label}  [{who_answers(site)}]  {', '.join(costs)}")
        return lines

    def _is_unpriced(self) -> bool:
        return self.plan.estimate.unpriced

    def _estimated(self) -> str:
        total = self.plan.estimate
        sign = "" if self.plan.exact else "≈ "
        money = "unpriced" if total.unpriced else f"${number(total.dollars)}"
        return f"{sign}{count_of(total.calls, 'call')}, ~{total.tokens} tok, {money}"


def analyze(
    running: Running, plan: CallPlan, estimated: Plan, params: Params, then: Then | None
) -> tuple[Result, Analysis]:
    """Run a statement and set what it did beside what was estimated; kept in ``trace_operators``."""
    profiling = Profiling(running.around.connection)
    running.after_run = profiling.take
    try:
        with profiling.on():
            result = running.planned(plan, params, then)
    finally:
        running.after_run = None
    spent = _spent_by_site(running)
    nodes = _nodes(read_profile(profiling.text, plan), plan.sites)
    estimates = {s.site.number: s for s in estimated.sites}
    found = Analysis(estimated, nodes, estimates, spent, len(result), result.usage, result.order)
    for event in found.events(running.statement_id):
        running.around.services.events.emit(event)
    return result, found


def actual(rows: int, usage: Usage) -> str:
    """The line that says what a statement used."""
    return (
        f"actual: {count_of(rows, 'row')}, {count_of(usage.requests, 'call')}, {usage.memo_hits} from memo, {usage.tokens} tok, "
        f"${usage.dollars:.4f}, {usage.seconds:.2f} s"
    )


def _spent_by_site(running: Running) -> dict[int, Spent]:
    """What the trace has of the statement's calls, and how often its tools were used."""
    services = running.around.services
    services.trace.flush()
    cursor = services.store.cursor()
    try:
        rows = cursor.execute(SPENT, [running.statement_id]).fetchall()
    finally:
        cursor.close()
    found = {int(str(site).rsplit(":", 1)[1]): Spent(*values) for site, *values in rows}
    for name, site in running.context.sites.items():
        if site.spec.session == "tool":
            here = int(name.rsplit(":", 1)[1])
            found[here] = attrs.evolve(found.get(here, Spent()), uses=len(site.answers.answers))
    return found


def _nodes(operators: Sequence[Operator], sites: Sequence[Site]) -> tuple[Node, ...]:
    """The operators numbered in their order. Sites that DuckDB looked up in none of them (it saw that they are not needed) follow."""
    taken: set[int] = set()
    own: dict[int, tuple[int, ...]] = {}

    def claim(operator: Operator) -> None:
        for child in operator.children:
            claim(child)
        own[id(operator)] = tuple(s for s in operator.sites if s not in taken)
        taken.update(operator.sites)

    found: list[Node] = []

    def add(operator: Operator, parent: int | None, depth: int) -> None:
        here = len(found)
        found.append(
            Node(
                here,
                parent,
                depth,
                operator.name,
                operator.detail,
                operator.estimated_rows,
                operator.rows,
                operator.seconds,
                own[id(operator)],
            )
        )
        for child in operator.children:
            add(child, here, depth + 1)

    for root in operators:
        claim(root)
        add(root, None, 0)
    left = [s for s in sites if s.number not in taken]
    found += [Node(len(found) + i, None, 0, "", "", sites=(s.number,)) for i, s in enumerate(left)]
    return tuple(found)


def _costs(estimate: SiteEstimate, spent: Spent, *, unpriced: bool) -> list[str]:
    """Calls, answers from the memo, tokens, dollars and time of a site: as estimated → as it was."""
    known = estimate.calls is not None
    if estimate.site.spec.session == "tool":
        return [f"{estimate.uses if known else '?'} → {count_of(spent.uses, 'use')}"]
    sign = "" if estimate.exact else "≈ "
    parts = [f"{f'{sign}{estimate.calls}' if known else '?'} → {count_of(spent.calls, 'call')}"]
    if estimate.hits or spent.memo_hits:
        parts.append(f"{estimate.hits if known else '?'} → {spent.memo_hits} from memo")
    if estimate.calls or spent.calls:
        parts.append(f"{f'~{estimate.tokens}' if known else '?'} → {spent.tokens} tok")
        money = f"${number(estimate.dollars)}" if known else "?"
        parts.append("unpriced" if unpriced else f"{money} → ${spent.dollars:.4f}")
        parts.append(f"{spent.seconds:.2f} s")
    return parts
