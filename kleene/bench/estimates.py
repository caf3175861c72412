"""What EXPLAIN says of a reference statement before it runs: to be held against what it then called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import duckdb

from kleene.planner.errors import Cancelled, KleeneError
from kleene.planner.rules import LATE, RULES

if TYPE_CHECKING:
    from kleene.engine import Engine

OFF = frozenset(rule.__name__ for rule in (*RULES, *LATE))


@attrs.frozen
class Estimated:
    """Calls of a statement as planned, and as it stands: with every rule off. None where EXPLAIN has no figure."""

    planned: int | None = None
    bare: int | None = None

    def __add__(self, other: Estimated) -> Estimated:
        return Estimated(_sum(self.planned, other.planned), _sum(self.bare, other.bare))


def _sum(a: int | None, b: int | None) -> int | None:
    return a if b is None else b if a is None else a + b


def estimated(engine: Engine, sql: str) -> Estimated:
    """Asks no model. What cannot be explained has no figures."""
    settings = engine.state.settings
    try:
        planned = engine.explain(sql).estimate.calls
        engine.state.settings = attrs.evolve(settings, rules_off=OFF)
        return Estimated(planned, engine.explain(sql).estimate.calls)
    except Cancelled:
        raise
    except (KleeneError, duckdb.Error):
        return Estimated()
    finally:
        engine.state.settings = settings
