"""From noted arguments to answers: coalesce, look up the memo, price, send, read, commit, deliver.

Runs on the trio loop. An answer is delivered to its statement only after the memo has committed it, so that what was paid for survives a
kill. Within one round every distinct (model, specification, prompt) is asked once; across rounds, statements and sessions requests in
flight are shared.
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import attrs
import trio

from kleene.planner.errors import BudgetExceeded, CallFailed, ConfigError, KleeneError, Refused, number
from kleene.planner.specs import Usage
from kleene.udfs.answers import Answered, Unknown
from kleene.udfs.atonce import FIRST, LEAST, MOST, Slice, Slicer, may_wait
from kleene.udfs.batching import AUTO_ITEMS, batch_request, packs, read_batch, share_of, stands_among_others
from kleene.udfs.blocks import Block
from kleene.udfs.childwork import AT_ONCE, run_child
from kleene.udfs.delivery import Delivery, Outcome
from kleene.udfs.events import Event
from kleene.udfs.gate import Gate, Party
from kleene.udfs.protocols import AtOnce, CallHandler, ProviderError, Reply, Request, Route
from kleene.udfs.recall import Recall
from kleene.udfs.sending import Sender, Sent
from kleene.udfs.statement import Ask, CallSite, StatementContext, Wanted, by_site
from kleene.udfs.tracing import NOTHING, Tracer
from kleene.udfs.walls import wall_error
from kleene.udfs.work import Estimate, Lane, Work, deliver, grouped, repair

if TYPE_CHECKING:
    from kleene.planner.specs import CallSpec
    from kleene.udfs.ledger import Ledger
    from kleene.udfs.memo import MemoWriter

YIELD_EVERY_S = 0.002
BLOCK_S, LONGEST_BLOCK_S = 0.02, 0.16
UNKEPT = 50_000  # answers of a model that waits for nothing that may wait for the memo
REPAIRED = ("unreadable", "schema", "empty")  # kinds of unknown that are worth a second question
TOO_MUCH = ("bad_request", "context_overflow", "malformed")  # failures of a batch that its parts may not share
TOOL = Route("", "kleene", "", "tool", free=True)  # who answers a tool's call
GO_ON = "what was answered is kept; SET on_error = 'null' gives NULL where a call fails, and goes on"
FATAL = ("auth", "quota")  # failures that no on_error turns into NULL: every further call would fail alike


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
        sender: Callable[[CallHandler, Gate], Sender] = Sender,
    ):
        self._handler = handler
        self._memo = memo
        self._clock = clock
        self._tracer = Tracer(emit, clock)
        self._trace = self._tracer.call
        self.gate = Gate(concurrency)
        self._sender = sender(handler, self.gate)
        self.ratios = self._sender.ratios
        self._recall = Recall(memo, self._tracer)
        self._flights: dict[tuple[str, str], Work] = {}

    async def aclose(self) -> None:
        await self._handler.aclose()

    @property
    def in_flight(self) -> int:
        """Prompts that are on their way now."""
        return len(self._flights)

    async def answer(self, context: StatementContext, asks: Sequence[Ask]) -> None:
        """``ask`` for arguments one by one."""
        await self.ask(context, by_site(asks))

    async def ask(self, context: StatementContext, wanted: Sequence[Wanted]) -> None:
        """Answer all that is wanted. Raises the first error that is final: ``Refused``, ``BudgetExceeded``, ``CallFailed``, ``NoModel``.

        What was answered by then is kept. ``BudgetExceeded('wall')`` comes when the ledger's wall is reached, whatever the calls are doing.
        """
        with within_wall(context.ledger, context.left):
            works = await self._unanswered(context, wanted)
            if works:
                self._price(context, works)
                await self._ask_models(context, works)

    async def recall(self, context: StatementContext, wanted: Sequence[Wanted]) -> int:
        """Hand out what is known or remembered of what is wanted, asking for nothing; how many that were."""
        found = 0
        for group in self._groups(context, wanted):
            found += len(group.prompts) - len(await self._recall.serve(context, group))
        return found

    async def afford(self, context: StatementContext, wanted: Sequence[Wanted], more: int = 0) -> None:
        """Raise ``Refused`` where the budget cannot pay for all that is wanted, and for so many ``more`` prompts that cost as much as these do
        on average. Asks for nothing."""
        works: list[Work] = []
        for group in self._groups(context, wanted):
            works += group.works(await self._recall.missing(context, group))
        self._price(context, works, more)

    async def estimate(self, context: StatementContext, asks: Sequence[Ask]) -> Estimate:
        """What ``answer`` would send now, sending nothing."""
        groups = self._groups(context, by_site(asks))
        works: list[Work] = []
        for group in groups:
            works += group.works(await self._recall.missing(context, group))
        return expected(context, works) + Estimate(hits=sum(len(g.prompts) for g in groups) - len(works))

    async def expect(self, context: StatementContext, site: CallSite, characters: float) -> tuple[float, float, bool]:
        """Tokens and dollars of one prompt of a site with so many characters, were it asked anew, and whether it has no price."""
        lane = self._lane(context, site.spec, site.volatile)
        items = 1 if lane.batch == 1 else AUTO_ITEMS if lane.batch == "auto" else int(lane.batch)
        found = lane.price(round(items * characters), items, items * lane.replied(site.learned))
        return found.tokens / items, found.dollars / items, bool(found.unpriced)

    async def ask_turn(
        self, request: Request, ledger: Ledger, session: str | None, stream: bool = False
    ) -> tuple[Reply, Usage]:
        """One session turn: budgeted, retried and traced like a call, not remembered. With ``stream`` its text is told as it arrives
        (``CallStreamed``), and that it is void where its request breaks off (``CallDropped``). Raises ``CallFailed``, ``BudgetExceeded``."""
        route = self._handler.route(request.alias)
        started = self._clock()
        sent = Sent(route)
        error: str | None = "cancelled"
        reply: Reply | None = None
        try:
            with within_wall(ledger):
                listener = self._tracer.stream(session, request, sent) if stream else None
                reply = await self._sender.send(request, ledger, sent, Party(session or ""), listener)
            error = None
            return reply, sent.total
        except ProviderError as failure:
            error = failure.message
            raise CallFailed(
                failure.message, call=f"turn {request.path}", kind=failure.kind, hint=failure.hint
            ) from None
        except KleeneError as failure:
            error = failure.message
            raise
        finally:
            self._tracer.turn(session, request, started, sent, error=error, reply=reply)

    # -- what is known already -------------------------------------------------------------------------------------------------------

    def _groups(self, context: StatementContext, wanted: Sequence[Wanted]) -> list:  # type: ignore[type-arg]
        return grouped([(self._lane(context, w.site.spec, w.site.volatile), w) for w in wanted])

    def _lane(self, context: StatementContext, spec: CallSpec, volatile: bool) -> Lane:
        routes = (TOOL,) if spec.session == "tool" else candidates(self._handler, spec.alias)
        lane = Lane.of(spec, routes, context.settings, volatile=volatile)
        ratio = self.ratios.of(lane.route.model)
        if ratio != lane.characters_per_token:
            lane = attrs.evolve(lane, characters_per_token=ratio)
        if not volatile and context.shares(spec):
            context.known.setdefault(lane.identity, {})
        return lane

    async def _unanswered(self, context: StatementContext, wanted: Sequence[Wanted]) -> list[Work]:
        works: list[Work] = []
        for group in self._groups(context, wanted):
            works += group.works(await self._recall.serve(context, group))
        return works

    # -- pricing -------------------------------------------------------------------------------------------------------------------

    def _price(self, context: StatementContext, works: Sequence[Work], more: int = 0) -> None:
        """Refuse a round that cannot fit before a cent of it is spent. Calls are exact; tokens and dollars are estimates here, and each
        request's worst case is reserved before it is sent, so no budget is exceeded either way."""
        total = price_of(works)
        if total.unpriced and context.ledger.remaining().dollars is not None:
            raise unpriced(next(w.lane.route for w in works if w.lane.route.price is None and not w.lane.route.free))
        times = 1 + more / len(works) if works else 1.0
        misfit = context.ledger.fits(
            math.ceil(times * total.calls), math.ceil(times * total.tokens), times * total.dollars
        )
        if misfit is not None:
            dimension, needed, remaining = misfit
            raise refusal(context, dimension, needed, remaining)

    # -- asking --------------------------------------------------------------------------------------------------------------------

    async def _ask_models(self, context: StatementContext, works: Sequence[Work]) -> None:
        at_once = self._at_once(works)
        packed = list(packs([w for w in works if w.lane not in at_once]))
        quick = [[w for w in works if w.lane is lane] for lane in at_once]
        left = [len(packed) + sum(map(len, quick))]
        context.queued += left[0]
        context.out += len(works)
        if context.children is not None:
            context.children.expect(sum(w.lane.spec.session == "child" for w in works))
        room = trio.CapacityLimiter(AT_ONCE)
        delivery: Delivery | None = None
        try:
            async with trio.open_nursery() as nursery:
                delivery = Delivery(context, self._memo, self._land, nursery.cancel_scope)
                pending = iter(packed)
                self.gate.widen(context.settings.concurrency)
                for _ in range(min(len(packed), context.settings.concurrency)):
                    nursery.start_soon(self._worker, context, pending, left, delivery, room)
                for same in quick:
                    answer = at_once[same[0].lane]
                    nursery.start_soon(self._in_blocks, context, same, answer, left, delivery, room, nursery)
            await delivery.finish()
        except Exception:
            if delivery is not None:
                await delivery.settle()  # so that who asks again finds what was paid for
            raise
        finally:
            context.queued -= left[0]
            context.out -= len(works) - (0 if delivery is None else delivery.abandon())
        if delivery.error is not None:
            raise delivery.error

    def _at_once(self, works: Sequence[Work]) -> dict[Lane, AtOnce]:
        """How the lanes are asked whose model waits for nothing."""
        found: dict[Lane, AtOnce] = {}
        of = getattr(self._handler, "at_once", None)
        if of is None:
            return found
        for lane in dict.fromkeys(w.lane for w in works):
            route = lane.route
            if route.instant and lane.batch == 1 and not lane.spec.session and (route.free or route.price is not None):
                answer = of(route)
                if answer is not None:
                    found[lane] = answer
        return found

    async def _in_blocks(
        self,
        context: StatementContext,
        works: list[Work],
        answer: AtOnce,
        left: list[int],
        delivery: Delivery,
        room: trio.CapacityLimiter,
        nursery: trio.Nursery,
    ) -> None:
        """Ask works of one lane in slices; their answers are delivered and traced in blocks, which grow from 20 ms to 160 ms of work."""
        lane, at, most, wait = works[0].lane, 0, FIRST, BLOCK_S
        slicer = Slicer(context, lane, answer, self.gate, party_of(context), self._flights, self._clock)
        tails = trio.CapacityLimiter(context.settings.concurrency)
        block, since = Block(lane), time.perf_counter()
        try:
            while at < len(works):
                made = Slice()
                try:
                    slicer.take(works, at, most, block, made)
                except BaseException:
                    self._drop(context, made.left)
                    raise
                at += made.done
                left[0] -= made.done
                context.queued -= made.done
                most = min(MOST, max(LEAST, 2 * made.done))
                rest = deque(made.left)
                try:
                    while rest:
                        work, sent = rest[0]
                        if sent is not None and not may_wait(sent.begun):
                            await self._own(context, rest.popleft()[0], delivery, sent)
                            continue
                        await tails.acquire_on_behalf_of(work)
                        nursery.start_soon(self._tail, context, *rest.popleft(), delivery, tails)
                except BaseException:
                    self._drop(context, rest)
                    raise
                if made.closed:
                    pending = ([w] for w in works[at:])
                    for _ in range(min(len(works) - at, context.settings.concurrency)):
                        nursery.start_soon(self._worker, context, pending, left, delivery, room)
                    return
                if len(block) and time.perf_counter() - since > wait:
                    self._finish_block(context, block, delivery)
                    block, since, wait = Block(lane), time.perf_counter(), min(2 * wait, LONGEST_BLOCK_S)
                    await delivery.keep_up(UNKEPT)
                await trio.lowlevel.checkpoint()
        finally:
            if len(block):
                self._finish_block(context, block, delivery)

    def _drop(self, context: StatementContext, left: Iterable[tuple[Work, Sent | None]]) -> None:
        """Give up what a slice has left: what was sent is told and counted, and nobody waits for it any longer."""
        for work, sent in left:
            if sent is not None:
                self._trace(context, work, self._clock(), sent, error="cancelled")
                context.meter.add(sent.total)
            self._land(work, None)  # where it is another's, that one goes on

    def _finish_block(self, context: StatementContext, block: Block, delivery: Delivery) -> None:
        context.meter.answered(block.usage(), len(block))
        self._tracer.block(context, block)
        delivery.put(block)

    async def _tail(
        self,
        context: StatementContext,
        work: Work,
        sent: Sent | None,
        delivery: Delivery,
        tails: trio.CapacityLimiter,
    ) -> None:
        """Ask one prompt that a slice has begun or left."""
        try:
            if sent is None:
                await self._one(context, work, delivery)
            else:
                await self._own(context, work, delivery, sent)
        finally:
            tails.release_on_behalf_of(work)

    async def _worker(
        self,
        context: StatementContext,
        pending: Iterator[list[Work]],
        left: list[int],
        delivery: Delivery,
        room: trio.CapacityLimiter,
    ) -> None:
        last = time.perf_counter()
        for pack in pending:
            left[0] -= 1
            context.queued -= 1
            if len(pack) > 1:
                await self._many(context, pack, delivery)
            elif pack[0].lane.spec.session:
                # Never shared with other sessions: a child must not wait for one of its ancestors.
                if pack[0].lane.spec.session == "tool":
                    await self._tool(context, pack[0], delivery, room)
                else:
                    await self._child(context, pack[0], delivery, room)
            else:
                await self._one(context, pack[0], delivery)
            if not pack[0].lane.route.instant:
                await delivery.keep_up(context.settings.concurrency)
            now = time.perf_counter()
            if now - last > YIELD_EVERY_S:  # a FunctionModel never waits: let cancellation and the writer in
                await trio.lowlevel.checkpoint()
                last = time.perf_counter()

    async def _one(self, context: StatementContext, work: Work, delivery: Delivery) -> None:
        if work.lane.volatile:
            await self._ask(context, work, delivery)
            return
        key = work.flight
        while (flight := self._flights.get(key)) is not None:
            outcome = await self._join(flight)
            if outcome is not None:
                self._share(context, work, outcome, delivery)
                return
        self._flights[key] = work
        await self._own(context, work, delivery)

    async def _own(self, context: StatementContext, work: Work, delivery: Delivery, begun: Sent | None = None) -> None:
        """Ask a prompt that is in flight here, and land it where it has no answer."""
        try:
            if not await self._ask(context, work, delivery, begun):
                self._land(work, None)
        except BaseException:
            self._land(work, None)
            raise

    async def _many(self, context: StatementContext, pack: list[Work], delivery: Delivery) -> None:
        """Ask a pack in one request, and what it leaves unanswered in smaller ones, then one by one. What others ask is waited for."""
        mine = [w for w in pack if w.flight not in self._flights and stands_among_others(w.lane, w.prompt)]
        others = [w for w in pack if w not in mine]
        for work in mine:
            self._flights[work.flight] = work
        try:
            for work in await self._ask_packed(context, mine, delivery):
                if not await self._ask(context, work, delivery):
                    self._land(work, None)
        except BaseException:
            for work in mine:
                if not delivery.holds(work):
                    self._land(work, None)
            raise
        for work in others:
            await self._one(context, work, delivery)

    async def _ask_packed(self, context: StatementContext, works: list[Work], delivery: Delivery) -> list[Work]:
        """Ask in one batch, then what it left in a smaller one (halves where it left all); those that remain.

        One text of which there is no vector has all that is asked with it refused: there the halves are halved again, until it stands alone."""
        left = await self._ask_batch(context, works, delivery)
        if len(left) < len(works) or len(left) < 4:
            return left if len(left) == len(works) else await self._ask_batch(context, left, delivery)
        half = (len(left) + 1) // 2
        ask = self._ask_packed if works[0].lane.makes_vectors else self._ask_batch
        first = await ask(context, left[:half], delivery)
        return first + await ask(context, left[half:], delivery)

    async def _ask_batch(self, context: StatementContext, works: list[Work], delivery: Delivery) -> list[Work]:
        """Ask several prompts of one lane in one request; those that must be asked again."""
        if len(works) < 2:
            return works
        lane = works[0].lane
        started, sent = self._clock(), Sent(lane.route)
        request = batch_request(lane, [w.prompt for w in works])
        trace = functools.partial(self._tracer.batch, context, works, request, started, sent)
        try:
            reply = await self._sender.send(request, context.ledger, sent, party_of(context))
        except BudgetExceeded as error:
            if error.dimension in ("tokens", "dollars") and sent.usage is None:
                return works  # one by one they may fit
            trace(error=error.message)
            context.meter.add(sent.total)
            raise
        except ProviderError as failure:
            trace(error=failure.message)
            context.meter.add(sent.total)
            if failure.kind in TOO_MUCH:
                return works
            for work in works:
                self._failed(context, work, failure, delivery)
                self._land(work, None)
            return []
        except BaseException as error:
            trace(error=getattr(error, "message", "cancelled"))
            context.meter.add(sent.total)
            raise
        items = read_batch(lane, reply, len(works))
        context.meter.answered(sent.total, len(items))
        missing = len(works) - len(items)
        again = f"{missing} of {len(works)} items are asked again" if missing else None
        # Vectors are long, and each is in the memo.
        trace(error=again, reply=None if lane.makes_vectors else reply.text)
        answered_by = lane.on(sent.route)
        for item in items:
            share = share_of(sent.total, item.index, len(works))
            delivery.put(Outcome(works[item.index], answered_by, item.answer, item.text, "end", share))
        done = {item.index for item in items}
        return [w for i, w in enumerate(works) if i not in done]

    async def _join(self, flight: Work) -> Answered | Unknown | None:
        """Wait for a prompt that somebody else asked. None: it brought no answer."""
        if flight.waiting is None:
            flight.waiting = trio.Event()
        await flight.waiting.wait()
        return flight.outcome

    def _share(self, context: StatementContext, work: Work, outcome: Answered | Unknown, delivery: Delivery) -> None:
        known = context.known.get(work.lane.identity)
        if known is not None:
            known[work.prompt] = outcome
        kind = outcome.kind if isinstance(outcome, Unknown) else "answer"
        self._trace(context, work, self._clock(), Sent(work.lane.route), kind=kind, coalesced=True)
        deliver(context, work, outcome)
        delivery.handed(1)

    def _land(self, work: Work, outcome: Answered | Unknown | None) -> None:
        if work.lane.volatile or self._flights.get(work.flight) is not work:
            return
        del self._flights[work.flight]
        work.outcome = outcome
        if work.waiting is not None:
            work.waiting.set()

    async def _ask(self, context: StatementContext, work: Work, delivery: Delivery, begun: Sent | None = None) -> bool:
        """Ask one prompt, with one repair turn, and hand the outcome over. False: the call failed and ``on_error`` is null."""
        lane = work.lane
        started = self._clock()
        sent = Sent(lane.route) if begun is None else begun
        try:
            reply, answer = await self._replied(context, lane, work.prompt, sent)
        except ProviderError as failure:
            self._trace(context, work, started, sent, error=failure.message)
            context.meter.add(sent.total)
            self._failed(context, work, failure, delivery)
            return False
        except BaseException as error:
            self._trace(context, work, started, sent, error=getattr(error, "message", "cancelled"))
            context.meter.add(sent.total)
            raise
        usage = sent.total
        context.meter.answered(usage)
        if type(answer) is Answered:
            self._trace(context, work, started, sent, reply=reply.text)
        else:
            assert isinstance(answer, Unknown)
            self._trace(context, work, started, sent, kind=answer.kind, error=answer.detail, reply=reply.text)
        delivery.put(Outcome(work, lane.on(sent.route), answer, reply.text, reply.stop, usage))
        return True

    async def _child(
        self, context: StatementContext, work: Work, delivery: Delivery, room: trio.CapacityLimiter
    ) -> None:
        """Have a session answer. What it used is its own trace's; here it is one call without tokens."""
        if context.children is None:
            raise KleeneError(f"{work.site.spec.function} needs a session", hint="use k.run or python -m kleene run")
        started = self._clock()
        sent = Sent(work.lane.route)
        try:
            child = context.children.open(work.site.spec, work.site.arguments(work.site_key), context.ledger)
            reply = await run_child(child, room)
        except BaseException as error:
            self._trace(context, work, started, sent, error=getattr(error, "message", "cancelled"))
            raise
        context.meter.answered(reply.usage)
        self._trace(context, work, started, sent, reply=reply.text)
        answer = Answered(reply.text)
        delivery.put(Outcome(work, work.lane, answer, reply.text, "end", reply.usage, keep=reply.remember))

    async def _tool(
        self, context: StatementContext, work: Work, delivery: Delivery, room: trio.CapacityLimiter
    ) -> None:
        """Use a tool. It costs nothing, and what it says is kept for the statement only: the next may find something else."""
        if context.tools is None:
            raise KleeneError(f"{work.site.spec.function} needs the engine's tools", hint="use k.sql")
        try:
            used = context.tools.open(
                work.site.spec, work.site.arguments(work.site_key), context.statement, context.session
            )
            try:
                reply = await run_child(used, room)
            finally:
                context.left += [used.left] if used.left else []
        except CallFailed as failure:
            self._failed(context, work, failure, delivery)
            return
        delivery.put(Outcome(work, work.lane, Answered(reply.text), reply.text, "end", NOTHING, keep=False))

    async def _replied(
        self, context: StatementContext, lane: Lane, prompt: str, sent: Sent
    ) -> tuple[Reply, Answered | Unknown]:
        request = lane.request(prompt)
        reply = await self._sender.send(request, context.ledger, sent, party_of(context))
        answer = lane.reader.read(reply)
        if type(answer) is Unknown and answer.kind in REPAIRED and lane.reader.repairs:
            # Out of budget: the first reply stands as unknown, for a repair is worth less than the statement.
            with contextlib.suppress(BudgetExceeded):
                asked_again = repair(request, lane.reader, reply, answer)
                reply = await self._sender.send(asked_again, context.ledger, sent, party_of(context))
                answer = lane.reader.read(reply)
        return reply, answer

    def _failed(
        self, context: StatementContext, work: Work, failure: ProviderError | CallFailed, delivery: Delivery
    ) -> None:
        """A failed call fails the statement, or gives NULL where ``on_error`` says so and others may fare better."""
        message = f"{work.describe()} failed: {failure.message}"
        if context.settings.on_error != "null" or failure.kind in FATAL:
            hint = failure.hint or (None if failure.kind in FATAL else GO_ON)
            raise CallFailed(message, call=work.describe(), kind=failure.kind, hint=hint) from None
        context.meter.failure(message)
        for site, key in work.takers():
            site.answers.given[key] = None
        delivery.handed(1)


