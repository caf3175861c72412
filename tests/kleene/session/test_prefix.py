from __future__ import annotations

from pathlib import Path

import pytest

from kleene.planner.roles import ROLES, SESSION_FUNCTIONS
from kleene.planner.specs import BudgetLimits
from kleene.session.prefix import (
    Standing,
    TableNote,
    budget_line,
    catalog_text,
    context_note,
    system_prefix,
    task_message,
)
from kleene.session.world import AgentView, CatalogView, ColumnView, FunctionView, TableView

CTX = TableView("ctx", (ColumnView("ordinal", "BIGINT"), ColumnView("text", "VARCHAR")), 1200)
MODEL_CALLS = (
    FunctionView("llm(prompt TEXT [, model VARCHAR, effort VARCHAR]) -> TEXT", "the reply's text"),
    FunctionView(
        "llm_bool(prompt TEXT [, model VARCHAR, effort VARCHAR]) -> BOOLEAN", "the answer to a yes/no question"
    ),
    FunctionView(
        "llm_json(prompt TEXT, schema TEXT [, model VARCHAR, effort VARCHAR]) -> JSON",
        "a value that fits the JSON schema",
    ),
    FunctionView("llm_score(prompt TEXT [, model VARCHAR, effort VARCHAR]) -> DOUBLE", "a number from 0 to 1"),
    FunctionView(
        "llm_agg(instruction TEXT, text TEXT [, model VARCHAR, effort VARCHAR]) -> TEXT", "one text over a group's rows"
    ),
    FunctionView("expand(prompt TEXT, n BIGINT) -> TABLE(item TEXT)", "at most n items, one a row"),
)
SESSIONS = tuple(FunctionView(f.signature(), f.description) for f in SESSION_FUNCTIONS)
AGENTS = tuple(AgentView(a.name, a.description) for a in ROLES)
STANDARD = CatalogView(tables=(CTX,), model_calls=MODEL_CALLS, sessions=SESSIONS, agents=AGENTS)
EXPECTED = Path(__file__).parents[2] / "fixtures" / "session" / "prefix.txt"


def test_the_standard_prefix_is_this_text(update_fixtures: bool) -> None:
    text = system_prefix(STANDARD, BudgetLimits(calls=200, dollars=1.0)) + "\n"
    if update_fixtures:
        EXPECTED.write_text(text)
    assert text == EXPECTED.read_text()


def test_the_standard_prefix_is_under_two_thousand_tokens() -> None:
    assert len(system_prefix(STANDARD, BudgetLimits())) / 4 < 2_000


def test_equal_arguments_give_the_same_prefix_whatever_the_order_of_tables() -> None:
    mails = TableView("mails", (ColumnView("id", "BIGINT"),))
    one = CatalogView(tables=(mails, CTX), model_calls=MODEL_CALLS)
    other = CatalogView(tables=(CTX, mails), model_calls=MODEL_CALLS)
    assert system_prefix(one, BudgetLimits()) == system_prefix(other, BudgetLimits())


def test_paragraphs_about_what_is_not_there_are_left_out() -> None:
    text = system_prefix(CatalogView(), BudgetLimits())
    for word in ("expand", "llm_agg", "CALL ", "read tool", "Model calls", "Agents", "child session"):
        assert word not in text
    assert "Tables: none yet." in text


