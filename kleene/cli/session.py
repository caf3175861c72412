"""An engine for one command, closed whatever happens; Ctrl-C cancels what runs on it and says what was kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kleene.cli.invocation import EngineLike, Invocation
from kleene.cli.progress import Tally
from kleene.planner.errors import Cancelled


@contextmanager
def engine_of(
    inv: Invocation, path: str = ":memory:", *, tally: Tally | None = None, **options: Any
) -> Iterator[EngineLike]:
    """Open an engine for the block. On an interrupt the running statement is cancelled before the engine is closed, and the error becomes
    ``Cancelled`` with what the tally has counted. What the engine has to say of itself and of MCP servers is said when it opens and at the end.
    """
    engine = inv.open(path, **options)
    said = _say(inv, engine, 0)
    try:
        yield engine
    except (KeyboardInterrupt, Cancelled) as error:
        engine.cancel()
        raise Cancelled("cancelled" if tally is None else tally.cancelled()) from error
    finally:
        engine.close()
        _say(inv, engine, said)


def _say(inv: Invocation, engine: EngineLike, said: int) -> int:
    """Say the notes that are new; how many there are."""
    for note in engine.notes[said:]:
        inv.terminal.say(f"note: {note}")
    return len(engine.notes)
