"""Careless and hostile uses of an engine, each of which once went wrong."""

from __future__ import annotations

import os
import threading
import warnings

import duckdb
import pytest

import kleene
from tests.kleene.engines import engine


@pytest.fixture
def db():
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT i AS id, 'v' || i AS body FROM range(20) r(i)")
    return con


def attached(con: duckdb.DuckDBPyConnection, reply: object = "true", **options: object) -> kleene.Engine:
    fn = reply if callable(reply) else lambda request: reply
    return kleene.attach(con, store=":memory:", models=kleene.FunctionModel(fn), **options)  # type: ignore[arg-type]


# -- the plain names -----------------------------------------------------------------------------------------------------------------------


def test_a_function_created_after_attach_works_on_the_plain_connection(db):
    with attached(db) as k:
        k.sql("CREATE FUNCTION f(x TEXT) RETURNS BOOLEAN AS PROMPT 'Is it {x}?'")
        assert db.sql("SELECT f('a')").fetchall() == [(True,)]


def test_views_and_macros_hold_calls_of_functions_of_ones_own(db):
    with attached(db) as k:
        k.sql("CREATE FUNCTION f(x TEXT) RETURNS BOOLEAN AS PROMPT 'Is it {x}?'")
        k.sql("CREATE VIEW v AS SELECT id FROM t WHERE f(body)")
        k.sql("CREATE MACRO m(a) AS f(a || '!')")
        assert len(k.sql("FROM v WHERE id < 5")) == 5
        assert k.sql("SELECT m('x')").fetchall() == [(True,)]


def test_a_function_made_anew_forgets_what_the_plain_name_answered(db):
    with attached(db, lambda request: request.messages[0].text) as k:
        for text in ("one", "two"):
            k.sql(f"CREATE OR REPLACE FUNCTION f(x TEXT) RETURNS TEXT AS PROMPT '{text} {{x}}'")
            assert db.sql("SELECT f('a')").fetchall() == [(f"{text} a",)]


@pytest.mark.parametrize("first", [0, 1])
def test_engines_of_one_connection_close_in_either_order(db, first):
    engines = [attached(db, "true"), attached(db, "false")]
    engines[first].close()
    left = engines[1 - first]
    assert len(left.sql("SELECT id FROM t WHERE llm_bool(body)")) == (20, 0)[1 - first]
    if first == 0:
        assert db.sql("SELECT llm_bool('x'), similarity([1.0], [1.0])").fetchall() == [(False, 1.0)]
    left.close()
    names = "function_name LIKE 'llm%' OR function_name LIKE 'kleene%' OR function_name = 'similarity'"
    assert db.execute(f"SELECT function_name FROM duckdb_functions() WHERE {names}").fetchall() == []


# -- what is handed over -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("con", [None, "shop.duckdb", duckdb])
def test_only_a_connection_can_be_attached_to(con):
    with pytest.raises(kleene.ConfigError, match="a DuckDB connection is needed, not ") as caught:
        attached(con)
    assert caught.value.hint == "kleene.attach(duckdb.connect(...)), or kleene.connect(path)"


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        (5, "budget is of type int, not a kleene.Budget"),
        (kleene.Budget(calls=-1), "budget.calls must be a whole number of at least 0, not -1"),
        (kleene.Budget(calls=1.5), "budget.calls must be a whole number of at least 0, not 1.5"),  # type: ignore[arg-type]
        (kleene.Budget(dollars="2"), "budget.dollars must be a number of at least 0, not '2'"),  # type: ignore[arg-type]
        (kleene.Budget(dollars=float("nan")), "budget.dollars must be a number of at least 0, not nan"),
    ],
)
def test_a_budget_is_checked_when_it_is_given(db, budget, text):
    with pytest.raises(kleene.ConfigError) as caught:
        attached(db, budget=budget)
    assert caught.value.message == text
    assert caught.value.hint


def test_a_statement_is_a_text_and_parameters_are_a_list_or_a_mapping(db):
    with engine(con=db) as (k, _):
        for text in (None, b"SELECT 1"):
            with pytest.raises(kleene.ParseError, match="a statement is a text, not "):
                k.sql(text)
            with pytest.raises(kleene.ParseError, match="a statement is a text, not "):
                k.explain(text)
        for params in ("a", 5):
            with pytest.raises(kleene.PlanError, match="parameters are a list or a mapping, not "):
                k.sql("SELECT llm(?)", params)


def test_a_statement_too_deep_to_plan_is_an_error_of_its_text(db):
    with engine(con=db) as (k, model):
        with pytest.raises(kleene.ParseError, match="the statement is nested too deeply"):
            k.sql("SELECT llm('x')" + " || 'a'" * 2000)
        assert model.take() == 0
        assert k.sql("SELECT 1").fetchall() == [(1,)]


def test_the_database_of_ones_data_cannot_be_the_store(tmp_path):
    path = tmp_path / "shop.duckdb"
    con = duckdb.connect(str(path))
    with pytest.raises(kleene.ConfigError, match="is open in this process as a database of its own"):
        kleene.attach(con, store=path, models=kleene.FunctionModel(lambda request: "true"))
    assert con.execute("SELECT current_setting('enable_external_access')").fetchone() == (True,)
    assert con.execute("SHOW TABLES").fetchall() == []


# -- where it is used ----------------------------------------------------------------------------------------------------------------------


def test_a_models_function_that_uses_its_engine_is_told_so(db):
    engines = []
    with attached(db, lambda request: str(engines[0].sql("SELECT 1"))) as k:
        engines.append(k)
        found = []

        def ask() -> None:
            with pytest.raises(kleene.CallFailed) as caught:
                k.sql("SELECT llm('x')")
            found.append(caught.value.message)

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(10)
        assert len(found) == 1
        assert "a model's function cannot run statements on the engine that asks it" in found[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_forked_process_is_told_that_the_engine_is_its_parents(db):
    with attached(db) as k:
        k.sql("SELECT llm('x')")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            child = os.fork()
        if child == 0:
            code = 1
            try:
                k.sql("SELECT llm('y')")
            except kleene.KleeneError as error:
                k.close()
                code = 0 if error.message.startswith("the engine belongs to another process") else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert k.sql("SELECT llm('y')").fetchall() == [("true",)]


# -- methods on values ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT llm(body).upper() FROM t WHERE id < 3",
        "SELECT llm(t.body).upper() FROM t WHERE id < 3",
        "SELECT llm(body.lower()).upper() FROM t WHERE id < 3",
        "SELECT upper(llm(body)) FROM t WHERE llm(body.lower()) <> '' AND id % 20 < 3",
        "SELECT main.upper(llm(body)) FROM t WHERE id < 3",
    ],
)
def test_a_method_of_a_value_knows_its_columns(db, sql):
    with attached(db, lambda request: request.messages[0].text) as k:
        assert k.sql(sql).fetchall() == [("V0",), ("V1",), ("V2",)]
