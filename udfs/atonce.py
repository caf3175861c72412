"""Prompts that a Python function answers in the loop's own thread: asked in slices, so that what surrounds a call is paid for once a slice.

A slice is made without a wait from its reservation to its settlement, so nobody sees its budget but as it was before or is after. It lasts
about 4 ms; then cancellation and the others on the loop have their turn. What is not ordinary (a failure, an answer that cannot be read, a prompt
that somebody else asks already) is left to the way on which prompts are asked one by one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from kleene.planner.errors import BudgetExceeded
from kleene.planner.specs import Usage
from kleene.udfs.answers import Answered
from kleene.udfs.blocks import Block
from kleene.udfs.protocols import AtOnce, ProviderError, Reply, Request, bytes_of
from kleene.udfs.sending import Sent
from kleene.udfs.work import usage_of, usage_of_failure

if TYPE_CHECKING:
    from kleene.udfs.gate import Gate, Party
    from kleene.udfs.ledger import Reservation
    from kleene.udfs.statement import StatementContext
    from kleene.udfs.work import Lane, Work

SLICE_S = 0.004
FIRST, LEAST, MOST = 64, 8, 2048  # requests of a lane's first slice, and of later ones, which follow how many fitted


@attrs.define(eq=False)
class Slice:
    """What a slice did: ``done`` works were taken from the list, and ``left`` must be asked (or asked on) one by one, with what they have sent.

    ``closed``: the rest has to be asked one by one.
    """

    done: int = 0
    left: list[tuple[Work, Sent | None]] = attrs.field(factory=list)
    closed: bool = False
    answered: int = 0
    others: Usage = attrs.field(factory=Usage)


@attrs.frozen(eq=False)
class Slicer:
    """Asks the works of one lane. ``flights`` has what is on its way; what a slice asks is added and stays until it is landed."""

    context: StatementContext
    lane: Lane
    answer: AtOnce
    gate: Gate
    party: Party
    flights: dict[tuple[str, str], Work]
    clock: Callable[[], float]

    def take(self, works: list[Work], start: int, most: int, block: Block, made: Slice) -> None:
        """Ask from ``start`` on, at most so many and for about 4 ms; the ordinary answers are added to the block. Where this raises, what is
        ``left`` is still in flight."""
        endpoint = self.gate.enter_now(self.lane.route, self.party)
        reservation = None if endpoint is None else self._reserve(works[start : start + most])
        if endpoint is None or reservation is None:
            made.closed = True
            if endpoint is not None:
                self.gate.leave(endpoint, self.party)
            return
        before, began = len(block.works), self.clock()
        try:
            self._ask(works, start, most, block, made)
        finally:
            now = self.clock()
            made.answered = len(block.texts) - before
            block.started += [began] * made.answered
            block.finished += [now] * made.answered
            reservation.settle(block.usage(before) + made.others)
            self.gate.leave(endpoint, self.party)

    def _reserve(self, works: list[Work]) -> Reservation | None:
        """The worst case of all of them; None where the budget does not hold so much, or the wall is reached."""
        request, price = self.lane.request(""), self.lane.route.price
        bound, said = request.bytes_bound(), request.options.max_tokens
        sizes = [bytes_of(w.prompt) for w in works]
        dollars = 0.0 if price is None else math.fsum(price.dollars(bound + n, said) for n in sizes)
        try:
            return self.context.ledger.reserve(len(works), sum(sizes) + len(works) * (bound + said), dollars)
        except BudgetExceeded:
            return None

    def _ask(self, works: list[Work], start: int, most: int, block: Block, made: Slice) -> None:
        lane, answer, flights = self.lane, self.answer, self.flights
        identity, shared, read, route = lane.identity, not lane.volatile, lane.reader.read, lane.route
        fails = self.context.settings.on_error != "null"
        until = time.perf_counter() + SLICE_S
        for work in works[start : start + most]:
            prompt = work.prompt
            if shared:
                key = (identity, prompt)
                if key in flights:
                    made.done += 1
                    made.left.append((work, None))
                    continue
                flights[key] = work
            request = lane.request(prompt)
            try:
                reply = answer(request)
                said = read(reply) if reply is not None and is_ordinary(reply) else None
                if type(said) is Answered and reply is not None:
                    self._add(work, request, reply, said, block)
            except ProviderError as failure:
                made.done += 1
                self._leave(
                    work, failure, usage_of_failure(request, route, sent=failure.sent, billed=failure.billed), made
                )
                if fails:
                    return
                continue
            except BaseException:
                if shared:
                    del flights[key]
                made.others += usage_of_failure(request, route, sent=True, billed=True)
                raise
            if reply is None:
                if shared:
                    del flights[key]
                made.closed = True
                return
            made.done += 1
            if type(said) is not Answered:
                self._leave(work, reply, usage_of(request, reply, route), made)
            if time.perf_counter() > until:
                return

    def _add(self, work: Work, request: Request, reply: Reply, said: Answered, block: Block) -> None:
        asked, written, dollars = reply.input_tokens, reply.output_tokens, reply.dollars
        if asked is None or written is None or dollars is None:
            price = self.lane.route.price
            if asked is None or written is None:
                usage = usage_of(request, reply, self.lane.route)
                asked, written, dollars = usage.input_tokens, usage.output_tokens, usage.dollars
            else:
                dollars = 0.0 if price is None else price.dollars(asked, written)
        figures = int(asked), int(written), float(dollars)  # a function's may be numpy's, which JSON has not
        block.works.append(work)
        block.answers.append(said)
        block.texts.append(reply.text)
        block.input_tokens.append(figures[0])
        block.output_tokens.append(figures[1])
        block.dollars.append(figures[2])

    def _leave(self, work: Work, begun: Reply | ProviderError, usage: Usage, made: Slice) -> None:
        sent = Sent(self.lane.route)
        sent.add(usage)
        sent.begun = begun
        made.others += usage
        made.left.append((work, sent))


def is_ordinary(reply: Reply) -> bool:
    """Whether a reply is whole and says no more than its text and what it cost."""
    return reply.stop == "end" and not (reply.cache_read_tokens or reply.cache_write_tokens or reply.degraded)


def may_wait(begun: Reply | ProviderError | None) -> bool:
    """Whether going on from here may take time: a pause before a retry, or another model."""
    return isinstance(begun, ProviderError) and (begun.retryable or begun.reroute is not None)
