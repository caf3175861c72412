"""The calls of one statement from the statement's own thread: started without waiting, waited for while the statement may run again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from kleene.planner.errors import Cancelled, KleeneError
from kleene.udfs.statement import StatementContext, Wanted

if TYPE_CHECKING:
    from kleene.udfs.dispatch import Dispatcher
    from kleene.udfs.runtime import Runtime, Task


class Caller:
    """An ``Asking`` over the dispatcher. ``cancel`` may be called from any thread; what was asked before it ends at once.

    ``check`` runs after each wait and may raise: the statement's own conditions on what came in.
    """

    def __init__(
        self,
        runtime: Runtime,
        dispatcher: Dispatcher,
        context: StatementContext,
        check: Callable[[], None] = lambda: None,
    ):
        self._runtime = runtime
        self._dispatcher = dispatcher
        self._context = context
        self._check = check
        self._changed = threading.Condition()
        self._tasks: list[Task[None]] = []
        self._idle = False
        self._cancelled = False
        context.on_idle = self._on_idle

    def ask(self, wanted: list[Wanted]) -> None:
        """Start the calls. Raises ``Cancelled`` after ``cancel``."""
        with self._changed:
            if self._cancelled:
                raise Cancelled("cancelled")
            self._idle = False
            task = self._runtime.submit(self._dispatcher.ask, self._context, wanted)
            self._tasks.append(task)
        task.on_done(self._wake)

    def wait(self, *, early: bool, not_before: float) -> bool:
        """True when nothing is out; False when, ``early``, there is room for more after new answers, and ``not_before`` has passed.

        Raises the first error of a call; all others have ended by then.
        """
        done = self._wait(early=early, not_before=not_before)
        self._check()
        return done

    def _wait(self, *, early: bool, not_before: float) -> bool:
        while True:
            with self._changed:
                failed = next((t for t in self._tasks if t.done and t.error is not None), None)
                self._tasks = [t for t in self._tasks if not t.done or t.error is not None]
                if failed is None:
                    if not self._tasks:
                        return True
                    timeout = None
                    if early and self._idle:
                        timeout = not_before - time.monotonic()
                        if timeout <= 0:
                            self._idle = False
                            return False
                    self._changed.wait(timeout)
                    continue
            self._end(failed)

    def cancel(self) -> None:
        """End all that is out; ``wait`` raises ``Cancelled``."""
        with self._changed:
            self._cancelled = True
            tasks = list(self._tasks)
        for task in tasks:
            task.cancel()

    def close(self) -> None:
        """End all that is out and wait for its end. The next ``ask`` works again."""
        with self._changed:
            tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        for task in tasks:
            task.outcome()

    def _end(self, failed: Task[None]) -> None:
        error = failed.error
        assert error is not None
        with self._changed:
            tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        for task in tasks:
            other = task.outcome()
            if isinstance(error, Cancelled) and isinstance(other, KleeneError):
                error = other  # the reason, rather than its echo
        raise error

    def _on_idle(self) -> None:
        with self._changed:
            self._idle = True
            self._changed.notify_all()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


@attrs.frozen
class IfAffordable:
    """An ``Asking`` for calls that a statement could do without: each time ``afford`` must agree, and raises where it does not."""

    caller: Caller
    afford: Callable[[list[Wanted]], None]

    def ask(self, wanted: list[Wanted]) -> None:
        """Start the calls. Raises what ``afford`` raises, and ``Cancelled``."""
        self.afford(wanted)
        self.caller.ask(wanted)

    def wait(self, *, early: bool, not_before: float) -> bool:
        """As ``Caller.wait``."""
        return self.caller.wait(early=early, not_before=not_before)
