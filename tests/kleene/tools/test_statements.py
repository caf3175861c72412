"""Tools in statements: as table functions wherever one stands, and with effects under CALL."""

from __future__ import annotations

import dataclasses
import datetime
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import kleene
from kleene.planner.errors import CallFailed, Cancelled, PlanError, PolicyError
from tests.kleene.engines import CountingModel, engine


class Tools:
    """Tools that count their uses."""

    def __init__(self) -> None:
        self.used: list[Any] = []
        self.done: list[Any] = []

    def words(self, text: str, most: int = 10) -> list[str]:
        """The words of a text.

        In order.
        """
        self.used.append((text, most))
        return text.split()[:most]

    def note(self, text: str, times: int = 1) -> str:
        """Writes something down."""
        if text == "bad":
            raise ValueError("it is bad")
        self.done.append((text, times))
        return f"noted {text}"

    @property
    def given(self) -> list[Any]:
        return [self.words, kleene.tool(self.note, volatility="volatile")]


@pytest.fixture
def tools() -> Tools:
    return Tools()


@pytest.fixture
def k(tools: Tools) -> Iterator[kleene.Engine]:
    with engine(CountingModel(lambda prompt: prompt.upper()), tools=tools.given) as (k, _):
        k.sql("CREATE TABLE t AS FROM (VALUES (1, 'a b c'), (2, 'd e'), (3, NULL), (4, 'a b c'), (5, '')) v(i, text)")
        yield k


def test_a_tool_is_a_table_function(k: kleene.Engine, tools: Tools) -> None:
    result = k.sql("SELECT * FROM words('hello big world')")
    assert (result.columns, result.types) == (("value",), ("VARCHAR",))
    assert result.fetchall() == [("hello",), ("big",), ("world",)]
    assert tools.used == [("hello big world", 10)]


@pytest.mark.parametrize(
    ("sql", "rows", "uses"),
    [
        ("SELECT i, w.value FROM t, LATERAL words(t.text, 1) w ORDER BY i", [(1, "a"), (2, "d"), (4, "a")], 3),
        (
            "SELECT i, w.value FROM t LEFT JOIN LATERAL words(t.text, 1) w ON true ORDER BY i",
            [(1, "a"), (2, "d"), (3, None), (4, "a"), (5, None)],
            3,
        ),
        ("SELECT i, w.value FROM t, LATERAL words(t.text, 1) w WHERE i = 2", [(2, "d")], 1),
        ("SELECT * FROM words(most := 1, text := 'x y')", [("x",)], 1),
        ("SELECT * FROM words('x y', NULL)", [("x",), ("y",)], 1),
        ("SELECT * FROM words(NULL)", [], 0),
        ("SELECT count(*) FROM words('ü 日本 \N{PILE OF POO}') w", [(3,)], 1),
        (
            "SELECT v.value || u.value FROM words('a b') v, LATERAL words(v.value || ' z', 2) u ORDER BY 1",
            [("aa",), ("az",), ("bb",), ("bz",)],
            3,
        ),
        ("SELECT (SELECT count(*) FROM words(t.text)) FROM t WHERE i <= 2 ORDER BY i", [(3,), (2,)], 2),
        ("SELECT i FROM t WHERE EXISTS (SELECT 1 FROM words(t.text) w WHERE w.value = 'e')", [(2,)], 3),
        ("WITH w AS (FROM words('b a')) SELECT value FROM w ORDER BY value", [("a",), ("b",)], 1),
        (
            "SELECT value FROM words('b a') UNION ALL SELECT value FROM words('b a') ORDER BY 1",
            [("a",), ("a",), ("b",), ("b",)],
            1,
        ),
        ("SELECT w.value, llm(w.value) FROM words('x y') w ORDER BY 1", [("x", "X"), ("y", "Y")], 1),
        ("SELECT w.value FROM words(llm('p q')) w", [("P",), ("Q",)], 1),
        (
            "WITH RECURSIVE r(w, d) AS (SELECT 'a b', 0 UNION ALL SELECT x.value || '!', d + 1 FROM r, LATERAL words(r.w) x WHERE d < 2) "
            "SELECT w FROM r ORDER BY d, w",
            [("a b",), ("a!",), ("b!",), ("a!!",), ("b!!",)],
            3,
        ),
    ],
)
def test_tools_stand_wherever_rows_do(k, tools, sql, rows, uses) -> None:
    assert k.sql(sql).fetchall() == rows
    assert len(tools.used) == uses == len(set(tools.used))


