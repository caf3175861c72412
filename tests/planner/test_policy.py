"""A model's statement is refused unless all that it touches is allowed."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kleene.planner.dialect import CallSQL
from kleene.planner.errors import ParseError, PolicyError
from kleene.planner.policy import SYNTAX, AllowList, check_model, load_allow_list
from kleene.planner.statements import parse

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = frozenset({"llm", "llm_bool", "llm_agg", "files", "read", "grep", "shell", "expand", "mine"})
TABLES = frozenset({"t", "u", "ctx", "nested"})
ALLOW = load_allow_list()


def lines(name: str) -> list[str]:
    return [line for line in (ROOT / "tests" / "fixtures" / "policy" / name).read_text().splitlines() if line.strip()]


ALLOWED, REFUSED = lines("allowed.sql"), lines("refused.sql")


def check(sql: str, allow: AllowList = ALLOW) -> None:
    for statement in parse(sql):
        check_model(statement, functions=FUNCTIONS, tables=TABLES.__contains__, allow_list=allow)


def test_the_lists_are_large() -> None:
    assert len(ALLOWED) >= 60
    assert len(REFUSED) >= 80


@pytest.mark.parametrize("sql", ALLOWED)
def test_an_ordinary_statement_passes(sql: str) -> None:
    check(sql)


@pytest.mark.parametrize("sql", REFUSED)
def test_a_hostile_statement_is_refused_with_a_place_and_a_hint(sql: str) -> None:
    with pytest.raises(PolicyError) as caught:
        check(sql)
    assert caught.value.hint
    assert caught.value.span is not None
    assert caught.value.source == sql


@pytest.mark.parametrize(
    ("sql", "message", "hint", "marked"),
    [
        ("SELECT a FROM t, read_csv('x.csv')", "read_csv is not available here", "Files are reached through the tools files, grep, read.", "read_csv('x.csv')"),
        ("SELECT * FROM 'x.csv'", "x.csv looks like a file", "Files are reached through the tools files, grep, read.", "'x.csv'"),
        ("SELECT * FROM other.t", "other.t is in a schema; only your own can be used", "Write t without a schema.", "other.t"),
        ("SELECT * FROM secret", "there is no table secret here", "SHOW TABLES lists the tables.", "secret"),
        ("SELECT greq('x')", "there is no function greq here", "Did you mean grep?", "greq('x')"),
        ("CALL notfy('x')", "there is no function notfy here", "SHOW FUNCTIONS lists Kleene's functions and tools.", "notfy"),
        ("SELECT range FROM t, lower('x')", "lower is not available here", "lower stands in an expression: SELECT lower(...).", "lower('x')"),
        ("SELECT json_each('[]')", "json_each is not available here", "json_each stands in FROM: SELECT ... FROM json_each(...).", "json_each('[]')"),
        ("SET threads = 1", "SET of DuckDB's settings is not available here", "Kleene's own keys can be set, for example SET effort = 'low'.", "SET threads = 1"),
        ("CREATE MACRO llm(x) AS x", "a macro is not available here", "Use CREATE FUNCTION name(arg TYPE) RETURNS TYPE AS SQL (SELECT ...).", "CREATE MACRO llm(x) AS x"),
        ("DROP TABLE secret", "the table secret cannot be dropped", "Use a table that you created: CREATE TABLE t AS SELECT ...", "secret"),
        ("SET timeout = 1", "timeout is set by whoever started this session", "Go on without it.", "SET timeout = 1"),
        ("PRAGMA x", "PRAGMA is not available here", "Use DESCRIBE table or SHOW TABLES.", "PRAGMA x"),
        ("CREATE FUNCTION lower(a TEXT) RETURNS TEXT AS PROMPT '{a}'", "lower is the name of a function that is there already", "Choose another name.", "lower"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_and_where_and_what_works(sql: str, message: str, hint: str, marked: str) -> None:
    source = "SELECT 1;\n" + sql
    with pytest.raises(PolicyError) as caught:
        check(source)
    error = caught.value
    assert (error.message, error.hint) == (message, hint)
    assert error.span is not None
    assert source[error.span.start : error.span.end] == marked
    assert error.span.line == 2


def test_an_unreadable_statement_is_refused_with_the_reader_s_reason() -> None:
    with pytest.raises(PolicyError) as caught:
        check("SELECT j -> 'a' = 1 FROM t")
    assert caught.value.message == (
        "this statement cannot be read: in DuckDB -> takes all that follows it: write (x -> path) in parentheses"
    )


def test_without_the_shell_tool_there_are_no_shell_functions() -> None:
    (statement,) = parse("CREATE FUNCTION f(a TEXT) RETURNS TEXT AS SHELL 'echo {a}'")
    with pytest.raises(PolicyError, match="AS SHELL is not available here"):
        check_model(statement, functions={"llm"}, tables=TABLES.__contains__)


def test_a_table_may_be_readable_and_not_writable() -> None:
    (read,) = parse("SELECT * FROM ctx")
    check_model(read, functions=(), tables=TABLES.__contains__, writable=lambda name: name == "t")
    for sql in (
        "DELETE FROM ctx",
        "DROP TABLE ctx",
        "INSERT INTO ctx VALUES (1)",
        "CREATE OR REPLACE TABLE ctx AS SELECT 1",
    ):
        (write,) = parse(sql)
        with pytest.raises(PolicyError):
            check_model(write, functions=(), tables=TABLES.__contains__, writable=lambda name: name == "t")


def test_every_name_on_the_list_is_a_function_of_duckdb() -> None:
    with duckdb.connect() as con:
        there = {n for (n,) in con.execute("SELECT DISTINCT lower(function_name) FROM duckdb_functions()").fetchall()}
    assert ((ALLOW.scalars - SYNTAX) | ALLOW.tables | ALLOW.denied) <= there
    assert not (ALLOW.scalars | ALLOW.tables) & ALLOW.denied


def test_the_list_is_what_its_script_writes() -> None:
    spec = importlib.util.spec_from_file_location(
        "gen_allowed_functions", ROOT / "scripts" / "gen_allowed_functions.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.main(["--check"]) == 0


@pytest.mark.parametrize(
    "name",
    [
        "read_csv",
        "read_csv_auto",
        "read_text",
        "read_blob",
        "read_json",
        "read_parquet",
        "parquet_scan",
        "parquet_metadata",
        "glob",
        "sniff_csv",
        "getvariable",
        "query",
        "query_table",
        "current_setting",
        "nextval",
        "currval",
        "setval",
        "pg_sleep",
        "sleep_ms",
        "pg_typeof",
        "duckdb_settings",
        "duckdb_tables",
        "duckdb_secrets",
        "pragma_table_info",
        "json_execute_serialized_sql",
        "json_serialize_sql",
        "json_serialize_plan",
        "write_log",
        "in_search_path",
        "txid_current",
        "parse_duckdb_log_message",
        "enable_logging",
        "setseed",
        "version",
        "current_query",
        "current_user",
        "which_secret",
        "arrow_scan",
        "seq_scan",
    ],
)
def test_what_looks_around_waits_or_changes_is_denied(name: str) -> None:
    assert name in ALLOW.denied


HOSTILE = sorted(n for n in ALLOW.denied if re.fullmatch(r"[a-z]\w+", n) and n not in ("user", "session_user"))
CALLS = st.sampled_from(
    ["{f}('x')", "{f}()", '"{f}"(1)', "{f} /* c */ (s)", "s.{f}()", "main.{f}('x')", "{f}(x := 1)", "lower({f}(s))", "{f}(DISTINCT s ORDER BY i)",
     "{f}(s) OVER ()", "[{f}(x) for x in [1]]", "list_transform([1], lambda x: {f}(x))", "CASE WHEN true THEN {f}(1) END", "({f}(1))::VARCHAR"]
)  # fmt: skip
PLACES = st.sampled_from(
    ["SELECT {e}", "SELECT * FROM t WHERE {e} = 1", "SELECT i FROM t ORDER BY {e}", "SELECT i FROM t GROUP BY ALL HAVING {e}", "VALUES ({e})",
     "WITH a AS (SELECT {e} AS x) SELECT * FROM a", "SELECT * FROM t JOIN u ON {e}", "INSERT INTO t SELECT {e}", "UPDATE t SET s = {e}",
     "CREATE TABLE n AS SELECT {e} AS x", "FINAL({e})", "EXPLAIN SELECT {e}", "CALL shell({e})", "SELECT * FROM {e} AS q", "SELECT * FROM t, LATERAL {e}",
     "SELECT (SELECT {e})", "SELECT sum(i) FILTER (WHERE {e}) FROM t", "CREATE FUNCTION f(a TEXT) RETURNS TEXT AS SQL (SELECT {e})"]
)  # fmt: skip


@given(st.sampled_from(HOSTILE) | st.sampled_from(sorted(ALLOW.scalars)), CALLS, PLACES)
def test_no_accepted_statement_calls_a_denied_function(name: str, call: str, place: str) -> None:
    sql = place.format(e=call.format(f=name))
    try:
        check(sql)
    except (PolicyError, ParseError):
        return
    (statement,) = parse(sql)
    assert statement.tree is not None
    text = statement.tree.sql(CallSQL).lower()
    called = set(re.findall(r'"?(\w+)"?\s*\(', re.sub(r"'[^']*'", "''", text)))
    assert not called & set(HOSTILE)
