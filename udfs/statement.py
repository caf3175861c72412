"""One running statement: its call sites with their answers, its budget, its meter, and what it tells the trace."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import attrs

from kleene.planner.learned import Learned
from kleene.planner.specs import CallSpec, Usage, Volatility
from kleene.planner.tools import parameters_of
from kleene.udfs.answers import Answered, Unknown
from kleene.udfs.experience import Seen
from kleene.udfs.ledger import add_usage
from kleene.udfs.lookups import Key, SiteAnswers

if TYPE_CHECKING:
    from kleene.planner.settings import Settings
    from kleene.udfs.children import Children, Tools
    from kleene.udfs.ledger import Ledger


@attrs.frozen
class CallSite:
    """A call expression of the statement as the runtime sees it: what is asked, and where the answers go. ``learned`` is what earlier statements
    saw of such calls, ``seen`` what this one sees."""

    spec: CallSpec
    volatility: Volatility
    answers: SiteAnswers
    learned: Learned | None = None
    seen: Seen = attrs.field(factory=Seen)

    @property
    def name(self) -> str:
        return self.answers.name

    @property
    def volatile(self) -> bool:
        return self.volatility is Volatility.VOLATILE

    def arguments(self, key: Key) -> tuple[str, ...]:
        """The arguments that a key stands for. A volatile call's key carries its row's number in front."""
        values = (key,) if isinstance(key, str) else key
        return values[1:] if self.volatile else values

    def prompt(self, key: Key) -> str:
        return self.spec.template.render(self.arguments(key))

    def describe(self, key: Key) -> str:
        """``f('argument')`` for messages, cut at 60 characters an argument."""
        given = self.arguments(key)
        if self.spec.session == "tool":  # a lookup has an argument also where the tool has none
            given = given[: len(parameters_of(self.spec))]
        shown = ", ".join("'" + (a if len(a) <= 60 else a[:57] + "...").replace("\n", "\\n") + "'" for a in given)
        return f"{self.spec.function}({shown})"


@attrs.frozen
class Ask:
    """One argument of one site that needs an answer."""

    site: CallSite
    key: Key

    def prompt(self) -> str:
        return self.site.prompt(self.key)


@attrs.frozen
class Wanted:
    """All arguments of one site that need an answer now: distinct keys, in any order."""

    site: CallSite
    keys: Sequence[Key]


def by_site(asks: Iterable[Ask]) -> list[Wanted]:
    """Asks gathered by site, in the order of their first appearance."""
    keys: dict[int, dict[Key, None]] = {}
    sites: dict[int, CallSite] = {}
    for ask in asks:
        sites[id(ask.site)] = ask.site
        keys.setdefault(id(ask.site), {})[ask.key] = None
    return [Wanted(sites[i], list(found)) for i, found in keys.items()]


class Meter:
    """Counts what a statement uses, from the runtime's thread and others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: list[float] = [0] * 7 + [0.0, 0, 0, 0.0]  # in the order of Usage
        self.unknown_kinds: dict[str, int] = {}
        self.failed = 0
        self.first_failure: str | None = None

    def add(self, usage: Usage) -> None:
        with self._lock:
            add_usage(self._counts, usage)

    def answered(self, usage: Usage, items: int = 1) -> None:
        """Add what a request used that brought so many answers."""
        with self._lock:
            add_usage(self._counts, usage)
            self._counts[1] += items

    def unknown(self, kind: str, count: int = 1) -> None:
        with self._lock:
            self._counts[9] += count
            self.unknown_kinds[kind] = self.unknown_kinds.get(kind, 0) + count

    def failure(self, message: str) -> None:
        with self._lock:
            self.failed += 1
            if self.first_failure is None:
                self.first_failure = message

    @property
    def usage(self) -> Usage:
        with self._lock:
            return Usage(*self._counts)  # type: ignore[arg-type]


@attrs.define(eq=False)
class StatementContext:
    """What dispatch needs to know of the statement that asks.

    ``known`` holds answers by who was asked for what, then by prompt, where several sites may ask the same. ``queued`` counts requests that
    wait to be sent, ``out`` prompts without an answer; ``on_idle`` is called on the loop whenever answers came in, nothing is queued and
    something is still out: there is room for more.
    ``children`` answers the calls that sessions answer, ``tools`` those that tools do; ``left`` says what of them was left running.
    """

    statement: str
    session: str | None
    settings: Settings
    ledger: Ledger
    meter: Meter = attrs.field(factory=Meter)
    sites: dict[str, CallSite] = attrs.field(factory=dict)
    notes: list[str] = attrs.field(factory=list)
    known: dict[str, dict[str, Answered | Unknown]] = attrs.field(factory=dict)
    queued: int = 0
    out: int = 0
    on_idle: Callable[[], None] | None = None
    children: Children | None = None
    tools: Tools | None = None
    left: list[str] = attrs.field(factory=list)

    def shares(self, spec: CallSpec) -> bool:
        """Whether several sites of the statement may ask for the same: then an answer at one is kept for the others."""
        digest = spec.digest()
        return sum(site.spec.digest() == digest for site in self.sites.values()) > 1
