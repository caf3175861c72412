"""One random case under the truth and under Kleene: with all rules, with one of them off, with all of them off."""

from __future__ import annotations

from collections import Counter

import attrs
import duckdb

from kleene.planner.errors import KleeneError
from tests.semantics.world import RULES, World, keyed


@attrs.frozen
class Case:
    """Statements that create the tables, and one query."""

    tables: list[str]
    sql: str


@attrs.frozen
class Outcome:
    """Distinct calls with all rules and with none; ``error`` where both readings refuse the statement."""

    calls: int = 0
    calls_without_rules: int = 0
    error: bool = False


class Difference(AssertionError):
    """Kleene and the truth differ, or the rules cost more than they save."""


def compare(world: World, case: Case, *, rule: int = 0) -> Outcome:
    """Raise ``Difference`` unless all readings agree. ``rule`` chooses the rule that is switched off alone."""
    world.setup(*case.tables)
    try:
        truth: list[str] | None = keyed(world.true(case.sql))
    except duckdb.Error as error:
        truth, refusal = None, str(error).splitlines()[0]
    seen = {}
    for name, off in (("all rules", ()), ("one off", (RULES[rule % len(RULES)],)), ("no rules", RULES)):
        label = f"{name} ({', '.join(off)})" if off else name
        try:
            found = world.kleene(case.sql, off=off)
        except (duckdb.Error, KleeneError) as error:
            if truth is not None:
                raise Difference(f"{label}: {type(error).__name__}: {str(error).splitlines()[0]}") from error
            continue
        if truth is None:
            raise Difference(f"{label}: the truth refuses, Kleene does not: {refusal}")
        if Counter(keyed(found.rows)) != Counter(truth):
            extra = Counter(keyed(found.rows)) - Counter(truth)
            lacking = Counter(truth) - Counter(keyed(found.rows))
            raise Difference(f"{label}: rows differ, extra {list(extra)[:3]}, lacking {list(lacking)[:3]}")
        seen[name] = found
    if truth is None:
        return Outcome(error=True)
    outcome = Outcome(seen["all rules"].count(), seen["no rules"].count())
    # DuckDB may be lucky without the rules (it folds a missing constant, drops a CASE with equal branches, tries the better filter first).
    if outcome.calls > 2 * outcome.calls_without_rules + 6:
        raise Difference(f"{outcome.calls} calls with rules, {outcome.calls_without_rules} without")
    return outcome


__all__ = ["Case", "Difference", "Outcome", "compare"]
