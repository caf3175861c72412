"""Runs what may never return: the user's own functions, which nobody can stop. It is left running when its statement ends."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from kleene.planner.errors import Cancelled, ToolError

T = TypeVar("T")

GRACE_S = 0.5
"""So long a function may go on after its statement was cancelled or its time was over."""
POLL_S = 0.02


class LeftRunning(Cancelled):
    """The statement was cancelled, and what it used did not end: a thread of it goes on."""


def leaving(function: Callable[[], T], cancelled: Callable[[], bool], deadline: float, call: str) -> T:
    """Call a function in a thread of its own and give its result.

    Raises ``LeftRunning`` where it does not end within ``GRACE_S`` after ``cancelled`` says so, ``ToolError`` (timed out) where it does not after
    ``deadline`` (``time.monotonic``). Its thread does not keep the process from ending.
    """
    done = threading.Event()
    outcome: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            outcome.append(function())
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    # In the caller's context: what is traced there stands below what the caller traces.
    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), name="kleene-own-tool", daemon=True)
    thread.start()
    while not done.wait(POLL_S):
        if cancelled():
            if not done.wait(GRACE_S):
                raise LeftRunning(f"{call} did not end and was left running")
        elif time.monotonic() > deadline + GRACE_S:
            raise ToolError(
                f"{call} did not return and was left running", kind="timed out", hint="give it a limit of its own"
            )
    if errors:
        raise errors[0]
    return outcome[0]
