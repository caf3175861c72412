"""A circuit breaker: an endpoint that keeps failing is left alone for a while, then tried once."""

from __future__ import annotations

import time
from collections.abc import Callable

import attrs


@attrs.define(eq=False)
class Breaker:
    """Opens after ``failures`` failures in a row, for ``open_s`` seconds; then one trial request passes, and decides."""

    failures: int = 3
    open_s: float = 30.0
    clock: Callable[[], float] = time.monotonic
    _count: int = attrs.field(default=0, init=False)
    _until: float | None = attrs.field(default=None, init=False)
    _trying: bool = attrs.field(default=False, init=False)
    last_error: str | None = attrs.field(default=None, init=False)

    @property
    def state(self) -> str:
        """``closed`` (requests pass), ``open`` (none), ``trial`` (one may pass, or is out)."""
        if self._until is None:
            return "closed"
        return "open" if self.clock() < self._until else "trial"

    def allows(self) -> bool:
        """Whether a request may be sent now."""
        state = self.state
        return state == "closed" or (state == "trial" and not self._trying)

    def sending(self) -> None:
        """A request goes out: while it is the trial, no other passes."""
        if self._until is not None:
            self._trying = True

    def succeeded(self) -> None:
        self._count, self._until, self._trying, self.last_error = 0, None, False, None

    def failed(self, error: str, *, now: bool = False) -> None:
        """Count a failure; ``now`` opens at once (a wrong key stays wrong)."""
        self._count += 1
        self.last_error = error
        if now or self._trying or self._count >= self.failures:
            self._until = self.clock() + self.open_s
        self._trying = False

    def abandoned(self) -> None:
        """A request ended without a verdict (cancelled, or refused for its own sake)."""
        self._trying = False
