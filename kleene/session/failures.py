"""Remembers how statements failed: to answer a repeated error differently, and to stop a session that cannot get on."""

from __future__ import annotations

import re

import attrs

from kleene.planner.errors import BusyConnection, CallFailed, KleeneError, NoModel, StoreLocked

_VARYING = re.compile(r"[0-9a-f]{8,}|\d+")


@attrs.define
class FailureLog:
    """Counts statement failures of one session.

    A failure is *infrastructure* when no other SQL would mend it: a call that failed, a locked store, a missing model. Those are counted
    alike whatever the statement, with numbers and ids in the message left out, until a statement's call is answered. Other failures are
    counted by statement and message, until another statement fails.
    """

    limit: int = 5
    _first: dict[tuple[str, str], tuple[int, int]] = attrs.field(factory=dict)
    _streak_key: tuple[str, ...] = ()
    _streak: int = 0
    _broken_key: tuple[str, ...] = ()
    _broken: int = 0

    def note(self, statement: str, problem: KleeneError, turn: int) -> tuple[int, int]:
        """Count one failure; return how often this statement has failed this way, and in which turn first."""
        key = (" ".join(statement.split()), problem.message)
        times, first = self._first.get(key, (0, turn))
        self._first[key] = (times + 1, first)
        self._streak = self._streak + 1 if self._streak_key == key else 1
        self._streak_key = key
        if is_infrastructure(problem):
            cause = (type(problem).__name__, getattr(problem, "kind", ""), _VARYING.sub("#", problem.message))
            self._broken = self._broken + 1 if self._broken_key == cause else 1
            self._broken_key = cause
        return times + 1, first

    def answered(self) -> None:
        """A statement's call was answered: the infrastructure works."""
        self._broken = 0

    def verdict(self, problem: KleeneError) -> str | None:
        """Why the session must end, or None while it may go on."""
        if is_infrastructure(problem) and self._broken >= self.limit:
            return f"{self._broken} calls in a row failed in the same way: {problem.message}"
        if self._streak >= self.limit:
            return f"the same statement failed {self._streak} times in a row: {problem.message}"
        return None


def is_infrastructure(problem: KleeneError) -> bool:
    """True when the failure is not the statement's: another statement with calls would fail alike."""
    if isinstance(problem, CallFailed):
        return problem.kind not in ("context_overflow", "bad_request")
    return isinstance(problem, (StoreLocked, BusyConnection, NoModel))