@contextlib.contextmanager
def within_wall(ledger: Ledger, left: Sequence[str] = ()) -> Iterator[None]:
    """End what runs in the block when the ledger's wall is reached, and raise ``BudgetExceeded('wall')``, which says what was ``left`` running."""
    remaining = ledger.remaining().wall
    if remaining is None:
        yield
        return
    with trio.move_on_after(remaining) as scope:
        yield
    if scope.cancelled_caught:
        error = wall_error(ledger)
        error.message = "; ".join([error.message, *left])
        raise error


def party_of(context: StatementContext) -> Party:
    """A statement as the gate knows it: bounded by its own ``concurrency``, however many rounds of it are out."""
    return Party(context.statement, context.settings.concurrency)


def candidates(handler: CallHandler, alias: str) -> tuple[Route, ...]:
    """The routes of an alias: first the one to send to, then those whose remembered answers count too.

    Handlers with one model an alias need no ``routes``.
    """
    first = handler.route(alias)
    routes = getattr(handler, "routes", None)
    return (first, *(r for r in routes(alias) if r != first)) if routes is not None else (first,)


def price_of(works: Sequence[Work]) -> Estimate:
    """The estimate for these prompts, in the packs in which they are asked."""
    calls = unpriced_calls = tokens_in = tokens_out = 0
    dollars = 0.0
    alone: dict[Lane, list[Work]] = {}
    for work in works:
        if work.lane.batch == 1 and not work.lane.spec.session:
            alone.setdefault(work.lane, []).append(work)
    for lane, mine in alone.items():
        one = lane.price_each(mine)
        calls += one.calls
        tokens_in += one.input_tokens
        tokens_out += one.output_tokens
        dollars += one.dollars
        unpriced_calls += one.unpriced
    for pack in packs([w for w in works if w.lane not in alone]):
        session = pack[0].lane.spec.session
        if session in ("mail", "tool"):
            continue
        # A child reads what it likes of its context.
        lane = pack[0].lane
        one = lane.price(0 if session else sum(len(w.prompt) for w in pack), len(pack), lane.replies(pack))
        calls += one.calls
        tokens_in += one.input_tokens
        tokens_out += one.output_tokens
        dollars += one.dollars
        unpriced_calls += one.unpriced
    return Estimate(calls, 0, tokens_in, tokens_out, dollars, unpriced_calls)


