"""What is going on, on one line of the terminal: calls done of those known so far, memo hits, tokens, dollars, time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kleene.cli.terminal import Terminal
from kleene.rendering.table import visible
from kleene.rendering.usage import thousands

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from kleene.udfs.events import (
        BudgetStopped,
        CallDropped,
        CallFinished,
        CallStreamed,
        Event,
        RunOfStatement,
        SessionStarted,
        TurnFinished,
    )

REFRESH_PER_S = 8
QUIET_S = 0.4  # a statement that is done sooner shows nothing
REPLY_LINES = 6
REPLY_CHARACTERS = 2_000  # kept
SHOWN_CHARACTERS = 480  # some lines of a narrow terminal


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

    def on_CallFinished(self, event: CallFinished) -> None:
        self.answered += 1
        self.known = max(self.known, self.answered)
        self.unknown += event.error is None and event.kind != "answer"
        if event.memo_hit:
            self.memo_hits += 1
            return
        self.failed += event.error is not None
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


def bar(dimension: str, share: float) -> str:
    """
    >>> bar("dollars", 0.234)
    '▰▰▱▱▱▱▱▱▱▱ 23% of the dollars'
    """
    full = min(10, int(share * 10))
    return "▰" * full + "▱" * (10 - full) + f" {min(share, 1):.0%} of the {dimension}"


@contextmanager
def shown(tally: Tally, terminal: Terminal, *, replies: bool = False) -> Iterator[None]:
    """Keep the tally's line on the terminal while the block runs, and take it away afterwards. Elsewhere nothing is written.

    With ``replies`` all is made ready at once, so that the first text of a reply shows without waiting for it.
    """
    tally.started_at = time.monotonic()
    if not terminal.shows_progress:
        yield
        return
    done = threading.Event()
    painter = threading.Thread(target=paint, args=(tally, terminal, done, replies), name="kleene-progress", daemon=True)
    painter.start()
    try:
        yield
    finally:
        done.set()
        tally.wake.set()
        painter.join(timeout=2)
        while tally.notes:
            terminal.say(tally.notes.popleft())


def paint(tally: Tally, terminal: Terminal, done: threading.Event, replies: bool) -> None:
    if replies:
        import rich.live
        import rich.spinner  # noqa: F401
    tally.wake.wait(QUIET_S)
    if done.is_set():
        return
    from rich.console import Console, Group
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

    spinner = Spinner("dots", text=text_of(tally))
    console = Console(file=terminal.err, no_color=bool(terminal.environ.get("NO_COLOR")))
    with Live(
        spinner, console=console, transient=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
    ) as live:

        def refresh() -> None:
            while tally.notes:
                console.print(Text(tally.notes.popleft()), highlight=False)
            spinner.update(text=text_of(tally))
            reply = tail(tally.reply)
            live.update(Group(Text(reply, style="dim"), spinner) if reply else spinner, refresh=True)

        with tally.painting(live):
            while not done.is_set():
                tally.paint(refresh)
                tally.wake.wait(1 / REFRESH_PER_S)
                tally.wake.clear()


def tail(reply: str) -> str:
    """The last lines of a reply that is still coming, safe to print.

    >>> tail("one\\n\\n" + "two\\n" * 9)
    'two\\ntwo\\ntwo\\ntwo\\ntwo\\ntwo'
    """
    lines = [visible(line) for line in reply.splitlines() if line.strip()]
    return "\n".join(lines[-REPLY_LINES:])[-SHOWN_CHARACTERS:]


def text_of(tally: Tally) -> Text:
    from rich.text import Text

    return Text(tally.line(time.monotonic()), no_wrap=True, overflow="ellipsis")
