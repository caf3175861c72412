"""kleene.store.writer: every event becomes its row, quickly, whatever happens beside it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from kleene.store import Store, TraceWriter, read_events
from kleene.store.eventfile import events_path
from kleene.store.writer import characters, portions
from kleene.udfs.events import CallStarted, EventStream, RunStarted, TurnFinished
from kleene.udfs.memo import MemoEntry
from tests.kleene.store.events import CALL, ONE_OF_EACH, ROWS, call
from tests.patience import PATIENCE_S


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / ".kleene" / "run.duckdb") as store:
        yield store


def rows(store: Store, sql: str) -> list[tuple[object, ...]]:
    with store.cursor() as cursor:
        return cursor.execute(sql).fetchall()


def test_each_event_fills_its_row(store: Store) -> None:
    stream = EventStream()
    with TraceWriter(store) as writer:
        stream.subscribe(writer)
        for event in ONE_OF_EACH:
            stream.emit(event)
        assert writer.flush()
        assert {sql: rows(store, sql) for sql in ROWS} == ROWS
    assert stream.failures == []
    assert writer.problems == ()


def test_an_event_that_comes_in_pieces_fills_the_same_row(store: Store) -> None:
    with TraceWriter(store) as writer:
        for event in ONE_OF_EACH:
            writer(event)
            writer.flush()
    assert {sql: rows(store, sql) for sql in ROWS} == ROWS


def test_a_store_in_memory_has_a_trace_and_no_file() -> None:
    with Store.open() as store, TraceWriter(store) as writer:
        for event in ONE_OF_EACH:
            writer(event)
        assert writer.flush()
        assert {sql: rows(store, sql) for sql in ROWS} == ROWS


def test_what_is_written_together_is_bounded_by_its_text() -> None:
    events = [(e, True) for e in ONE_OF_EACH] * 3
    for most in (0, 150, 10**9):
        parts = list(portions(events, most))
        assert [e for part in parts for e in part] == events
        assert all(sum(characters(e) for e, _ in part[:-1]) <= most for part in parts)
    assert [len(part) for part in portions(events, 0)] == [1] * len(events) and len(parts) == 1
    assert list(portions([])) == []


def test_events_are_written_soon_without_a_flush(store: Store) -> None:
    with TraceWriter(store) as writer:
        writer(CALL)
        end = time.monotonic() + PATIENCE_S
        while not rows(store, "SELECT call FROM trace_calls") and time.monotonic() < end:
            time.sleep(0.02)
        assert rows(store, "SELECT call FROM trace_calls") == [("1.1",)]


def test_closing_writes_what_waits(store: Store) -> None:
    writer = TraceWriter(store)
    for n in range(1000):
        writer(call(n))
    writer.close()
    writer.close()
    assert rows(store, "SELECT count(*) FROM trace_calls") == [(1000,)]
    writer(CALL)
    assert writer.lost == 1


def test_taking_an_event_is_quick(store: Store) -> None:
    # Measured: 3 to 5 µs on two busy cores. The bound only catches work done in the caller's thread, whose own processor time is taken.
    with TraceWriter(store) as writer:
        start = time.thread_time()
        for _ in range(10_000):
            writer(CALL)
        assert (time.thread_time() - start) / 10_000 < 100e-6


def test_without_texts_only_digests_are_kept(store: Store) -> None:
    turn = TurnFinished(at=1.0, session="s", turn=1, reply="secret", sql="SELECT 1", feedback="secret rows")
    with TraceWriter(store) as writer:
        writer(call(1))
        writer.trace_text = False
        writer(call(2, prompt="secret\ud800"))
        writer(call(3, prompt=None, reply=None))
        writer(turn)
    digest = "sha256:b5bea41b6c623f7c09f1bf24dcae58ebab3c0cdd90ad966bc43a45b44867e12b"
    assert rows(store, "SELECT prompt, reply FROM trace_calls ORDER BY call")[::2] == [("Is it?", "true"), (None, None)]
    [(prompt, reply)] = rows(store, "SELECT prompt, reply FROM trace_calls WHERE call = '1.2'")
    assert reply == digest
    assert isinstance(prompt, str) and prompt.startswith("sha256:") and len(prompt) == 71
    assert rows(store, "SELECT sql FROM turns WHERE result LIKE 'sha256:%' AND reply LIKE 'sha256:%'") == [
        ("SELECT 1",)
    ]
    assert store.path is not None
    assert "secret" not in events_path(store.path).read_text()


@pytest.mark.parametrize("text", ["a\0b", "\ud83d\ude00", "x" * 50_000_000], ids=["NUL", "surrogate pair", "50 MB"])
def test_any_text_can_be_traced(store: Store, text: str) -> None:
    with TraceWriter(store) as writer:
        writer(call(1, prompt=text, reply="\ud800"))
    mended = text.encode("utf-16", "surrogatepass").decode("utf-16")
    assert rows(store, "SELECT prompt, reply FROM trace_calls") == [(mended, "\ufffd")]
    assert writer.problems == ()


def test_trace_and_memo_are_written_by_sixteen_threads_at_once(store: Store) -> None:
    writers = [TraceWriter(store), TraceWriter(store)]
    memos = [store.memo(), store.memo()]
    errors: list[BaseException] = []

    def work(n: int) -> None:
        try:
            for i in range(5):
                writers[n % 2](CallStarted(at=1.0, call=f"{i}", statement="1", site=None, alias="a", model="m"))
                memos[n % 2].commit([MemoEntry("r", "s", f"{i}", "yes")])
                writers[n % 2](attrs.evolve(CALL, call=f"{i}"))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for writer in writers:
        writer.close()
        assert (writer.problems, writer.lost) == ((), 0)
    assert errors == []
    assert rows(store, "SELECT count(*), count(finished_at) FROM trace_calls") == [(5, 5)]
    assert memos[0].stats().entries == 5


def test_a_batch_that_cannot_be_written_is_reported_once_and_tried_again(store: Store) -> None:
    told: list[str] = []
    with TraceWriter(store, on_problem=told.append) as writer, store.cursor() as cursor:
        cursor.execute("ALTER TABLE trace_runs RENAME TO elsewhere")
        for n in range(3):
            writer(RunStarted(at=1.0, run=f"r{n}", task="t"))
            writer(call(n))
            assert writer.flush()
        assert len(told) == 1
        assert told[0].startswith("the trace was not written: Catalog Error: Table with name trace_runs does not exist")
        cursor.execute("ALTER TABLE elsewhere RENAME TO trace_runs")
        writer(RunStarted(at=1.0, run="r3", task="t"))
        assert writer.flush()
        assert rows(store, "SELECT count(*) FROM trace_runs") == [(4,)]
        assert rows(store, "SELECT count(*) FROM trace_calls") == [(3,)]
    assert writer.problems == tuple(told)
    assert writer.lost == 0


def test_what_is_lost_in_the_end_is_counted(store: Store) -> None:
    with store.cursor() as cursor:
        cursor.execute("DROP TABLE trace_runs")
    writer = TraceWriter(store)
    writer(RunStarted(at=1.0, run="r", task="t"))
    writer.close()
    assert writer.lost == 1
    assert writer.problems[-1] == "1 trace rows were lost"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full, a disk that is always full")
def test_a_full_disk_under_the_event_file_is_reported_and_the_trace_goes_on(store: Store) -> None:
    assert store.path is not None
    events_path(store.path).symlink_to("/dev/full")
    with TraceWriter(store) as writer:
        for n in range(3):
            writer(call(n))
            writer.flush()
    assert writer.problems == (f"the event file {events_path(store.path)} was not written: No space left on device",)
    assert rows(store, "SELECT count(*) FROM trace_calls") == [(3,)]


def test_the_event_file_holds_what_was_emitted(store: Store) -> None:
    with TraceWriter(store) as writer:
        for event in ONE_OF_EACH:
            writer(event)
    assert store.path is not None
    full = [{k: v for k, v in event.to_dict().items() if v is not None} for event in ONE_OF_EACH]
    assert list(read_events(events_path(store.path))) == full
