"""The fragment that EXPLAIN names, and its reason."""

from __future__ import annotations

import pytest

from kleene.planner.fragment import fragment_of
from kleene.planner.statements import parse


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT a FROM t WHERE f(a) AND NOT g(a)", "CQ (conditions that all hold)"),
        ("SELECT 1 FROM t, u WHERE EXISTS (SELECT 1 FROM w)", "CQ (inner joins and conditions that all hold)"),
        ("SELECT a FROM t WHERE b AND (f(a) OR g(a))", "UCQ (OR in a condition)"),
        ("SELECT a FROM t UNION ALL SELECT a FROM u", "UCQ (UNION ALL)"),
        ("SELECT a FROM t UNION SELECT a FROM u", "UCQ (UNION)"),
        ("SELECT a FROM t LEFT JOIN u USING (a)", "FO (LEFT JOIN asks for rows without a partner)"),
        ("SELECT a FROM t ANTI JOIN u USING (a)", "FO (ANTI JOIN asks for rows without a partner)"),
        ("SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE f(x))", "FO (NOT EXISTS negates a query)"),
        ("SELECT a FROM t WHERE a NOT IN (SELECT x FROM u)", "FO (NOT IN negates a query)"),
        ("SELECT a FROM t EXCEPT SELECT a FROM u", "FO (EXCEPT negates a query)"),
        ("SELECT a, count(*) FROM t GROUP BY a", "aggregate (GROUP BY)"),
        ("SELECT max(a) FROM t", "aggregate (an aggregate over all rows)"),
        ("SELECT rank() OVER (ORDER BY a) FROM t", "aggregate (a window)"),
        ("SELECT a FROM t LIMIT 3", "aggregate (LIMIT counts rows)"),
        (
            "WITH RECURSIVE r AS (SELECT 1 a UNION SELECT b FROM r, e WHERE r.a = e.a) FROM r",
            "REC (linear: r reads itself once)",
        ),
        (
            "WITH RECURSIVE r AS (SELECT 1 a, 2 b UNION SELECT x.a, y.b FROM r x, r y WHERE x.b = y.a) FROM r",
            "REC (not linear: r reads itself 2 times in a term)",
        ),
        ("WITH RECURSIVE r AS (SELECT 1 a) SELECT a FROM r", "CQ (conditions that all hold)"),
    ],
)
def test_a_statement_is_in_the_least_fragment_that_holds_it(sql: str, wanted: str) -> None:
    (statement,) = parse(sql)
    assert statement.tree is not None
    assert fragment_of(statement.tree) == wanted
