"""A budget's wall, the moment at which a statement must have ended: its alarm and its error."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kleene.planner.errors import BudgetExceeded

if TYPE_CHECKING:
    from kleene.udfs.ledger import Ledger


@contextlib.contextmanager
def alarm(seconds: float | None, ring: Callable[[], None]) -> Iterator[None]:
    """Call ``ring`` in a thread of its own once the block has taken so long; None is never. After the block nothing rings."""
    if seconds is None:
        yield
        return
    timer = threading.Timer(seconds, ring)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def wall_error(ledger: Ledger) -> BudgetExceeded:
    """The error of a ledger whose wall is reached by some clock; by the ledger's own it may be a tick away."""
    while True:
        try:
            ledger.check_wall()
        except BudgetExceeded as error:
            return error
        time.sleep(0.001)