def test_a_tool_is_used_anew_by_each_statement_and_costs_nothing(k, tools) -> None:
    for _ in range(2):
        result = k.sql("SELECT * FROM words('a b')")
    assert (len(tools.used), result.usage.requests, result.usage.dollars) == (2, 0, 0.0)
    assert (
        k.sql("SELECT tool, args, bytes_out, error FROM trace_tool_calls").fetchall()
        == [("words", '{"text": "a b"}', 29, None)] * 2
    )


def test_tools_need_no_model() -> None:
    with kleene.connect(store=":memory:", tools=[Tools().words]) as k:
        assert k.sql("SELECT value FROM words('a b')").fetchall() == [("a",), ("b",)]


def test_writes_use_tools(k, tools) -> None:
    k.sql("CREATE TABLE w AS SELECT i, w.value FROM t, LATERAL words(t.text) w")
    k.sql("INSERT INTO w SELECT 9, value FROM words('z')")
    assert k.sql("SELECT count(*) FROM w").fetchall() == [(9,)]
    assert len(tools.used) == 4


def test_explain_uses_tools_and_counts_what_they_lead_to(k, tools) -> None:
    plan = k.explain("SELECT llm(w.value) FROM t, LATERAL words(t.text, 2) w")
    assert plan.text == (
        "#1 llm(w.value)  [λ worker]  4 calls, ~76 tok, $0\n"
        "#2 words(t.text, 2)  [tool]  3 uses\n"
        "total: 4 calls, ~76 tok, $0\n"
        "fragment: CQ (inner joins and conditions that all hold)"
    ).replace("~76", plan.text.partition("~")[2].partition(" ")[0].join(["~", ""]))
    assert plan.exact
    assert len(tools.used) == 3


def test_explain_says_what_it_cannot_know(k) -> None:
    lines = k.explain("SELECT w.value FROM t, LATERAL words(llm(t.text)) w").text.splitlines()
    assert lines[0] == "#1 words(llm(t.text))  [tool]  0 uses  (more may follow)"
    assert lines[-2].startswith("total: ≈ 3 calls")


# -- effects -----------------------------------------------------------------------------------------------------------------------------


def test_an_effect_is_a_statement(k, tools) -> None:
    result = k.sql("CALL note('hi', times := 2)")
    assert (result.columns, result.fetchall(), tools.done) == (("value",), [("noted hi",)], [("hi", 2)])


def test_an_effect_runs_once_a_row_in_order(k, tools) -> None:
    result = k.sql("CALL note(t.text, t.i) FROM t ORDER BY i DESC")
    assert tools.done == [("", 5), ("a b c", 4), ("d e", 2), ("a b c", 1)]  # NULL asks for nothing
    assert result.fetchall() == [(f"noted {text}",) for text, _ in tools.done]


@pytest.mark.parametrize(
    "source",
    [
        "FROM t WHERE i < 3",
        "FROM (SELECT * FROM t WHERE i < 3) t",
        "FROM (SELECT * FROM t WHERE i < 3)",
        "FROM SELECT * FROM t WHERE i < 3",
        "FROM t ORDER BY i LIMIT 2",
        "FROM (VALUES ('a b c'), ('d e')) v(text)",
        "FROM WITH c AS (FROM t) SELECT text FROM c WHERE i < 3",
    ],
)
def test_the_rows_of_an_effect_come_from_any_query(k, tools, source) -> None:
    k.sql(f"CALL note(upper(text)) {source}")
    assert tools.done == [("A B C", 1), ("D E", 1)]


