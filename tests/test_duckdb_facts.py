"""What Kleene's guarantees take for granted about DuckDB, each as a test: a new DuckDB that changes one is noticed here first.

The numbers are those of "Facts about DuckDB" in docs/architecture.md.
"""

from __future__ import annotations

import threading
import time

import duckdb
import pyarrow as pa
import pytest
from duckdb.sqltypes import BOOLEAN, VARCHAR


class Probe:
    """A lookup UDF that gives what ``answer`` says and keeps the arguments it saw."""

    def __init__(self, con, name, kind, answer, *, volatile=False):
        self.seen = []
        self.threads = set()
        arrow = pa.bool_() if kind is BOOLEAN else pa.string()

        def body(*columns):
            values = columns[-1].to_pylist()
            self.seen.extend(values)
            self.threads.add(threading.get_ident())
            return pa.array([answer(v) for v in values], type=arrow)

        con.create_function(name, body, None, kind, type="arrow", side_effects=volatile, null_handling="special")


@pytest.fixture
def con():
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT i, i % 7 AS g, 'v' || i AS s FROM range(5000) r(i)")
    con.execute("CREATE TABLE u AS SELECT i AS i FROM range(0, 5000, 50) r(i)")
    return con


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT i FROM t WHERE f(s)",
        "SELECT f(s) FROM t",
        "SELECT * FROM u LEFT JOIN t ON t.i = u.i AND f(t.s)",
        "SELECT g FROM t GROUP BY g HAVING f(max(s))",
        "SELECT g, f(max(s)) FROM t GROUP BY g ORDER BY f(max(s))",
        "SELECT f(s), count(*) FROM t GROUP BY f(s)",
        "SELECT i, row_number() OVER (PARTITION BY f(s) ORDER BY i) FROM t QUALIFY f(s)",
        "SELECT count(*) FILTER (WHERE f(s)), bool_and(f(s)) FROM t",
        "SELECT list_transform(['a', 'b'], lambda x: f(x))",
        "WITH RECURSIVE r AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM r WHERE f(i::VARCHAR) AND i < 5) SELECT * FROM r",
        "UPDATE t SET g = 0 WHERE f(s)",
        "DELETE FROM t WHERE f(s) IS NULL",
        "MERGE INTO t USING u ON t.i = u.i WHEN MATCHED AND f(t.s) THEN UPDATE SET g = 1",
    ],
)
def test_1_a_udf_with_any_arguments_stands_in_every_clause(con, sql):
    probe = Probe(con, "f", BOOLEAN, lambda v: True)
    con.execute(sql).fetchall()
    assert probe.seen


def test_1_a_volatile_udf_is_refused_in_partition_by_and_runs_twice_when_written_twice(con):
    probe = Probe(con, "f", VARCHAR, lambda v: v, volatile=True)
    con.execute("SELECT f(s), f(s) FROM t WHERE i < 10").fetchall()
    assert len(probe.seen) == 20
    with pytest.raises(duckdb.Error):
        con.execute("SELECT row_number() OVER (PARTITION BY f(s)) FROM t").fetchall()


def test_2_a_computed_condition_does_not_narrow_what_a_udf_sees_and_case_does(con):
    bare, guarded = Probe(con, "f", BOOLEAN, lambda v: True), Probe(con, "h", BOOLEAN, lambda v: True)
    con.execute("SELECT i FROM t WHERE i % 10 = 0 AND f(s)").fetchall()
    con.execute("SELECT i FROM t WHERE CASE WHEN i % 10 = 0 THEN h(s) END").fetchall()
    assert (len(bare.seen), len(guarded.seen)) == (5000, 500)


@pytest.mark.parametrize(
    ("sql", "least"),
    [
        ("SELECT i FROM (SELECT i, s FROM t WHERE i % 10 = 0) q WHERE f(q.s)", 500),
        ("SELECT i FROM (SELECT * FROM t WHERE i % 10 = 0) q WHERE f(q.s)", 500),
        ("SELECT * FROM (SELECT t.i AS c1, t.s AS c2 FROM t JOIN u ON t.i = u.i) q WHERE f(q.c2)", 100),
        ("SELECT * FROM (SELECT t.i AS c1, t.s AS c2 FROM t SEMI JOIN u ON t.i = u.i) q WHERE f(q.c2)", 100),
        ("SELECT * FROM (SELECT * FROM (SELECT * FROM t WHERE i % 10 = 0) q WHERE h(q.s)) q WHERE f(q.s)", 250),
    ],
)
def test_3_a_udf_predicate_does_not_pass_a_projection(con, sql, least):
    probe = Probe(con, "f", BOOLEAN, lambda v: True)
    Probe(con, "h", BOOLEAN, lambda v: int(v[1:]) % 20 == 0)
    con.execute(sql).fetchall()
    assert len(probe.seen) == least


