"""Counts of what goes on, from the events of an engine: what progress on a terminal and in a notebook is made of."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kleene.rendering.operators import Operators
from kleene.rendering.usage import thousands

if TYPE_CHECKING:
    from rich.live import Live

    from kleene.udfs.events import (
        BudgetStopped,
        CallDropped,
        CallFinished,
        CallStreamed,
        Event,
        RunOfStatement,
        SessionStarted,
        StatementFinished,
        StatementPlanned,
        TurnFinished,
    )

REPLY_CHARACTERS = 2_000  # kept


class Tally:
    """Counts what events tell. Events come from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.started_at = time.monotonic()
        self.notes: deque[str] = deque()  # text to be printed above the line, in order
        self.turn = 0
        self.known = self.answered = self.memo_hits = self.tokens = self.unknown = self.failed = 0
        self.dollars = 0.0
        self.stopped = ""
        self.root: str | None = None
        self.reply = ""  # of the root session's turn, as far as it has come
        self.wake = threading.Event()  # set when something is to be shown at once
        self.share: Callable[[], tuple[str, float] | None] = lambda: (
            None
        )  # the budget's fullest dimension, and how full it is
        self.operators = Operators()
        self._reply_of: tuple[str, int] | None = None
        self._screen = threading.RLock()
        self._live: Live | None = None

    @contextmanager
    def painting(self, live: Live) -> Iterator[None]:
        """For the time in which the line is on the screen."""
        with self._screen:
            self._live = live
        try:
            yield
        finally:
            with self._screen:
                self._live = None

    def paint(self, refresh: Callable[[], None]) -> None:
        with self._screen:
            refresh()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the line off the screen for the time of a question. Several threads that ask wait for each other."""
        with self._screen:
            live = self._live
            if live is not None:
                live.stop()
            try:
                yield
            finally:
                if live is not None:
                    live.start()

    def __call__(self, event: Event) -> None:
        """Take an event. Kinds that say nothing about progress are passed over."""
        handle = getattr(self, f"on_{type(event).__name__}", None)
        if handle is not None:
            with self._lock:
                handle(event)

    def on_RunOfStatement(self, event: RunOfStatement) -> None:
        self.known = max(self.known, self.answered + event.notes)
        self.operators.ran(event)

    def on_StatementPlanned(self, event: StatementPlanned) -> None:
        self.operators.planned(event)

    def on_StatementFinished(self, event: StatementFinished) -> None:
        self.operators.finished(event.statement)

    def on_CallFinished(self, event: CallFinished) -> None:
        self.operators.took(event, time.monotonic())
        self.answered += event.batch_size
        self.known = max(self.known, self.answered)
        unknown = event.kind != "answer"  # such an answer has an error that says why
        self.unknown += unknown
        if event.memo_hit:
            self.memo_hits += event.batch_size
            return
        self.failed += event.error is not None and not unknown
        self.tokens += event.input_tokens + event.output_tokens
        self.dollars += event.dollars or 0.0

    def on_TurnFinished(self, event: TurnFinished) -> None:
        self.turn = max(self.turn, event.turn)

        if event.session == self.root:
            self.reply = ""

    def on_SessionStarted(self, event: SessionStarted) -> None:
        if event.parent is None:
            self.root = event.session

    def on_CallStreamed(self, event: CallStreamed) -> None:
        if event.session != self.root:
            return
        which = (event.call, event.attempt)
        self.reply = event.text if which != self._reply_of else (self.reply + event.text)[-REPLY_CHARACTERS:]
        self._reply_of = which
        self.wake.set()

    def on_CallDropped(self, event: CallDropped) -> None:
        if self._reply_of == (event.call, event.attempt):
            self.reply = ""
            self.wake.set()

    def on_BudgetStopped(self, event: BudgetStopped) -> None:
        self.stopped = event.dimension

    def cancelled(self) -> str:
        """What a person who pressed Ctrl-C wants to know.

        >>> tally = Tally()
        >>> tally.cancelled()
        'cancelled'
        >>> tally.known, tally.answered, tally.dollars = 300, 12, 0.0123
        >>> tally.cancelled()
        'cancelled: 12 of 300 calls were answered and are kept, $0.0123 spent'
        """
        with self._lock:
            if not self.known:
                return "cancelled"
            spent = f", ${self.dollars:.4f} spent" if self.dollars else ""
            return (
                f"cancelled: {self.answered - self.failed:,} of {self.known:,} calls were answered and are kept{spent}"
            )

    def line(self, now: float) -> str:
        """The state in words, without what is nil.

        >>> tally = Tally()
        >>> tally.known, tally.answered, tally.memo_hits, tally.tokens, tally.dollars = 500, 120, 20, 34_100, 0.1234
        >>> tally.line(tally.started_at + 8)
        '120 of 500 calls · 20 from the memo · 34.1k tokens · $0.1234 · 8 s'
        """
        share = self.share()
        with self._lock:
            parts = [f"turn {self.turn + 1}"] if self.turn else []
            if self.known:
                parts.append(f"{self.answered:,} of {self.known:,} calls")
            if self.memo_hits:
                parts.append(f"{self.memo_hits:,} from the memo")
            if self.unknown:
                parts.append(f"{self.unknown:,} unknown")
            if self.failed:
                parts.append(f"{self.failed:,} failed")
            if self.tokens:
                parts.append(f"{thousands(self.tokens)} tokens")
            if self.dollars:
                parts.append(f"${self.dollars:.4f}")
            if share is not None:
                parts.append(bar(*share))
            if self.stopped:
                parts.append(f"out of {self.stopped}")
            parts.append(f"{max(0.0, now - self.started_at):.0f} s")
        return " · ".join(parts)

    def lines(self, now: float, width: int) -> list[str]:
        """A line for each operator that has something to do."""
        with self._lock:
            return self.operators.lines(now, width)


def bar(dimension: str, share: float) -> str:
    """
    >>> bar("dollars", 0.234)
    '▰▰▱▱▱▱▱▱▱▱ 23% of the dollars'
    """
    full = min(10, int(share * 10))
    return "▰" * full + "▱" * (10 - full) + f" {min(share, 1):.0%} of the {dimension}"
