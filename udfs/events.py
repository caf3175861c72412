"""What happens, as frozen values on one stream. The store's writer, the progress display and embedders subscribe to it.

Times are seconds since the epoch. ``to_dict`` is the JSON form (one line an event in the event file).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

from kleene.udfs.text import digest_of


@attrs.frozen(kw_only=True)
class Event:
    at: float

    def to_dict(self) -> dict[str, Any]:
        return {"event": type(self).__name__, **attrs.asdict(self)}


@attrs.frozen(kw_only=True)
class RunStarted(Event):
    run: str
    task: str


@attrs.frozen(kw_only=True)
class SessionStarted(Event):
    session: str
    run: str
    parent: str | None
    depth: int
    role: str
    task: str


@attrs.frozen(kw_only=True)
class SessionFinished(Event):
    session: str
    outcome: str
    forced: bool
    turns: int
    calls: int
    tokens: int
    dollars: float
    error: str | None = None


@attrs.frozen(kw_only=True)
class TurnFinished(Event):
    session: str
    turn: int
    reply: str
    sql: str | None
    feedback: str


@attrs.frozen(kw_only=True)
class StatementStarted(Event):
    statement: str
    session: str | None
    sql: str


@attrs.frozen(kw_only=True)
class StatementPlanned(Event):
    statement: str
    duckdb_sql: str
    explain: str
    estimate: str | None = None  # JSON text; "sites": how each call site is written, by its number


@attrs.frozen(kw_only=True)
class StatementFinished(Event):
    statement: str
    rows: int
    calls: int
    tokens: int
    dollars: float
    memo_hits: int
    unknown: int
    error: str | None = None


@attrs.frozen(kw_only=True)
class RunOfStatement(Event):
    """One run of the fixed point: ``notes`` arguments were missing, ``answered`` of the statement's answers were known at its start.
    ``lacked`` are the missing ones by call site, for displays."""

    statement: str
    run: int
    notes: int
    answered: int
    seconds: float
    lacked: dict[str, int] | None = None


@attrs.frozen(kw_only=True)
class CallStarted(Event):
    call: str
    statement: str | None
    site: str | None
    alias: str
    model: str


@attrs.frozen(kw_only=True)
class CallFinished(Event):
    """One answered (or failed) call: a request with its retries, or a memo hit, or a share of another's request in flight."""

    call: str
    session: str | None
    statement: str | None
    site: str | None
    alias: str
    model: str
    provider: str
    digest: str
    batch_size: int
    attempts: int
    started_at: float
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    dollars: float | None = None
    memo_hit: bool = False
    coalesced: bool = False
    kind: str = "answer"  # or the kind of unknown
    error: str | None = None
    prompt: str | None = None
    reply: str | None = None
    degraded: str | None = None  # what the model lacks that was asked for, and what was done instead
    wants: str = "text"  # or embedding; session: a child session answered
    error_kind: str | None = None  # of ProviderError


@attrs.frozen(kw_only=True)
class CallsFinished(Event):
    """Calls of one model that were sent once each and answered in full, or (``memo_hit``) remembered, as columns of one length. On the stream it
    stands for as many ``CallFinished``: only sinks that take ``blocks`` see it. ``number`` is that of the first call of the statement's
    ``call``."""

    statement: str
    session: str | None
    number: int
    sites: Sequence[str]
    alias: str
    model: str
    provider: str
    wants: str
    started: Sequence[float]
    finished: Sequence[float]
    input_tokens: Sequence[int]
    output_tokens: Sequence[int]
    dollars: Sequence[float]
    prompts: Sequence[str]
    replies: Sequence[str]
    memo_hit: bool = False

    def __len__(self) -> int:
        return len(self.prompts)

    def calls(self) -> list[str]:
        """The calls' names."""
        return [f"{self.statement}.{n}" for n in range(self.number, self.number + len(self.prompts))]

    def digests(self) -> list[str]:
        """The SHA-256 of each prompt."""
        return [digest_of(p) for p in self.prompts]

    def one_by_one(self) -> Iterator[CallFinished]:
        columns = (
            self.calls(),
            self.sites,
            self.started,
            self.finished,
            self.input_tokens,
            self.output_tokens,
            self.dollars,
        )
        for values in zip(*columns, self.prompts, self.replies, strict=True):
            call, site, started, finished, asked, said, dollars, prompt, reply = values
            yield CallFinished(
                at=finished,
                call=call,
                session=self.session,
                statement=self.statement,
                site=site,
                alias=self.alias,
                model=self.model,
                provider=self.provider,
                digest=digest_of(prompt),
                batch_size=1,
                attempts=0 if self.memo_hit else 1,
                started_at=started,
                input_tokens=asked,
                output_tokens=said,
                dollars=dollars,
                memo_hit=self.memo_hit,
                prompt=prompt,
                reply=reply,
                wants=self.wants,
            )


