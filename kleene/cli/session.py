"""An engine for one command, closed whatever happens; Ctrl-C cancels what runs on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kleene.cli.invocation import EngineLike, Invocation


@contextmanager
def engine_of(inv: Invocation, path: str = ":memory:", **options: Any) -> Iterator[EngineLike]:
    """Open an engine for the block. On an interrupt the running statement is cancelled before the engine is closed."""
    engine = inv.open(path, **options)
    try:
        yield engine
    except KeyboardInterrupt:
        engine.cancel()
        raise
    finally:
        engine.close()
