"""One request until its reply: reserved at its worst case before each attempt, settled after it, retried where that can help."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import attrs
import trio

from kleene.planner.errors import BudgetExceeded
from kleene.planner.specs import Usage
from kleene.udfs.protocols import CallHandler, Listener, ProviderError, Reply, Request, Route, out_of_time
from kleene.udfs.tokens import TokenRatios
from kleene.udfs.work import usage_of, usage_of_failure

if TYPE_CHECKING:
    from kleene.udfs.gate import Gate, Party
    from kleene.udfs.ledger import Ledger, Reservation

MAX_RETRIES = 3
RETRY_WAITS_S = (0.25, 1.0, 4.0)
MAX_RETRY_AFTER_S = 30.0
RATE_LIMIT_WAIT_S = 1.0
RATE_LIMIT_PATIENCE_S = 300.0
SETTLE_POLL_S = 0.01
TIMEOUT_SLACK_S = (
    1.0  # so much longer than its timeout a request may take: the handler keeps the time, and knows whom to ask next
)
OVERLOADED = ("rate_limited", "overloaded")


class Sent:
    """What one call has sent so far, and which model answered (another than asked, where a candidate took over).

    ``begun`` is what a first attempt brought that was made and settled elsewhere (``udfs.atonce``)."""

    __slots__ = ("begun", "degraded", "failure", "retries", "route", "usage")

    def __init__(self, route: Route) -> None:
        self.route = route
        self.usage: Usage | None = None
        self.retries = 0
        self.degraded: str | None = None
        self.failure: str | None = None  # the kind of the last attempt's error
        self.begun: Reply | ProviderError | None = None

    def add(self, usage: Usage) -> None:
        self.usage = usage if self.usage is None else self.usage + usage

    @property
    def total(self) -> Usage:
        return Usage() if self.usage is None else self.usage


@attrs.define(eq=False)
class _Heard:
    """What a listener was told of the attempt that runs."""

    listener: Listener
    characters: int = 0

    def __call__(self, text: str) -> None:
        self.characters += len(text)
        self.listener(text)

    def broke_off(self, error: str, next_model: str | None) -> None:
        if self.characters:
            self.characters = 0
            self.listener.dropped(error, next_model)


class Sender:
    """Sends under a gate. ``retry_waits_s`` are the waits before each further attempt; rate limits use up patience, not attempts."""

    def __init__(
        self,
        handler: CallHandler,
        gate: Gate,
        *,
        retry_waits_s: tuple[float, ...] = RETRY_WAITS_S,
        patience_s: float = RATE_LIMIT_PATIENCE_S,
    ):
        self._handler = handler
        self._keeps_time = getattr(handler, "keeps_time", False)
        self._gate = gate
        self._retry_waits_s = retry_waits_s
        self._patience_s = patience_s
        self._random = random.Random(0)  # jitter only
        self.ratios = TokenRatios()

    async def send(
        self, request: Request, ledger: Ledger, sent: Sent, party: Party, listener: Listener | None = None
    ) -> Reply:
        """The reply, told to the ``listener`` as it arrives. Where a request breaks off another is sent, from the start, to the alias's next
        candidate or to the same again: what was told of it is void, and both count. Raises ``ProviderError`` when asking again cannot help,
        ``BudgetExceeded`` when an attempt cannot be reserved."""
        attempt = 0
        patience: float | None = None
        heard = None if listener is None else _Heard(listener)
        while True:
            route = sent.route
            endpoint = await self._gate.enter(route, party)
            try:
                started = time.monotonic()
                reply = await self._attempt(request, route, ledger, sent, heard)
                endpoint.replied(self._gate.bound)
                return reply
            except ProviderError as failure:
                sent.failure = failure.kind
                patience = started + self._patience_s if patience is None else patience
                following = failure.reroute
                wait = 0.0 if following is not None else self._wait_before_retry(failure, attempt, patience)
                if following is None and failure.kind in OVERLOADED:
                    endpoint.throttled(time.monotonic(), started, wait or 0.0)
                if heard is not None:
                    heard.broke_off(failure.message, None if wait is None else (following or route).model)
                if wait is None:
                    raise
                if following is not None:
                    sent.route = following
                    request = attrs.evolve(request, model=following.model)
                elif failure.kind != "rate_limited":
                    attempt += 1
                sent.retries += 1
            except BaseException as failure:
                if heard is not None:
                    heard.broke_off(getattr(failure, "message", "cancelled"), None)
                raise
            finally:
                self._gate.leave(endpoint, party)
            if wait:
                await trio.sleep(wait)

    async def _attempt(self, request: Request, route: Route, ledger: Ledger, sent: Sent, heard: _Heard | None) -> Reply:
        begun, sent.begun = sent.begun, None
        if isinstance(begun, ProviderError):
            raise begun
        if begun is not None:
            sent.degraded = begun.degraded or None
            return begun
        more = () if heard is None else (heard,)
        reservation = await self._reserve(request, route, ledger)
        try:
            if route.instant or self._keeps_time:
                reply = await self._handler.send(request, route, *more)
            else:
                with trio.move_on_after(request.options.timeout + TIMEOUT_SLACK_S) as scope:
                    reply = await self._handler.send(request, route, *more)
                if scope.cancelled_caught:
                    raise out_of_time(route.model, request.options.timeout)
        except BaseException as failure:
            # What a request without a reply used is not known: what it may be billed stays booked.
            known = isinstance(failure, ProviderError)
            usage = usage_of_failure(
                request,
                route,
                sent=failure.sent if known else True,  # type: ignore[attr-defined]
                billed=failure.billed if known else True,  # type: ignore[attr-defined]
                characters=0 if heard is None else heard.characters,
            )
            reservation.settle(usage)
            sent.add(usage)
            raise
        usage = usage_of(request, reply, route)
        reservation.settle(usage)
        sent.add(usage)
        sent.degraded, sent.failure = reply.degraded or None, None
        if reply.input_tokens is not None and not route.is_function:  # a function's tokens are made up from characters
            tokens = reply.input_tokens + reply.cache_read_tokens + reply.cache_write_tokens
            self.ratios.learn(route.model, request.characters(), tokens)
        return reply

    async def _reserve(self, request: Request, route: Route, ledger: Ledger) -> Reservation:
        """Reserve the worst case, waiting for requests in flight to settle where that may make room."""
        tokens_in, tokens_out = request.bytes_bound(), request.options.max_tokens
        dollars = 0.0 if route.price is None else route.price.dollars(tokens_in, tokens_out)
        while True:
            try:
                return ledger.reserve(1, tokens_in + tokens_out, dollars)
            except BudgetExceeded:
                if not ledger.has_reservations():
                    raise
            await trio.sleep(SETTLE_POLL_S)  # something in flight will settle below its worst case

    def _wait_before_retry(self, failure: ProviderError, attempt: int, patience: float) -> float | None:
        if not failure.retryable:
            return None
        asked = min(failure.retry_after or 0.0, MAX_RETRY_AFTER_S)
        if failure.kind == "rate_limited":
            # A rate limit is not a failure: it uses up patience, not attempts.
            wait = (asked or RATE_LIMIT_WAIT_S) * self._random.uniform(1.0, 1.2)
            return wait if time.monotonic() + wait < patience else None
        if attempt >= len(self._retry_waits_s):
            return None
        return max(self._retry_waits_s[attempt] * self._random.uniform(0.8, 1.2), asked)
