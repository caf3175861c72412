"""The thread that opens the engine and uses it, so that the prompt is there at once and Ctrl-C always gives it back."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import attrs

from kleene.cli.invocation import EngineLike

T = TypeVar("T")

GRACE_S = 0.2  # how long a cancelled job may take to end before the prompt is given back without it
AGAIN_S = 0.05  # a cancel that comes before a statement has begun finds nothing to cancel: it is said again
CLOSE_S = 10.0


@attrs.define(eq=False)
class Job:
    function: Callable[[EngineLike], Any]
    done: threading.Event = attrs.field(factory=threading.Event)
    value: Any = None
    error: BaseException | None = None
    given_up: bool = False


class Worker:
    """Jobs run one after the other. The first use opens the engine; where that fails each job fails with its error."""

    def __init__(
        self, open_engine: Callable[[], EngineLike], *, on_opened: Callable[[BaseException | None], None] | None = None
    ):
        self._open = open_engine
        self._on_opened = on_opened or (lambda error: None)
        self._jobs: queue.Queue[Job | None] = queue.Queue()
        self._lock = threading.Lock()
        self._current: Job | None = None
        self._thread: threading.Thread | None = None
        self.engine: EngineLike | None = None
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Open the engine in the background. Safe to call again."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="kleene-prompt", daemon=True)
            self._thread.start()

    def call(self, function: Callable[[EngineLike], T]) -> T:
        """Run a job and wait for it. Ctrl-C cancels it and is raised again, at the latest after ``GRACE_S``: what has not ended by then
        ends in the background, and the next job waits for it."""
        self.start()
        job = Job(function)
        self._jobs.put(job)
        try:
            job.done.wait()
        except BaseException:
            self._cancel(job)
            raise
        if job.error is not None:
            raise job.error
        return job.value  # type: ignore[no-any-return]

    def later(self, function: Callable[[EngineLike], Any]) -> None:
        """Run a job when there is time; its errors are dropped."""
        self.start()
        self._jobs.put(Job(function))

    @property
    def busy(self) -> bool:
        """Whether a job that was given up has not ended."""
        current = self._current
        return current is not None and current.given_up

    def _cancel(self, job: Job) -> None:
        job.given_up = True
        # In a thread of its own: a second Ctrl-C ends the waiting, not the cancelling.
        threading.Thread(target=self._go_on_cancelling, args=(job,), name="kleene-cancel", daemon=True).start()
        job.done.wait(GRACE_S)

    def _go_on_cancelling(self, job: Job) -> None:
        self._tell(job)
        while not job.done.wait(AGAIN_S):
            self._tell(job)

    def _tell(self, job: Job) -> None:
        with self._lock:
            if self._current is job and self.engine is not None:
                self.engine.cancel()

    def _work(self) -> None:
        try:
            self.engine = self._open()
        except BaseException as error:
            self.failure = error
        self._on_opened(self.failure)
        while (job := self._jobs.get()) is not None:
            with self._lock:
                self._current = job
            try:
                if self.failure is not None:
                    job.error = self.failure
                elif not job.given_up:
                    assert self.engine is not None
                    job.value = job.function(self.engine)
            except BaseException as error:
                job.error = error
            with self._lock:
                self._current = None
            job.done.set()
        if self.engine is not None:
            self.engine.close()

    def close(self) -> None:
        """End what runs and close the engine, both within ``CLOSE_S``."""
        if self._thread is None:
            return
        self._jobs.put(None)
        for _ in range(round(CLOSE_S / AGAIN_S)):
            with self._lock:
                if self._current is not None and self.engine is not None:
                    self.engine.cancel()
            self._thread.join(AGAIN_S)
            if not self._thread.is_alive():
                return
