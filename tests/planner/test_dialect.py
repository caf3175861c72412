"""CallSQL reads DuckDB's SQL and prints it back with the same rows, types and column names, or says that it cannot."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from kleene.planner import nodes
from kleene.planner.dialect import AGGREGATES, TAKE_LAMBDAS, CallSQL, function_name, is_aggregate, unescape
from kleene.planner.errors import ParseError
from kleene.planner.statements import parse

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "dialect"
SELECTS = [line for line in (FIXTURES / "selects.sql").read_text().splitlines() if line.strip()]
# sqlglot makes SELECT * FROM (VALUES ...) of VALUES as a CTE, and a query over it of PIVOT ... ORDER BY: the same rows by another tree
OTHER_TREE = (
    "WITH v AS (VALUES",
    "WITH a(x, y) AS (VALUES",
    "PIVOT u ON k USING sum(v) GROUP BY i ORDER",
    "PIVOT t ON g, b",
    "PIVOT (SELECT",
)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute((FIXTURES / "setup.sql").read_text())
    yield connection
    connection.close()


def regenerated(sql: str) -> str:
    (statement,) = parse(sql)
    assert statement.tree is not None, statement.unreadable
    return statement.tree.sql(CallSQL)


def outcome(con: duckdb.DuckDBPyConnection, sql: str) -> tuple[list[tuple[str, str]], str]:
    result = con.execute(sql)
    return [(d[0], str(d[1])) for d in result.description], repr(result.fetchall())


def duckdb_tree(con: duckdb.DuckDBPyConnection, sql: str) -> Any:
    def bare(node: Any) -> Any:
        if isinstance(node, dict):
            return {k: bare(v) for k, v in node.items() if not k.startswith("query_location")}
        return [bare(n) for n in node] if isinstance(node, list) else node

    row = con.execute("SELECT json_serialize_sql(?)", [sql]).fetchone()
    assert row is not None
    return bare(json.loads(row[0]))


def test_the_corpus_is_large() -> None:
    assert len(SELECTS) >= 400


@pytest.mark.parametrize("sql", SELECTS, ids=range(len(SELECTS)))
def test_regenerated_text_means_what_the_original_means(con: duckdb.DuckDBPyConnection, sql: str) -> None:
    text = regenerated(sql)
    assert outcome(con, text) == outcome(con, sql)
    if not sql.startswith(OTHER_TREE):
        assert duckdb_tree(con, text) == duckdb_tree(con, sql)


def test_printing_then_parsing_is_identity() -> None:
    for sql in SELECTS:
        text = regenerated(sql)
        assert regenerated(text).replace("ANY (", "ANY(") == text.replace("ANY (", "ANY(")


def test_every_example_of_duckdb_s_own_functions_is_regenerated_to_the_same_tree(
    con: duckdb.DuckDBPyConnection,
) -> None:
    rows = con.execute("SELECT DISTINCT unnest(examples) FROM duckdb_functions() ORDER BY ALL").fetchall()
    checked, differing = 0, []
    for (example,) in rows:
        sql = "SELECT " + str(example).strip().rstrip(";")
        tree = duckdb_tree(con, sql)
        if tree.get("error"):
            continue
        (statement,) = parse(sql)
        if statement.tree is None:
            assert "!" in sql  # 4! is the one thing not read
            continue
        checked += 1
        if duckdb_tree(con, statement.tree.sql(CallSQL)) != tree:
            differing.append(sql)
    assert not differing
    assert checked > 400


WRITES = [
    "INSERT INTO u VALUES (7, 'x', 1), (8, NULL, DEFAULT)",
    "INSERT INTO u (v, i) SELECT i * 2, i FROM t WHERE i < 3 ORDER BY i",
    "INSERT INTO u BY NAME SELECT 9 AS i, 'q' AS k",
    "INSERT INTO u DEFAULT VALUES",
    "UPDATE u SET v = coalesce(v, 0) + 1, k = upper(k) WHERE i IS NOT NULL",
    "UPDATE u SET v = t.g FROM t WHERE t.i = u.i",
    "DELETE FROM u WHERE v > (SELECT avg(v) FROM u)",
    "DELETE FROM u USING t WHERE t.i = u.i AND t.b",
    "WITH a AS (SELECT 5 AS i) INSERT INTO u (i) SELECT i FROM a",
    "MERGE INTO u USING (SELECT 1 AS i, 99 AS v) s ON u.i = s.i WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (i, v) VALUES (s.i, s.v)",
    "CREATE OR REPLACE TABLE u AS SELECT i, k || '!' AS k, v FROM u",
    "CREATE TABLE fresh (i INTEGER PRIMARY KEY, s VARCHAR DEFAULT 'a', d DECIMAL(10, 2) CHECK (d > 0), l INTEGER[])",
    "CREATE TEMP TABLE IF NOT EXISTS fresh AS FROM u",
    "CREATE VIEW fresh AS SELECT i, count(*) AS n FROM u GROUP BY ALL",
    "DROP TABLE IF EXISTS u",
    "INSERT INTO keyed VALUES (1, 'b') ON CONFLICT DO UPDATE SET s = excluded.s || keyed.s",
    "INSERT OR REPLACE INTO keyed VALUES (1, 'c')",
    "INSERT OR IGNORE INTO keyed VALUES (1, 'd'), (2, 'e')",
]


@pytest.mark.parametrize("sql", WRITES)
def test_a_regenerated_write_leaves_the_same_tables(con: duckdb.DuckDBPyConnection, sql: str) -> None:
    def after(text: str) -> object:
        con.execute("BEGIN; CREATE TABLE keyed (i INTEGER PRIMARY KEY, s VARCHAR); INSERT INTO keyed VALUES (1, 'a')")
        try:
            con.execute(text)
            names = [n for (n,) in con.execute("SELECT name FROM (SHOW TABLES) ORDER BY name").fetchall()]
            wanted = [n for n in names if n in ("u", "keyed", "fresh")]
            return [
                (n, outcome(con, f"FROM {n} ORDER BY ALL"), con.execute(f"DESCRIBE {n}").fetchall()) for n in wanted
            ]
        finally:
            con.execute("ROLLBACK")

    assert after(regenerated(sql)) == after(sql)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT 4!", "unexpected !"),
        ("SELECT 0x1F", "this hexadecimal literal is not read as DuckDB reads it"),
        ("SELECT x'1'", "this hexadecimal literal is not read as DuckDB reads it"),
        ("SELECT 'a' 'b'", "two strings side by side"),
        ("SELECT b'101'", "unexpected '101'"),
        ("SELECT @x", "the operator @ is not read"),
        ("SELECT E'\\xff'", "this escape string is not UTF-8, or holds a NUL"),
        ("SELECT i FROM t FETCH FIRST 3 ROWS WITH TIES", "DuckDB has no WITH TIES"),
        ("SELECT j -> 'a' = '1' FROM t", "in DuckDB -> takes all that follows it: write (x -> path) in parentheses"),
        ("SELECT j -> 'a' || 'b' FROM t", "in DuckDB -> takes all that follows it: write (x -> path) in parentheses"),
        ("SELECT a ->> 'b' & 1", "write (x ->> path) in parentheses before this operator"),
        ("SELECT a ->> 'b' << 1", "write (x ->> path) in parentheses before this operator"),
        ("SELECT * FROM (SHOW TABLES)", "SHOW inside a query is not read"),
        ("SELECT INTERVAL '1' YEAR TO MONTH", "DuckDB has no interval ranges"),
    ],
)
def test_what_would_change_its_meaning_is_unreadable(sql: str, reason: str) -> None:
    (statement,) = parse(sql)
    assert statement.tree is None
    assert statement.unreadable is not None
    assert statement.unreadable.message == f"this statement cannot be read: {reason}"


def tree(sql: str) -> exp.Expr:
    return sqlglot.parse_one(sql, read=CallSQL)


def test_both_spellings_of_a_named_argument_are_one_node() -> None:
    assert tree("SELECT llm('x', model := 'a')") == tree("SELECT llm('x', model => 'a')")
    argument = tree("SELECT llm('x', model => 'a')").find(exp.PropertyEQ)
    assert argument is not None
    assert isinstance(argument.this, exp.Identifier)
    assert tree("SELECT llm('x', model => 'a')").sql(CallSQL) == "SELECT llm('x', model := 'a')"


def test_a_function_keeps_its_name_as_written() -> None:
    assert tree("SELECT LEN(x), Substr(x, 2), List_Sort(l), DateDiff('day', a, b)").sql(CallSQL) == (
        "SELECT LEN(x), Substr(x, 2), List_Sort(l), DateDiff('day', a, b)"
    )


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("String_Agg(x, ',')", "string_agg"),
        ("COUNT(*)", "count"),
        ("coalesce(a, b)", "coalesce"),
        ("llm_bool('x')", "llm_bool"),
        ("current_date", "current_date"),
        ("extract(year FROM d)", "date_part"),
        ("position('a' IN s)", "position"),
        ("trim(LEADING 'x' FROM s)", "ltrim"),
        ("a + b", None),
        ("CAST(a AS INT)", None),
        ("CASE WHEN a THEN b END", None),
    ],
)
def test_function_name_is_what_duckdb_calls(sql: str, name: str | None) -> None:
    assert function_name(tree(f"SELECT {sql}").expressions[0]) == name


def test_every_aggregate_of_duckdb_is_known_as_one(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'"
    ).fetchall()
    assert {name for (name,) in rows} <= AGGREGATES
    for name in AGGREGATES:
        assert is_aggregate(tree(f"SELECT {name}(x)").expressions[0])
    assert not is_aggregate(tree("SELECT llm_agg('a', x)").expressions[0])


@pytest.mark.parametrize("text", [r"it''s", r"a\nb\tc\\d", r"\x41\101", r"\q\'", "é😀", r"\xc3\xa9", ""])
def test_unescape_agrees_with_duckdb(con: duckdb.DuckDBPyConnection, text: str) -> None:
    assert con.execute(f"SELECT E'{text}'").fetchone() == (unescape(text),)


def test_strings_in_all_forms_are_string_literals() -> None:
    query = tree("SELECT 'a', $$b'$$, $t$c$t$, E'd\\n', 'e'\n'f'")
    assert [e.name for e in query.expressions] == ["a", "b'", "c", "d\n", "ef"]
    assert all(isinstance(e, exp.Literal) and e.is_string for e in query.expressions)


def test_parameters_keep_their_names() -> None:
    found = [p.this for p in tree("SELECT ?, $2, $name").find_all(exp.Placeholder)]
    assert found == [None, "2", "name"]


OWN = [
    (
        "create function f(a text, b struct(x int, y varchar[])) returns boolean as prompt '{a} {b}' stable batch auto effort low model 'm' proxy g thresholds (.2, 0.8) via <> h",
        "CREATE FUNCTION f(a text, b struct(x int, y varchar[])) RETURNS boolean AS PROMPT '{a} {b}' MODEL 'm' EFFORT 'low' BATCH AUTO STABLE PROXY g THRESHOLDS (.2, 0.8) VIA <> h",
        nodes.CreateFunction,
    ),
    (
        "create or replace function f(a text) returns table(x bigint, y text) as prompt $$ ; ' {a} $$",
        "CREATE OR REPLACE FUNCTION f(a text) RETURNS TABLE(x bigint, y text) AS PROMPT ' ; '' {a} '",
        nodes.CreateFunction,
    ),
    (
        "create function f(a text) returns text as sql (select upper(a))",
        "CREATE FUNCTION f(a text) RETURNS text AS SQL (SELECT upper(a))",
        nodes.CreateFunction,
    ),
    (
        "create function f() returns text as shell 'date'",
        "CREATE FUNCTION f() RETURNS text AS SHELL 'date'",
        nodes.CreateFunction,
    ),
    (
        "create agent r model 'root' effort 'max' tools (files, read) budget (calls 5, turns 4, dollars 0.5) prompt 'p'",
        "CREATE AGENT r MODEL 'root' EFFORT 'max' TOOLS (files, read) BUDGET (calls 5, dollars 0.5) TURNS 4 PROMPT 'p'",
        nodes.CreateAgent,
    ),
    ("create or replace agent r tools ()", "CREATE OR REPLACE AGENT r TOOLS ()", nodes.CreateAgent),
    (
        "calibrate f sample 20 confidence 0.95 from t where i > 1",
        "CALIBRATE FUNCTION f SAMPLE 20 CONFIDENCE 0.95 FROM (SELECT * FROM t WHERE i > 1)",
        nodes.Calibrate,
    ),
    ("calibrate function f from select a from t", "CALIBRATE FUNCTION f FROM (SELECT a FROM t)", nodes.Calibrate),
    ("call shell('ls', timeout_ms => 3)", "CALL shell('ls', timeout_ms := 3)", nodes.CallTool),
    ("call notify(s) from t", "CALL notify(s) FROM t", nodes.CallTool),
    ("call notify(m.s) from t m where m.b", "CALL notify(m.s) FROM t AS m WHERE m.b", nodes.CallTool),
    ("call notify(q.x) from (select 1 as x) q", "CALL notify(q.x) FROM (SELECT 1 AS x) AS q", nodes.CallTool),
    ("call notify(x) from select 1 as x", "CALL notify(x) FROM (SELECT 1 AS x)", nodes.CallTool),
    (
        "call notify(x) from with a as (select 1 as x) from a",
        "CALL notify(x) FROM (WITH a AS (SELECT 1 AS x) SELECT * FROM a)",
        nodes.CallTool,
    ),
    ("set budget.dollars = 0.5", "SET budget.dollars = 0.5", nodes.SetKey),
    ("set effort to high", "SET effort = 'high'", nodes.SetKey),
    ("set rules.stage = off", "SET rules.stage = 'off'", nodes.SetKey),
    ("reset budget.calls", "RESET budget.calls", nodes.ResetKey),
    ("explain analyze (format json) select 1", "EXPLAIN ANALYZE (FORMAT json) SELECT 1", nodes.Explain),
    ("explain (format sql) final(1)", "EXPLAIN (FORMAT sql) FINAL(1)", nodes.Explain),
    ("explain (select 1)", "EXPLAIN (SELECT 1)", nodes.Explain),
    ("final(1 + 1)", "FINAL(1 + 1)", nodes.Final),
    ("final from (select a from t)", "FINAL FROM (SELECT a FROM t)", nodes.Final),
    ("final from t where i > 3", "FINAL FROM (SELECT * FROM t WHERE i > 3)", nodes.Final),
    ("final(select a from t)", "FINAL FROM (SELECT a FROM t)", nodes.Final),
    ("drop function if exists f", "DROP FUNCTION IF EXISTS f", nodes.DropFunction),
    ("drop agent r", "DROP AGENT r", nodes.DropAgent),
    ("show functions", "SHOW FUNCTIONS", nodes.Show),
    ("prepare p as select ? + 1", "PREPARE p AS SELECT ? + 1", nodes.Prepare),
    ("execute p(1, a := 2)", "EXECUTE p(1, a := 2)", nodes.Execute),
]


@pytest.mark.parametrize(("sql", "printed", "kind"), OWN, ids=[o[0][:40] for o in OWN])
def test_an_own_statement_is_a_node_of_its_own_and_prints_as_it_reads(
    sql: str, printed: str, kind: type[exp.Expr]
) -> None:
    node = tree(sql)
    assert type(node) is kind
    assert node.sql(CallSQL) == printed
    assert tree(printed) == node


DRESSES: list[Callable[[str], str]] = [
    str.upper,
    lambda s: s + ";",
    lambda s: s + " ; -- note",
    lambda s: "/* b */ " + s,
    lambda s: s + " /* a */",
    lambda s: s.replace(" ", "\r\n"),
    lambda s: s.replace(" ", "\t "),
    lambda s: "\ufeff" + s,
    lambda s: s.replace(" ", " /* ; ' */ "),
    lambda s: s.replace(" ", " -- it's; a note\n"),
    lambda s: "\n\n" + s + "\n",
]


@pytest.mark.parametrize(("sql", "printed", "kind"), OWN, ids=[o[0][:40] for o in OWN])
def test_case_blanks_and_comments_do_not_matter(sql: str, printed: str, kind: type[exp.Expr]) -> None:
    sql = sql.replace("$$ ; ' {a} $$", "$$;'{a}$$").replace("'{a} {b}'", "'{a}{b}'")
    for dress in DRESSES:
        (statement,) = parse(dress(sql))
        assert type(statement.tree) is kind, dress(sql)
        assert statement.has_own


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE FUNCTION f(a) AS a + 1",
        "CREATE FUNCTION f(a) AS prompt",
        "CREATE OR REPLACE MACRO f(a, b) AS a + b",
        "CREATE FUNCTION f(a) AS TABLE SELECT a",
        "SET threads = 2",
        "SET memory_limit = '1GB'",
        "SHOW TABLES",
        "DROP TABLE f",
        "SELECT final, call, agent, prompt FROM odd",
        "SELECT 'FINAL(1)'",
        "FROM final",
        "INSERT INTO final VALUES (1)",
        "WITH call AS (SELECT 1 AS agent) SELECT agent FROM call",
    ],
)
def test_duckdb_s_own_statements_stay_duckdb_s(sql: str) -> None:
    (statement,) = parse(sql)
    assert not isinstance(statement.tree, nodes.OwnStatement)
    assert statement.tree is not None
    assert not statement.has_own


def test_maxrecursion_is_kept_on_the_cte_and_not_printed() -> None:
    query = tree("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) MAXRECURSION 3 SELECT * FROM r")
    cte = query.find(exp.CTE)
    assert cte is not None
    assert cte.meta["maxrecursion"] == 3
    assert query.copy().find(exp.CTE).meta["maxrecursion"] == 3  # type: ignore[union-attr]
    assert "MAXRECURSION" not in query.sql(CallSQL)


@pytest.mark.parametrize(
    "sql",
    [
        "FINAL('a (b) c)')",
        "FINAL('it''s ) ok')",
        "FINAL($$ ) ' $$)",
        "FINAL(concat('x',(select max(y) from t)))  -- done)",
    ],
)
def test_final_ends_at_its_own_parenthesis(sql: str) -> None:
    (statement,) = parse(sql)
    assert isinstance(statement.tree, nodes.Final)
    assert statement.tree.this is not None


def test_two_finals_are_two_statements() -> None:
    assert [type(s.tree) for s in parse("FINAL(1); FINAL(2)")] == [nodes.Final, nodes.Final]


def test_a_call_s_source_has_the_scope_of_its_arguments() -> None:
    call = tree("CALL notify(m.s) FROM t m WHERE m.b")
    source = call.args["source"]
    assert (
        source.select(*[a.copy() for a in call.expressions], append=False).sql(CallSQL)
        == "SELECT m.s FROM t AS m WHERE m.b"
    )


@pytest.mark.parametrize(
    ("sql", "message", "marked"),
    [
        ("CREATE FUNCTION f(a TEXT) AS PROMPT 'x'", "expected RETURNS and a type, found AS", "AS"),
        ("CREATE FUNCTION f(a TEXT) RETURNS TEXT", "expected AS PROMPT, AS SQL or AS SHELL, the statement ends", ""),
        ("CREATE FUNCTION f(a) RETURNS TEXT AS PROMPT 'x'", "a has no type", "a"),
        ("CREATE FUNCTION s.f(a TEXT) RETURNS TEXT AS PROMPT 'x'", "function's name has no schema: s.…", "s"),
        ("CREATE FUNCTION f(a TEXT) RETURNS TEXT AS PROMPT x", "expected the prompt as a string, found x", "x"),
        ("CREATE FUNCTION f(a TEXT) RETURNS TEXT AS PROMPT 'x' MODEL 'a' MODEL 'b'", "MODEL is given twice", "MODEL"),
        (
            "CREATE FUNCTION f(a TEXT) RETURNS TEXT AS PROMPT 'x' SPEED 3",
            "expected the end of the statement, found SPEED",
            "SPEED",
        ),
        (
            "CREATE FUNCTION f(a TEXT) RETURNS TEXT AS PROMPT 'x' THRESHOLDS (1, 2)",
            "THRESHOLDS stands after PROXY name",
            "THRESHOLDS",
        ),
        ("CREATE FUNCTION f(a TEXT) RETURNS TEXT AS SQL (a + 1)", "the SQL body is no SELECT", "a"),
        ("CREATE AGENT", "expected the agent's name, the statement ends", ""),
        ("CREATE AGENT r BUDGET (cals 3)", "unknown budget dimension cals; did you mean calls?", "cals"),
        ("CREATE AGENT r COLOUR 'red'", "unknown clause COLOUR", "COLOUR"),
        ("CALIBRATE f", "expected FROM and a query, the statement ends", ""),
        ("CALL notify", "expected ( and the arguments of notify, the statement ends", ""),
        ("SET budget.dollars", "expected = and a value after SET budget.dollars, the statement ends", ""),
        ("SET budget.dollars = (1)", "expected a plain value for budget.dollars, found (", "("),
        ("EXPLAIN", "EXPLAIN needs a statement", ""),
        ("FINAL()", "FINAL() has no answer", ")"),
        ("FINAL(1, 2)", "FINAL takes one expression", ","),
        ("FINAL", "expected ( or FROM after FINAL, the statement ends", ""),
        ("DROP AGENT", "expected the agent's name, the statement ends", ""),
        ("WITH r AS (SELECT 1) MAXRECURSION x SELECT 1", "expected MAXRECURSION as a number, found x", "x"),
        ("WITH r AS (SELECT 1) MAXRECURSION 1.5 SELECT 1", "MAXRECURSION must be a whole number, not 1.5", "1.5"),
    ],
)
def test_a_malformed_own_statement_says_what_and_where(sql: str, message: str, marked: str) -> None:
    source = "SELECT 1;\n  " + sql
    with pytest.raises(ParseError) as caught:
        parse(source)
    error = caught.value
    assert error.message == message
    assert error.hint
    assert error.span is not None
    assert source[error.span.start : error.span.end] == marked
    assert error.span.line == 2


def test_an_error_of_an_own_statement_shows_the_right_form() -> None:
    with pytest.raises(ParseError) as caught:
        parse("FINAL(")
    assert caught.value.render() == (
        "error: expected the answer, the statement ends\n"
        "line 1: FINAL(\n"
        "              ^\n"
        "hint: FINAL(expression) or FINAL FROM (SELECT ...)"
    )


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT list_transform([1, 2], x -> x + 1)",
        "SELECT list_filter([1, 2, 7], (x, i) -> x > i AND x < 5 OR x = 7)",
        "SELECT [1, 2].filter(x -> x > 1), filter([1, 2], (x)->x>1)",
        "SELECT array_transform([[1, 2], [3]], x -> list_filter(x, y -> y > len(x)))",
        "SELECT list_reduce(['a', 'b', NULL], (a, b) -> a || b, 'x')",
        """SELECT list_transform(['{"a": 1}'::JSON], x -> (x -> '$.a'))""",
        "SELECT list_apply([{'a': 1}], r -> r.a), apply([1], \"x y\" -> CASE WHEN \"x y\" > 0 THEN 'a' ELSE 'b' END)",
        "SELECT (SELECT list_transform([a], x -> x + a)) FROM (VALUES (1), (NULL)) t(a) ORDER BY ALL",
    ],
)
def test_an_arrow_lambda_is_duckdbs_old_lambda(sql: str) -> None:
    (statement,) = parse(sql)
    assert statement.tree is not None and statement.has_own
    with duckdb.connect() as new, duckdb.connect() as old:
        old.execute("SET lambda_syntax = 'ENABLE_SINGLE_ARROW'")
        assert new.sql(statement.tree.sql(CallSQL)).fetchall() == old.sql(sql).fetchall()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT j -> '$.a' FROM t",
        "SELECT list_contains(l, j -> '$.a') FROM t",
        "SELECT list_transform(j -> '$.a', lambda x: x) FROM t",
        "SELECT list_transform(l, lambda x: x -> '$.a') FROM t",
        "SELECT list_filter(l, lambda x: x = (SELECT max(j -> 'a') FROM u)) FROM t",
        "SELECT list_transform(l, lambda x: coalesce(x -> 'a', x)) FROM t",
    ],
)
def test_an_arrow_elsewhere_is_jsons(sql: str) -> None:
    (statement,) = parse(sql)
    assert statement.tree is not None and not statement.has_own
    assert sum(1 for _ in statement.tree.find_all(exp.JSONExtract)) == 1


def test_the_functions_that_take_lambdas_are_duckdbs(con: duckdb.DuckDBPyConnection) -> None:
    found = con.execute("SELECT function_name FROM duckdb_functions() WHERE parameter_types[2] = 'LAMBDA'").fetchall()
    assert {name for (name,) in found} == TAKE_LAMBDAS


@pytest.mark.parametrize(
    "sql",
    [
        "PIVOT (FROM (VALUES (1, 'x', 3), (1, 'y', 4), (2, 'x', 5)) t(a, b, c)) ON b USING sum(c)",
        "PIVOT (FROM (VALUES (1, 'x', 3)) t(a, b, c)) ON b IN ('x', 'z') USING sum(c) AS s, max(c) GROUP BY a ORDER BY a",
        "UNPIVOT (SELECT 1 AS id, 2 AS a, 3 AS b) ON a, b INTO NAME n VALUE v",
        "UNPIVOT (SELECT 1 AS id, 2 AS a, NULL AS b) ON COLUMNS(* EXCLUDE id)",
    ],
)
@pytest.mark.parametrize("create", ["CREATE TABLE made AS", "CREATE OR REPLACE TABLE made AS"])
def test_a_table_is_made_of_a_pivot_as_duckdb_makes_it(create: str, sql: str) -> None:
    (statement,) = parse(f"{create} {sql}")
    assert statement.tree is not None
    with duckdb.connect() as ours, duckdb.connect() as theirs:
        ours.execute(statement.tree.sql(CallSQL))
        theirs.execute(statement.text)
        assert outcome(ours, "FROM made ORDER BY ALL") == outcome(theirs, "FROM made ORDER BY ALL")
