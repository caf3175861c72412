"""From noted arguments to answers: coalesce, look up the memo, price, reserve, send, read, settle, commit, deliver.

Runs on the trio loop. An answer is delivered to its statement only after the memo has committed it, so that what was paid for survives a
kill. Within one job every distinct (model, specification, prompt) is asked once; across jobs, requests in flight are shared.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs
import trio

from kleene.planner.errors import BudgetExceeded, CallFailed, KleeneError, Refused, number
from kleene.planner.specs import BudgetLimits, Usage, Volatility
from kleene.udfs import answers as reading
from kleene.udfs.answers import Answered, Unknown
from kleene.udfs.events import CallFinished, Event
from kleene.udfs.memo import MemoEntry
from kleene.udfs.protocols import CallHandler, Message, Options, ProviderError, Reply, Request, Route
from kleene.udfs.statement import Ask, StatementContext

if TYPE_CHECKING:
    from kleene.planner.specs import CallSpec
    from kleene.udfs.ledger import Ledger, Reservation
    from kleene.udfs.memo import MemoWriter

MAX_RETRIES = 3
RETRY_WAITS_S = (0.25, 1.0, 4.0)
MAX_RETRY_AFTER_S = 30.0
RATE_LIMIT_PATIENCE_S = 300.0
YIELD_EVERY_S = 0.002
CHARACTERS_PER_TOKEN = 4.0
EXPECTED_REPLY_TOKENS = 64

AskKey = tuple[str, str, str]  # route, specification's digest, prompt


@attrs.frozen
class Work:
    """One prompt to be answered for all who asked for it."""

    key: AskKey
    route: Route
    spec: CallSpec
    asks: tuple[Ask, ...]
    digest: str

    @property
    def prompt(self) -> str:
        return self.key[2]


@attrs.frozen
class Estimate:
    """What a round will cost: ``calls`` is exact, tokens and dollars are estimates. ``hits`` are served from the memo."""

    calls: int = 0
    hits: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    unpriced: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(*(getattr(self, f.name) + getattr(other, f.name) for f in attrs.fields(Estimate)))


class Flight:
    """A request somebody already sent: others wait for its outcome."""

    def __init__(self) -> None:
        self.landed = trio.Event()
        self.outcome: Answered | Unknown | None = None


class Dispatcher:
    """Shared by all statements and sessions of one engine. ``memo`` None: nothing is remembered beyond a statement."""

    def __init__(
        self,
        handler: CallHandler,
        memo: MemoWriter | None,
        emit: Callable[[Event], None],
        *,
        concurrency: int = 32,
        clock: Callable[[], float] = time.time,
    ):
        self._handler = handler
        self._memo = memo
        self._emit = emit
        self._clock = clock
        self._gate = Gate(concurrency)
        self._flights: dict[AskKey, Flight] = {}
        self._random = random.Random(0)  # jitter only
        self._calls = 0

    async def aclose(self) -> None:
        await self._handler.aclose()

    async def answer(self, context: StatementContext, asks: Sequence[Ask]) -> None:
        """Answer all asks. Raises the first error that is final: ``Refused``, ``BudgetExceeded``, ``CallFailed``, ``NoModel``."""
        works = await self._lookup(context, asks)
        if not works:
            return
        self._price(context, works)
        async with trio.open_nursery() as nursery:
            batch = Delivery(self, context, nursery)
            pending = iter(works)
            for _ in range(min(len(works), self._gate.limit(context.settings.concurrency))):
                nursery.start_soon(self._worker, context, pending, batch)

    async def estimate(self, context: StatementContext, asks: Sequence[Ask]) -> Estimate:
        """What ``answer`` would send now, sending nothing."""
        works = await self._lookup(context, asks, peek=True)
        total = Estimate(hits=len({self._key(context, a)[0] for a in asks}) - len(works))
        for work in works:
            total = total + price_of(work)
        return total

    async def ask_turn(self, request: Request, ledger: Ledger, session: str | None) -> tuple[Reply, Usage]:
        """One session turn: budgeted, retried and traced like a call, not remembered. Raises ``CallFailed``, ``BudgetExceeded``."""
        route = self._handler.route(request.alias)
        started = self._clock()
        meter = _Sent()
        error: str | None = None
        reply: Reply | None = None
        try:
            reply = await self._send(request, route, ledger, meter)
            return reply, meter.usage
        except ProviderError as failure:
            error = failure.message
            raise CallFailed(
                failure.message, call=f"turn {request.path}", kind=failure.kind, hint=failure.hint
            ) from None
        finally:
            digest = hashlib.sha256(request.prompt.encode("utf-8", "replace")).hexdigest()
            self._trace(
                session=session,
                statement=None,
                site=None,
                route=route,
                digest=digest,
                started=started,
                sent=meter,
                error=error or (None if reply is not None else "cancelled"),
                prompt=request.prompt,
                reply=None if reply is None else reply.text,
            )

    # -- looking up ----------------------------------------------------------------------------------------------------------------

    def _key(self, context: StatementContext, ask: Ask) -> tuple[AskKey, Route]:
        spec = ask.site.spec
        route = self._handler.route(spec.alias)
        prompt = ask.prompt()
        if ask.site.volatility is Volatility.VOLATILE:
            row = ask.key[0] if isinstance(ask.key, tuple) else ""
            return (f"{route_key(route)}\n{ask.site.name}\n{row}", spec.digest(), prompt), route
        return (route_key(route), spec.digest(), prompt), route

    async def _lookup(self, context: StatementContext, asks: Sequence[Ask], *, peek: bool = False) -> list[Work]:
        """Answer what the statement or the memo knows; group the rest by what will be sent, in the order given."""
        groups: dict[AskKey, list[Ask]] = {}
        routes: dict[AskKey, Route] = {}
        digests: dict[int, tuple[str, str, Route]] = {}
        for ask in asks:
            spec = ask.site.spec
            if ask.site.volatility is Volatility.VOLATILE:
                key, route = self._key(context, ask)
            else:
                cached = digests.get(id(spec))
                if cached is None:
                    route = self._handler.route(spec.alias)
                    cached = digests[id(spec)] = (route_key(route), spec.digest(), route)
                key, route = (cached[0], cached[1], ask.prompt()), cached[2]
            if key in groups:
                groups[key].append(ask)
            else:
                groups[key] = [ask]
                routes[key] = route
        missing: dict[AskKey, list[Ask]] = {}
        for key, group in groups.items():
            outcome = context.known.get(key)
            if outcome is not None and not peek:
                deliver(context, group, outcome)
            elif outcome is None:
                missing[key] = group
        hits = await self._memo_hits(context, missing)
        works = []
        for key, group in missing.items():
            if key in hits:
                if not peek:
                    self._serve(context, key, routes[key], group, hits[key])
                continue
            digest = hashlib.sha256(key[2].encode("utf-8", "replace")).hexdigest()
            works.append(Work(key, routes[key], group[0].site.spec, tuple(group), digest))
        return works

    async def _memo_hits(self, context: StatementContext, missing: dict[AskKey, list[Ask]]) -> dict[AskKey, MemoEntry]:
        if self._memo is None or not context.settings.memo:
            return {}
        by_spec: dict[tuple[str, str], list[AskKey]] = {}
        for key, group in missing.items():
            if group[0].site.volatility is not Volatility.VOLATILE:
                by_spec.setdefault(key[:2], []).append(key)
        hits: dict[AskKey, MemoEntry] = {}
        for (route, spec), keys in by_spec.items():
            found = await trio.to_thread.run_sync(
                self._memo.lookup, route, spec, [k[2] for k in keys], context.settings.memo_unknown
            )
            hits.update((keys[i], entry) for i, entry in found.items())
        return hits

    def _serve(self, context: StatementContext, key: AskKey, route: Route, group: list[Ask], entry: MemoEntry) -> None:
        reply = Reply(entry.text, stop=entry.stop)
        outcome = reading.read(group[0].site.spec.answer, reply)
        if entry.kind != "answer":
            outcome = Unknown(entry.kind, entry.text)
        context.known[key] = outcome
        context.meter.add(Usage(memo_hits=1))
        deliver(context, group, outcome)
        now = self._clock()
        self._emit(
            CallFinished(
                at=now,
                call=self._next_call(context.statement),
                session=context.session,
                statement=context.statement,
                site=group[0].site.name,
                alias=route.alias,
                model=route.model,
                provider=route.provider,
                digest=hashlib.sha256(key[2].encode("utf-8", "replace")).hexdigest(),
                batch_size=1,
                attempts=0,
                started_at=now,
                dollars=0.0,
                memo_hit=True,
                kind=entry.kind,
                prompt=key[2],
                reply=entry.text,
            )
        )

    # -- pricing -------------------------------------------------------------------------------------------------------------------

    def _price(self, context: StatementContext, works: Sequence[Work]) -> None:
        """Refuse a round that cannot fit before a cent of it is spent. Calls are exact; tokens and dollars are estimates here, and each
        request's worst case is reserved before it is sent, so no budget is exceeded either way."""
        total = Estimate()
        for work in works:
            total = total + price_of(work)
        if total.unpriced and context.ledger.remaining().dollars is not None:
            raise _unpriced(next(w.route for w in works if w.route.price is None and not w.route.free))
        misfit = context.ledger.fits(total.calls, total.tokens, total.dollars)
        if misfit is not None:
            dimension, needed, remaining = misfit
            raise refusal(dimension, needed, remaining)

    # -- sending -------------------------------------------------------------------------------------------------------------------

    async def _worker(self, context: StatementContext, pending: object, batch: Delivery) -> None:
        last = time.perf_counter()
        for work in pending:  # type: ignore[attr-defined]
            if batch.stopped:
                return
            await self._gate.enter()
            try:
                await self._one(context, work, batch)
            finally:
                self._gate.leave()
            now = time.perf_counter()
            if now - last > YIELD_EVERY_S:  # a FunctionModel never waits: let cancellation and the committer in
                await trio.lowlevel.checkpoint()
                last = time.perf_counter()

    async def _one(self, context: StatementContext, work: Work, batch: Delivery) -> None:
        flight = self._flights.get(work.key)
        while flight is not None:
            await flight.landed.wait()
            if flight.outcome is not None:
                context.known[work.key] = flight.outcome
                self._trace_shared(context, work, flight.outcome)
                deliver(context, work.asks, flight.outcome)
                return
            flight = self._flights.get(work.key)
        flight = self._flights[work.key] = Flight()
        try:
            outcome = await self._ask(context, work, batch)
            if outcome is None:
                self._land(work.key, None)
        except BaseException:
            self._land(work.key, None)
            raise

    def _land(self, key: AskKey, outcome: Answered | Unknown | None) -> None:
        flight = self._flights.pop(key, None)
        if flight is not None:
            flight.outcome = outcome
            flight.landed.set()

    async def _ask(self, context: StatementContext, work: Work, batch: Delivery) -> Answered | Unknown | None:
        """Ask one prompt, with one repair turn, and hand the outcome to the committer. None: the call failed and ``on_error`` is null."""
        spec = work.spec
        started = self._clock()
        sent = _Sent()
        request = request_for(spec, work.prompt, work.route, context.settings.timeout)
        reply: Reply | None = None
        try:
            reply = await self._send(request, work.route, context.ledger, sent)
            outcome = reading.read(spec.answer, reply)
            if isinstance(outcome, Unknown) and outcome.kind in ("unreadable", "schema", "empty"):
                repaired = repair(request, spec, reply, outcome)
                try:
                    reply = await self._send(repaired, work.route, context.ledger, sent)
                    outcome = reading.read(spec.answer, reply)
                except BudgetExceeded:
                    pass  # the first reply stands as unknown: a repair is worth less than the statement
        except ProviderError as failure:
            self._trace_work(context, work, started, sent, error=failure.message, reply=None)
            context.meter.add(sent.usage)
            message = f"{work.asks[0].describe()} failed: {failure.message}"
            if context.settings.on_error == "null" and failure.kind not in ("auth", "quota"):
                context.meter.failure(message)
                for ask in work.asks:
                    ask.site.answers.answers[ask.key] = None
                return None
            raise CallFailed(message, call=work.asks[0].describe(), kind=failure.kind, hint=failure.hint) from None
        except trio.Cancelled:
            self._trace_work(context, work, started, sent, error="cancelled", reply=None)
            context.meter.add(sent.usage)
            raise
        context.meter.add(sent.usage + Usage(items=1))
        self._trace_work(
            context,
            work,
            started,
            sent,
            kind=outcome.kind if isinstance(outcome, Unknown) else "answer",
            error=outcome.detail if isinstance(outcome, Unknown) else None,
            reply=reply.text,
        )
        batch.put(work, reply, outcome, sent.usage)
        return outcome

    async def _send(self, request: Request, route: Route, ledger: Ledger, sent: _Sent) -> Reply:
        """Send until a reply comes or retrying cannot help. Every attempt is reserved at its worst case and settled."""
        attempt = 0
        patience = time.monotonic() + RATE_LIMIT_PATIENCE_S
        while True:
            reservation = await self._reserve(request, route, ledger)
            try:
                with trio.move_on_after(request.options.timeout) as scope:
                    reply = await self._handler.send(request, route)
                if scope.cancelled_caught:
                    raise ProviderError(
                        "timeout",
                        f"no reply from {route.model} within {number(request.options.timeout)} s",
                        retryable=True,
                        hint="SET timeout = SECONDS allows more",
                    )
            except ProviderError as failure:
                # What a failed request used is not known: what it was billed at most stays booked as input, when it may have been sent.
                usage = Usage(requests=1, input_tokens=estimate_tokens(request) if failure.sent else 0)
                reservation.settle(usage)
                sent.add(usage)
                wait = self._wait_before_retry(failure, attempt, patience)
                if wait is None:
                    raise
                attempt += 0 if failure.kind == "rate_limited" else 1
                sent.retries += 1
                await trio.sleep(wait)
                continue
            except BaseException:
                usage = Usage(requests=1, input_tokens=estimate_tokens(request))
                reservation.settle(usage)
                sent.add(usage)
                raise
            usage = usage_of(request, reply, route)
            reservation.settle(usage)
            sent.add(usage)
            return reply

    async def _reserve(self, request: Request, route: Route, ledger: Ledger) -> Reservation:
        """Reserve the worst case, waiting for requests in flight to settle where that may make room."""
        tokens = request.bytes_bound() + request.options.max_tokens
        dollars = 0.0
        if route.price is not None:
            dollars = route.price.dollars(request.bytes_bound(), request.options.max_tokens)
        while True:
            ledger.check_wall()
            try:
                return ledger.reserve(calls=1, tokens=tokens, dollars=dollars)
            except BudgetExceeded:
                if not ledger.has_reservations():
                    raise
                await trio.sleep(0.01)  # something in flight will settle below its worst case

    def _wait_before_retry(self, failure: ProviderError, attempt: int, patience: float) -> float | None:
        if not failure.retryable:
            return None
        asked = failure.retry_after
        if failure.kind == "rate_limited":
            # A rate limit is not a failure: it uses up patience, not attempts.
            wait = min(asked if asked is not None else 1.0, MAX_RETRY_AFTER_S) * self._random.uniform(1.0, 1.2)
            return wait if time.monotonic() + wait < patience else None
        if attempt >= MAX_RETRIES:
            return None
        return max(RETRY_WAITS_S[attempt] * self._random.uniform(0.8, 1.2), min(asked or 0.0, MAX_RETRY_AFTER_S))

    # -- tracing -------------------------------------------------------------------------------------------------------------------

    def _next_call(self, statement: str | None) -> str:
        self._calls += 1
        return f"{statement or 'turn'}.{self._calls}"

    def _trace_work(
        self,
        context: StatementContext,
        work: Work,
        started: float,
        sent: _Sent,
        *,
        kind: str = "answer",
        error: str | None = None,
        reply: str | None,
    ) -> None:
        self._trace(
            session=context.session,
            statement=context.statement,
            site=work.asks[0].site.name,
            route=work.route,
            digest=work.digest,
            started=started,
            sent=sent,
            kind=kind,
            error=error,
            prompt=work.prompt,
            reply=reply,
        )

    def _trace_shared(self, context: StatementContext, work: Work, outcome: Answered | Unknown) -> None:
        self._trace(
            session=context.session,
            statement=context.statement,
            site=work.asks[0].site.name,
            route=work.route,
            digest=work.digest,
            started=self._clock(),
            sent=_Sent(),
            kind=outcome.kind if isinstance(outcome, Unknown) else "answer",
            error=None,
            prompt=work.prompt,
            reply=None,
            coalesced=True,
        )

    def _trace(
        self,
        *,
        session: str | None,
        statement: str | None,
        site: str | None,
        route: Route,
        digest: str,
        started: float,
        sent: _Sent,
        error: str | None,
        prompt: str | None,
        reply: str | None,
        kind: str = "answer",
        coalesced: bool = False,
    ) -> None:
        usage = sent.usage
        self._emit(
            CallFinished(
                at=self._clock(),
                call=self._next_call(statement),
                session=session,
                statement=statement,
                site=site,
                alias=route.alias,
                model=route.model,
                provider=route.provider,
                digest=digest,
                batch_size=1,
                attempts=usage.requests,
                started_at=started,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cache_read_tokens=usage.cache_read_tokens,
                cache_write_tokens=usage.cache_write_tokens,
                dollars=None if usage.unpriced and not usage.dollars else usage.dollars,
                coalesced=coalesced,
                kind=kind,
                error=error,
                prompt=prompt,
                reply=reply,
            )
        )


