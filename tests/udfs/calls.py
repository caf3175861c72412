"""A dispatcher over a counting FunctionModel and a memo in memory: what a statement's calls see, without an engine around them."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import duckdb

from kleene.models.function_model import FunctionModel
from kleene.models.router import Alias, Router
from kleene.planner.settings import Settings
from kleene.planner.specs import IDENTITY, AnswerType, BudgetLimits, CallSpec, Price, Template, Volatility
from kleene.udfs.dispatch import Dispatcher
from kleene.udfs.events import CallFinished, CallsFinished, Event
from kleene.udfs.gate import Gate
from kleene.udfs.ledger import Ledger
from kleene.udfs.lookups import Key, SiteAnswers
from kleene.udfs.memo import MEMO_SCHEMA, Memo, MemoWriter
from kleene.udfs.protocols import CallHandler, Request
from kleene.udfs.runtime import Runtime
from kleene.udfs.sending import Sender
from kleene.udfs.statement import Ask, CallSite, StatementContext

TEXT = AnswerType("text", "VARCHAR")
BOOL = AnswerType("bool", "BOOLEAN")
PRICE = Price(1.0, 2.0)


class Model:
    """Answers by rule and counts, at the model's side, every prompt it was sent."""

    def __init__(self, rule: Callable[[Request], Any] | None = None):
        self.asked: collections.Counter[str] = collections.Counter()
        self.requests: list[Request] = []
        self._rule = rule or (lambda request: "about " + request.prompt)

    def __call__(self, request: Request) -> Any:
        self.asked[request.prompt] += 1
        self.requests.append(request)
        return self._rule(request)

    @property
    def calls(self) -> int:
        return len(self.requests)


def spec(answer: AnswerType = TEXT, template: Template = IDENTITY, **more: Any) -> CallSpec:
    return CallSpec("f", template, answer, **more)


class World:
    """One engine's runtime, dispatcher and memo. ``events`` are all that were emitted."""

    def __init__(self, handler: CallHandler, memo: MemoWriter | None, patience_s: float = 5.0):
        self.events: list[Event] = []
        self.runtime = Runtime()
        self.memo = memo
        self.dispatcher = Dispatcher(
            handler, memo, self.events.append, sender=lambda h, g: quick(h, g, patience_s=patience_s)
        )
        self.runtime.on_close(self.dispatcher.aclose)
        self._statements = 0

    def context(
        self, limits: BudgetLimits | None = None, ledger: Ledger | None = None, **settings: Any
    ) -> StatementContext:
        self._statements += 1
        ledger = Ledger(limits) if ledger is None else ledger
        return StatementContext(f"s{self._statements}", None, attrs.evolve(Settings(), **settings), ledger.child())

    def site(
        self,
        context: StatementContext,
        call: CallSpec | None = None,
        volatility: Volatility = Volatility.IMMUTABLE,
    ) -> CallSite:
        name = f"{context.statement}:{len(context.sites) + 1}"
        site = CallSite(spec() if call is None else call, volatility, SiteAnswers(name))
        context.sites[name] = site
        return site

    def start(self, context: StatementContext, site: CallSite, keys: Sequence[Key]) -> Any:
        return self.runtime.submit(self.dispatcher.answer, context, [Ask(site, k) for k in keys])

    def ask(self, context: StatementContext, site: CallSite, keys: Sequence[Key]) -> dict[Key, Any]:
        self.start(context, site, keys).wait(10)
        return dict(site.answers.answers)

    def calls(self) -> list[CallFinished]:
        found: list[CallFinished] = []
        for event in self.events:
            if isinstance(event, CallsFinished):
                found += event.one_by_one()
            elif isinstance(event, CallFinished):
                found.append(event)
        return found


def quick(handler: CallHandler, gate: Gate, patience_s: float = 5.0) -> Sender:
    """A sender that does not wait long before it tries again."""
    return Sender(handler, gate, retry_waits_s=(0.01, 0.02, 0.03), patience_s=patience_s)


def router(*models: FunctionModel, **aliases: Sequence[FunctionModel]) -> Router:
    given = {name: Alias(tuple(found)) for name, found in (aliases or {"worker": models}).items()}
    return Router(given, lambda text: models[0])


@contextmanager
def world(
    rule: Callable[[Request], Any] | Model | None = None,
    *,
    memo: bool = True,
    handler: CallHandler | None = None,
    patience_s: float = 5.0,
    **options: Any,
) -> Iterator[tuple[World, Model]]:
    """A world whose model answers by ``rule``; ``options`` are the FunctionModel's. A coroutine function is taken as it is, uncounted."""
    model = rule if isinstance(rule, Model) else Model(rule)
    with duckdb.connect() as con:
        con.execute(MEMO_SCHEMA)
        kept = Memo(con)
        writer = MemoWriter(kept) if memo else None
        made = World(handler or router(FunctionModel(model, "m", **options)), writer, patience_s)
        try:
            yield made, model
        finally:
            made.runtime.close()
            if writer is not None:
                writer.close()
            kept.close()