def expected(context: StatementContext, works: Sequence[Work]) -> Estimate:
    """``price_of``, with what sessions are expected to use in place of the least they could."""
    total = price_of([w for w in works if not w.lane.spec.session])
    children: dict[CallSpec, list[tuple[str, ...]]] = {}
    for work in works:
        if work.lane.spec.session == "child":
            children.setdefault(work.lane.spec, []).append(work.site.arguments(work.site_key))
    for spec, arguments in children.items():
        if context.children is not None:
            calls, tokens, dollars, _ = context.children.expected_cost(spec, arguments)
            total = total + Estimate(calls, 0, tokens, 0, dollars)
    return total


def refusal(context: StatementContext, dimension: str, needed: float, remaining: float) -> Refused:
    """The error of a statement that does not fit, with what whoever wrote it can do: a session cannot raise its budget."""
    what = "$" + number(needed) if dimension == "dollars" else f"{number(needed)} {dimension}"
    left = "$" + number(remaining) if dimension == "dollars" else number(remaining)
    allowed, way = f"{left} remain", f"raise budget.{dimension}"
    if _meets_its_cap(context, dimension, remaining):
        allowed, way = f"statement.calls leaves {left}", "raise statement.calls (RESET statement.calls takes it away)"
    elif context.session is not None:
        way = "ask several rows with one call (BATCH 10)"
    return Refused(
        f"refused before sending: the statement needs {what} and {allowed}",
        dimension=dimension,
        needed=needed,
        remaining=remaining,
        hint=f"add a filter or LIMIT, use a cheaper alias, or {way}",
    )


def _meets_its_cap(context: StatementContext, dimension: str, remaining: float) -> bool:
    """Whether it is ``statement.calls`` that is too small, and nothing above it."""
    cap, parent = context.settings.statement_calls, context.ledger.parent
    if dimension != "calls" or cap is None or remaining != max(0, cap - context.ledger.used.requests):
        return False
    above = None if parent is None else parent.remaining().calls
    return above is None or above > remaining


def unpriced(route: Route) -> KleeneError:
    return ConfigError(
        f"a dollar budget needs a price, and {route.model} has none",
        hint=f'add to kleene.toml: [pricing."{route.model}"] input_per_mtok = 1.0, output_per_mtok = 5.0',
    )
