from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from kleene.repl.worker import Worker
from tests.kleene.cli.doubles import Engine


def interrupt_after(seconds: float) -> None:
    threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT)).start()


def test_the_engine_is_opened_once_and_closed_at_the_end() -> None:
    engine = Engine()
    worker = Worker(lambda: engine)
    assert worker.engine is None
    assert [worker.call(lambda e: e.sql("SELECT 1").columns) for _ in range(2)] == [("1",)] * 2
    worker.close()
    assert engine.closed


def test_an_error_is_the_callers() -> None:
    worker = Worker(Engine)
    with pytest.raises(ZeroDivisionError):
        worker.call(lambda e: 1 / 0)
    assert worker.call(lambda e: 1) == 1
    worker.close()


def test_an_engine_that_cannot_be_opened_fails_every_job() -> None:
    told: list[BaseException | None] = []

    def fail() -> Engine:
        raise OSError("no")

    worker = Worker(fail, on_opened=told.append)
    for _ in range(2):
        with pytest.raises(OSError, match="no"):
            worker.call(lambda e: 1)
    assert told == [worker.failure]
    worker.close()


def test_an_interrupt_gives_the_prompt_back_though_the_job_goes_on() -> None:
    engine, go_on = Engine(), threading.Event()
    worker = Worker(lambda: engine)
    worker.call(lambda e: None)
    interrupt_after(0.1)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        worker.call(lambda e: go_on.wait(30))
    assert time.monotonic() - started < 5
    assert engine.cancelled and worker.busy
    go_on.set()
    assert worker.call(lambda e: "next") == "next"
    assert not worker.busy
    worker.close()


def test_a_job_that_was_given_up_before_it_began_does_not_run() -> None:
    go_on, ran = threading.Event(), []
    worker = Worker(Engine)
    worker.later(lambda e: go_on.wait(30))
    interrupt_after(0.1)
    with pytest.raises(KeyboardInterrupt):
        worker.call(lambda e: ran.append(1))
    go_on.set()
    worker.call(lambda e: None)
    assert ran == []
    worker.close()


def test_a_cancel_never_reaches_the_next_job() -> None:
    """The double's ``cancel`` counts: it is told while its own job runs, and not once more."""
    engine = Engine()
    worker = Worker(lambda: engine)
    worker.call(lambda e: None)
    interrupt_after(0.05)
    with pytest.raises(KeyboardInterrupt):
        worker.call(lambda e: time.sleep(0.4))
    worker.call(lambda e: None)
    engine.cancelled = False
    worker.call(lambda e: time.sleep(0.7))
    assert not engine.cancelled
    worker.close()
