"""The scripts complete what the parser takes. bash runs them; zsh and fish at least read them, where they are installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kleene.cli.completing import commands_of, options_of
from kleene.cli.parser import COMMANDS, build_parser
from tests.kleene.cli.doubles import invoke

BASH = shutil.which("bash")


def script(shell: str) -> str:
    done = invoke("completion", shell)
    assert (done.code, done.err) == (0, "")
    return done.out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "complete.bash").write_text(script("bash"), encoding="utf-8")
    (tmp_path / "report.sql").touch()
    return tmp_path


def completed(folder: Path, *words: str) -> list[str]:
    """What bash offers for the last of the words."""
    assert BASH is not None
    given = " ".join(f'"{w}"' for w in ("kleene", *words))
    code = f'source ./complete.bash; COMP_WORDS=({given}); COMP_CWORD={len(words)}; _kleene; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        [BASH, "--norc", "-c", code], cwd=folder, capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stderr == ""
    return [line for line in done.stdout.split("\n") if line]


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["re"], ["resume", "repl", "report"]),
        (["sql", "--dat"], ["--database"]),
        (["sql", "--format", ""], ["table", "json", "jsonl", "csv", "markdown"]),
        (["--format", "j"], ["json", "jsonl"]),
        (["--budget-calls", ""], []),
        (["sql", "--database", "re"], ["report.sql"]),
        (["memo", ""], ["stats", "prune", "trust"]),
        (["--model", "local", "sql", "rep"], ["report.sql"]),
        (["explain", "--plan", "s"], ["sql"]),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else None,
)
def test_bash_completes(words: list[str], expected: list[str], folder: Path) -> None:
    found = completed(folder, *words)
    if words == ["memo", ""]:
        found = [w for w in found if w in expected]
    assert found == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_option_is_there(shell: str) -> None:
    text = script(shell)
    parser = build_parser()
    assert {c.name for c in commands_of(parser)} == {c.name for c in COMMANDS}
    for command in commands_of(parser):
        assert command.name in text
        for option in (*command.options, *options_of(parser)):
            for name in option.names:
                assert (name if shell != "fish" else name.lstrip("-")) in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_can_read_it(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "script"
    path.write_text(script(shell), encoding="utf-8")
    done = subprocess.run([program, "-n", str(path)], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")
