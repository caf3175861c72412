"""What calls leave in the trace: one event for each request with its retries, for each answer of the memo, and for each turn."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from kleene.planner.specs import Usage
from kleene.udfs.events import CallDropped, CallFinished, CallsFinished, CallStreamed, Event
from kleene.udfs.text import digest_of

if TYPE_CHECKING:
    from kleene.udfs.blocks import Block
    from kleene.udfs.protocols import Reply, Request
    from kleene.udfs.sending import Sent
    from kleene.udfs.statement import StatementContext
    from kleene.udfs.work import Lane, Work

NOTHING = Usage()


@attrs.frozen
class Stream:
    """The reply of one turn as it arrives (a ``Listener``), as events."""

    _emit: Callable[[Event], None]
    _clock: Callable[[], float]
    _session: str | None
    _call: str
    _sent: Sent

    def __call__(self, text: str) -> None:
        at, attempt = self._clock(), self._sent.retries
        self._emit(CallStreamed(at=at, session=self._session, call=self._call, attempt=attempt, text=text))

    def dropped(self, error: str, next_model: str | None) -> None:
        self._emit(
            CallDropped(
                at=self._clock(),
                session=self._session,
                call=self._call,
                attempt=self._sent.retries,
                model=self._sent.route.model,
                error=error,
                next_model=next_model,
            )
        )


class Tracer:
    """Emits an event for each call. Calls are numbered within the engine; ``clock`` is in seconds since the epoch."""

    def __init__(self, emit: Callable[[Event], None], clock: Callable[[], float]):
        self._emit = emit
        self._clock = clock
        self._calls = 0
        self._name = secrets.token_hex(3)  # turns of one session are asked by several processes where it is resumed

    def stream(self, session: str | None, request: Request, sent: Sent) -> Stream:
        """Who tells the pieces of a turn's reply as they arrive."""
        return Stream(self._emit, self._clock, session, request.path or "", sent)

    def call(
        self,
        context: StatementContext,
        work: Work,
        started: float,
        sent: Sent,
        *,
        kind: str = "answer",
        error: str | None = None,
        reply: str | None = None,
        coalesced: bool = False,
    ) -> None:
        """A prompt that was sent, or shared another's request (``coalesced``)."""
        usage, route, statement = sent.usage or NOTHING, sent.route, context.statement
        self._calls += 1
        self._emit(
            CallFinished(
                at=self._clock(),
                call=f"{statement}.{self._calls}",
                session=context.session,
                statement=statement,
                site=work.site.answers.name,
                alias=route.alias,
                model=route.model,
                provider=route.provider,
                digest=digest_of(work.prompt),
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
                prompt=work.prompt,
                reply=reply,
                degraded=sent.degraded,
                wants="session" if work.lane.spec.session else "embedding" if work.lane.makes_vectors else "text",
                error_kind=sent.failure if error is not None else None,
            )
        )

    def block(self, context: StatementContext, block: Block) -> None:
        """Prompts that were asked one after the other, each answered in full at its first request."""
        lane, first = block.lane, self._calls + 1
        self._calls += len(block)
        self._emit(
            CallsFinished(
                at=block.finished[-1],
                statement=context.statement,
                session=context.session,
                number=first,
                sites=[w.site.answers.name for w in block.works],
                alias=lane.route.alias,
                model=lane.route.model,
                provider=lane.route.provider,
                wants="embedding" if lane.makes_vectors else "text",
                started=block.started,
                finished=block.finished,
                input_tokens=block.input_tokens,
                output_tokens=block.output_tokens,
                dollars=block.dollars,
                prompts=[w.prompt for w in block.works],
                replies=block.texts,
            )
        )

    def batch(
        self,
        context: StatementContext,
        works: Sequence[Work],
        request: Request,
        started: float,
        sent: Sent,
        *,
        error: str | None = None,
        reply: str | None = None,
    ) -> None:
        """A batch is one row of the trace, with its size."""
        site, statement = works[0].site.name, context.statement
        self._request(statement, context.session, site, request, started, sent, error, reply, len(works))

    def turn(
        self,
        session: str | None,
        request: Request,
        started: float,
        sent: Sent,
        *,
        error: str | None,
        reply: Reply | None,
    ) -> None:
        """A session's turn belongs to no statement."""
        self._request(None, session, None, request, started, sent, error, None if reply is None else reply.said, 1)

    def remembered(
        self, context: StatementContext, lane: Lane, site: str, count: int, kind: str, prompt: str | None, text: str
    ) -> None:
        """Answers that the memo gave: one row for one, or one for many of them (``prompt`` None)."""
        now = self._clock()
        self._emit(
            CallFinished(
                at=now,
                call=self._next(context.statement),
                session=context.session,
                statement=context.statement,
                site=site,
                alias=lane.route.alias,
                model=lane.route.model,
                provider=lane.route.provider,
                digest="" if prompt is None else digest_of(prompt),
                batch_size=count,
                attempts=0,
                started_at=now,
                dollars=0.0,
                memo_hit=True,
                kind=kind,
                prompt=prompt,
                reply=text if prompt is not None else None,
            )
        )

    def remembered_block(
        self, context: StatementContext, lane: Lane, sites: list[str], prompts: list[str], texts: list[str]
    ) -> None:
        """Answers that the memo gave, each of them a row."""
        now, count, first = self._clock(), len(prompts), self._calls + 1
        self._calls += count
        self._emit(
            CallsFinished(
                at=now,
                statement=context.statement,
                session=context.session,
                number=first,
                sites=sites,
                alias=lane.route.alias,
                model=lane.route.model,
                provider=lane.route.provider,
                wants="text",
                started=[now] * count,
                finished=[now] * count,
                input_tokens=[0] * count,
                output_tokens=[0] * count,
                dollars=[0.0] * count,
                prompts=prompts,
                replies=texts,
                memo_hit=True,
            )
        )

    def _next(self, statement: str | None) -> str:
        self._calls += 1
        return f"{statement or f'turn-{self._name}'}.{self._calls}"

    def _request(
        self,
        statement: str | None,
        session: str | None,
        site: str | None,
        request: Request,
        started: float,
        sent: Sent,
        error: str | None,
        reply: str | None,
        size: int,
    ) -> None:
        usage, route = sent.total, sent.route
        self._emit(
            CallFinished(
                at=self._clock(),
                call=self._next(statement),
                session=session,
                statement=statement,
                site=site,
                alias=route.alias,
                model=route.model,
                provider=route.provider,
                digest=digest_of(request.prompt),
                batch_size=size,
                attempts=usage.requests,
                started_at=started,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cache_read_tokens=usage.cache_read_tokens,
                cache_write_tokens=usage.cache_write_tokens,
                dollars=None if usage.unpriced and not usage.dollars else usage.dollars,
                error=error,
                prompt=request.prompt,
                reply=reply,
                degraded=sent.degraded,
                wants=request.wants,
                error_kind=sent.failure if error is not None else None,
            )
        )
