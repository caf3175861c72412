from __future__ import annotations

from pathlib import Path

import pytest

from kleene.repl.commands import words
from kleene.repl.names import Names
from kleene.repl.suggest import suggest

NAMES = Names(
    tables={
        "mails": ("id", "body", "day"),
        "people": ("id", "name"),
        "Order lines": ("amount",),
        "archive.mails": ("old_body",),
        "trace_calls": (),
    },
    calls={
        "llm": "llm(prompt VARCHAR) -> VARCHAR",
        "llm_bool": "llm_bool(prompt VARCHAR) -> BOOLEAN",
        "is_rude": "is_rude(t TEXT) -> BOOLEAN",
    },
    table_calls=("expand", "spawn"),
    declared=("is_rude",),
    functions=("length", "lower", "list_sum"),
    table_functions=("read_csv", "range"),
    agents=("critic", "reviewer"),
    settings={
        "budget.calls": (),
        "budget.dollars": (),
        "effort": ("low", "high"),
        "memo": ("on", "off"),
        "threads": (),
        "rules.guard": ("on", "off"),
    },
    aliases=("root", "worker"),
)


def texts(before: str, after: str = "", *, asked: bool = False) -> list[str]:
    return [s.text for s in suggest(before, after, NAMES, words(), asked=asked)]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("SELECT * FROM ma", ["mails", "archive.mails"]),
        ("SELECT * FROM mails m JOIN pe", ["people"]),
        ("FROM mails, peo", ["people"]),
        ("FROM ord", ['"Order lines"']),
        ('FROM "Ord', ['"Order lines"']),
        ("FROM archive.", ["mails"]),
        ("INSERT INTO pe", ["people"]),
        ("SUMMARIZE peo", ["people"]),
        ("FROM exp", ["expand("]),
        ("FROM read_c", ["read_csv("]),
        ("SET bud", ["budget.calls", "budget.dollars"]),
        ("SET budget.d", ["budget.dollars"]),
        ("RESET thr", ["threads"]),
        ("SET memo = ", ["on", "off"]),
        ("SET effort = 'h", ["high"]),
        ("SET effort TO ", ["'low'", "'high'"]),
        ("SET rules.guard = o", ["on", "off"]),
        ("SELECT * FROM spawn('", ["critic", "reviewer"]),
        ("SELECT llm('x', model := 'wo", ["worker"]),
        ("DROP AGENT cr", ["critic"]),
        ("DROP FUNCTION ", ["is_rude"]),
        ("SELECT '", []),
        ("-- FROM ma", []),
        ("/* FROM ma", []),
        ("SELECT 12", []),
        ("SELECT 1; FROM peo", ["people"]),
    ],
)
def test_what_may_stand_there(before: str, expected: list[str]) -> None:
    assert texts(before) == expected


def test_columns_of_the_tables_of_the_statement_come_first() -> None:
    assert texts("SELECT bo", " FROM mails WHERE id = 1")[0] == "body"
    assert texts("SELECT * FROM people WHERE na")[0] == "name"
    assert "old_body" not in texts("SELECT bod", " FROM mails")


def test_columns_behind_a_dot_are_those_of_the_alias() -> None:
    assert texts("SELECT m.", " FROM mails m, people p") == ["id", "body", "day"]
    assert texts("SELECT p.n", " FROM mails m JOIN people AS p USING (id)") == ["name"]
    assert texts("SELECT people.", " FROM people") == ["id", "name"]
    assert texts("SELECT * FROM mails AS m WHERE m.") == ["id", "body", "day"]
    assert texts("SELECT m.", " FROM mails m; SELECT * FROM people m") == ["id", "body", "day"]


def test_a_with_query_is_a_table() -> None:
    assert texts("WITH recent AS (SELECT 1), other AS (SELECT 2) SELECT * FROM rec") == ["recent"]


def test_calls_come_before_other_functions() -> None:
    found = texts("SELECT l")
    assert found.index("llm(") < found.index("length(")
    assert texts("SELECT is_r") == ["is_rude("]


def test_nothing_pops_up_before_a_letter_unless_asked_for() -> None:
    assert texts("SELECT ") == []
    assert "llm(" in texts("SELECT ", asked=True)


def test_commands_and_what_they_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "report.sql").write_text("")
    (tmp_path / "notes").mkdir()
    monkeypatch.chdir(tmp_path)
    assert texts("\\pl") == ["plan"]
    assert texts("/ru") == ["run", "runs"]
    assert texts("\\d ma") == ["mails", "archive.mails"]
    assert texts("\\timing o") == ["on", "off"]
    assert texts("\\i re") == ["report.sql"]
    assert texts("\\o ") == ["notes/", "report.sql"]
    assert texts("\\plan SELECT * FROM peo") == ["people"]
    assert texts("\\nothing x") == []


def test_files_after_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mails.csv").write_text("")
    (tmp_path / ".hidden").write_text("")
    monkeypatch.chdir(tmp_path)
    assert texts("SELECT * FROM 'ma") == ["mails.csv"]
    assert texts("SELECT * FROM read_csv('") == ["mails.csv"]
    assert texts(f"FROM '{tmp_path}/m") == ["mails.csv"]
    assert texts("FROM 'no/such/folder/") == []


@pytest.mark.parametrize(
    "text",
    [
        "FROM mails m WHERE m.",
        "SET budget.calls = ",
        'SELECT "',
        "WITH a AS (",
        "\\d ",
        "FROM a.b.c.",
        "spawn('x', '",
        ".",
    ],
)
def test_every_beginning_of_a_text_can_be_asked(text: str) -> None:
    for end in range(len(text) + 1):
        for suggestion in suggest(text[:end], text[end:], NAMES, words(), asked=True):
            assert suggestion.length <= end
