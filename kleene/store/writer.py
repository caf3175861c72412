"""The trace's writer: a subscriber of the event stream that hands every event to a thread, which writes tables and the event file."""

from __future__ import annotations

import contextlib
import itertools
import operator
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import attrs
import duckdb

from kleene.store.columns import CallColumns
from kleene.store.eventfile import ROTATE_BYTES, EventFile, events_path, line
from kleene.store.folder import make_private
from kleene.store.mapping import Batch, hide_texts
from kleene.store.schema import TRACE, Table
from kleene.udfs.events import CallDropped, CallFinished, CallsFinished, CallStreamed
from kleene.udfs.memo import registered, retry_conflicts

if TYPE_CHECKING:
    from kleene.store.store import Store
    from kleene.udfs.events import Event

BOUND = 100_000  # events that may wait
BATCH = 5_000  # events written together
PORTION = 8_000_000  # characters written together
DELAY_S = 0.1  # how long an event waits for company; ten times as long as the last write took, at most LONGEST_DELAY_S
LONGEST_DELAY_S = 0.5
PATIENCE_S = 10.0  # how long an emitter waits for a full queue before its event is counted as lost
CONFLICT_PATIENCE_S = 5.0  # two writers of one process may meet in one row

FOR_DISPLAYS = (CallStreamed, CallDropped)