def test_an_effect_waits_for_the_answers_in_its_arguments(k, tools) -> None:
    result = k.sql("CALL note(llm('say ' || text)) FROM t WHERE i IN (1, 2, 4) ORDER BY i")
    assert tools.done == [("SAY A B C", 1), ("SAY D E", 1), ("SAY A B C", 1)]
    assert result.usage.requests == 2


def test_no_row_is_no_effect(k, tools) -> None:
    result = k.sql("CALL note(text) FROM t WHERE i > 99")
    assert (result.columns, result.fetchall(), tools.done) == (("value",), [], [])


def test_parameters_reach_an_effect(k, tools) -> None:
    k.sql("CALL note(?, ?)", ["a'; DROP TABLE t", 3])
    assert tools.done == [("a'; DROP TABLE t", 3)]


def test_explain_call_is_a_dry_run(k, tools) -> None:
    k.sql("CREATE TABLE many AS SELECT 'x' || i AS text FROM range(25) r(i)")
    assert k.sql("EXPLAIN CALL note('hi')").plan == "would use note once:\n  note('hi')"
    lines = k.sql("EXPLAIN CALL note(text) FROM many").plan.splitlines()
    assert lines[0] == "would use note 25 times:"
    assert lines[1:3] == ["  note('x0')", "  note('x1')"]
    assert lines[-1] == "  and 5 more"
    assert k.explain("CALL note(llm(text)) FROM many").text.splitlines()[-1] == "then note, once a row"
    assert tools.done == []


def test_explain_analyze_call_does_it(k, tools) -> None:
    assert k.sql("EXPLAIN ANALYZE CALL note('hi')").plan.startswith("actual: 1 row, 0 calls")
    assert tools.done == [("hi", 1)]


def test_what_was_done_before_an_error_is_said(k, tools) -> None:
    with pytest.raises(CallFailed) as caught:
        k.sql("CALL note(text) FROM (VALUES ('a'), ('b'), ('bad'), ('c')) v(text)")
    assert caught.value.message == "note: it is bad (after 2 of 4 uses)"
    assert tools.done == [("a", 1), ("b", 1)]
    assert [e for (e,) in k.sql("SELECT error FROM trace_tool_calls").fetchall()] == [None, None, "note: it is bad"]
    assert k.sql("SELECT 1").fetchall() == [(1,)]


def test_each_effect_is_approved() -> None:
    tools, asked = Tools(), []

    def approve(effect: kleene.Effect) -> bool:
        asked.append((effect.tool, dict(effect.arguments), str(effect), effect.session))
        return effect.arguments["text"] != "no"

    with engine(tools=tools.given, approve=approve) as (k, _):
        with pytest.raises(PolicyError) as caught:
            k.sql("CALL note(text) FROM (VALUES ('yes'), ('no'), ('yes again')) v(text)")
        assert caught.value.message == "note was not approved: note('no') (after 1 of 3 uses)"
        assert tools.done == [("yes", 1)]
        assert asked == [
            ("note", {"text": "yes"}, "note('yes')", None),
            ("note", {"text": "no"}, "note('no')", None),
        ]
        k.sql("SELECT * FROM words('what only looks is not asked about')")
        assert len(asked) == 2


@pytest.mark.parametrize(
    ("sql", "message", "hint"),
    [
        ("SELECT note('x')", "note has effects and is a statement of its own", "CALL note(...) [FROM query]"),
        ("SELECT * FROM note('x')", "note has effects and is a statement of its own", "CALL note(...) [FROM query]"),
        ("CALL words('x')", "words is no tool with effects; CALL is for those", "SELECT * FROM words(...)"),
        ("CALL llm('x')", "llm is no tool with effects; CALL is for those", "SELECT llm(...)"),
        ("CALL nota('x') FROM t", "there is no tool nota", "did you mean note?"),
        ("CALL zzz('x') FROM t", "there is no tool zzz", None),
        ("CALL note()", "note takes 1 to 2 arguments, 0 given", None),
        ("CALL note('a', time := 2)", "note has no argument time", None),
        ("SELECT words('x')", "words returns rows and stands in FROM", "FROM t, LATERAL words(...) AS x"),
        (
            "CREATE FUNCTION words(a TEXT) RETURNS TEXT AS PROMPT '{a}'",
            "words is a built-in function and cannot be replaced",
            "choose another name",
        ),
    ],
)
def test_a_misplaced_tool_is_told_what_works(k, tools, sql, message, hint) -> None:
    with pytest.raises(PlanError) as caught:
        k.sql(sql)
    assert caught.value.message == message
    assert hint is None or caught.value.hint == hint
    assert tools.used == tools.done == []