@attrs.frozen(kw_only=True)
class CallStreamed(Event):
    """A piece of a session's reply as it arrives, for displays: it is neither stored nor written to the event file, which have the whole.

    ``call`` is the turn's path, ``attempt`` counts from 0: with the next one the reply begins anew.
    """

    session: str | None
    call: str
    attempt: int
    text: str


@attrs.frozen(kw_only=True)
class CallDropped(Event):
    """What was streamed of an attempt is no reply, for it broke off: displays drop it. Like ``CallStreamed`` it is for displays alone.

    ``model`` was asked, ``error`` is what happened, ``next_model`` is asked now, from the start (None: nobody, the turn failed).
    """

    session: str | None
    call: str
    attempt: int
    model: str
    error: str
    next_model: str | None = None


@attrs.frozen(kw_only=True)
class RoundFinished(Event):
    statement: str
    cte: str
    round: int
    delta_rows: int
    total_rows: int


@attrs.frozen(kw_only=True)
class ToolUsed(Event):
    statement: str | None
    tool: str
    args: str
    bytes_out: int
    elapsed_ms: float
    error: str | None = None


@attrs.frozen(kw_only=True)
class OperatorMeasured(Event):
    """One node of a statement's plan, estimated and counted; None where it was not. ``parent`` is None at the root. ``seconds`` are DuckDB's
    own in the last run."""

    statement: str
    node: int
    parent: int | None
    operator: str
    detail: str = ""
    est_rows: float | None = None
    rows: int | None = None
    est_calls: float | None = None
    calls: int | None = None
    est_tokens: float | None = None
    tokens: int | None = None
    est_dollars: float | None = None
    dollars: float | None = None
    memo_hits: int | None = None
    seconds: float | None = None


@attrs.frozen(kw_only=True)
class BudgetStopped(Event):
    statement: str | None
    session: str | None
    dimension: str
    limit: float
    used: float


@attrs.frozen(kw_only=True)
class FinalRecorded(Event):
    session: str
    rows: str  # JSON text


Sink = Callable[[Event], None]


@attrs.frozen(eq=False)
class _Subscription:
    sink: Sink
    blocks: bool


class EventStream:
    """Fans events out to subscribers, in order of subscription. A subscriber must be quick and must not raise; one that raises is dropped
    and its error kept in ``failures``."""

    def __init__(self) -> None:
        self._subscriptions: list[_Subscription] = []
        self.failures: list[BaseException] = []

    def subscribe(self, sink: Sink, *, blocks: bool = False) -> Callable[[], None]:
        """``blocks``: the sink takes ``CallsFinished`` as it is; the others get each of its calls. What is returned ends this subscription."""
        subscription = _Subscription(sink, blocks)
        self._subscriptions.append(subscription)
        return lambda: self._end(subscription)

    def emit(self, event: Event) -> None:
        for subscription in list(self._subscriptions):
            try:
                if isinstance(event, CallsFinished) and not subscription.blocks:
                    for one in event.one_by_one():
                        subscription.sink(one)
                else:
                    subscription.sink(event)
            except Exception as error:
                self.failures.append(error)
                self._end(subscription)

    def _end(self, subscription: _Subscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
