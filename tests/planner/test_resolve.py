"""Call sites: which call, which arguments, which name the column gets, where a call may not stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from kleene.planner.specs import Volatility
from tests.planner.planning import Planner

ERRORS = Path(__file__).parent.parent / "fixtures" / "planner" / "errors.txt"


@pytest.fixture(scope="module")
def planner() -> Planner:
    return Planner.new()


def error_cases() -> list[tuple[str, str, str]]:
    cases = []
    for block in ERRORS.read_text().split("====\n"):
        head, _, expected = block.partition("\n---\n")
        title, _, sql = head.partition("\n")
        cases.append((title.removeprefix("# "), sql, expected.rstrip("\n")))
    return cases


@pytest.mark.parametrize(("title", "sql", "expected"), error_cases(), ids=lambda c: c if len(c) < 60 else "")
def test_an_error_says_what_was_found_where_and_what_to_do(
    planner: Planner, title: str, sql: str, expected: str, update_fixtures: bool
) -> None:
    found = planner.error(sql)
    if update_fixtures:
        blocks = [(t, s, found if t == title else e) for t, s, e in error_cases()]
        ERRORS.write_text("====\n".join(f"# {t}\n{s}\n---\n{e}\n" for t, s, e in blocks))
    else:
        assert found == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "SELECT body FROM t WHERE body LIKE '%llm(x)%'",
        "WITH llm AS (SELECT 1 AS a) SELECT a FROM llm",
        "SELECT u.z FROM u",
    ],
)
def test_a_statement_without_a_call_is_not_planned(planner: Planner, sql: str) -> None:
    assert planner.is_pure(sql)


def test_equal_calls_share_a_site(planner: Planner) -> None:
    made = planner.plan("SELECT f(body), f(body), f(t.body) FROM t WHERE f(body)")
    assert [s.label for s in made.sites] == ["f(body)", "f(t.body)"]


def test_sites_are_numbered_as_they_stand_in_the_text(planner: Planner) -> None:
    made = planner.plan("SELECT llm('c' || llm('b' || body)), f(z) FROM t, u")
    assert [(s.number, s.label) for s in made.sites] == [
        (1, "llm('c' || llm('b' || body))"),
        (2, "llm('b' || body)"),
        (3, "f(z)"),
    ]
    assert made.site(1).depends == {2}


def test_the_same_words_with_other_options_are_another_site(planner: Planner) -> None:
    made = planner.plan("SELECT llm(body), llm(body, effort := 'low'), llm(body, 'judge') FROM t")
    assert [(s.spec.alias, s.spec.effort) for s in made.sites] == [("worker", None), ("worker", "low"), ("judge", None)]


def test_arguments_become_their_declared_types_and_then_text(planner: Planner) -> None:
    assert planner.sql("SELECT n(i, body) AS c FROM t") == (
        "SELECT kleene_get_bigint('1:1', CAST(CAST(i AS DOUBLE) AS VARCHAR), CAST(CAST(body AS DATE) AS VARCHAR)) AS c FROM t"
    )


def test_an_answer_is_cast_from_its_carrier_to_its_type(planner: Planner) -> None:
    assert planner.sql("SELECT pair(body).a AS a FROM t") == (
        "SELECT CAST(CAST(kleene_get_text('1:1', CAST(body AS VARCHAR)) AS JSON) AS STRUCT(a INTEGER, b TEXT[])).a AS a FROM t"
    )


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT f(body) FROM t", ["f"]),
        ("SELECT LLM(body), i FROM t", ["llm", "i"]),
        ("SELECT f(body) AS Ok FROM t", ["Ok"]),
        ("SELECT llm(body) || '!' FROM t", ["llm(body) || '!'"]),
        ("SELECT i, CASE WHEN f(body) THEN 1 END FROM t", ["i", "CASE WHEN f(body) THEN 1 END"]),
        ("SELECT * FROM (SELECT f(body) FROM t)", ["f"]),
        ("SELECT t.*, f(z) FROM t JOIN u USING (i) WHERE f(body)", ["i", "body", "p", "f"]),
        ("SELECT u.i, T.Body FROM t JOIN u ON t.i = u.i WHERE f(body)", ["i", "body"]),
        ("SELECT * FROM t JOIN u ON t.i = u.i WHERE f(body)", ["i", "body", "p", "i", "z"]),
        ("SELECT t.i + 1, count(*) FROM t JOIN u USING (i) WHERE f(body) GROUP BY 1", ["(t.i + 1)", "count_star()"]),
    ],
)
def test_columns_are_named_as_the_user_expects(planner: Planner, sql: str, columns: list[str]) -> None:
    from kleene.planner.scopes import without_calls

    bound = planner.connection.describe(without_calls(planner.plan(sql).tree).sql("duckdb"))
    assert bound is not None
    assert [name for name, _ in bound] == columns


def test_an_aggregate_is_a_call_over_the_joined_texts(planner: Planner) -> None:
    assert planner.sql("SELECT llm_agg('sum up', body ORDER BY i) FILTER (WHERE p) AS a FROM t") == (
        "SELECT kleene_get_text('1:1', 'sum up', string_agg(CAST(body AS VARCHAR), '\n\n' ORDER BY i) FILTER(WHERE p)) AS a FROM t"
    )


def test_a_volatile_function_is_asked_row_by_row(planner: Planner) -> None:
    made = planner.plan("SELECT dice(body) FROM t")
    assert made.sites[0].volatility is Volatility.VOLATILE
    assert made.sites[0].demand == "volatile function"
    assert (
        planner.sql("SELECT dice(body) AS d FROM t")
        == "SELECT kleene_row_text('1:1', CAST(body AS VARCHAR)) AS d FROM t"
    )


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT f(body) FROM t WHERE random() < 0.5", "random() changes from run to run"),
        ("SELECT f(body) FROM t TABLESAMPLE 10%", "a sample changes from run to run"),
        ("SELECT f(CAST(uuid() AS VARCHAR)) FROM t", "uuid() changes from run to run"),
        (
            "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE f(i) AND i < 3) FROM r",
            "recursive term",
        ),
    ],
)
def test_calls_are_made_on_demand_where_a_lookup_cannot_serve(planner: Planner, sql: str, reason: str) -> None:
    assert {s.demand for s in planner.plan(sql).sites} == {reason}


def test_a_random_column_beside_the_calls_forbids_no_lookup(planner: Planner) -> None:
    assert planner.plan("SELECT f(body), random() FROM t").sites[0].demand is None


def test_an_sql_function_is_its_body(planner: Planner) -> None:
    made = planner.plan("SELECT twice(body) FROM t")
    assert [s.spec.function for s in made.sites] == ["llm"]


def test_a_table_function_is_its_rows_unnested(planner: Planner) -> None:
    assert planner.sql("SELECT topic FROM t, LATERAL topics(body) AS x") == (
        "SELECT topic FROM t, LATERAL (SELECT unnest(CAST(CAST(kleene_get_text('1:1', CAST(body AS VARCHAR)) AS JSON) "
        'AS STRUCT("topic" TEXT, "weight" DOUBLE)[]), max_depth := 2)) AS x'
    )
