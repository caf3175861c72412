"""What an engine and its sessions share: the store with memo and trace, the event stream, the models, and the loop that calls them."""

from __future__ import annotations

import atexit
import itertools
import os
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from kleene.otel.enable import open_spans
from kleene.store import Store, TraceWriter
from kleene.store.learned import load_lessons, load_ratios, save_lessons, save_ratios
from kleene.udfs.events import Event, EventStream
from kleene.udfs.experience import Lessons
from kleene.udfs.memo import MemoWriter
from kleene.udfs.protocols import CallHandler

if TYPE_CHECKING:
    from kleene.otel.spans import Spans
    from kleene.udfs.dispatch import Dispatcher
    from kleene.udfs.runtime import Runtime


@attrs.define(eq=False)
class Services:
    """Opened once per ``attach``; closed by the engine that opened it. ``run_id`` prefixes the ids of its statements.

    ``streams``: somebody wants the replies of sessions as they arrive (``CallStreamed``): who listens, unless it says ``streams = False``.
    ``runtime`` and ``dispatcher`` are made, and all that calls need is imported, when the first call is made.
    ``spans`` makes OpenTelemetry's of the events, where that is on. ``lessons`` are what statements learn about their calls.
    """

    store: Store
    events: EventStream
    trace: TraceWriter
    memo: MemoWriter
    handler: CallHandler
    run_id: str
    concurrency: int = 32
    notes: list[str] = attrs.field(factory=list)
    streams: bool = False
    spans: Spans | None = None
    lessons: Lessons = attrs.field(init=False)
    _closing: list[Callable[[], None]] = attrs.field(factory=list)
    _calling: tuple[Runtime, Dispatcher] | None = None
    _lock: threading.Lock = attrs.field(factory=threading.Lock)
    _closed: bool = False
    _numbers: itertools.count[int] = attrs.field(factory=lambda: itertools.count(1))

    def __attrs_post_init__(self) -> None:
        self.lessons = Lessons(lambda: load_lessons(self.store))

    @classmethod
    def open(
        cls,
        store: str | Path,
        handler: CallHandler,
        *,
        concurrency: int = 32,
        on_event: Callable[[Event], None] | None = None,
        lock_wait_s: float = 0.0,
        otel: Any = None,
    ) -> Services:
        """Open the store and start what belongs to it. ``otel`` is that of ``attach``. Raises ``StoreLocked`` and ``ConfigError``."""
        opened = Store.open(store, lock_wait_s=lock_wait_s)
        notes = list(opened.notes)
        events = EventStream()
        trace = TraceWriter(opened, on_problem=notes.append)
        events.subscribe(trace, blocks=True)
        if on_event is not None:
            events.subscribe(on_event)
        try:
            spans = open_spans(otel, os.environ, lambda: trace.trace_text, notes.append)
        except BaseException:
            trace.close()
            opened.close()
            raise
        if spans is not None:
            events.subscribe(spans)
        memo = MemoWriter(opened.memo())
        streams = on_event is not None and bool(getattr(on_event, "streams", True))
        run_id = time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(2)
        services = cls(opened, events, trace, memo, handler, run_id, concurrency, notes, streams, spans)
        # Threads inside DuckDB when the interpreter ends would take the process down: an engine nobody closed is closed at exit.
        atexit.register(services.close)
        return services

    @property
    def runtime(self) -> Runtime:
        """The loop on which calls are made."""
        return self._made()[0]

    @property
    def dispatcher(self) -> Dispatcher:
        """Who makes the calls."""
        return self._made()[1]

    def is_calling_thread(self) -> bool:
        """Whether the caller is the loop's thread, in which nothing may wait for the loop."""
        return self._calling is not None and self._calling[0].is_own_thread()

    def _made(self) -> tuple[Runtime, Dispatcher]:
        with self._lock:
            if self._calling is None:
                from kleene.udfs.dispatch import Dispatcher
                from kleene.udfs.runtime import Runtime

                runtime = Runtime()
                dispatcher = Dispatcher(self.handler, self.memo, self.events.emit, concurrency=self.concurrency)
                if self._closed:
                    runtime.close()  # whoever still asks is told that the engine is closed
                else:
                    dispatcher.ratios.recall(load_ratios(self.store))
                runtime.on_close(dispatcher.aclose)
                self._calling = runtime, dispatcher
            return self._calling

    def keep_lessons(self) -> None:
        """Write what statements have learned about their calls to the store."""
        save_lessons(self.store, self.lessons.changed())

    def next_number(self) -> int:
        return next(self._numbers)

    def on_close(self, function: Callable[[], None]) -> None:
        """Run a function when the services close, before anything of theirs is closed."""
        self._closing.append(function)

    def close(self) -> None:
        atexit.unregister(self.close)
        while self._closing:
            self._closing.pop()()
        with self._lock:
            self._closed = True
        if self._calling is not None:
            self._calling[0].close()
        self.memo.close()
        self.trace.close()
        if self.spans is not None:
            self.spans.close()
        if not self.store.closed and self._calling is not None:
            save_ratios(self.store, self._calling[1].ratios.changed())
            self.keep_lessons()
        self.store.close()
