"""What a block's names refer to."""

from __future__ import annotations

import pytest
import sqlglot

from kleene.planner.dialect import CallSQL
from kleene.planner.scopes import Opaque, describe_block, output_names, single_source
from tests.planner.planning import Planner


@pytest.fixture(scope="module")
def planner() -> Planner:
    return Planner.new()


def select(text: str) -> sqlglot.exp.Select:
    tree = sqlglot.parse_one(text, read=CallSQL)
    assert isinstance(tree, sqlglot.exp.Select)
    return tree


def test_a_block_knows_the_columns_of_each_source(planner: Planner) -> None:
    block = describe_block(select("SELECT 1 FROM t JOIN u AS v USING (i)"), planner.connection)
    assert [(s.name, s.columns) for s in block.sources] == [("t", ("i", "body", "p")), ("v", ("i", "z"))]
    assert block.star == ("i", "body", "p", "z")
    assert [s.name for s in block.owners("I")] == ["t", "v"]


def test_the_right_side_of_a_semi_join_shows_no_columns(planner: Planner) -> None:
    block = describe_block(select("SELECT 1 FROM t SEMI JOIN u USING (i)"), planner.connection)
    assert [(s.name, s.columns) for s in block.sources] == [("t", ("i", "body", "p")), ("u", ())]


def test_a_cte_is_a_source(planner: Planner) -> None:
    block = describe_block(select("WITH q AS (SELECT i AS a FROM t) SELECT 1 FROM q, u"), planner.connection)
    assert [(s.name, s.columns) for s in block.sources] == [("q", ("a",)), ("u", ("i", "z"))]


@pytest.mark.parametrize(
    "text",
    ["SELECT 1", "SELECT 1 FROM nosuch, t", "SELECT 1 FROM t, t", "SELECT 1 FROM t, (SELECT 1)"],
    ids=["no source", "an unknown table", "two of one name", "a nameless one"],
)
def test_a_block_that_cannot_be_bound_is_opaque(planner: Planner, text: str) -> None:
    with pytest.raises(Opaque):
        describe_block(select(text), planner.connection)


def test_the_only_source_has_a_name() -> None:
    assert single_source(select("SELECT 1 FROM t AS q")) == "q"
    assert single_source(select("SELECT 1 FROM t, u")) is None
    assert single_source(select("SELECT 1 FROM (SELECT 1)")) is None


def test_output_columns_have_the_names_that_duckdb_gives(planner: Planner) -> None:
    assert output_names(select("SELECT T.I, i + 1, count(*) FROM t GROUP BY ALL"), planner.connection) == (
        "i",
        "(i + 1)",
        "count_star()",
    )