def test_7_planning_calls_a_udf_of_constants_only(con):
    probe, demand = Probe(con, "f", VARCHAR, lambda v: v), Probe(con, "d", VARCHAR, lambda v: v, volatile=True)
    con.execute("EXPLAIN SELECT f(s), d('c') FROM t").fetchall()
    con.execute("DESCRIBE SELECT f(s), d('c') FROM t").fetchall()
    assert probe.seen == [] and demand.seen == []
    con.execute("EXPLAIN SELECT CASE WHEN i > 9999 THEN f('c') END FROM t").fetchall()
    assert probe.seen == ["c"]


def test_7_constants_from_a_materialised_cte_are_not_folded(con):
    probe = Probe(con, "f", VARCHAR, lambda v: v)
    con.execute(
        "WITH k AS MATERIALIZED (SELECT 'c' AS v) SELECT CASE WHEN i > 9999 THEN f((SELECT v FROM k)) END FROM t"
    ).fetchall()
    assert probe.seen == []


def test_8_a_recursive_term_runs_udfs_on_the_delta_only(con):
    probe = Probe(con, "f", BOOLEAN, lambda v: True)
    con.execute(
        "WITH RECURSIVE r AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM r WHERE f(i::VARCHAR) AND i < 5) FROM r"
    ).fetchall()
    assert sorted(probe.seen) == ["0", "1", "2", "3", "4"] or set(probe.seen) == {"0", "1", "2", "3", "4", "5"}


def test_11_an_error_and_a_second_begin_abort_an_explicit_transaction(con):
    con.begin()
    with pytest.raises(duckdb.Error):
        con.execute("SELECT error('x') FROM t").fetchall()
    with pytest.raises(duckdb.TransactionException):
        con.execute("SELECT 1")
    con.rollback()
    con.begin()
    with pytest.raises(duckdb.TransactionException):
        con.begin()
    with pytest.raises(duckdb.TransactionException):
        con.execute("SELECT 1")
    con.rollback()


def test_11_two_statements_of_one_transaction_share_an_id(con):
    one, two = (con.execute("SELECT txid_current()").fetchall() for _ in range(2))
    assert one != two
    con.begin()
    one, two = (con.execute("SELECT txid_current()").fetchall() for _ in range(2))
    assert one == two
    con.rollback()


def test_11_a_udfs_exception_arrives_as_text(con):
    def fail(v):
        raise ValueError("the reason")

    Probe(con, "f", VARCHAR, fail)
    with pytest.raises(duckdb.InvalidInputException, match="the reason") as caught:
        con.execute("SELECT f(s) FROM t").fetchall()
    assert caught.value.__cause__ is None


def test_12_a_function_registered_by_a_cursor_outlives_a_rollback(con):
    cursor = con.cursor()
    con.begin()
    Probe(cursor, "f", VARCHAR, lambda v: v)
    assert con.execute("SELECT f(s) FROM t WHERE i = 1").fetchall() == [("v1",)]
    con.rollback()
    assert con.execute("SELECT f(s) FROM t WHERE i = 1").fetchall() == [("v1",)]
    with pytest.raises(duckdb.CatalogException, match="already exists"):
        Probe(con, "f", VARCHAR, lambda v: v)
    cursor.remove_function("f")


def test_12_an_open_transaction_does_not_see_a_function_registered_elsewhere(con):
    con.begin()
    con.execute("SELECT count(*) FROM t").fetchall()
    cursor = con.cursor()
    Probe(cursor, "f", VARCHAR, lambda v: v)
    Probe(con, "h", VARCHAR, lambda v: v)
    assert con.execute("SELECT h(s) FROM t WHERE i = 1").fetchall() == [("v1",)]
    with pytest.raises(duckdb.CatalogException):
        con.execute("SELECT f(s) FROM t").fetchall()
    con.rollback()
    with pytest.raises(duckdb.CatalogException):
        con.execute("SELECT h(s) FROM t").fetchall()
    cursor.remove_function("f")


