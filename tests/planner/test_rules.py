"""Every rule alone: the SQL it makes of a statement, the calls it saves, the rows it keeps.

A fixture file holds cases between lines of ``====``: lines that begin with ``#`` (title; calls without any rule -> with this one), the
statement, ``---``, the DuckDB SQL. A case whose title says "not" must keep the statement as it is. ``pytest --update-fixtures`` writes calls
and SQL anew.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from kleene.planner import rules
from kleene.planner.callplan import CallPlan, PlanContext
from kleene.planner.emit import emit, emit_kept
from kleene.planner.plan import plan
from kleene.planner.statements import parse
from tests.semantics.small import SETUP
from tests.semantics.world import RULES, World, keyed

FOLDER = Path(__file__).parent.parent / "fixtures" / "rules"


@attrs.frozen
class Example:
    rule: str
    title: str
    calls: str
    sql: str
    expected: str

    def text(self) -> str:
        return f"# title: {self.title}\n# calls: {self.calls}\n{self.sql}\n---\n{self.expected}\n"


def read(path: Path) -> list[Example]:
    return [_example(path.stem, block) for block in path.read_text().split("====\n")]


def _example(rule: str, block: str) -> Example:
    head, _, expected = block.partition("\n---\n")
    notes = dict(line[2:].split(": ", 1) for line in head.splitlines() if line.startswith("# "))
    sql = "\n".join(line for line in head.splitlines() if not line.startswith("#"))
    return Example(rule, notes["title"], notes.get("calls", ""), sql.strip(), expected.strip())


EXAMPLES = [example for path in sorted(FOLDER.glob("*.sql")) for example in read(path)]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World(SETUP) as made:
        yield made


def planned(world: World, sql: str, only: str | None) -> CallPlan:
    settings = attrs.evolve(world.engine.state.settings, rules_off=frozenset(RULES) - {only})
    made = plan(parse(sql)[0], world.engine.state.catalog, settings, world.engine.connection)
    assert made is not None
    for rule in rules.LATE:
        if only == rule.__name__:
            made = rule(made, PlanContext(settings, world.engine.connection))
    return made


def spelled(plan: CallPlan, sql: str) -> str:
    """The statement, below the tables that it reads where some are kept; a date that the text ``sql`` does not name is the clock's."""
    text = "\n".join([*(f"{name}: {query}" for name, query in emit_kept(plan, "1")), emit(plan, "1")])
    return re.sub(r"\d{4}-\d\d-\d\d", lambda date: date[0] if date[0] in sql else "TODAY", text)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: f"{e.rule}: {e.title}")
def test_a_rule_alone(world: World, example: Example, update_fixtures: bool) -> None:
    made = planned(world, example.sql, example.rule)
    chosen = made.compact or made
    before = world.kleene(example.sql, off=RULES)
    after = world.kleene(example.sql, off=[r for r in RULES if r != example.rule])
    truth = Counter(keyed(world.true(example.sql)))
    assert Counter(keyed(before.rows)) == truth
    assert Counter(keyed(after.rows)) == truth
    assert before.columns == after.columns
    found = attrs.evolve(example, calls=f"{before.count()} -> {after.count()}", expected=spelled(chosen, example.sql))
    if update_fixtures:
        path = FOLDER / f"{example.rule}.sql"
        examples = [found if e.title == example.title else e for e in read(path)]
        path.write_text("====\n".join(e.text() for e in examples))
    else:
        assert found == example
    assert (chosen.rules == ()) == (" not " in f" {example.title} "), f"fired: {chosen.rules}"
    assert after.count() <= before.count()


def test_every_rule_has_examples_and_one_where_it_must_not_fire() -> None:
    for rule in (*rules.RULES, *rules.LATE):
        own = [e for e in EXAMPLES if e.rule == rule.__name__]
        assert any(" not " not in f" {e.title} " for e in own), rule.__name__
        assert any(" not " in f" {e.title} " for e in own), rule.__name__


def test_a_rule_that_does_not_apply_gives_back_the_same_plan(world: World) -> None:
    made = planned(world, "SELECT h(s) FROM t", None)
    context = PlanContext(world.engine.state.settings, world.engine.connection)
    for rule in rules.RULES:
        assert rule(made, context) is made


def test_a_rule_names_its_law_and_its_switch() -> None:
    for rule in (*rules.RULES, *rules.LATE):
        module = __import__(rule.__module__, fromlist=["__doc__"])
        assert module.__doc__.startswith(f"{rule.__name__}: ")
        assert rule.__module__.endswith(f".{rule.__name__}")
