from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kleene.cli.parser import COMMANDS, build_parser, parse, started_as

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_what_the_help_says() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/gen_cli_docs.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", COMMANDS, ids=[c.name for c in COMMANDS])
def test_every_command_has_one_line_of_help_and_examples_that_parse(command) -> None:
    import shlex

    assert command.summary and "\n" not in command.summary
    lines = [line for line in command.examples.splitlines() if line and not line.startswith("#")]
    assert lines
    for line in lines:
        argv = shlex.split(line.partition(" | ")[2] or line if line.startswith("echo") else line)
        assert argv[:3] == ["python", "-m", "kleene"]
        assert build_parser().parse_args(argv[3:]).command == command.name


def test_help_names_every_command() -> None:
    text = build_parser().format_help()
    for command in COMMANDS:
        assert f"    {command.name} " in text and command.summary in text


@pytest.mark.parametrize(
    ("started", "other"), [("/usr/bin/kleene", "python -m kleene"), ("/kleene/__main__.py", "  kleene ")]
)
def test_help_calls_the_program_what_the_user_typed(
    started: str, other: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", [started])
    for argv in (["--help"], ["sql", "--help"]):
        with pytest.raises(SystemExit):
            parse(argv)
        shown = capsys.readouterr().out
        assert other not in shown and shown.startswith(f"usage: {started_as()} ")


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["sqll", "SELECT 1"], "did you mean sql?"),
        (["SELECT 1"], 'python -m kleene sql "..." runs statements'),
        (["sql", "SELECT 1", "--formt", "csv"], "did you mean --format?"),
        (["sql", "SELECT 1", "--databse", "x"], "did you mean --database?"),
        (["sql", "SELECT 1", "--format", "cvs"], "did you mean csv?"),
        (["sql", "SELECT 1", "--format", "a b"], "python -m kleene sql --help"),
        (["sql"], "python -m kleene sql --help"),
        (["sql", "SELECT", "1"], "python -m kleene --help"),
    ],
)
def test_a_wrong_command_line_is_answered_with_what_is_near(
    argv: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(argv)
    assert caught.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"hint: {hint}"
