"""Live progress by operator: for each call of a statement how many answers it has of those known to be needed, how fast, for how much."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from kleene.rendering.table import visible
from kleene.rendering.usage import thousands

if TYPE_CHECKING:
    from kleene.udfs.events import CallFinished, RunOfStatement, StatementPlanned

WINDOW_S = 6.0  # over which the rate is taken
MARK_S = 0.5  # between two marks of it
SHOWN = 6  # operators at once: a terminal of 24 lines keeps room for a reply and the prompt


@attrs.define
class Operator:
    """One call site of a statement. Times are of the clock that the caller of ``took`` reads, in seconds."""

    label: str
    known: int = 0
    done: int = 0
    memo_hits: int = 0
    failed: int = 0
    dollars: float = 0.0
    marks: deque[tuple[float, int]] = attrs.field(factory=deque)

    def took(self, event: CallFinished, now: float) -> None:
        """Count an answer, or many that the memo gave."""
        if not self.marks:
            self.marks.append((now, self.asked))
        self.done += event.batch_size
        self.known = max(self.known, self.done)
        if event.memo_hit:
            self.memo_hits += event.batch_size
            return
        self.failed += event.error is not None and event.kind == "answer"
        self.dollars += event.dollars or 0.0
        if now - self.marks[-1][0] >= MARK_S:
            self.marks.append((now, self.asked))
        while len(self.marks) > 2 and now - self.marks[0][0] > WINDOW_S:
            self.marks.popleft()

    @property
    def asked(self) -> int:
        """Answers that a model gave."""
        return self.done - self.memo_hits

    def rate(self, now: float) -> float | None:
        """Answers of models a second, over the last seconds; None before anything can be said."""
        if not self.marks or now - self.marks[0][0] < MARK_S:
            return None
        started, before = self.marks[0]
        return (self.asked - before) / (now - started)

    def eta_s(self, now: float) -> float | None:
        """Seconds until all that is known to be needed is there, at this rate."""
        rate = self.rate(now)
        return (self.known - self.done) / rate if rate and self.known > self.done else None

    def figures(self, now: float) -> str:
        """All but the label.

        >>> Operator("f(x)", known=400, done=120, memo_hits=30, dollars=0.0123, marks=deque([(0.0, 0)])).figures(10.0)
        '120/≈400 · 9.0/s · 25% memo · $0.0123 · 31 s left'
        """
        parts = [f"{self.done:,}" if self.done >= self.known else f"{self.done:,}/≈{self.known:,}"]
        rate, eta = self.rate(now), self.eta_s(now)
        if rate and self.done < self.known:
            parts.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s")
        if self.memo_hits:
            parts.append(f"{self.memo_hits / self.done:.0%} memo")
        if self.failed:
            parts.append(f"{thousands(self.failed)} failed")
        if self.dollars:
            parts.append(f"${self.dollars:.4f}")
        if eta is not None:
            parts.append(f"{duration(eta)} left")
        return " · ".join(parts)


@attrs.define
class Operators:
    """The call sites of the statements that run, in the order of their statements. Not for several threads at once: the caller locks."""

    _sites: dict[tuple[str, str], Operator] = attrs.field(factory=dict)

    def planned(self, event: StatementPlanned) -> None:
        """A statement begins: its calls are known by their numbers. A plan that says nothing of them is passed over."""
        for number, label in labels_of(event.estimate).items():
            self._sites.setdefault((event.statement, number), Operator(visible(label)))

    def ran(self, event: RunOfStatement) -> None:
        """A run showed what else is needed."""
        for site, lacked in (event.lacked or {}).items():
            found = self._at(event.statement, site)
            if found is not None:
                found.known = max(found.known, found.done + lacked)

    def took(self, event: CallFinished, now: float) -> None:
        found = self._at(event.statement, event.site)
        if found is not None:
            found.took(event, now)

    def finished(self, statement: str) -> None:
        """A statement has ended: its calls leave the display."""
        for key in [key for key in self._sites if key[0] == statement]:
            del self._sites[key]

    def begun(self) -> list[Operator]:
        """Those that need or have answers; of many the ones with most to do, in their order."""
        begun = [o for o in self._sites.values() if o.known]
        if len(begun) <= SHOWN:
            return begun
        chosen = sorted(begun, key=lambda o: o.done - o.known)[:SHOWN]
        return [o for o in begun if any(o is c for c in chosen)]

    def lines(self, now: float, width: int) -> list[str]:
        """A line for each, its figures beneath each other where they fit, the label cut to what is left.

        >>> operators = Operators()
        >>> operators._sites = {("1", "1"): Operator("llm_bool('Is this about money? ' || body)", known=40, done=10)}
        >>> operators.lines(0.0, 40)
        ["  llm_bool('Is this about mone…  10/≈40"]
        """
        rows = [(o.label, o.figures(now)) for o in self.begun()]
        if not rows:
            return []
        figures = max(len(f) for _, f in rows)
        room = max(12, min(max(len(label) for label, _ in rows), width - figures - 5))
        return [f"  {cut(label, room):{room}}  {said}"[: max(width - 1, 20)] for label, said in rows]

    def _at(self, statement: str | None, site: str | None) -> Operator | None:
        return self._sites.get((statement or "", (site or "").rpartition(":")[2]))


def labels_of(estimate: str | None) -> Mapping[str, str]:
    """How the calls of a planned statement are written, by their numbers."""
    try:
        sites = json.loads(estimate or "{}").get("sites")
    except (ValueError, AttributeError):
        return {}
    return {str(n): str(label) for n, label in sites.items()} if isinstance(sites, dict) else {}


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def duration(seconds: float) -> str:
    """
    >>> [duration(s) for s in (0.2, 59, 61, 7300)]
    ['1 s', '59 s', '1 min 1 s', '2 h 1 min']
    """
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"
