"""A plan as DuckDB text."""

from __future__ import annotations

import pytest

from kleene.planner.emit import emit
from tests.planner.planning import Planner


@pytest.fixture(scope="module")
def planner() -> Planner:
    return Planner.new()


def test_a_call_is_a_lookup_tagged_with_statement_and_site(planner: Planner) -> None:
    made = planner.plan("SELECT i FROM t WHERE f(body)")
    assert emit(made, "42") == "SELECT i FROM t WHERE kleene_get_bool('42:1', CAST(body AS VARCHAR))"


def test_a_second_engine_has_names_of_its_own(planner: Planner) -> None:
    made = planner.plan("SELECT coalesce(llm(body), 'x') AS a FROM t")
    text = emit(made, "1", suffix="_2")
    assert "kleene_get_text_2(" in text
    assert "kleene_ready_2(" in text


def test_a_dry_run_asks_nothing_on_demand(planner: Planner) -> None:
    made = planner.plan("SELECT dice(body) AS d FROM t")
    assert emit(made, "1", dry=True) == "SELECT CAST(NULL AS VARCHAR) AS d FROM t"


def test_emitting_leaves_the_plan_as_it_is(planner: Planner) -> None:
    made = planner.plan("SELECT f(body) FROM t")
    assert emit(made, "1") == emit(made, "1")
    assert emit(made, "2").replace("'2:", "'1:") == emit(made, "1")