def test_tools_and_agents_are_told_of_where_there_are_some() -> None:
    catalog = CatalogView(
        read_tools=(
            FunctionView(
                "grep(pattern TEXT [, glob TEXT]) -> TABLE(path TEXT, lineno BIGINT, text TEXT)", "lines that match"
            ),
        ),
        effect_tools=(FunctionView("write_file(path TEXT, text TEXT) -> TABLE(path TEXT, bytes BIGINT)"),),
        declared=(FunctionView("is_refund(body TEXT) -> BOOLEAN", "Does this mail ask for a refund? {body}"),),
        agents=(AgentView("reviewer", "reads code"),),
    )
    text = system_prefix(catalog, BudgetLimits())
    assert "- A read tool is a table function, free, used once a distinct argument: SELECT * FROM grep(...)." in text
    assert (
        "- A tool with effects runs once a row, only as a statement of its own: CALL write_file(...) [FROM query], or CREATE TABLE t AS CALL ... to keep its rows."
        in text
    )
    assert catalog_text(catalog) == (
        "Tables: none yet.\n"
        "Read tools (in FROM):\n"
        "- grep(pattern TEXT [, glob TEXT]) -> TABLE(path TEXT, lineno BIGINT, text TEXT): lines that match\n"
        "Tools with effects (CALL):\n"
        "- write_file(path TEXT, text TEXT) -> TABLE(path TEXT, bytes BIGINT)\n"
        "Declared functions:\n"
        "- is_refund(body TEXT) -> BOOLEAN: Does this mail ask for a refund? {body}\n"
        "Agents:\n"
        "- reviewer: reads code"
    )


def test_a_child_is_told_its_depth_and_role() -> None:
    text = system_prefix(STANDARD, BudgetLimits(), Standing(12, 1, 2, "Review code.\n"))
    assert "You have 12 turns.\n" in text
    assert "\nYou are a child session at depth 1 of 2: your FINAL goes to the session that asked.\n" in text
    assert text.endswith("\n\nReview code.")


def test_very_many_tables_are_listed_by_name() -> None:
    many = tuple(
        TableView(f"t{i:03}", tuple(ColumnView(f"column_{j}", "VARCHAR") for j in range(20)), i) for i in range(100)
    )
    text = catalog_text(CatalogView(tables=many))
    assert len(text) < 10_000
    assert "\n- and 85 more tables (DESCRIBE shows columns): t015, t016, " in text


@pytest.mark.parametrize(
    ("budget", "line"),
    [
        (BudgetLimits(calls=1), "Budget: 1 call. Each of your turns is a call too."),
        (
            BudgetLimits(tokens=100_000, dollars=0.25, wall=90.0),
            "Budget: 100,000 tokens, $0.25, 90 seconds. Each of your turns is a call too.",
        ),
        (BudgetLimits(), "Budget: no limit; be economical anyway."),
    ],
)
def test_the_budget_line_names_each_limit(budget: BudgetLimits, line: str) -> None:
    assert budget_line(budget) == line


def test_the_first_message_has_task_data_check_and_the_ask() -> None:
    assert task_message(" Which project? ", "Loaded:\n- ctx: 3 rows.", check="pytest -q") == (
        "Task: Which project?\n\nLoaded:\n- ctx: 3 rows.\n\nFINAL is accepted only if this check passes: pytest -q\n\nReply with SQL."
    )
    assert task_message("Add.") == "Task: Add.\n\nReply with SQL."


def test_the_context_note_gives_rows_characters_and_tokens() -> None:
    tables = [
        TableNote("ctx", 12_345, 3_200_001, "notes.txt"),
        TableNote("mails", 1, source="mails.csv"),
        TableNote("empty", 0, 0),
    ]
    assert context_note(tables, ["3 bytes of notes.txt are not UTF-8"]) == (
        "Loaded:\n"
        "- ctx: 12,345 rows, 3,200,001 characters, about 800,001 tokens, from notes.txt. One row a paragraph, in order; too long to read whole.\n"
        "- mails: 1 row, from mails.csv.\n"
        "- empty: 0 rows, 0 characters, about 0 tokens.\n"
        "- note: 3 bytes of notes.txt are not UTF-8"
    )
    assert context_note([TableNote("ctx", 90, 12_001)]).endswith(
        "in order; 4 slices of 4,000 characters, several a turn, show it whole."
    )
    assert context_note([TableNote("ctx", 3, 100)]).endswith(
        "One row a paragraph, in order; short enough to read whole."
    )
    assert context_note([]) == ""