def test_duckdbs_own_call_stays(k) -> None:
    assert k.sql("CALL pragma_version()").fetchall()[0][0].startswith("v")


# -- errors and ends ---------------------------------------------------------------------------------------------------------------------


def fragile(x: int) -> str:
    if x == 2:
        raise RuntimeError("two")
    return str(x)


def test_a_failed_tool_fails_the_statement_by_name() -> None:
    with engine(tools=[fragile]) as (k, _):
        with pytest.raises(CallFailed) as caught:
            k.sql("SELECT value FROM range(4) r(i), LATERAL fragile(i)")
        assert caught.value.message == "fragile('2') failed: RuntimeError: two"


def test_on_error_null_gives_no_rows_and_says_so() -> None:
    with engine(tools=[fragile]) as (k, _):
        k.sql("SET on_error = 'null'")
        result = k.sql("SELECT value FROM range(4) r(i), LATERAL fragile(i) ORDER BY i")
        assert result.fetchall() == [("0",), ("1",), ("3",)]
        assert result.warnings == ("1 calls failed and gave NULL; the first: fragile('2') failed: RuntimeError: two",)


def test_a_cancel_ends_a_statement_whose_tools_wait() -> None:
    began, release = threading.Event(), threading.Event()

    def waits(x: int) -> str:
        began.set()
        release.wait(5)
        return "late"

    with engine(tools=[waits]) as (k, _):

        def cancel() -> None:
            began.wait(5)
            k.cancel()
            release.set()  # a Python function cannot be ended: its statement ends when it returns

        threading.Thread(target=cancel).start()
        with pytest.raises(Cancelled):
            k.sql("SELECT value FROM range(40) r(i), LATERAL waits(i)")
        assert k.sql("SELECT 1").fetchall() == [(1,)]


def test_a_cancel_ends_a_call_between_two_uses() -> None:
    done: list[int] = []
    with engine() as (k, _):
        pass

    def step(x: int) -> int:
        done.append(x)
        if x == 3:
            k.cancel()
        return x

    with engine(tools=[kleene.tool(step, volatility="volatile")]) as (k, _):
        with pytest.raises(Cancelled) as caught:
            k.sql("CALL step(i) FROM range(10) r(i)")
        assert done == [0, 1, 2, 3]
        assert caught.value.message == "cancelled (after 4 of 10 uses)"


def test_the_wall_ends_a_call() -> None:
    done: list[int] = []

    def step(x: int) -> int:
        done.append(x)
        time.sleep(0.1)
        return x

    with engine(tools=[kleene.tool(step, volatility="volatile")], budget=kleene.Budget(wall=1.2)) as (k, _):
        with pytest.raises(kleene.BudgetExceeded):
            k.sql("CALL step(i) FROM range(100) r(i)")
        assert 1 <= len(done) <= 13


# -- Python functions --------------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Person:
    name: str
    born: datetime.date | None
    tags: list[str]


def people(after: datetime.date, names: list[str]) -> Iterator[Person]:
    for name in names:
        yield Person(name, after + datetime.timedelta(days=1), [name, name.upper()])


def test_types_cross_both_ways() -> None:
    with engine(tools=[people]) as (k, _):
        result = k.sql("SELECT * FROM people('2026-01-31', ['ü', 'b''c'])")
        assert result.types == ("VARCHAR", "DATE", "VARCHAR[]")
        day = datetime.date(2026, 2, 1)
        assert result.fetchall() == [("ü", day, ["ü", "Ü"]), ("b'c", day, ["b'c", "B'C"])]


