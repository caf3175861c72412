"""The rounds of a recursive query: counted, told to the trace, and ended at MAXRECURSION, at the cap, on a cancel or without budget.

A recursive term carries ``(SELECT kleene_round('42:r', count(*)) FROM t)`` in its WHERE, with ``t`` the recursive name: DuckDB evaluates it
once a round and so hands over the round's delta. True lets the round produce rows, False makes it the last.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from kleene.planner.errors import KleeneError, PlanError, number


@attrs.define(eq=False)
class RoundCounter:
    """The rounds of one recursive CTE in one run.

    ``rounds`` is MAXRECURSION n, None where it is not given; ``cap`` is ``recursion_limit``. ``check`` is asked before each round and may
    raise a ``KleeneError`` (a cancel, a budget). ``report`` is told of each round: its number from 1, the rows it starts from, and the rows so
    far. ``failed`` is given the typed error, of which DuckDB passes on only the text.
    """

    name: str
    cte: str
    cap: int
    rounds: int | None = None
    check: Callable[[], None] = lambda: None
    report: Callable[[int, int, int], None] = lambda number, delta, total: None
    failed: Callable[[KleeneError], None] = lambda error: None
    number: int = 0
    total: int = 0

    def begin_run(self) -> None:
        """Count from the beginning: the statement is run again."""
        self.number = self.total = 0

    def step(self, delta: int) -> bool:
        """The next round starts from ``delta`` new rows; says whether it may produce rows. Raises the errors it tells ``failed``."""
        if delta == 0:
            return False
        try:
            self.check()
            self.total += delta
            if self.rounds is not None and self.number >= self.rounds:
                return False
            if self.number >= self.cap:
                raise self._endless(delta)
        except KleeneError as error:
            self.failed(error)
            raise
        self.number += 1
        self.report(self.number, delta, self.total)
        return True

    def _endless(self, delta: int) -> PlanError:
        return PlanError(
            f"{self.cte} was not done after {number(self.cap)} rounds: round {number(self.cap + 1)} would start from "
            f"{number(delta)} rows, {number(self.total)} so far",
            hint="add a condition that ends it, MAXRECURSION n for n rounds, or SET recursion_limit = n",
        )