class TraceWriter:
    """Writes events to the store. Calling it costs a few microseconds and never raises; only a full queue makes the caller wait.

    ``trace_text`` False keeps digests of prompts, replies and feedback only; it may be set at any time, for the events that follow.
    A batch that cannot be written is tried again with the next; its error goes to ``on_problem`` (one sentence) once, and to ``problems``.
    """

    def __init__(
        self,
        store: Store,
        *,
        trace_text: bool = True,
        on_problem: Callable[[str], None] | None = None,
        bound: int = BOUND,
        rotate_bytes: int = ROTATE_BYTES,
    ):
        self.trace_text = trace_text
        self.lost = 0
        self._path = store.path
        self._cursor = store.cursor()
        self._file: EventFile | None = None
        if store.path is not None:
            head = None if store.origin is None else store.origin.head()
            self._file = EventFile(events_path(store.path), rotate_bytes=rotate_bytes, head=head)
        self._forms = Forms()
        self._on_problem = on_problem
        self._problems: list[str] = []
        self._bound = bound
        self._queue: list[tuple[Event, bool]] = []
        self._rows = 0  # of the trace, that wait in the queue
        self._kept: Batch | None = None
        self._taken = 0
        self._done = 0
        self._hurry = False
        self._delay = DELAY_S
        self._closed = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def __call__(self, event: Event) -> None:
        """Takes an event; pieces of replies are passed over. After ``close`` it is counted as lost."""
        if type(event) in FOR_DISPLAYS:
            return
        count = len(event) if isinstance(event, CallsFinished) else 1
        with self._changed:
            if self._rows >= self._bound:
                self._changed.wait_for(lambda: self._rows < self._bound or self._closed, PATIENCE_S)
            if self._closed or self._rows >= self._bound:
                self.lost += count
                return
            self._queue.append((event, self.trace_text))
            self._rows += count
            self._taken += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="kleene-trace", daemon=True)
                self._thread.start()
            if len(self._queue) == 1 or self._rows - count < BATCH <= self._rows:
                self._changed.notify_all()

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be written and why, each once."""
        return tuple(self._problems)

    def flush(self, timeout_s: float = 30.0) -> bool:
        """Returns when all events taken so far were written (or failed to be): True, or False after ``timeout_s`` seconds."""
        with self._changed:
            upto = self._taken
            self._hurry = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._done >= upto, timeout_s)

    def close(self) -> None:
        """Writes what waits and ends the thread. A second call does nothing."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        if self._kept is not None:
            self.lost += self._kept.size
            self._problem(f"{self._kept.size} trace rows were lost")
        if self._file is not None:
            self._file.close()
        self._cursor.close()

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- in the thread

    def _work(self) -> None:
        while (events := self._next()) is not None:
            started = time.monotonic()
            for part in portions(events):
                try:
                    self._write(part)
                except Exception as error:  # nothing of this thread may end it: the events after would wait for ever
                    self._problem(f"the trace was not written: {type(error).__name__}: {error}")
            self._delay = min(LONGEST_DELAY_S, max(DELAY_S, 10 * (time.monotonic() - started)))
            with self._changed:
                self._done += len(events)
                self._changed.notify_all()

    def _next(self) -> list[tuple[Event, bool]] | None:
        """The next events, all that wait; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._queue) or self._closed)
            self._changed.wait_for(lambda: self._rows >= BATCH or self._hurry or self._closed, self._delay)
            events, self._queue, self._rows = self._queue, [], 0
            self._hurry = False
            self._changed.notify_all()
        return events if events or not self._closed else None

    def _write(self, events: list[tuple[Event, bool]]) -> None:
        batch = Batch(TRACE)
        lines: list[Iterable[bytes]] = []
        for event, trace_text in events:
            if isinstance(event, CallsFinished):
                block = CallColumns.of(event, trace_text=trace_text)
                batch.add_block(block)
                lines.append(block.lines())
                continue
            form = self._forms.of(event)
            if not trace_text:
                hide_texts(form)
            batch.add(form)
            lines.append((line(form),))
        if self._file is not None:
            try:
                self._file.write(itertools.chain.from_iterable(lines))
            except OSError as error:
                self._problem(f"the event file {self._file.path} was not written: {error.strerror}")
        if self._kept is not None:
            batch.merge(self._kept)
            self._kept = None
        try:
            self._insert(batch)
        except duckdb.Error as error:
            self._keep(batch)
            self._problem(f"the trace was not written: {str(error).splitlines()[0]}")

    def _insert(self, batch: Batch) -> None:
        try:
            # A finished call is a new row but for those that come in pieces, and looking for it costs as much as writing it.
            self._insert_once(batch, new=("trace_calls",))
        except (duckdb.ConstraintException, duckdb.TransactionException):
            retry_conflicts(lambda: self._insert_once(batch), CONFLICT_PATIENCE_S)
        if self._path is not None:
            make_private(self._path)

    def _insert_once(self, batch: Batch, new: tuple[str, ...] = ()) -> None:
        """Write all tables in one transaction; rows of those in ``new`` must not be there."""
        with contextlib.ExitStack() as stack:
            tables = []
            for table, rows in batch.tables():  # before BEGIN: in a transaction that failed no name can be taken back
                stack.enter_context(registered(self._cursor, rows_of(table), rows))
                tables.append(table)
            self._cursor.execute("BEGIN")
            try:
                for table in tables:
                    self._cursor.execute(insert(table, new=table.name in new))
                self._cursor.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(duckdb.Error):
                    self._cursor.execute("ROLLBACK")
                raise

    def _keep(self, batch: Batch) -> None:
        """Keeps rows for the next try, as many as the queue may hold."""
        if batch.size <= self._bound:
            self._kept = batch
        else:
            self.lost += batch.size

    def _problem(self, text: str) -> None:
        if text in self._problems or len(self._problems) >= 100:
            return
        self._problems.append(text)
        if self._on_problem is not None:
            with contextlib.suppress(Exception):
                self._on_problem(text)


def portions(events: list[tuple[Event, bool]], most: int = PORTION) -> Iterator[list[tuple[Event, bool]]]:
    """The events in parts of bounded text, in their order: what is written together is held several times over."""
    part: list[tuple[Event, bool]] = []
    held = 0
    for event in events:
        part.append(event)
        held += characters(event[0])
        if held > most:
            yield part
            part, held = [], 0
    if part:
        yield part


def characters(event: Event) -> int:
    """How much text the busiest events have; the others are taken as a line."""
    if isinstance(event, CallsFinished):
        return sum(map(len, event.prompts)) + sum(map(len, event.replies))
    if isinstance(event, CallFinished):
        return len(event.prompt or "") + len(event.reply or "")
    return 100


class Forms:
    """Events as ``to_dict`` gives them, without its recursion and without what is None: they are flat, and there can be a million."""

    def __init__(self) -> None:
        self._of: dict[type, tuple[tuple[str, ...], Callable[[Event], Any]]] = {}

    def of(self, event: Event) -> dict[str, Any]:
        kind = type(event)
        found = self._of.get(kind)
        if found is None:
            names = tuple(field.name for field in attrs.fields(kind))
            # With one field attrgetter gives its bare value; every event has a time and more.
            found = self._of[kind] = (("event", *names), operator.attrgetter("__class__.__name__", *names))
        names, values = found
        return {name: value for name, value in zip(names, values(event), strict=True) if value is not None}


def rows_of(table: Table) -> str:
    """The name under which a table's new rows are registered."""
    return f"kleene_new_{table.name}"


def insert(table: Table, *, new: bool = False) -> str:
    """The statement that adds registered rows; rows of a key that is there fill what they know (``new``: there is none).

    >>> from kleene.store.schema import Table
    >>> insert(Table("t", (("a", "VARCHAR"), ("b", "BIGINT")), ("a",)))
    'INSERT INTO t BY NAME SELECT * FROM kleene_new_t ON CONFLICT (a) DO UPDATE SET b = coalesce(excluded.b, t.b)'
    """
    text = f"INSERT INTO {table.name} BY NAME SELECT * FROM {rows_of(table)}"
    if new or not table.key:
        return text
    rest = [name for name, _ in table.columns if name not in table.key]
    fill = ", ".join(f"{name} = coalesce(excluded.{name}, {table.name}.{name})" for name in rest)
    return f"{text} ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {fill}"
