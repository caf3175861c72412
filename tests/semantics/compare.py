"""One random case under the truth and under Kleene: with all rules, with one of them off, with all of them off."""

from __future__ import annotations

from collections import Counter

import attrs
import duckdb
import sqlglot
from sqlglot import exp

from kleene.planner.dialect import CallSQL
from kleene.planner.errors import KleeneError
from tests.semantics.world import RULES, TYPES, Seen, World, keyed


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
    return _priced(case, seen)


def _priced(case: Case, seen: dict[str, Seen]) -> Outcome:
    with_rules, without = seen["all rules"], seen["no rules"]
    # Without the rule ``constants`` DuckDB folds the one missing answer and plans the rest away, which saves others by luck.
    if not _has_constant_call(case.sql) and with_rules.count() > without.count():
        more = sorted(set(with_rules.calls) - set(without.calls))
        raise Difference(f"{with_rules.count()} calls with rules, {without.count()} without: {more[:4]}")
    return Outcome(with_rules.count(), without.count())


def _has_constant_call(sql: str) -> bool:
    tree = sqlglot.parse_one(sql, read=CallSQL)
    return any(n.name in TYPES and not n.find(exp.Column) for n in tree.find_all(exp.Anonymous))


__all__ = ["Case", "Difference", "Outcome", "compare"]
