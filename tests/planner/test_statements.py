"""Texts are split with exact places, and declarations become specs or errors that say what to change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from kleene.planner import nodes
from kleene.planner.dialect import CallSQL
from kleene.planner.errors import ParseError
from kleene.planner.specs import AgentSpec, AnswerType, BudgetLimits, FunctionSpec, Param, Template, Volatility
from kleene.planner.statements import (
    agent_spec,
    answer_type,
    function_spec,
    max_recursion,
    number_placeholders,
    parse,
    setting_value,
    span_of,
    template_of,
)


def declared(sql: str) -> FunctionSpec:
    (statement,) = parse(sql)
    assert isinstance(statement.tree, nodes.CreateFunction)
    return function_spec(statement.tree, statement)


def agent(sql: str) -> AgentSpec:
    (statement,) = parse(sql)
    assert isinstance(statement.tree, nodes.CreateAgent)
    return agent_spec(statement.tree, statement)


@pytest.mark.parametrize("source", ["", "  \r\n", ";", ";; ;", "-- only a note", "/* ; */ ;\n-- ;"])
def test_a_text_without_statements_is_empty(source: str) -> None:
    assert parse(source) == ()


def test_statements_are_split_outside_strings_and_comments() -> None:
    source = "\ufeffselect ';', $$;$$, $t$;$t$, \"a;b\" -- ;\r\n /* ; */ from t;\r\n\r\nselect 2 ;"
    first, second = parse(source)
    assert first.text == "select ';', $$;$$, $t$;$t$, \"a;b\" -- ;\r\n /* ; */ from t"
    assert second.text == "select 2"
    assert (second.span.line, second.span.column) == (4, 1)
    assert source[second.span.start : second.span.end] == second.text


WORDS = st.sampled_from(
    ["select 1", "select ';'", "select $$;$$", "from t -- ;\n", "/* ; */ select 2", "final(1)", "", "  "]
)


@given(st.lists(WORDS))
def test_every_statement_is_its_slice_of_the_source(parts: list[str]) -> None:
    source = ";".join(parts)
    statements = parse(source)
    assert all(source[s.span.start : s.span.end] == s.text for s in statements)
    assert len(statements) == len([p for p in parts if p.strip()])


@given(st.text(max_size=60))
def test_no_text_breaks_the_reader(source: str) -> None:
    try:
        statements = parse(source)
    except ParseError as error:
        assert error.span is not None
        return
    assert all((s.tree is None) == (s.unreadable is not None) for s in statements)


@given(
    st.lists(
        st.sampled_from(
            [
                "create",
                "function",
                "f",
                "(",
                "a",
                "text",
                ")",
                "returns",
                "as",
                "prompt",
                "'x'",
                "final",
                "call",
                "set",
                "budget",
                ".",
                "calls",
                "=",
                "1",
                "from",
                "select",
                "$$",
            ]
        ),
        max_size=12,
    )
)
def test_no_own_statement_breaks_the_reader(words: list[str]) -> None:
    try:
        parse(" ".join(words))
    except ParseError as error:
        assert error.hint
        assert error.span is not None
        assert error.source is not None


def test_what_cannot_be_read_is_left_to_duckdb_with_a_reason() -> None:
    first, second, third = parse("select 1; vacuum;\nselect 4!")
    assert first.tree is not None
    assert second.tree is None
    assert third.unreadable is not None
    assert third.unreadable.render() == (
        "error: this statement cannot be read: unexpected !\n"
        "line 2: select 4!\n"
        "                ^\n"
        "hint: Kleene plans only what it can read; write this part in another way."
    )


@pytest.mark.parametrize(
    "word",
    [
        "hello",
        "reset threads",
        "vacuum",
        "load x",
        "checkpoint",
        "show t",
        "explain hello",
        "create type x as enum ('a')",
    ],
)
def test_words_that_are_no_statement_have_no_tree(word: str) -> None:
    (statement,) = parse(word)
    assert statement.tree is None


def test_a_quote_that_does_not_end_spoils_only_its_own_statement() -> None:
    first, second = parse("select 1; select 'abc")
    assert first.tree is not None
    assert second.text == "select 'abc"
    assert second.unreadable is not None
    assert second.unreadable.message == "this statement cannot be read: a string, quoted name or comment does not end"


@pytest.mark.parametrize(
    "source", ["final('abc", "create agent r prompt 'abc", "create function f(a text) returns text as prompt $$abc"]
)
def test_a_quote_that_does_not_end_in_an_own_statement_is_an_error(source: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(source)
    assert caught.value.message == "this statement cannot be read: a string, quoted name or comment does not end"


def test_errors_name_no_classes_of_the_parser() -> None:
    for source in (
        "select 1 where",
        "select 1 union",
        "select * from",
        "insert into",
        "select cast(1 as)",
        "with a as select 1",
    ):
        (statement,) = parse(source)
        assert statement.unreadable is not None
        assert "<" not in statement.unreadable.message
        assert "sqlglot" not in statement.unreadable.message


def test_deep_nesting_is_unreadable_not_a_crash() -> None:
    (statement,) = parse("select " + "(" * 3000 + "1" + ")" * 3000)
    assert statement.tree is None


def test_span_of_a_call_covers_it_in_the_whole_source() -> None:
    source = "select 1;\nselect a, llm_bool('is it? ' || t.body, model := 'x') from t"
    statement = parse(source)[1]
    assert statement.tree is not None
    call = statement.tree.find(exp.Anonymous)
    assert call is not None
    span = span_of(statement, call)
    assert span is not None
    assert source[span.start : span.end] == "llm_bool('is it? ' || t.body, model := 'x')"
    assert (span.line, span.column) == (2, 11)


def test_a_made_node_has_no_place() -> None:
    (statement,) = parse("select 1")
    assert span_of(statement, exp.Literal.number(1)) is None


def test_question_marks_are_numbered_in_the_order_of_the_text() -> None:
    (statement,) = parse("from (select ? as a) select a, ? where a > ? limit ?")
    assert statement.tree is not None
    assert number_placeholders(statement.tree) == 4
    assert statement.tree.sql(CallSQL) == "SELECT a, $2 FROM (SELECT $1 AS a) WHERE a > $3 LIMIT $4"


def test_question_marks_beside_named_parameters_are_an_error() -> None:
    (statement,) = parse("select ?, $1")
    assert statement.tree is not None
    with pytest.raises(ParseError, match="cannot stand beside"):
        number_placeholders(statement.tree)


def test_maxrecursion_is_read_from_the_cte() -> None:
    (statement,) = parse(
        "with recursive r as (select 1 union select 2), s as (select 1 union select 2) maxrecursion 3 select * from r"
    )
    assert statement.tree is not None
    assert statement.has_own
    assert [max_recursion(c) for c in statement.tree.find_all(exp.CTE)] == [None, 3]


@pytest.mark.parametrize(
    ("sql", "value"),
    [("SET effort = 'low'", "low"), ("SET memo = off", "off"), ("SET seed = -3", "-3"), ("SET budget.dollars = .5", ".5"), ("SET seed = NULL", None), ("SET batch = AUTO", "AUTO")],
)  # fmt: skip
def test_a_setting_s_value_is_its_text(sql: str, value: str | None) -> None:
    (statement,) = parse(sql)
    assert isinstance(statement.tree, nodes.SetKey)
    assert setting_value(statement.tree) == value


def test_a_prompt_function_declares_all_it_says() -> None:
    spec = declared(
        "CREATE FUNCTION Judge(a VARCHAR, b INTEGER) RETURNS BOOLEAN AS PROMPT 'Is {A} like { b }? {{json}} {1}' "
        "MODEL 'proxy' EFFORT 'HIGH' BATCH 20 STABLE PROXY score THRESHOLDS (0.1, 0.9) VIA <> kind"
    )
    assert spec == FunctionSpec(
        name="Judge",
        params=(Param("a", "VARCHAR"), Param("b", "INTEGER")),
        answer=AnswerType("bool", "BOOLEAN"),
        body="prompt",
        template=Template(("Is ", 0, " like ", 1, "? {json} {1}")),
        text="Is {A} like { b }? {{json}} {1}",
        model="proxy",
        effort="high",
        batch=20,
        volatility=Volatility.STABLE,
        proxy="score",
        thresholds=(0.1, 0.9),
        via="kind",
        via_negated=True,
    )


def test_a_sql_function_keeps_its_text_and_is_stable() -> None:
    spec = declared("CREATE FUNCTION f(a TEXT) RETURNS TEXT AS SQL (SELECT  upper(a) -- loud\n FROM t)")
    assert (spec.body, spec.text, spec.template, spec.volatility) == (
        "sql",
        "SELECT  upper(a) -- loud\n FROM t",
        None,
        Volatility.STABLE,
    )


def test_a_shell_function_is_volatile() -> None:
    spec = declared("CREATE FUNCTION f(a TEXT) RETURNS TEXT AS SHELL 'grep {a} x'")
    assert (spec.body, spec.template, spec.volatility) == ("shell", Template(("grep ", 0, " x")), Volatility.VOLATILE)


def test_a_table_valued_function_has_columns() -> None:
    spec = declared("CREATE FUNCTION f(a TEXT) RETURNS TABLE(x BIGINT, \"y z\" VARCHAR[]) AS PROMPT '{a}'")
    assert spec.table == (Param("x", "BIGINT"), Param("y z", "VARCHAR[]"))
    assert spec.answer == AnswerType("typed", 'STRUCT("x" BIGINT, "y z" VARCHAR[])[]')


@pytest.mark.parametrize(
    ("declared_type", "kind"),
    [
        ("BOOLEAN", "bool"), ("bool", "bool"), ("INTEGER", "bigint"), ("int", "bigint"), ("BIGINT", "bigint"), ("TINYINT", "bigint"),
        ("DOUBLE", "double"), ("FLOAT", "double"), ("REAL", "double"), ("VARCHAR", "text"), ("TEXT", "text"), ("VARCHAR(20)", "text"),
        ("JSON", "json"), ("DATE", "typed"), ("DECIMAL(10, 2)", "typed"), ("VARCHAR[]", "typed"), ("STRUCT(a INTEGER)", "typed"),
        ("HUGEINT", "typed"), ("UBIGINT", "typed"), ("INTEGER[3]", "typed"), ("ENUM('a', 'b')", "typed"), ("MAP(VARCHAR, INTEGER)", "typed"),
    ],
)  # fmt: skip
def test_the_answer_type_follows_the_declared_type(declared_type: str, kind: str) -> None:
    assert answer_type(declared_type) == AnswerType(kind, declared_type)
    assert declared(f"CREATE FUNCTION f() RETURNS {declared_type} AS PROMPT 'x'").answer == AnswerType(
        kind, declared_type
    )


PROMPT = "CREATE FUNCTION f(a TEXT) RETURNS TEXT AS PROMPT '{a}'"


@pytest.mark.parametrize(
    ("sql", "message", "hint", "marked"),
    [
        ("CREATE FUNCTION f(x TEXT) RETURNS BOOLEAN AS PROMPT 'is this positive?'", "the argument x is not used", "Put {x} where its value belongs, or drop the argument.", "'is this positive?'"),
        ("CREATE FUNCTION f(text TEXT) RETURNS BOOLEAN AS PROMPT '{texst}'", "{texst} is no argument of the function", "Did you mean {text}?", "'{texst}'"),
        ("CREATE FUNCTION f(x TEXT) RETURNS BOOLEAN AS PROMPT '{x} {answer}'", "{answer} is no argument of the function", "Write {{answer}} for the text {answer}.", "'{x} {answer}'"),
        ("CREATE FUNCTION f(a TEXT, A TEXT) RETURNS TEXT AS PROMPT '{a}'", "the argument A is declared twice", None, "A TEXT"),
        ("CREATE FUNCTION f(a TEXT) RETURNS TABLE(x INT, X INT) AS PROMPT '{a}'", "the column X is declared twice", None, "X INT"),
        ("CREATE FUNCTION f(a TEXT) RETURNS TEXT AS PROMPT ' '", "the prompt is empty", None, "' '"),
        (PROMPT + " BATCH 0", "BATCH must be a whole number of at least 1, not 0", None, "0"),
        (PROMPT + " BATCH 1.5", "BATCH must be a whole number of at least 1, not 1.5", None, "1.5"),
        ("CREATE FUNCTION f(a TEXT) RETURNS TEXT AS SHELL '{a}' BATCH 2", "BATCH is for PROMPT functions, not SHELL", None, "2"),
        (PROMPT + " EFFORT 'extreme'", "unknown effort extreme, expected one of low, medium, high, max", None, "'extreme'"),
        (PROMPT + " PROXY g", "PROXY needs RETURNS BOOLEAN, not TEXT", None, "g"),
        (PROMPT.replace("RETURNS TEXT", "RETURNS BOOLEAN") + " PROXY g THRESHOLDS (0.8, 0.2)", "THRESHOLDS must be 0 <= low <= high <= 1, not (0.8, 0.2)", None, "0.8"),
        (PROMPT.replace("RETURNS TEXT", "RETURNS BOOLEAN") + " PROXY g THRESHOLDS (0, 1.1)", "THRESHOLDS must be 0 <= low <= high <= 1, not (0, 1.1)", None, "0"),
    ],
)  # fmt: skip
def test_a_declaration_without_meaning_is_refused_with_its_place(
    sql: str, message: str, hint: str | None, marked: str
) -> None:
    with pytest.raises(ParseError) as caught:
        declared(sql)
    error = caught.value
    assert error.message == message
    assert error.hint == hint or (hint is None and error.hint is not None and error.hint.startswith("CREATE FUNCTION"))
    assert error.span is not None
    assert (
        sql[error.span.start : error.span.end].startswith(marked.split(" ")[0])
        or sql[error.span.start : error.span.end] == marked
    )


def test_braces_that_name_nothing_are_text() -> None:
    assert template_of('{"a": {x}} {} { 1 } {{x}} }', ("x",)) == Template(('{"a": ', 0, "} {} { 1 } {x} }"))


def test_a_doubled_brace_is_literal_and_no_hole() -> None:
    with pytest.raises(ParseError, match="the argument x is not used"):
        template_of("{{x}}", ("x",))


@given(st.text(alphabet="ab{}x ", max_size=20))
def test_a_template_of_text_without_names_renders_to_the_text(text: str) -> None:
    doubled = text.replace("{", "{{").replace("}", "}}")
    assert template_of(doubled, ()).render(()) == text


def test_an_agent_declares_all_it_says() -> None:
    assert agent(
        "CREATE AGENT Reviewer MODEL 'root' EFFORT low TOOLS (files, grep) BUDGET (calls 20, tokens 1000, dollars 0.5, depth 1, wall 60, turns 8) PROMPT 'Look.'"
    ) == AgentSpec("Reviewer", "root", "low", ("files", "grep"), BudgetLimits(20, 1000, 0.5, 1, 60.0), 8, "Look.")


def test_an_agent_has_defaults() -> None:
    assert agent("CREATE AGENT r") == AgentSpec("r")
    assert agent("CREATE AGENT r TOOLS ()").tools == ()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("CREATE AGENT self", "the name self is taken"),
        ("CREATE AGENT Root PROMPT 'x'", "the name Root is taken"),
        ("CREATE AGENT r EFFORT 'much'", "unknown effort much, expected one of low, medium, high, max"),
        ("CREATE AGENT r BUDGET (calls -1)", "calls must be a whole number of at least 0, not -1"),
        ("CREATE AGENT r BUDGET (calls 1.5)", "calls must be a whole number of at least 0, not 1.5"),
        ("CREATE AGENT r BUDGET (dollars -0.1)", "dollars must be a number of at least 0, not -0.1"),
        ("CREATE AGENT r TURNS 0", "turns must be a whole number of at least 1, not 0"),
    ],
)
def test_an_agent_without_meaning_is_refused(sql: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        agent(sql)
    assert caught.value.message == message
    assert caught.value.hint
    assert caught.value.span is not None
