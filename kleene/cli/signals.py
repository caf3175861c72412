"""Ctrl-C and SIGTERM: the first ends the command in order, the second at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from kleene.cli.exits import Exit


@contextmanager
def interruptible() -> Iterator[None]:
    """Within the block SIGINT and SIGTERM raise ``KeyboardInterrupt`` in the main thread, once; a second one ends the process.

    A signal that is ignored at the start (``nohup``, a background job) stays ignored. Outside the main thread nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        if len(seen) > 1:
            os._exit(Exit.INTERRUPTED)
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    changed = {number: old for number, old in before.items() if old is not signal.SIG_IGN}
    for number in changed:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, old in changed.items():
            signal.signal(number, old)
