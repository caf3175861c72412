"""Temp tables that hold a slow statement's pure blocks while it runs (rule ``materialise``): when they are made, filled, read and dropped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

import attrs
import duckdb

from kleene.connection import Connection, Fetched, Params
from kleene.planner.callplan import CallPlan, Kept, PlanContext
from kleene.planner.calls import parameters
from kleene.planner.emit import emit, emit_kept
from kleene.planner.errors import Cancelled
from kleene.planner.rules.materialise import materialise
from kleene.planner.settings import Settings
from kleene.udfs.walls import alarm

WAVES = 4  # further runs that a LIMIT or EXISTS with calls is taken to need
LEAST_S = 0.1


@attrs.define
class Keeping:
    """Keeps a statement's pure blocks once it is worth it. ``guarded`` runs DuckDB so that it can be cancelled.

    ``plan`` is the plan that reads the tables, None while there are none. Nothing is kept inside the user's transaction: an error there would
    abort it, and its end would take the tables.
    """

    connection: Connection
    settings: Settings
    statement: str
    suffix: str
    params: Params
    guarded: Callable[[Callable[[], Fetched]], Fetched]
    plan: CallPlan | None = None
    _tables: list[str] = attrs.field(factory=list)
    _tried: bool = attrs.field(default=False, alias="tried")

    @classmethod
    def never(cls, connection: Connection, settings: Settings, statement: str, suffix: str) -> Keeping:
        """One that keeps nothing, for a small query of our own."""
        return cls(connection, settings, statement, suffix, None, lambda execute: execute(), tried=True)

    def keep_if_slow(self, plan: CallPlan, runs: int, first_s: float) -> bool:
        """Keep after so many runs, the first of which took so long, where another is needed now and may not be the last."""
        if self._tried or 1000 * first_s < self.settings.materialise_ms:
            return False
        if runs == 1 and may_end_next(plan, self.settings):
            return False
        return self.keep(plan, max(LEAST_S, first_s * _further_runs(plan)))

    def keep(self, plan: CallPlan, most_s: float | None = None) -> bool:
        """Fill the tables; False where the statement has to go on without. Tried once a statement.

        ``most_s``: the seconds that it may take, None for as long as it does. Raises ``Cancelled``, and what else ends the statement.
        """
        if self._tried:
            return False
        self._tried = True
        if not self.connection.in_autocommit():
            return False
        kept = keepable(plan, self.connection, self.settings)
        if kept is not plan and self._fill(kept, most_s):
            self.plan = kept
        return self.plan is not None

    def hold(self, plan: CallPlan) -> bool:
        """Fill the tables that a plan reads from its first run on; False where that cannot be done."""
        if self._tried or not self.connection.in_autocommit():
            return False
        self._tried = True
        if self._fill(plan, None):
            self.plan = plan
        return self.plan is not None

    def text(self) -> tuple[str, Params]:
        """The statement over the tables, and its parameters."""
        assert self.plan is not None
        return emit(self.plan, self.statement, suffix=self.suffix), used(self.plan, self.params)

    def _fill(self, plan: CallPlan, most_s: float | None) -> bool:
        late = False

        def give_up() -> None:
            nonlocal late
            late = True
            self.connection.interrupt()

        tables = emit_kept(plan, self.statement, suffix=self.suffix)
        try:
            self.connection.begin()
            with alarm(most_s, give_up):
                for (name, query), kept in zip(tables, plan.kept, strict=True):
                    self._create(f"CREATE TEMPORARY TABLE {name} AS {query}", used(kept, self.params))
            self.connection.commit()
        except BaseException as error:
            self.connection.rollback()
            if isinstance(error, duckdb.Error) or (late and isinstance(error, Cancelled)):
                return False  # it reads the rows in a way of its own: what it cannot do is not the statement's error
            raise
        self._tables = [name for name, _ in tables]
        return True

    def _create(self, text: str, params: Params) -> None:
        self.guarded(lambda: self.connection.fetch(text, params))

    def close(self) -> None:
        """Drop the tables."""
        for name in reversed(self._tables):
            with suppress(duckdb.Error):
                self.connection.rows(f"DROP TABLE IF EXISTS {name}")
        self._tables = []


def keepable(plan: CallPlan, connection: Connection, settings: Settings) -> CallPlan:
    """The plan over what can be kept of it; the plan itself where that is nothing, or the rule is off."""
    if not settings.rule_is_on("materialise"):
        return plan
    return materialise(plan, PlanContext(settings, connection))


def _further_runs(plan: CallPlan) -> int:
    """How many runs are likely to follow the first, two at least: filling the tables pays while it takes less time than they would."""

    def depth(number: int, above: frozenset[int]) -> int:
        below = plan.site(number).depends - above
        return 1 + max((depth(b, above | {number}) for b in below), default=0)

    deepest = max((depth(s.number, frozenset()) for s in plan.sites), default=0)
    return max(2, deepest, WAVES if plan.stops else 0)


def may_end_next(plan: CallPlan, settings: Settings) -> bool:
    """The run after the first is the last, as a rule: one site whose arguments hold no call. ``materialise_ms = 0`` keeps even then."""
    single = len(plan.sites) == 1 and plan.sites[0].is_independent and not plan.stops and not plan.suspicious
    return single and settings.materialise_ms > 0


def used(part: Kept | CallPlan, params: Params) -> Params:
    """Those of the statement's parameters that a part of it names: DuckDB refuses values that it has no use for."""
    if not params:
        return params
    named = params if isinstance(params, Mapping) else {str(n): value for n, value in enumerate(params, 1)}
    wanted = parameters(part.query if isinstance(part, Kept) else part.tree)
    return {name: value for name, value in named.items() if name in wanted}
