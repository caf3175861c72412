"""Events of the one engine, to the display of the statement that runs now."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kleene.udfs.events import Event


class Relay:
    """Passes events on while somebody listens. What a cancelled statement still reports is not the next one's progress: it is dropped."""

    def __init__(self, *, streams: bool):
        self.streams = streams
        self._lock = threading.Lock()
        self._listener: Callable[[Event], None] | None = None
        self._seen: set[str] = set()
        self._past: frozenset[str] = frozenset()

    def __call__(self, event: Event) -> None:
        statement = getattr(event, "statement", None)
        with self._lock:
            listener = self._listener
            if statement is not None:
                if statement in self._past:
                    return
                self._seen.add(statement)
        if listener is not None:
            listener(event)

    @contextmanager
    def heard_by(self, listener: Callable[[Event], None]) -> Iterator[None]:
        with self._lock:
            self._listener = listener
        try:
            yield
        finally:
            with self._lock:
                self._listener = None
                self._past, self._seen = frozenset(self._seen), set()
