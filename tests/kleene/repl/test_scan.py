from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kleene.repl.complete import is_command, is_complete
from kleene.repl.scan import scan

PARTS = [
    "'",
    '"',
    ";",
    "--",
    "/*",
    "*/",
    "$$",
    "$a$",
    "E'",
    "\\",
    "\n",
    " ",
    "a",
    "1.5e3",
    "é",
    "日",
    "(",
    ":=",
    "select",
]


@given(st.lists(st.sampled_from(PARTS)).map("".join) | st.text())
def test_the_pieces_put_together_are_the_text(text: str) -> None:
    pieces = scan(text)
    assert "".join(p.text for p in pieces) == text
    assert [p.start for p in pieces] == [sum(len(q.text) for q in pieces[:i]) for i in range(len(pieces))]
    assert all(p.text for p in pieces)
    assert not any(p.open for p in pieces[:-1])


@given(st.lists(st.sampled_from(PARTS)).map("".join))
def test_what_the_parser_reads_as_whole_is_not_open(text: str) -> None:
    from kleene.planner.dialect import CallSQL

    _, whole = CallSQL().scan(text)
    if whole and "E'" not in text and "$" not in text:
        assert not any(p.open and p.kind in ("string", "name") for p in scan(text)), text


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("  \n", True),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1;  -- that was it", True),
        ("SELECT 1; SELECT 2", False),
        ("SELECT 1; SELECT 2;", True),
        ("SELECT ';", False),
        ("SELECT 'it''s;", False),
        ("SELECT E'it\\'s;", False),
        ("SELECT E'it\\'s';", True),
        ('SELECT "a;', False),
        ("SELECT $$ ; ", False),
        ("SELECT $$ ; $$;", True),
        ("SELECT $a$ $$; $a$;", True),
        ("/* one /* two */ ;", False),
        ("/* one /* two */ */ ;", True),
        ("-- only a comment;", False),
        ("\\d", True),
        ("/run What is this; and that?", True),
        ("/* not a command */", False),
        ("exit", True),
        ("Help;", True),
        ("exit now", False),
    ],
)
def test_enter_runs_what_is_complete(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_a_division_is_no_command() -> None:
    assert not is_command("SELECT 4\n/2;")


def test_a_long_text_is_read_in_no_time_that_matters() -> None:
    text = "SELECT '" + "it''s " * 50_000 + "';"
    assert is_complete(text)
    assert not is_complete(text[:-2])
