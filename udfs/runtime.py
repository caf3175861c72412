"""The bridge between DuckDB's threads and trio: one trio loop in a background thread, tasks submitted to it from any thread."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import trio

from kleene.planner.errors import Cancelled, KleeneError

T = TypeVar("T")

START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0


class Task(Generic[T]):
    """A function running on the trio loop. ``wait`` blocks the calling thread; ``cancel`` may be called from any thread, at any time."""

    def __init__(self, runtime: Runtime):
        self._runtime = runtime
        self._future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._scope = trio.CancelScope()

    def wait(self, timeout_s: float | None = None) -> T:
        """The function's result. Raises what it raised, ``Cancelled`` after ``cancel``, ``TimeoutError`` when the timeout passes."""
        return self._future.result(timeout_s)

    @property
    def done(self) -> bool:
        return self._future.done()

    @property
    def error(self) -> BaseException | None:
        """What the function raised, None while it runs and where it returned."""
        return self._future.exception() if self._future.done() else None

    def outcome(self) -> BaseException | None:
        """Wait for the end: what the function raised, or None."""
        return self._future.exception()

    def cancel(self) -> None:
        """End the task at its next checkpoint. Does nothing once it is done."""
        if not self._future.done():
            self._runtime.soon(self._scope.cancel)

    def on_done(self, callback: Callable[[], None]) -> None:
        self._future.add_done_callback(lambda _: callback())

    async def run(self, function: Callable[..., Awaitable[T]], arguments: tuple[Any, ...]) -> None:
        """Run the function to its end on the loop and keep its outcome; never raises but for the loop's own cancellation."""
        try:
            with self._scope:
                result = await function(*arguments)
                self._future.set_result(result)
        except BaseException as error:
            found = unwrap(error)
            if isinstance(found, trio.Cancelled):
                self._future.set_exception(Cancelled("cancelled: the engine was closed"))
                raise
            self._future.set_exception(found)
            return
        if not self._future.done():
            self._future.set_exception(Cancelled("cancelled"))


class Runtime:
    """Owns the loop's thread. Starts with the first task; ``close`` cancels what runs and joins the thread. Not fork-safe."""

    def __init__(self, name: str = "kleene-runtime"):
        self._name = name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._stop: trio.Event | None = None
        self._closed = False
        self._on_close: list[Callable[[], Awaitable[None]]] = []

    def on_close(self, function: Callable[[], Awaitable[None]]) -> None:
        """Register a coroutine function to run on the loop when the runtime closes (to close HTTP connections)."""
        self._on_close.append(function)

    def submit(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> Task[T]:
        """Start an async function on the loop. Raises ``KleeneError`` when the runtime is closed."""
        self._start()
        task: Task[T] = Task(self)
        nursery = self._nursery
        assert nursery is not None

        def begin() -> None:
            try:
                nursery.start_soon(task.run, function, arguments)
            except RuntimeError:  # the nursery closed between the check and now
                task._future.set_exception(Cancelled("cancelled: the engine was closed"))

        self.soon(begin, otherwise=lambda: task._future.set_exception(Cancelled("cancelled: the engine was closed")))
        return task

    def soon(self, function: Callable[[], object], otherwise: Callable[[], object] | None = None) -> None:
        """Run a plain function on the loop soon; ``otherwise`` runs at once where the loop is gone."""
        try:
            if self._token is None:
                raise trio.RunFinishedError
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            if otherwise is not None:
                otherwise()

    def close(self) -> None:
        """Cancel all tasks, close what was registered, end the thread. Safe to call twice."""
        with self._lock:
            self._closed = True
            thread, stop = self._thread, self._stop
        if thread is None or stop is None:
            return
        self.soon(stop.set)
        if thread is not threading.current_thread():
            thread.join(STOP_TIMEOUT_S)

    def is_own_thread(self) -> bool:
        """Whether the caller is the loop's thread, in which nothing may wait for the loop."""
        return threading.current_thread() is self._thread

    def _start(self) -> None:
        with self._lock:
            if self._closed:
                raise KleeneError("the engine is closed", hint="attach again: k = kleene.attach(con)")
            if self._thread is not None:
                return
            ready = threading.Event()
            self._thread = threading.Thread(target=self._run, args=(ready,), name=self._name, daemon=True)
            self._thread.start()
            if not ready.wait(START_TIMEOUT_S):
                raise KleeneError("the runtime's thread did not start")

    def _run(self, ready: threading.Event) -> None:
        # Ctrl-C belongs to the main thread: restrict_keyboard_interrupt... is trio's default off the main thread.
        trio.run(self._main, ready)

    async def _main(self, ready: threading.Event) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._stop = trio.Event()
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            ready.set()
            await self._stop.wait()
            nursery.cancel_scope.cancel()
        with trio.move_on_after(1):
            for function in self._on_close:
                await function()


def unwrap(error: BaseException) -> BaseException:
    """The one error inside nested exception groups; of several, the first that is not a cancellation."""
    while isinstance(error, BaseExceptionGroup):
        inner = [e for e in error.exceptions if not isinstance(e, trio.Cancelled)] or list(error.exceptions)
        error = inner[0]
    return error