def test_11_a_statement_that_does_not_bind_aborts_an_explicit_transaction(con):
    con.begin()
    with pytest.raises(duckdb.CatalogException):
        con.execute("SELECT * FROM no_such_table")
    with pytest.raises(duckdb.TransactionException):
        con.execute("SELECT 1")
    con.rollback()


def test_12_create_function_and_register_fail_while_a_result_is_unfetched(con):
    con.execute("SELECT i FROM t")
    con.fetchone()
    with pytest.raises(duckdb.Error, match="unfinished result"):
        con.register("x", pa.table({"a": [1]}))
    con.fetchall()
    con.register("x", pa.table({"a": [1]}))


def test_14_text_keys_are_the_same_in_every_run(con):
    rows = con.execute(
        "SELECT 'nan'::DOUBLE::VARCHAR, ['a, b']::VARCHAR, ['a', 'b']::VARCHAR, [NULL]::VARCHAR, ['NULL']::VARCHAR, 1.50::DECIMAL(9,2)::VARCHAR, "
        "INTERVAL '1 month'::VARCHAR, 'infinity'::DATE::VARCHAR, (1::DOUBLE)::VARCHAR"
    ).fetchone()
    assert rows == ("nan", "['a, b']", "[a, b]", "[NULL]", "['NULL']", "1.50", "1 month", "infinity", "1.0")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM read_csv('/etc/hostname')",
        "SELECT * FROM glob('/*')",
        "FROM '/etc/hostname.csv'",
        "COPY (SELECT 1) TO '/tmp/kleene_never.csv'",
        "ATTACH '/tmp/kleene_never.duckdb'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "EXPORT DATABASE '/tmp/kleene_never'",
        "SET threads = 1",
        "CREATE SECRET s (TYPE s3)",
    ],
)
def test_17_a_locked_instance_reaches_nothing(sql):
    con = duckdb.connect()
    for setting in ("enable_external_access=false", "python_enable_replacements=false", "lock_configuration=true"):
        con.execute(f"SET {setting}")
    with pytest.raises(duckdb.Error):
        con.execute(sql).fetchall()
    assert con.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("expression", "evaluated"),
    [
        ("f(s) || g(s)", False),
        ("f(s) = g(s)", False),
        ("list_extract(list_value(f(s)), 1 + CAST(floor(random()) AS BIGINT)) || g(s)", True),
    ],
)
def test_18_behind_a_constant_null_arguments_are_not_evaluated(con, expression, evaluated):
    probes = [Probe(con, name, VARCHAR, lambda v: None, volatile=True) for name in ("f", "g")]
    con.execute(f"SELECT {expression} FROM t WHERE i = 7").fetchall()
    assert [p.seen for p in probes] == [["v7"], ["v7"] if evaluated else []]
    con.execute(f"SELECT {expression} FROM t WHERE i IN (7, 8)").fetchall()
    assert probes[1].seen[-2:] == ["v7", "v8"]


def test_row_order_is_kept_through_a_lookup(con):
    Probe(con, "f", BOOLEAN, lambda v: int(v[1:]) % 3 != 0)
    con.execute(
        "CREATE TABLE big AS SELECT (i * 7919) % 500000 AS i, 'v' || ((i * 7919) % 500000) AS s FROM range(500000) r(i)"
    )
    found = con.execute("SELECT i FROM big WHERE f(s)").fetchall()
    assert found == con.execute("SELECT i FROM big WHERE i % 3 <> 0").fetchall()


def test_interrupt_ends_a_query(con):
    threading.Timer(0.3, con.interrupt).start()
    started = time.monotonic()
    with pytest.raises(duckdb.InterruptException):
        con.execute("SELECT count(*) FROM range(100000000) a, range(100000) b WHERE a.range + b.range < 0").fetchall()
    assert time.monotonic() - started < 5


def test_words_that_name_functions_and_types_but_no_columns(con):
    from kleene.problems import KEYWORDS

    found = con.execute(
        "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'type_function'"
    ).fetchall()
    assert {name for (name,) in found} == KEYWORDS
