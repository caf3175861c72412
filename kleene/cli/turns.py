"""A run as it goes: on a terminal (elsewhere with --turns) each turn's SQL and the head of what came back; the tally gets every event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kleene.cli.progress import Tally
from kleene.cli.terminal import Terminal
from kleene.rendering.table import visible

if TYPE_CHECKING:
    from kleene.udfs.events import Event, TurnFinished

FEEDBACK_LINES = 8
FEEDBACK_CHARACTERS = 160  # of a line: what a model is told may be pages long


class Turns:
    """Passes events on to the tally and has each finished turn printed above its line. Errors of a turn are part of its feedback."""

    def __init__(self, tally: Tally, terminal: Terminal, *, always: bool = False):
        self.tally = tally
        self.terminal = terminal
        self.always = always

    @property
    def streams(self) -> bool:
        """Whether a reply is shown while it arrives."""
        return self.terminal.shows_progress

    def __call__(self, event: Event) -> None:
        self.tally(event)
        if type(event).__name__ != "TurnFinished":
            return
        if self.terminal.shows_progress:
            self.tally.notes.append(turn_text(event))  # type: ignore[arg-type]
        elif self.always:
            self.terminal.say(turn_text(event))  # type: ignore[arg-type]


def turn_text(event: TurnFinished) -> str:
    """A turn in a few lines, safe to print.

    >>> from kleene.udfs.events import TurnFinished
    >>> print(turn_text(TurnFinished(at=0, session="s", turn=2, reply="", sql="SELECT 1", feedback="1 row")))
    turn 2
      SELECT 1
      → 1 row
    """
    lines = [f"turn {event.turn}"]
    lines += [f"  {visible(line)}" for line in (event.sql or "(no SQL)").splitlines()]
    feedback = event.feedback.splitlines()
    lines += [f"  {'→' if i == 0 else ' '} {shortened(line)}" for i, line in enumerate(feedback[:FEEDBACK_LINES])]
    if len(feedback) > FEEDBACK_LINES:
        lines.append(f"    … {len(feedback) - FEEDBACK_LINES} more lines")
    return "\n".join(lines)


def shortened(line: str) -> str:
    """The line, safe to print, without what is too long to be read in passing.

    >>> shortened("x" * 200)[-8:], len(shortened("x" * 200))
    ('xxxxxxx…', 160)
    """
    cut = line if len(line) <= FEEDBACK_CHARACTERS else line[: FEEDBACK_CHARACTERS - 1] + "…"
    return visible(cut)
