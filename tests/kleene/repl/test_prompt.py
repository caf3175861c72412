"""The prompt with keys that were typed in advance: what they make of the text, and what is run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from kleene.repl.commands import words
from kleene.repl.history import KeptHistory
from kleene.repl.lexer import CallSQLLexer, coloured
from kleene.repl.names import Names
from kleene.repl.prompt import NameCompleter, Prompt
from tests.kleene.cli.doubles import Engine
from tests.kleene.repl.prompts import CTRL_C, CTRL_D, ENTER, TAB, UP, typed

NEW_LINE = "\x1b\r"


def read(keys: str, *, then: str = "", names: Names | None = None, default: str = "", path: Path | None = None) -> str:
    """What one prompt reads. ``then`` is typed when the menu is open, which shows by itself, some time after a key."""
    with create_pipe_input() as pipe:
        prompt = Prompt(
            history=KeptHistory(path),
            names=lambda: names or Names(),
            commands=words(),
            input=pipe,
            output=DummyOutput(),
        )
        typed_then = []

        def look(app: object) -> None:
            if then and not typed_then and prompt.session.default_buffer.complete_state is not None:
                typed_then.append(then)
                pipe.send_text(then)

        prompt.session.app.after_render += look
        pipe.send_text(keys)
        return prompt.read(default)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ("SELECT 1;" + ENTER, "SELECT 1;"),
        ("SELECT 1" + ENTER + "+ 1;" + ENTER, "SELECT 1\n+ 1;"),
        ("SELECT ';" + ENTER + "';" + ENTER, "SELECT ';\n';"),
        ("SELECT 1;" + NEW_LINE + "SELECT 2;" + ENTER, "SELECT 1;\nSELECT 2;"),
        ("\\d" + ENTER, "\\d"),
        (ENTER, ""),
        ("\x1b[200~SELECT 1;\nSELECT 2;\n\x1b[201~" + ENTER, "SELECT 1;\nSELECT 2;\n"),
        ("\x1b[200~SELECT 1;\r\nSELECT 2;\x1b[201~" + ENTER, "SELECT 1;\nSELECT 2;"),
        ("SELECT 1" + ENTER + TAB + "+ 1;" + ENTER, "SELECT 1\n    + 1;"),
    ],
    ids=[
        "one line",
        "two lines",
        "in a string",
        "alt-enter",
        "command",
        "empty",
        "paste",
        "paste of Windows",
        "indent",
    ],
)
def test_enter(keys: str, text: str) -> None:
    assert read(keys) == text


def test_tab_completes() -> None:
    names = Names(tables={"mails": ("body",)})
    assert read("SELECT * FROM mai", then=TAB + ";" + ENTER, names=names) == "SELECT * FROM mails;"
    assert read("\\tim", then=TAB + " on" + ENTER) == "\\timing on"


def test_enter_takes_a_chosen_completion_and_the_next_one_runs() -> None:
    names = Names(tables={"mails_of_may": (), "mails_of_june": ()})
    assert read("FROM mails", then=TAB + TAB + ENTER + ";" + ENTER, names=names) == "FROM mails_of_june;"


def test_ctrl_d_leaves_and_ctrl_c_clears() -> None:
    with pytest.raises(EOFError):
        read(CTRL_D)
    with pytest.raises(KeyboardInterrupt):
        read("SELECT 1" + CTRL_C)


def test_a_draft_is_there_to_be_changed() -> None:
    assert read("\x05 + 1;" + ENTER, default="SELECT 1") == "SELECT 1 + 1;"


def test_up_brings_what_was_typed_before(tmp_path: Path) -> None:
    path = tmp_path / "history"
    assert read("SELECT 1" + ENTER + ";" + ENTER, path=path) == "SELECT 1\n;"
    assert read(UP + ENTER, path=path) == "SELECT 1\n;"


def test_a_session_of_several_inputs(tmp_path: Path) -> None:
    engine = Engine()
    keys = "SELECT 1;" + ENTER + "SELECT 2" + CTRL_C + "SELECT 'x'::INTEGER;" + ENTER + "SELECT 3;" + ENTER + CTRL_D
    done = typed(keys, tmp_path, engine=engine)
    assert engine.asked == ["SELECT 1", "SELECT 'x'::INTEGER", "SELECT 3"]
    assert engine.closed
    assert "│ 3 │" in done.out and "Could not convert" in done.err
    assert (Path(os.environ["KLEENE_CONFIG_DIR"]) / "history").stat().st_mode & 0o777 == 0o600


def test_quit_leaves(tmp_path: Path) -> None:
    engine = Engine()
    typed("\\q" + ENTER + "SELECT 1;" + ENTER, tmp_path, engine=engine)
    assert engine.asked == [] and engine.closed


def test_the_editors_text_is_looked_at_before_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "ed.sh"
    editor.write_text("#!/bin/sh\necho ' + 41' >> \"$1\"\n")
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.delenv("VISUAL", raising=False)
    engine = Engine()
    done = typed("SELECT 1;" + ENTER + "\\e" + ENTER + ENTER + CTRL_D, tmp_path, engine=engine)
    assert engine.asked == ["SELECT 1", "SELECT 1\n + 41"], done.err
    assert "│       42 │" in done.out


def test_an_editor_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    for editor, said in (("false", "error: false ended with exit code 1"), ("/no/such/editor", "cannot be started")):
        monkeypatch.setenv("EDITOR", editor)
        assert said in typed("\\e" + ENTER + CTRL_D, tmp_path, engine=Engine()).err


def test_colours_cover_the_text_and_change_nothing() -> None:
    text = "SELECT llm('a') AS x, 1.5 -- why\nFROM \"T\" /* and\nmore */;\n\\d"
    lines = ["".join(fragment[1] for fragment in line) for line in coloured(text)]
    assert "\n".join(lines) == text
    styles = {fragment[1]: fragment[0] for line in coloured(text) for fragment in line}
    assert (styles["SELECT"], styles["llm"], styles["'a'"], styles["1.5"]) == (
        "class:keyword",
        "class:call",
        "class:string",
        "class:number",
    )
    lexed = CallSQLLexer().lex_document(Document(text))
    assert lexed(1)[0] == ("class:keyword", "FROM") and lexed(99) == []


def test_completions_say_what_they_are() -> None:
    names = Names(tables={"mails": ("body",)})
    [found] = NameCompleter(lambda: names, ()).get_completions(Document("FROM mai"), CompleteEvent())
    assert (found.text, found.start_position, found.display_meta_text) == ("mails", -3, "table")


def test_an_engine_that_cannot_be_opened_ends_the_prompt(tmp_path: Path) -> None:
    from kleene.planner.errors import StoreLocked

    class Locked(Engine):
        def connect(self, path: str, **options: object) -> Engine:
            raise StoreLocked("the store is locked", hint="wait")

    with pytest.raises(StoreLocked):
        typed("SELECT 1", tmp_path, engine=Locked())
