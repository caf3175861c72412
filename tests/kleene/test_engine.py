"""What a statement with calls gives and costs, seen from the public API. Calls are counted at the model's side."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import duckdb
import pytest

import kleene
from tests.kleene.engines import CountingModel, engine, even
from tests.patience import AT_ONCE_S

T = "CREATE TABLE t AS SELECT i AS id, 'v' || (i % 200) AS body, i % 10 = 0 AS cheap, i % 7 AS g FROM range(1000) r(i)"
U = "CREATE TABLE u AS SELECT i AS id, 'u' || (i % 50) AS z FROM range(0, 1000, 20) r(i)"


@pytest.fixture
def db():
    con = duckdb.connect()
    con.execute(T)
    con.execute(U)
    return con


# -- calls ---------------------------------------------------------------------------------------------------------------------------------


def test_each_distinct_prompt_is_asked_once(db):
    with engine(con=db) as (k, model):
        rows = k.sql("SELECT id FROM t WHERE llm_bool('Is it? ' || body)").fetchall()
        assert model.take() == 200
        expected = db.execute("SELECT id, body FROM t").fetchall()
        assert rows == [(i,) for i, body in expected if even("Is it? " + body) == "true"]


@pytest.mark.parametrize(
    "where",
    [
        "cheap AND llm_bool('Is it? ' || body)",
        "llm_bool('Is it? ' || body) AND cheap",
        "llm_bool('Is it? ' || body) AND id % 10 = 0",
        "(id % 10 = 0) AND (llm_bool('Is it? ' || body))",
    ],
)
def test_a_cheap_condition_goes_first_in_either_order(db, where):
    with engine(con=db) as (k, model):
        k.sql(f"SELECT id FROM t WHERE {where}")
        assert model.take() == 20


@pytest.mark.parametrize(
    ("sql", "calls"),
    [
        ("SELECT t.id FROM t JOIN u ON t.id = u.id WHERE cheap AND llm_bool('q ' || t.id)", 50),
        ("SELECT t.id FROM t JOIN u USING (id) WHERE llm_bool('q ' || t.id)", 50),
        ("SELECT t.id FROM t, u WHERE llm_bool('q ' || t.id) AND t.id = u.id AND g = 1", 7),
        ("SELECT * FROM t LEFT JOIN u ON t.id = u.id WHERE u.id IS NULL AND cheap AND llm_bool('q ' || t.id)", 50),
        ("SELECT t.id FROM t SEMI JOIN u ON t.id = u.id WHERE llm_bool('q ' || t.id)", 50),
        ("SELECT t.id FROM t WHERE id IN (SELECT id FROM u) AND llm_bool('q ' || id)", 50),
        (
            "WITH c AS (SELECT * FROM t WHERE cheap) SELECT c.id FROM c JOIN u ON c.id = u.id WHERE llm_bool('q ' || c.id)",
            50,
        ),
    ],
)
def test_joins_and_semi_joins_go_before_the_call(db, sql, calls):
    with engine(con=db) as (k, model):
        k.sql(sql)
        assert model.take() == calls


def test_two_equal_calls_cost_one(db):
    with engine(con=db) as (k, model):
        result = k.sql(
            "SELECT llm('a ' || body) AS x, llm('a ' || body) AS y, upper(llm('a ' || body)) FROM t WHERE id < 5"
        )
        assert model.take() == 5
        assert all(x == y for x, y, _ in result.fetchall())


def test_a_call_in_a_branch_is_asked_for_its_rows_only(db):
    with engine(con=db) as (k, model):
        rows = k.sql("SELECT g, CASE WHEN g = 1 THEN llm('a ' || id) END AS x FROM t").fetchall()
        assert model.take() == sum(1 for g, _ in rows if g == 1) == 143
        assert all((x is not None) == (g == 1) for g, x in rows)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT CASE WHEN g = 100 THEN llm('never') END FROM t",
        "SELECT id FROM t WHERE id < 0 AND llm_bool('never')",
        "SELECT id FROM t WHERE id >= 0 OR llm_bool('never')",
        "SELECT coalesce(body, llm('never')) FROM t",
        "SELECT llm('never') FROM t WHERE id < 0",
        "SELECT llm(NULL), llm('x' || NULL) FROM t",
        "EXPLAIN SELECT llm('never') FROM t",
        "SELECT count(*) FROM (SELECT llm('never' || id) AS x FROM t)",
    ],
)
def test_a_call_that_no_row_needs_is_never_made(db, sql):
    with engine(con=db) as (k, model):
        k.sql(sql)
        assert model.take() == 0


def test_a_second_run_makes_no_call(db, tmp_path):
    sql = "SELECT id FROM t WHERE llm_bool('Is it? ' || body)"
    with engine(con=db, store=tmp_path / "run.duckdb") as (k, model):
        first = k.sql(sql).fetchall()
        model.take()
        again = k.sql(sql)
        assert (again.fetchall(), model.take(), again.usage.memo_hits) == (first, 0, 200)
        assert db.sql("SELECT llm_bool('Is it? ' || body) FROM t LIMIT 3").fetchall() and model.take() == 0


@pytest.mark.slow  # cli/test_program.py remembers an answer in one process
def test_a_second_process_makes_no_call(tmp_path):
    (tmp_path / "model.py").write_text("def answer(request):\n    print('called')\n    return 'true'\n")
    command = [
        sys.executable,
        "-m",
        "kleene",
        "--quiet",
        "sql",
        "SELECT llm('hello')",
        "--model-script",
        "model.py:answer",
    ]
    done = [subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60) for _ in range(2)]
    assert [d.returncode for d in done] == [0, 0], done
    assert ["called" in d.stdout for d in done] == [True, False]


def test_without_the_memo_answers_are_asked_again(db):
    with engine(con=db) as (k, model):
        k.sql("SELECT llm('a')")
        k.sql("SET memo = off; SELECT llm('a')")
        assert model.take() == 2


# -- rows ----------------------------------------------------------------------------------------------------------------------------------


def test_row_order_is_duckdbs():
    con = duckdb.connect()
    con.execute("CREATE TABLE big AS SELECT (i * 7919) % 300000 AS i FROM range(300000) r(i)")
    with engine(CountingModel(lambda p: "true" if int(p.split()[1]) % 3 else "false"), con=con) as (k, _):
        found = k.sql("SELECT i FROM big WHERE llm_bool('p ' || (i % 50))").fetchall()
        assert found == con.execute("SELECT i FROM big WHERE (i % 50) % 3 <> 0").fetchall()


def test_unknown_answers_are_null_and_are_counted():
    model = CountingModel(lambda p: "maybe" if p.endswith("3") else "true")
    with engine(model) as (k, _):
        k.sql("CREATE TABLE d AS SELECT i FROM range(6) r(i)")
        yes = k.sql("SELECT i FROM d WHERE llm_bool('q ' || i)")
        assert [r[0] for r in yes] == [0, 1, 2, 4, 5]
        assert k.sql("SELECT i FROM d WHERE NOT llm_bool('q ' || i)").fetchall() == []
        assert k.sql("SELECT i FROM d WHERE llm_bool('q ' || i) IS NULL").fetchall() == [(3,)]
        assert yes.usage.unknown == 1
        assert yes.warnings[0].startswith(
            "1 answer is unknown (1 unreadable): NULL in the result; SELECT prompt, reply, kind FROM trace_calls"
        )
        kinds = k.sql("SELECT DISTINCT kind, reply FROM trace_calls WHERE kind <> 'answer'").fetchall()
        assert kinds == [("unreadable", "maybe")]
        k.sql("SET on_unknown = 'fail'")
        with pytest.raises(kleene.CallFailed, match="unknown"):
            k.sql("SELECT i FROM d WHERE llm_bool('q ' || i)")
        assert k.sql("SELECT 1").fetchall() == [(1,)]


def test_types_of_answers():
    replies = {
        "b": "yes",
        "i": "42",
        "d": "1.5",
        "t": "text",
        "s": '{"answer": {"a": 1, "b": ["x"]}}',
        "day": '{"answer": "2026-11-30"}',
    }
    with engine(CountingModel(lambda p: replies[p.split()[0]])) as (k, _):
        k.sql("CREATE FUNCTION i(x TEXT) RETURNS INTEGER AS PROMPT 'i {x}'")
        k.sql("CREATE FUNCTION d(x TEXT) RETURNS DOUBLE AS PROMPT 'd {x}'")
        k.sql("CREATE FUNCTION s(x TEXT) RETURNS STRUCT(a INTEGER, b VARCHAR[]) AS PROMPT 's {x}'")
        k.sql("CREATE FUNCTION day(x TEXT) RETURNS DATE AS PROMPT 'day {x}'")
        result = k.sql("SELECT llm_bool('b'), i('z'), d('z'), llm('t'), s('z'), s('z').a, day('z')")
        assert result.types == (
            "BOOLEAN",
            "INTEGER",
            "DOUBLE",
            "VARCHAR",
            "STRUCT(a INTEGER, b VARCHAR[])",
            "INTEGER",
            "DATE",
        )
        row = result.fetchone()
        assert row is not None and row[:6] == (True, 42, 1.5, "text", {"a": 1, "b": ["x"]}, 1)
        assert str(row[6]) == "2026-11-30"


def test_a_prompt_table_function_in_lateral():
    with engine(
        CountingModel(lambda p: '{"answer": [{"name": "n' + p[-1] + '", "age": 3}, {"name": "m", "age": null}]}')
    ) as (k, model):
        k.sql("CREATE FUNCTION people(x TEXT) RETURNS TABLE(name TEXT, age INTEGER) AS PROMPT 'people in {x}'")
        rows = k.sql("SELECT i, name, age FROM range(2) r(i), LATERAL people('t' || i) p ORDER BY i, name").fetchall()
        assert rows == [(0, "m", None), (0, "n0", 3), (1, "m", None), (1, "n1", 3)]
        assert model.take() == 2


def test_expand_gives_at_most_n_items():
    with engine(CountingModel(lambda p: '["a", "b", "c"]')) as (k, _):
        assert k.sql("SELECT item FROM expand('x', 2) ORDER BY 1").fetchall() == [("a",), ("b",)]
        assert k.sql(
            "SELECT i, item FROM range(2) r(i) LEFT JOIN LATERAL expand('x' || i, 1) e ON TRUE ORDER BY 1"
        ).fetchall() == [
            (0, "a"),
            (1, "a"),
        ]


def test_a_sql_function_may_hold_calls():
    with engine() as (k, model):
        k.sql("CREATE FUNCTION twice(x TEXT) RETURNS TEXT AS SQL (SELECT llm('1 ' || x) || llm('2 ' || x))")
        assert len(k.sql("SELECT twice('v' || i) FROM range(3) r(i)")) == 3
        assert model.take() == 6


@pytest.mark.parametrize("text", ["", " ", "日本語 🙂", "a\x00b", "x" * 3_000_000, "line\nline", "'quoted'", "é"])
def test_any_text_is_a_prompt(text):
    with engine(CountingModel(lambda p: "ok")) as (k, model):
        assert k.sql("SELECT llm('p' || ?)", [text]).fetchall() == [("ok",)]
        assert model.requests[0].prompt == "p" + text


# -- what changes from run to run ------------------------------------------------------------------------------------------------------------


def test_the_clock_stands_still_within_a_statement():
    with engine() as (k, model):
        rows = k.sql("SELECT DISTINCT llm('now ' || now()) IS NULL FROM range(2000)").fetchall()
        assert rows == [(False,)] and model.take() == 1


def test_random_arguments_are_asked_row_by_row():
    with engine(CountingModel(lambda p: p)) as (k, model):
        rows = k.sql("SELECT llm('r ' || random()) FROM range(20)").fetchall()
        assert model.take() == 20 and len(set(rows)) == 20


def test_calls_on_demand_are_capped():
    with engine() as (k, _):
        k.sql("SET ondemand.calls = 10")
        with pytest.raises(kleene.Refused, match="asks for more than 10 calls on demand"):
            k.sql("SELECT llm('r ' || random()) FROM range(20)")
        assert k.sql("SELECT 1").fetchall() == [(1,)]


def test_unordered_aggregates_end_and_are_right():
    con = duckdb.connect()
    con.execute("CREATE TABLE v AS SELECT i % 500 AS g, 'x' || i AS s, i * 0.1 AS d FROM range(200000) r(i)")
    with engine(CountingModel(lambda p: "ok"), con=con) as (k, model):
        rows = k.sql("SELECT g, llm('list ' || string_agg(s, ',')) AS x FROM v GROUP BY g").fetchall()
        assert len(rows) == 500 and all(x == "ok" for _, x in rows)
        assert 500 <= model.take() <= 1000
        k.sql("SELECT llm('sum ' || sum(d)) FROM v")
        assert 1 <= model.take() <= 3


def test_nextval_is_taken_once_a_row():
    with engine(CountingModel(lambda p: p)) as (k, _):
        k.sql("CREATE SEQUENCE s")
        rows = k.sql("SELECT nextval('s') AS n, llm('a' || i) AS x FROM range(2) r(i)").fetchall()
        assert [n for n, _ in rows] == [1, 2]


def test_a_reader_that_gives_its_rows_once_can_be_read():
    import pyarrow as pa

    table = pa.table({"a": [1, 2]})
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    with engine() as (k, model):
        assert len(k.sql("SELECT a, llm('x' || a) FROM reader")) == 2
        assert model.take() == 2 and reader is not None


# -- the user's connection -------------------------------------------------------------------------------------------------------------------


def test_inside_the_users_open_transaction(db):
    with engine(con=db) as (k, _):
        db.begin()
        db.execute("INSERT INTO t VALUES (5000, 'new', true, 0)")
        assert k.sql("SELECT llm('a ' || body) FROM t WHERE id = 5000").fetchall() == [(even("a new"),)]
        assert k.sql("SELECT coalesce(llm('b ' || body), '?') || 'x' FROM t WHERE id = 5000").fetchall() == [
            (even("b new") + "x",)
        ]
        k.sql("INSERT INTO u SELECT id, llm('c ' || body) FROM t WHERE id = 5000")
        db.rollback()
        assert db.execute("SELECT count(*) FROM t").fetchone() == (1000,)
        assert db.execute("SELECT count(*) FROM u").fetchone() == (50,)
        assert k.sql("SELECT llm('still here')").fetchall()


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_attached_inside_an_open_transaction(db, end):
    db.begin()
    db.execute("INSERT INTO t SELECT 5000, 'new', true, 0 WHERE (SELECT count(*) FROM t) > 0")
    with engine(con=db) as (k, model):
        assert len(k.sql("SELECT llm('a ' || body) FROM t WHERE id >= 5000")) == 1
        getattr(db, end)()
        assert len(k.sql("SELECT llm('b ' || body) FROM t WHERE id < 2")) == 2
        assert len(db.sql("SELECT llm('c')").fetchall()) == 1
        assert model.take() == 4


def test_a_failed_statement_leaves_the_users_transaction_alone(db):
    with engine(CountingModel(lambda p: 1 / 0), con=db) as (k, _):
        db.begin()
        db.execute("DELETE FROM u")
        with pytest.raises(kleene.CallFailed, match="division by zero"):
            k.sql("SELECT llm('a')")
        assert db.execute("SELECT count(*) FROM u").fetchone() == (0,)
        db.rollback()
        assert db.execute("SELECT count(*) FROM u").fetchone() == (50,)


def test_a_read_only_connection(tmp_path):
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute(T)
    con = duckdb.connect(str(path), read_only=True)
    with engine(con=con) as (k, model):
        assert len(k.sql("SELECT id FROM t WHERE cheap AND llm_bool('q ' || id)")) > 0
        assert model.take() == 100
        assert con.sql("SELECT llm('x')").fetchall()
    assert con.execute("SELECT count(*) FROM duckdb_tables()").fetchone() == (1,)
    con.close()


def test_temp_tables_registered_frames_and_local_frames(db):
    import pyarrow as pa

    local = pa.table({"a": [1, 2, 2]})
    with engine(con=db) as (k, model):
        db.execute("CREATE TEMP TABLE tmp AS SELECT 1 AS a")
        db.register("reg", pa.table({"a": [7]}))
        assert len(k.sql("SELECT llm('x' || a) FROM tmp")) == 1
        assert len(k.sql("SELECT llm('x' || a) FROM reg")) == 1
        assert len(k.sql("SELECT llm('x' || a) FROM local")) == 3
        assert k.sql("SELECT count(*) FROM local").fetchall() == [(3,)]
        assert model.take() == 3 and local.num_rows == 3
        with pytest.raises(duckdb.CatalogException):
            db.execute("FROM kleene_probe")


def test_a_pending_result_is_not_lost(db):
    with engine(con=db) as (k, _):
        pending = db.execute("SELECT id FROM t ORDER BY id")
        assert pending.fetchone() == (0,)
        with pytest.raises(kleene.BusyConnection) as caught:
            k.sql("SELECT 1")
        assert caught.value.hint == "fetch it first (con.fetchall()), or run on a cursor: kleene.attach(con.cursor())"
        assert pending.fetchone() == (1,)
        assert len(pending.fetchall()) == 998
        assert k.sql("SELECT 1").fetchall() == [(1,)]


def test_two_engines_on_cursors_of_one_database_do_not_mix(db):
    one, two = CountingModel(lambda p: "one"), CountingModel(lambda p: "two")
    other = db.cursor()
    with engine(one, con=db) as (a, _), engine(two, con=other) as (b, _):
        a.sql("CREATE FUNCTION f(x TEXT) RETURNS TEXT AS PROMPT 'a {x}'")
        b.sql("CREATE FUNCTION f(x TEXT) RETURNS TEXT AS PROMPT 'b {x}'")
        sql = "SELECT DISTINCT f('v' || (id % 3)) FROM t"
        results = {}
        threads = [
            threading.Thread(target=lambda n=n, k=k: results.update({n: k.sql(sql).fetchall()}))
            for n, k in (("a", a), ("b", b))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == {"a": [("one",)], "b": [("two",)]}
        assert db.sql("SELECT llm('x')").fetchall() == [("one",)]
        assert other.sql("SELECT llm('x')").fetchall() == [("two",)]
        assert set(one.asked) == {"a v0", "a v1", "a v2", "x"} and set(two.asked) == {"b v0", "b v1", "b v2", "x"}


def test_close_leaves_nothing_behind(db):
    before = db.execute("SELECT function_name FROM duckdb_functions() ORDER BY 1").fetchall()
    k = kleene.attach(db, store=":memory:", models=kleene.FunctionModel(lambda r: "x"))
    k.sql("SELECT llm('a')")
    k.close()
    k.close()
    assert db.execute("SELECT function_name FROM duckdb_functions() ORDER BY 1").fetchall() == before
    with pytest.raises(kleene.KleeneError, match="the engine is closed"):
        k.sql("SELECT 1")


def test_the_users_own_llm_wins_on_the_plain_connection(db):
    db.execute("CREATE MACRO llm(x) AS 'mine ' || x")
    with engine(CountingModel(lambda p: "kleene"), con=db) as (k, _):
        assert db.sql("SELECT llm('a')").fetchall() == [("mine a",)]
        assert k.sql("SELECT llm('a')").fetchall() == [("kleene",)]
        assert k.notes == ["llm on this connection is yours already and stays so; k.sql means Kleene's"]
    assert db.sql("SELECT llm('a')").fetchall() == [("mine a",)]


@pytest.mark.parametrize(
    ("mine", "read"),
    [
        ("CREATE TEMP MACRO llm(x) AS 'mine ' || x", "SELECT llm('a')"),
        ("CREATE SCHEMA s; CREATE MACRO s.llm(x) AS 'mine ' || x; SET search_path = 's,main'", "SELECT llm('a')"),
        ("CREATE TEMP MACRO expand(x, n) AS TABLE SELECT 'mine ' || x", "FROM expand('a', 1)"),
        ("BEGIN; CREATE MACRO llm(x) AS 'mine ' || x", "SELECT llm('a')"),
    ],
    ids=["temporary", "in a schema", "a table's", "in a transaction"],
)
def test_a_macro_of_the_users_stays_wherever_it_is(db, mine, read):
    db.execute(mine)
    name = "expand" if "expand" in mine else "llm"
    with engine(CountingModel(lambda p: "kleene"), con=db) as (k, _):
        assert db.sql(read).fetchall() == [("mine a",)]
        assert k.notes == [f"{name} on this connection is yours already and stays so; k.sql means Kleene's"]
        assert db.sql("SELECT llm_json('a', '{}'), similarity([1.0], [1.0])").fetchall() == [(None, 1.0)]
    assert db.sql(read).fetchall() == [("mine a",)]
    with pytest.raises(duckdb.CatalogException, match="similarity does not exist"):
        db.sql("SELECT similarity([1.0], [1.0])")


def test_a_macro_that_the_user_puts_in_the_place_of_a_plain_name_stays(db):
    with engine(con=db):
        db.execute("CREATE OR REPLACE TEMP MACRO llm(x) AS 'mine ' || x")
        db.execute("CREATE OR REPLACE TEMP MACRO similarity(a, b) AS 'mine too'")
    assert db.sql("SELECT llm('a'), similarity(1, 2)").fetchall() == [("mine a", "mine too")]
    with pytest.raises(duckdb.CatalogException, match="llm_bool does not exist"):
        db.sql("SELECT llm_bool('a')")


def test_the_name_of_a_function_declared_in_a_transaction_comes_back(db):
    with engine(con=db) as (k, _):
        db.begin()
        k.sql("CREATE FUNCTION f(x TEXT) RETURNS TEXT AS PROMPT 'f {x}'")
        assert db.sql("SELECT f('a') = 'f a'").fetchall()
        db.rollback()
        k.sql("CREATE FUNCTION g(x TEXT) RETURNS TEXT AS PROMPT 'g {x}'")
        assert db.sql("SELECT f('a'), g('a')").fetchall()


def test_plain_names_serve_the_users_own_sql(db):
    with engine(con=db) as (k, model):
        assert len(db.sql("SELECT llm_bool('q ' || body) FROM t WHERE id < 3").fetchall()) == 3
        assert model.take() == 3
        assert db.sql("SELECT llm_score('q')").fetchall() == [(None,)]
        db.execute("CREATE TEMP TABLE r AS SELECT llm('z ' || body, model := 'worker') AS x FROM t WHERE id < 2")
        assert k.sql("SELECT count(*) FROM trace_calls WHERE prompt LIKE 'z %'").fetchall() == [(2,)]
        db.sql("EXPLAIN SELECT llm('never')").fetchall()
        assert "never" not in model.asked


# -- writes ----------------------------------------------------------------------------------------------------------------------------------


def test_writes_land_whole_or_not_at_all(db):
    with engine(CountingModel(lambda p: p.upper()), con=db) as (k, model):
        k.sql("CREATE TABLE w AS SELECT id, llm('a ' || body) AS x FROM t WHERE id < 3")
        k.sql("INSERT INTO w SELECT id, llm('b ' || body) FROM t WHERE id < 2")
        k.sql("UPDATE w SET x = llm('c ' || x) WHERE id = 0")
        k.sql("DELETE FROM w WHERE llm('d ' || id) = 'D 2'")
        assert k.sql("SELECT * FROM w ORDER BY ALL").fetchall() == [
            (0, "C A V0"),
            (0, "C B V0"),
            (1, "A V1"),
            (1, "B V1"),
        ]
        assert k.sql("INSERT INTO w VALUES (9, llm('e')) RETURNING x, llm('f ' || x)").fetchall() == [("E", "F E")]
        assert all(n == 1 for n in model.asked.values())


def test_a_write_whose_call_fails_changes_nothing(db):
    def rule(prompt):
        if prompt.endswith("v2"):
            raise ValueError("no")
        return "x"

    with engine(CountingModel(rule), con=db) as (k, _):
        with pytest.raises(kleene.CallFailed):
            k.sql("INSERT INTO u SELECT id, llm('a ' || body) FROM t WHERE id < 5")
        with pytest.raises(kleene.CallFailed):
            k.sql("CREATE TABLE w AS SELECT llm('a ' || body) AS x FROM t WHERE id < 5")
        assert db.execute("SELECT count(*) FROM u").fetchone() == (50,)
        assert db.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'w'").fetchone() == (0,)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("CREATE TABLE z (a TEXT DEFAULT llm('x'))", "a call cannot stand in a DEFAULT, CHECK or generated column"),
        ("CREATE TABLE z (a TEXT CHECK (llm_bool(a)))", "a call cannot stand in a DEFAULT, CHECK or generated column"),
        ("CREATE INDEX i ON t (llm(body))", "a call cannot stand in an index"),
    ],
)
def test_a_call_where_none_can_be_is_refused(db, sql, message):
    with engine(con=db) as (k, model):
        with pytest.raises(kleene.PlanError) as caught:
            k.sql(sql)
        assert caught.value.message == message and caught.value.hint
        assert model.calls == 0


# -- parameters, statements, results -----------------------------------------------------------------------------------------------------------


def test_parameters(db):
    with engine(CountingModel(lambda p: p), con=db) as (k, _):
        assert k.sql("SELECT llm(? || ?)", ["a", "b"]).fetchall() == [("ab",)]
        assert k.sql("SELECT llm($1 || $1)", ["a"]).fetchall() == [("aa",)]
        assert k.sql("SELECT llm($x) || $x", {"x": "n"}).fetchall() == [("nn",)]
        assert k.sql("SELECT id FROM t WHERE id = ? AND llm(body) = ?", [3, "v3"]).fetchall() == [(3,)]
        assert k.sql("SELECT ? + 1", [1]).fetchall() == [(2,)]


def test_several_statements_run_in_order(db):
    with engine(con=db) as (k, _):
        assert k.sql(
            "CREATE TABLE z AS SELECT 1 AS a; INSERT INTO z VALUES (2); -- done\nSELECT sum(a) FROM z;"
        ).fetchall() == [(3,)]
        assert k.sql(" -- nothing\n ; ").message == "no statement"
        assert k.sql("").message == "no statement"


def test_results_can_be_read_again_and_again(db):
    with engine(con=db) as (k, model):
        result = k.sql("SELECT id, llm('a ' || body) AS x FROM t WHERE id < 4 ORDER BY id")
        assert len(result) == 4 and result.columns == ("id", "x") and result.types == ("BIGINT", "VARCHAR")
        assert result.to_arrow_table().num_rows == 4 and [r[0] for r in result] == [0, 1, 2, 3]
        assert (
            result.fetchone()[0] == 0
            and len(result.fetchmany(2)) == 2
            and len(result.fetchall()) == 1
            and result.fetchone() is None
        )
        assert len(duckdb.from_arrow(result).fetchall()) == 4
        assert model.take() == 4 and result.usage.requests == 4


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 AS a, 1.50::DECIMAL(9,2) AS b, DATE '2026-01-02' AS c, INTERVAL 1 MONTH AS d, [1, NULL] AS e, {'x': 1} AS f",
        "SELECT 170141183460469231731687303715884105727 AS h, '6ccd780c-baba-1026-9564-5b8c656024db'::UUID AS u, '{\"a\": 1}'::JSON AS j",
        "SELECT TIMESTAMPTZ '2026-01-01 00:00:00+00' AS z, TIME '12:30' AS t, '\\x00\\xFF'::BLOB AS b, MAP {'a': 1} AS m, NULL AS n",
        "SELECT 'nan'::DOUBLE IS NULL, 'infinity'::FLOAT, 1::UTINYINT, 'x'::ENUM('x', 'y')",
        "DESCRIBE t",
        "SHOW TABLES",
        "SUMMARIZE u",
        "VALUES (1, 'a'), (2, NULL)",
        "PRAGMA table_info('t')",
        "FROM t SELECT count(*) WHERE id > 3",
        "EXPLAIN SELECT 1",
    ],
)
def test_a_statement_without_calls_gives_what_duckdb_gives(db, sql):
    with engine(con=db) as (k, _):
        result = k.sql(sql)
        plain = db.execute(sql)
        names = [d[0] for d in plain.description]
        assert (result.fetchall(), list(result.columns)) == (plain.fetchall(), names)


def test_what_sqlglot_cannot_read_goes_to_duckdb(db):
    with engine(CountingModel(lambda p: "ok"), con=db) as (k, model):
        from kleene.planner.statements import parse

        sql = "SELECT @ -5 AS h, llm('x') AS a FROM range(2)"
        assert parse(sql)[0].tree is None
        assert k.sql(sql).fetchall() == db.execute("SELECT @ -5 AS h, 'ok' FROM range(2)").fetchall()
        assert model.take() == 1


# -- budgets, errors, cancelling -----------------------------------------------------------------------------------------------------------------


def test_a_statement_that_does_not_fit_the_budget_is_refused_before_it_spends(db):
    with engine(con=db, budget=kleene.Budget(calls=100)) as (k, model):
        with pytest.raises(kleene.Refused) as caught:
            k.sql("SELECT llm('a ' || body) FROM t")
        assert caught.value.message == "refused before sending: the statement needs 200 calls and 100 remain"
        assert model.calls == 0
        assert len(k.sql("SELECT llm('a ' || body) FROM t WHERE id < 100")) == 100
        with pytest.raises(kleene.Refused):
            k.sql("SELECT llm('b')")
        k.sql("SET budget.calls = 101")
        assert len(k.sql("SELECT llm('b')")) == 1


def test_a_cap_for_one_statement(db):
    with engine(con=db) as (k, _):
        k.sql("SET statement.calls = 5")
        with pytest.raises(kleene.Refused):
            k.sql("SELECT llm('a ' || body) FROM t WHERE id < 6")
        assert len(k.sql("SELECT llm('a ' || body) FROM t WHERE id < 5")) == 5
        assert len(k.sql("SELECT llm('b ' || body) FROM t WHERE id < 5")) == 5


def test_print_shows_what_a_statement_gave() -> None:
    with engine() as (k, _):
        assert (
            str(k.sql("SELECT 1 AS one, NULL AS n"))
            == "┌─────┬──────┐\n│ one │ n    │\n├─────┼──────┤\n│   1 │ NULL │\n└─────┴──────┘\n1 row"
        )
        assert str(k.sql("FROM range(41)")).endswith(
            "│    39 │\n└───────┘\n41 rows: the first 40 are shown, fetchall() has all"
        )
        assert (
            str(k.sql("CREATE FUNCTION f(a TEXT) RETURNS TEXT AS PROMPT '{a}'")) == "created function f(a TEXT) -> TEXT"
        )
        assert str(k.sql("EXPLAIN SELECT llm('a')")).startswith("#1 llm('a')  ")
        assert repr(k.sql("SELECT 1 AS one")) == "<Result 1 rows x 1 columns, 0 calls>"


def test_an_unknown_setting_is_answered_with_the_nearest() -> None:
    with engine() as (k, _), pytest.raises(kleene.PlanError) as caught:
        k.sql("SET on_eror = 'null'")
    assert (caught.value.hint or "").startswith("did you mean on_error? Kleene's settings are effort, model.default, ")


@pytest.mark.parametrize(
    ("sql", "rendered"),
    [
        (
            "SELECT llm_boool('x')",
            "error: Scalar Function with name llm_boool does not exist\nline 1: SELECT llm_boool('x')\n               ^^^^^^^^^\n"
            "hint: did you mean llm_bool? llm_bool(prompt VARCHAR [, model VARCHAR, effort VARCHAR]) -> BOOLEAN",
        ),
        (
            "SELECT 1;\nSELECT idd,\n  llm(body) FROM t",
            'error: Referenced column "idd" not found in FROM clause\nline 2: SELECT idd,\n               ^^^\nhint: the nearest columns are "id", "body"',
        ),
        (
            "SELECT llm()",
            "error: llm takes 1 to 3 arguments, 0 given\nline 1: SELECT llm()\n               ^^^^^\n"
            "hint: llm(prompt VARCHAR [, model VARCHAR, effort VARCHAR]) -> VARCHAR",
        ),
        (
            "SELECT llm('a', efort := 'low')",
            "error: llm has no argument efort\nline 1: SELECT llm('a', efort := 'low')\n               ^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "hint: did you mean effort? llm(prompt VARCHAR [, model VARCHAR, effort VARCHAR]) -> VARCHAR",
        ),
        (
            "SELECT bdy FROM (SELECT 1 AS body)",
            'error: Referenced column "bdy" not found in FROM clause\nline 1: SELECT bdy FROM (SELECT 1 AS body)\n               ^^^\nhint: the nearest column is "body"',
        ),
        (
            "FROM 'mails.parq'",
            "error: Table with name mails.parq does not exist\nline 1: FROM 'mails.parq'\n              ^^^^^^^^^^\n"
            "hint: a quoted file name is a table where it ends in .csv, .tsv, .parquet, .json, .jsonl or .ndjson; "
            "read_csv, read_parquet and read_json take any name",
        ),
        ("SELEC 1", 'error: syntax error at or near "SELEC"\nline 1: SELEC 1\n        ^^^^^'),
        (
            "SELECT expand('x', 2)",
            "error: expand returns rows and stands in FROM\nline 1: SELECT expand('x', 2)\n               ^^^^^^^^^^^^^^\n"
            "hint: FROM t, LATERAL expand(...) AS x",
        ),
    ],
)
def test_errors_point_at_the_users_text(db, sql, rendered):
    with engine(con=db) as (k, model):
        with pytest.raises(kleene.KleeneError) as caught:
            k.sql(sql)
        assert caught.value.render() == rendered
        assert model.calls == 0
        assert k.sql("SELECT 1").fetchall() == [(1,)]


def test_an_unknown_setting_lists_the_known_ones(db):
    with engine(con=db) as (k, _):
        with pytest.raises(kleene.ConfigError) as caught:
            k.sql("SET budget.dolars = 3")
        assert "budget.dollars" in (caught.value.hint or "")
        with pytest.raises(kleene.PlanError) as caught:
            k.sql("SET no_such_setting = 3")
        assert "budget.dollars" in (caught.value.hint or "")


def test_no_model_configured_names_the_ways(db, monkeypatch, tmp_path):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KLEENE_CONFIG_DIR", str(tmp_path))
    k = kleene.attach(db, store=":memory:", workspace=tmp_path)
    with pytest.raises(kleene.NoModel) as caught:
        k.sql("SELECT llm('a')")
    assert "ANTHROPIC_API_KEY" in (caught.value.hint or "") and "--model" in (caught.value.hint or "")
    assert k.sql("SELECT 1").fetchall() == [(1,)]
    assert k.explain("SELECT llm('a' || id) FROM t").estimate.calls == 1000
    k.close()


@pytest.mark.parametrize("in_transaction", [False, True])
def test_cancel_ends_the_statement_at_once(db, in_transaction):
    import trio

    async def slow(request):
        await trio.sleep(30)
        return "x"

    k = kleene.attach(db, store=":memory:", models=kleene.FunctionModel(slow))
    if in_transaction:
        db.begin()
        db.execute("DELETE FROM u")
    timer = threading.Timer(0.5, k.cancel)
    timer.start()
    started = time.monotonic()
    with pytest.raises(kleene.Cancelled):
        k.sql("SELECT llm('a ' || body) FROM t")
    assert time.monotonic() - started < AT_ONCE_S
    assert db.execute("SELECT count(*) FROM u").fetchone() == ((0 if in_transaction else 50),)
    assert k.sql("SELECT 1").fetchall() == [(1,)]
    k.close()


def test_cancel_interrupts_duckdb_itself(db):
    with engine(con=db) as (k, _):
        timer = threading.Timer(0.5, k.cancel)
        timer.start()
        started = time.monotonic()
        with pytest.raises(kleene.Cancelled):
            k.sql("SELECT count(*) FROM range(100000000) a, range(100000) b WHERE a.range + b.range < 0")
        assert time.monotonic() - started < AT_ONCE_S
        assert k.sql("SELECT 1").fetchall() == [(1,)]


def test_sixteen_threads_share_an_engine(db):
    with engine(CountingModel(lambda p: p), con=db) as (k, model):
        found = {}

        def work(n):
            found[n] = k.sql(f"SELECT llm('v' || (id % 5)) FROM t WHERE id < {n + 5}").fetchall()

        threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(len(found[n]) == n + 5 for n in range(16))
        assert model.calls == 5


def test_async_on_trio_and_asyncio(db):
    import asyncio

    import trio

    with engine(CountingModel(lambda p: p), con=db) as (k, _):

        async def one():
            return (await k.sql_async("SELECT llm('a')")).fetchall()

        assert trio.run(one) == [("a",)]
        assert asyncio.run(one()) == [("a",)]


def test_an_engine_cannot_be_pickled(db):
    import pickle

    with engine(con=db) as (k, _):
        with pytest.raises(kleene.KleeneError, match="cannot be pickled"):
            pickle.dumps(k)


def test_explain_counts_exactly_what_is_known(db):
    with engine(con=db) as (k, model):
        plan = k.explain("SELECT id FROM t WHERE cheap AND llm_bool('q ' || body)")
        assert (plan.estimate.calls, plan.exact) == (20, True)
        k.sql("SELECT llm_bool('q v0')")
        assert k.explain("SELECT id FROM t WHERE cheap AND llm_bool('q ' || body)").estimate.calls == 19
        two = k.explain("SELECT id FROM t WHERE cheap AND llm_bool('q ' || body) AND llm_bool('r ' || id)")
        assert not two.exact and [s.exact for s in two.sites] == [True, False]
        assert model.take() == 1


def test_explain_text(db):
    with engine(con=db) as (k, _):
        assert str(k.explain("SELECT id FROM t WHERE cheap AND llm_bool('q ' || body) AND llm_bool('r ' || id)")) == (
            "#1 llm_bool('q ' || body)  [λ worker]  20 calls, ~1720 tok, $0\n"
            "#2 llm_bool('r ' || id)  [λ worker]  ≈ 10 calls, ~860 tok, $0  (waits for #1; pass rate 0.5 assumed)\n"
            "total: ≈ 30 calls, ~2580 tok, $0\n"
            "order: #1, then #2  (by 20 and 100 arguments; pass rates are not known before)\n"
            "fragment: CQ (conditions that all hold)\n"
            "rules: order, stage"
        )
        assert str(k.explain("SELECT 1")) == "no calls: DuckDB runs the statement as it is\ntotal: 0 calls"


def test_values_that_arrow_or_python_would_change_are_kept_by_the_other(db):
    with engine(con=db) as (k, _):
        result = k.sql("SELECT INTERVAL 1 MONTH AS m, '101'::BIT AS b, 170141183460469231731687303715884105727 AS h")
        assert str(result.to_arrow_table()["m"][0].as_py()) == "MonthDayNano(months=1, days=0, nanoseconds=0)"
        assert result.fetchone()[1:] == ("101", 170141183460469231731687303715884105727)


def test_an_engine_that_nobody_closes_ends_with_the_process(tmp_path):
    script = (
        "import duckdb, kleene\n"
        "k = kleene.attach(duckdb.connect(), models=kleene.FunctionModel(lambda r: 'x'))\n"
        "print(k.sql(\"SELECT count(llm('a' || i)) FROM range(500) r(i)\").fetchall())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[(500,)]\n", "")


def test_the_store_that_another_process_holds(tmp_path, db):
    store = tmp_path / "run.duckdb"
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import duckdb, time; c = duckdb.connect({str(store)!r}); print('held', flush=True); time.sleep(30)",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(kleene.StoreLocked) as caught:
            kleene.attach(db, store=store)
        assert caught.value.pid == holder.pid and caught.value.hint
        assert db.execute("SELECT 1").fetchall() == [(1,)]
    finally:
        holder.kill()
        holder.communicate()


# -- recursion and prepared statements -----------------------------------------------------------------------------------------------------------


def test_maxrecursion_ends_a_recursion_after_so_many_rounds(db):
    sql = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) MAXRECURSION 3 SELECT n FROM r"
    with engine(con=db) as (k, _):
        assert k.sql(sql).fetchall() == [(1,), (2,), (3,), (4,)]
        k.sql("SET recursion_limit = 5")
        with pytest.raises(kleene.PlanError) as caught:
            k.sql("WITH RECURSIVE r(n) AS (SELECT llm('a') UNION ALL SELECT n FROM r) SELECT n FROM r")
        assert caught.value.message == "r was not done after 5 rounds: round 6 would start from 1 rows, 6 so far"
        assert k.sql("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize("union", ["UNION", "UNION ALL"])
def test_a_recursive_search_asks_each_new_node_once(db, union):
    model = CountingModel(lambda p: str((int(p.split()[1]) * 2) % 7))
    sql = f"WITH RECURSIVE r(n, d) AS (SELECT 1, 0 {union} SELECT llm('next ' || n)::INT, d + 1 FROM r WHERE d < 5) SELECT n FROM r ORDER BY d"
    with engine(model, con=db) as (k, _):
        assert [n for (n,) in k.sql(sql)] == [1, 2, 4, 1, 2, 4]
        assert dict(model.asked) == {"next 1": 1, "next 2": 1, "next 4": 1}
        rounds = k.sql("SELECT cte, round, delta_rows FROM trace_rounds ORDER BY round").fetchall()
        assert rounds[:2] == [("r", 1, 1), ("r", 2, 1)] and len(rounds) >= 5


def test_a_prepared_statement_is_planned_at_each_execute(db):
    with engine(CountingModel(lambda p: p.upper()), con=db) as (k, model):
        assert k.sql("PREPARE p AS SELECT llm('const') || ?, llm($1)".replace("$1", "?")).message == "prepared p"
        assert model.take() == 0
        assert k.sql("EXECUTE p('x', 'y')").fetchall() == [("CONSTx", "Y")]
        assert k.sql("EXECUTE p('z', 'y')").fetchall() == [("CONSTz", "Y")]
        assert model.take() == 2
        with pytest.raises(kleene.PlanError, match="gives no value for"):
            k.sql("EXECUTE p('x')")
        k.sql("PREPARE q AS SELECT 1 + ?")
        assert k.sql("EXECUTE q(2)").fetchall() == [(3,)]


# -- bad input -----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "params", "sent"),
    [
        ("SELECT llm('a\ud83d')", None, "a\ufffd"),
        ("SELECT llm(?)", ["b\ud83d"], "b\ufffd"),
        ("SELECT llm($x)", {"x": "\ud83d\ude00"}, "\U0001f600"),
    ],
)
def test_a_lone_surrogate_becomes_a_replacement_character_and_a_pair_one_character(sql, params, sent):
    with engine(CountingModel(lambda p: "x\ud83dy")) as (k, model):
        assert k.sql(sql, params).fetchall() == [("x\ufffdy",)]
        assert model.requests[0].messages[0].text == sent


@pytest.mark.parametrize(
    ("sql", "rendered"),
    [
        (
            "CREATE FUNCTION h(x nope) RETURNS BOOLEAN AS PROMPT '{x}'",
            "error: there is no type nope\nline 1: CREATE FUNCTION h(x nope) RETURNS BOOLEAN AS PROMPT '{x}'\n"
            "                          ^\nhint: types are DuckDB's: TEXT, BOOLEAN, BIGINT, DOUBLE, DATE, STRUCT(a TEXT), TEXT[], ...",
        ),
        (
            "CALL llm('x')",
            "error: llm is no tool with effects; CALL is for those\nline 1: CALL llm('x')\n             ^^^\n"
            "hint: SELECT llm(...)",
        ),
        (
            "SELECT f(1)",
            "error: Scalar Function with name f does not exist\nline 1: SELECT f(1)\n               ^\n"
            "hint: SHOW FUNCTIONS lists those that ask; one that was created lasts as long as its engine",
        ),
        ("SELECT 'abc", "error: unterminated string literal\nline 1: SELECT 'abc\n               ^"),
        ("DROP FUNCTION nope", "error: there is no function nope\nhint: SHOW FUNCTIONS lists them"),
        (
            "CALIBRATE f FROM t",
            "error: there is no function f\nline 1: CALIBRATE f FROM t\n                  ^\nhint: SHOW FUNCTIONS lists them",
        ),
    ],
)
def test_wrong_statements_get_one_clear_message(db, sql, rendered):
    with engine(con=db) as (k, model):
        with pytest.raises(kleene.KleeneError) as caught:
            k.sql(sql)
        assert caught.value.render() == rendered
        assert model.calls == 0 and k.sql("SELECT 1").fetchall() == [(1,)]


def test_an_update_of_several_columns_at_once(db):
    with engine(CountingModel(lambda p: p.upper()), con=db) as (k, _):
        k.sql("CREATE TABLE m AS SELECT i, 'b' || i AS b, '' AS x FROM range(2) r(i)")
        k.sql("UPDATE m SET (x, b) = (llm('x' || b), coalesce(llm('c' || b), '?'))")
        assert k.sql("FROM m ORDER BY i").fetchall() == [(0, "CB0", "XB0"), (1, "CB1", "XB1")]


def test_lambdas_with_arrows_run_in_every_statement():
    with engine(CountingModel(lambda p: p.upper())) as (k, model):
        assert k.sql("SELECT list_transform([1, 2], x -> x + 1) AS l").fetchall() == [([2, 3],)]
        assert k.sql("SELECT list_transform(['a', 'b'], (x, i) -> x || i || llm('c')) AS l").fetchall() == [
            (["a1C", "b2C"],)
        ]
        k.sql("CREATE VIEW v AS SELECT list_filter([1, 2], x -> x > 1) AS l; PREPARE p AS SELECT apply([$1], x -> -x)")
        k.sql("CREATE FUNCTION g(l BIGINT[]) RETURNS BIGINT[] AS SQL (SELECT list_filter(l, x -> x > 2))")
        assert k.sql("SELECT l, g([1, 3]) FROM v").fetchall() == [([2], [3])]
        assert k.sql("EXECUTE p(4)").fetchall() == [([-4],)]
        assert "lambda x" in str(k.sql("EXPLAIN SELECT list_transform([range], x -> x + 1) FROM range(3)").rows)
        assert model.calls == 1
