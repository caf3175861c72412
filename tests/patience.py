"""How long the tests wait.

A busy machine is slow, and a test is no stopwatch (speeds are measured by scripts/bench_*.py): what happens at once is given `AT_ONCE_S`,
and what it must not wait for takes longer by more than that, or never ends.
"""

import time
from collections.abc import Callable

AT_ONCE_S = 5.0
PATIENCE_S = 30.0  # for what happens unless it is broken


def soon(holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> bool:
    """Whether it holds before the patience ends; gives the answer as soon as it does."""
    end = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def until(holds: Callable[[], bool]) -> None:
    assert soon(holds)