class _Sent:
    """What one call has sent so far."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.retries = 0

    def add(self, usage: Usage) -> None:
        self.usage = self.usage + usage


class Gate:
    """Bounds requests in flight. Entering costs nothing while there is room (a semaphore would checkpoint each time)."""

    def __init__(self, size: int):
        self._size = size
        self._inside = 0
        self._waiting: trio.lowlevel.ParkingLot | None = None

    def limit(self, wanted: int) -> int:
        self._size = max(1, wanted)
        return self._size

    async def enter(self) -> None:
        while self._inside >= self._size:
            if self._waiting is None:
                self._waiting = trio.lowlevel.ParkingLot()
            await self._waiting.park()
        self._inside += 1

    def leave(self) -> None:
        self._inside -= 1
        if self._waiting is not None:
            self._waiting.unpark()


class Delivery:
    """Gathers outcomes and commits them in groups: while one commit runs the next group gathers. Delivers after the commit."""

    def __init__(self, dispatcher: Dispatcher, context: StatementContext, nursery: trio.Nursery):
        self._dispatcher = dispatcher
        self._context = context
        self._nursery = nursery
        self._gathered: list[tuple[Work, Reply, Answered | Unknown, Usage]] = []
        self._running = False
        self.stopped = False

    def put(self, work: Work, reply: Reply, outcome: Answered | Unknown, usage: Usage) -> None:
        self._gathered.append((work, reply, outcome, usage))
        if not self._running:
            self._running = True
            self._nursery.start_soon(self._commit)

    async def _commit(self) -> None:
        memo = self._dispatcher._memo if self._context.settings.memo else None
        # Paid answers are committed even when the statement is being cancelled.
        with trio.CancelScope(shield=True):
            while self._gathered:
                group, self._gathered = self._gathered, []
                if memo is not None:
                    entries = [e for e in (memo_entry(*g) for g in group) if e is not None]
                    if entries:
                        await trio.to_thread.run_sync(memo.commit, entries)
                for work, _, outcome, _ in group:
                    self._context.known[work.key] = outcome
                    deliver(self._context, work.asks, outcome)
                    self._dispatcher._land(work.key, outcome)
            self._running = False
        await trio.lowlevel.checkpoint_if_cancelled()


def memo_entry(work: Work, reply: Reply, outcome: Answered | Unknown, usage: Usage) -> MemoEntry | None:
    """What the memo keeps of an outcome; None for a volatile call."""
    if work.asks[0].site.volatility is Volatility.VOLATILE:
        return None
    return MemoEntry(
        route_key=work.key[0],
        spec_digest=work.key[1],
        prompt=work.prompt,
        text=reply.text,
        kind=outcome.kind if isinstance(outcome, Unknown) else "answer",
        stop=reply.stop,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        dollars=usage.dollars,
        created_at=time.time(),
    )


def deliver(context: StatementContext, asks: Sequence[Ask], outcome: Answered | Unknown) -> None:
    """Give an outcome to every site that asked. An unknown answer is NULL and is counted once per distinct argument and site."""
    if isinstance(outcome, Unknown):
        for ask in asks:
            ask.site.answers.answers[ask.key] = None
        context.meter.unknown(outcome.kind)
    else:
        for ask in asks:
            ask.site.answers.answers[ask.key] = outcome.value


def request_for(spec: CallSpec, prompt: str, route: Route, timeout: float) -> Request:
    schema = reading.schema_for(spec.answer)
    line = reading.instruction_for(spec.answer)
    text = f"{prompt}\n\n{line}" if line else prompt
    return Request(
        alias=spec.alias,
        messages=(Message("user", text),),
        system=spec.system,
        schema=schema,
        options=Options(
            max_tokens=spec.max_tokens,
            effort=spec.effort,
            temperature=spec.temperature,
            seed=spec.seed,
            timeout=timeout,
        ),
        model=route.model,
    )


def repair(request: Request, spec: CallSpec, reply: Reply, unknown: Unknown) -> Request:
    """The one repair turn: the reply is shown back with what was wrong. An empty reply is simply asked for again."""
    if unknown.kind == "empty":
        return request
    extra = (Message("assistant", reply.text), Message("user", reading.repair_message(spec.answer, reply, unknown)))
    return attrs.evolve(request, messages=request.messages + extra)


def route_key(route: Route) -> str:
    return f"{route.provider}\n{route.endpoint}\n{route.model}"


def estimate_tokens(request: Request) -> int:
    """Input tokens, estimated as characters / 4."""
    characters = sum(len(m.text) for m in request.messages) + len(request.system or "") + len(request.schema or "")
    return int(characters / CHARACTERS_PER_TOKEN) + 1


def usage_of(request: Request, reply: Reply, route: Route) -> Usage:
    """What a reply used: as reported, else estimated; priced by the provider's word, else by the route's price."""
    tokens_in = estimate_tokens(request) if reply.input_tokens is None else reply.input_tokens
    tokens_out = int(len(reply.text) / CHARACTERS_PER_TOKEN) + 1 if reply.output_tokens is None else reply.output_tokens
    dollars, unpriced = reply.dollars, 0
    if dollars is None:
        if route.price is not None:
            dollars = route.price.dollars(tokens_in, tokens_out, reply.cache_read_tokens, reply.cache_write_tokens)
        else:
            dollars, unpriced = 0.0, 0 if route.free else 1
    return Usage(
        requests=1,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cache_read_tokens=reply.cache_read_tokens,
        cache_write_tokens=reply.cache_write_tokens,
        dollars=dollars,
        unpriced=unpriced,
    )


def price_of(work: Work) -> Estimate:
    """The estimate for one prompt: its own length, and an expected reply of at most 64 tokens."""
    request_tokens = int((len(work.prompt) + 80) / CHARACTERS_PER_TOKEN) + 1
    reply_tokens = min(EXPECTED_REPLY_TOKENS, work.spec.max_tokens)
    price = work.route.price
    return Estimate(
        calls=1,
        input_tokens=request_tokens,
        output_tokens=reply_tokens,
        dollars=0.0 if price is None else price.dollars(request_tokens, reply_tokens),
        unpriced=int(price is None and not work.route.free),
    )


def refusal(dimension: str, needed: float, remaining: float) -> Refused:
    what = "$" + number(needed) if dimension == "dollars" else f"{number(needed)} {dimension}"
    left = "$" + number(remaining) if dimension == "dollars" else number(remaining)
    return Refused(
        f"refused before sending: the statement needs {what} and {left} remain",
        dimension=dimension,
        needed=needed,
        remaining=remaining,
        hint=f"add a filter or LIMIT, use a cheaper alias, or raise budget.{dimension}",
    )


def _unpriced(route: Route) -> KleeneError:
    from kleene.planner.errors import ConfigError

    return ConfigError(
        f"a dollar budget needs a price, and {route.model} has none",
        hint=f'add to kleene.toml: [pricing."{route.model}"] input_per_mtok = 1.0, output_per_mtok = 5.0',
    )


def unlimited(limits: BudgetLimits) -> bool:
    return all(getattr(limits, f.name) is None for f in attrs.fields(BudgetLimits))
