"""Many engines with tables and calls of their own share one store, and leave nothing behind."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

import kleene
from tests.patience import PATIENCE_S

MODEL = kleene.FunctionModel(
    lambda request: "ok " + request.prompt, "ok"
)  # a name, so that the children share what it said


def child(store: Path, number: int) -> int:
    with duckdb.connect() as con:
        con.execute(f"CREATE TABLE own AS SELECT 'child {number} row ' || i AS body FROM range(5) r(i)")
        with kleene.attach(con, store=store, models=MODEL) as k:
            rows = k.sql("SELECT body, llm(body) FROM own").fetchall()
            shared = k.sql("SELECT llm('shared')").fetchall()
    assert rows == [(f"child {number} row {i}", f"ok child {number} row {i}") for i in range(5)]
    assert shared == [("ok shared",)]
    return len(rows)


def held() -> tuple[int, int]:
    folder = Path("/proc/self/fd")
    # Trio keeps idle worker threads for 10 s, for whoever needs one next.
    threads = sum(not thread.name.startswith("Trio thread") for thread in threading.enumerate())
    return threads, len(os.listdir(folder)) if folder.exists() else 0


def run_children(store: Path, count: int) -> tuple[int, int, int]:
    """Threads and open files beyond those before, and rows of the memo."""
    child(store, 10_000)  # libraries open what they keep open
    before = held()
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda n: child(store, n), range(count))) == 5 * count
    end = time.monotonic() + PATIENCE_S
    while held()[0] > before[0] and time.monotonic() < end:
        time.sleep(0.05)
    after = held()
    with duckdb.connect(str(store)) as con:
        ((memo,),) = con.execute("SELECT count(*) FROM memo").fetchall()
    return after[0] - before[0], after[1] - before[1], memo


def test_twelve_children_in_parallel_leave_nothing(tmp_path: Path) -> None:
    threads, files, memo = run_children(tmp_path / "run.duckdb", 12)
    assert threads <= 0
    assert files <= 1
    assert memo == 12 * 5 + 6


@pytest.mark.slow
def test_two_hundred_children_in_parallel_leave_nothing(tmp_path: Path) -> None:
    threads, files, memo = run_children(tmp_path / "run.duckdb", 200)
    assert threads <= 0
    assert files <= 1
    assert memo == 200 * 5 + 6
