"""Which sites wait for which: nothing that missing answers could have made up is asked."""

from __future__ import annotations

import pytest

from tests.planner.planning import Planner


@pytest.fixture(scope="module")
def planner() -> Planner:
    return Planner.new()


def waiting(planner: Planner, sql: str) -> dict[str, set[str]]:
    made = planner.plan(sql)
    return {s.label: {made.site(w).label for w in s.waits - {s.number}} for s in made.sites if s.waits - {s.number}}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT llm(body) FROM t WHERE f(body)",
        "SELECT i FROM t WHERE f(body) AND f(i)",
        "SELECT llm(llm(body)) FROM t",
        "SELECT CASE WHEN f(body) THEN llm(body) ELSE llm(i) END FROM t",
        "SELECT llm(z) FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.i = u.i AND f(body))",
        "SELECT llm(z) FROM u WHERE i IN (SELECT i FROM t WHERE f(body))",
        "SELECT llm(q.body) FROM (SELECT * FROM t WHERE f(body)) q",
        "SELECT llm(z) FROM u JOIN t ON t.i = u.i AND f(body)",
        "SELECT llm(body) FROM t WHERE f(body) UNION SELECT llm(z) FROM u WHERE f(z)",
    ],
)
def test_where_the_statement_is_monotone_no_site_waits(planner: Planner, sql: str) -> None:
    assert waiting(planner, sql) == {}


@pytest.mark.parametrize(
    ("sql", "site", "below"),
    [
        ("SELECT llm(count(*)) FROM t WHERE f(body)", "llm(count(*))", {"f(body)"}),
        ("SELECT llm(string_agg(llm(body), ',')) FROM t", "llm(string_agg(llm(body), ','))", {"llm(body)"}),
        ("SELECT llm(i) FROM t WHERE f(body) GROUP BY i", "llm(i)", {"f(body)"}),
        (
            "SELECT llm((SELECT max(i) FROM t WHERE f(body))) FROM u",
            "llm((SELECT max(i) FROM t WHERE f(body)))",
            {"f(body)"},
        ),
        ("SELECT llm(z) FROM u WHERE NOT EXISTS (SELECT 1 FROM t WHERE f(body))", "llm(z)", {"f(body)"}),
        ("SELECT llm(z) FROM u WHERE i NOT IN (SELECT i FROM t WHERE f(body))", "llm(z)", {"f(body)"}),
        ("SELECT llm(z) FROM u LEFT JOIN t ON t.i = u.i AND f(body) WHERE t.i IS NULL", "llm(z)", {"f(body)"}),
        ("SELECT llm(i) FROM (SELECT i FROM u EXCEPT SELECT i FROM t WHERE f(body))", "llm(i)", {"f(body)"}),
        ("SELECT llm(i) FROM (SELECT i FROM t WHERE f(body) LIMIT 3)", "llm(i)", {"f(body)"}),
        ("SELECT llm(n) FROM (SELECT count(*) AS n FROM t WHERE f(body))", "llm(n)", {"f(body)"}),
        ("WITH q AS (SELECT count(*) AS n FROM t WHERE f(body)) SELECT llm(n) FROM q", "llm(n)", {"f(body)"}),
        (
            "SELECT llm(row_number() OVER (ORDER BY i)) FROM t WHERE f(body)",
            "llm(row_number() OVER (ORDER BY i))",
            {"f(body)"},
        ),
    ],
)
def test_a_site_waits_for_what_could_make_up_its_argument(
    planner: Planner, sql: str, site: str, below: set[str]
) -> None:
    assert waiting(planner, sql) == {site: below}
