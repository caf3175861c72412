"""What is going on, on the last lines of the terminal: each operator's calls, and on one line calls done of those known so far, memo hits,
tokens, dollars, time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kleene.cli.terminal import Terminal
from kleene.rendering.table import visible
from kleene.rendering.tally import Tally

if TYPE_CHECKING:
    from rich.text import Text

REFRESH_PER_S = 8
QUIET_S = 0.4  # a statement that is done sooner shows nothing
REPLY_LINES = 6
SHOWN_CHARACTERS = 480  # some lines of a narrow terminal


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
            above = [Text(reply, style="dim")] if (reply := tail(tally.reply)) else []
            above += [
                Text(line, no_wrap=True, overflow="ellipsis") for line in tally.lines(time.monotonic(), console.width)
            ]
            live.update(Group(*above, spinner) if above else spinner, refresh=True)

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


__all__ = ["Tally", "shown"]