@pytest.mark.parametrize(
    ("give", "returns", "rows"),
    [
        (lambda: [{"a": 1, "b": "x"}, {"b": "y"}], {"a": int, "b": str}, [(1, "x"), (None, "y")]),
        (lambda: [(1, 2.5)], {"a": int, "b": "DOUBLE"}, [(1, 2.5)]),
        (lambda: {"a": float("nan")}, {"a": float}, None),
        (lambda: (x for x in "ab"), {"c": str}, [("a",), ("b",)]),
        (lambda: None, {"a": str}, []),
        (lambda: [None, "x"], {"a": str}, [(None,), ("x",)]),
        (lambda: "one text", {"a": str}, [("one text",)]),
        (lambda: [{"k": [1]}], {"j": dict}, [('{"k":[1]}',)]),
        (lambda: ["lone \ud800 surrogate"], {"a": str}, [("lone \ufffd surrogate",)]),
    ],
)
def test_what_functions_return_becomes_rows(give, returns, rows) -> None:
    with engine(tools=[kleene.tool(give, name="give", returns=returns)]) as (k, _):
        found = k.sql("SELECT * FROM give()").fetchall()
        assert found == rows if rows is not None else str(found) == "[(nan,)]"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: kleene.tool("x"), "a tool is a function, not str"),
        (lambda: kleene.tool(lambda: 1), "'<lambda>' cannot be a tool's name"),
        (lambda: kleene.tool(fragile, volatility="sometimes"), "volatility is 'sometimes'"),
        (lambda: kleene.tool(fragile, returns={}), "the tool fragile returns no column"),
        (lambda: kleene.tool(async_tool), "the tool async_tool is an async function"),
        (lambda: kleene.connect(store=":memory:", tools=[fragile, fragile]), "there are two tools fragile"),
    ],
)
def test_what_is_no_tool_is_refused(make, message) -> None:
    with pytest.raises(kleene.ConfigError) as caught:
        make()
    assert caught.value.message == message


async def async_tool() -> None: ...


def test_a_row_of_the_wrong_size_is_an_error() -> None:
    with engine(tools=[kleene.tool(lambda: [(1, 2)], name="give", returns={"a": int})]) as (k, _):
        with pytest.raises(CallFailed, match="a row of give has 2 values for 1 columns"):
            k.sql("SELECT * FROM give()")


def test_show_functions_lists_tools(k) -> None:
    rows = {r[0]: r for r in k.sql("SHOW FUNCTIONS").fetchall()}
    assert rows["words"] == (
        "words",
        "words(text VARCHAR [, most BIGINT]) -> TABLE(value VARCHAR)",
        "tool",
        None,
        "STABLE",
        "The words of a text.",
    )
    assert rows["note"][4] == "VOLATILE"


# -- a table of what a tool gave ---------------------------------------------------------------------------------------------------------


def test_a_table_is_made_of_what_a_tool_gave(k, tools) -> None:
    assert k.sql("CREATE TABLE got AS CALL note(text) FROM t ORDER BY i").fetchall() == [(4,)]
    assert k.sql("SELECT value FROM got WHERE value LIKE 'noted d%'").fetchall() == [("noted d e",)]
    with pytest.raises(PlanError) as caught:
        k.sql('CREATE TABLE "Got" AS CALL note(text) FROM t')
    assert (caught.value.message, len(tools.done)) == ('the table "Got" is there already', 4)
    k.sql("CREATE OR REPLACE TABLE got AS CALL note('x')")
    assert k.sql("FROM got").fetchall() == [("noted x",)]
    k.sql("CREATE TABLE none AS CALL note(text) FROM t WHERE false")
    assert k.sql("DESCRIBE none").fetchall()[0][:2] == ("value", "VARCHAR")
    assert k.sql("EXPLAIN CREATE TABLE y AS CALL note('x')").plan == "would use note once:\n  note('x')"


@pytest.mark.parametrize("sql", ["CREATE TABLE s.a AS CALL note('x')", "CREATE TABLE AS CALL note('x')"])
def test_a_table_of_a_call_has_a_plain_name(k, tools, sql) -> None:
    with pytest.raises(kleene.KleeneError):
        k.sql(sql)
    assert tools.done == []
