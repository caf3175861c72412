"""One running statement: its call sites with their answers, its budget, its meter, and what it tells the trace."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import attrs

from kleene.planner.specs import CallSpec, Usage, Volatility
from kleene.udfs.answers import Answered, Unknown
from kleene.udfs.lookups import Key, SiteAnswers

if TYPE_CHECKING:
    from kleene.planner.settings import Settings
    from kleene.udfs.ledger import Ledger


@attrs.frozen
class CallSite:
    """A call expression of the statement as the runtime sees it: what is asked, and where the answers go."""

    spec: CallSpec
    volatility: Volatility
    answers: SiteAnswers

    @property
    def name(self) -> str:
        return self.answers.name


@attrs.frozen
class Ask:
    """One argument of one site that needs an answer."""

    site: CallSite
    key: Key

    @property
    def arguments(self) -> tuple[str, ...]:
        values = (self.key,) if isinstance(self.key, str) else self.key
        # A volatile call's key carries its row's number in front.
        return values[1:] if self.site.volatility is Volatility.VOLATILE else values

    def prompt(self) -> str:
        return self.site.spec.template.render(self.arguments)

    def describe(self) -> str:
        """``f('argument')`` for messages, cut at 60 characters an argument."""
        shown = ", ".join(
            "'" + (a if len(a) <= 60 else a[:57] + "...").replace("\n", "\\n") + "'" for a in self.arguments
        )
        return f"{self.site.spec.function}({shown})"


class Meter:
    """Counts what a statement uses, from the runtime's thread and others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._usage = Usage()
        self.unknown_kinds: dict[str, int] = {}
        self.failed = 0
        self.first_failure: str | None = None

    def add(self, usage: Usage) -> None:
        with self._lock:
            self._usage = self._usage + usage

    def unknown(self, kind: str) -> None:
        with self._lock:
            self._usage = self._usage + Usage(unknown=1)
            self.unknown_kinds[kind] = self.unknown_kinds.get(kind, 0) + 1

    def failure(self, message: str) -> None:
        with self._lock:
            self.failed += 1
            if self.first_failure is None:
                self.first_failure = message

    @property
    def usage(self) -> Usage:
        return self._usage


@attrs.define(eq=False)
class StatementContext:
    """What dispatch needs to know of the statement that asks. ``known`` holds its answers by what was asked, for all sites together."""

    statement: str
    session: str | None
    settings: Settings
    ledger: Ledger
    meter: Meter = attrs.field(factory=Meter)
    sites: dict[str, CallSite] = attrs.field(factory=dict)
    notes: list[str] = attrs.field(factory=list)
    known: dict[tuple[str, str, str], Answered | Unknown] = attrs.field(factory=dict)
