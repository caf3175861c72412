"""Runs the blocks of one page, in order, as its reader would: in one folder, one Python, one prompt."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import attrs

from kleene.__main__ import main, prompt
from kleene.cli.invocation import Invocation
from kleene.cli.parser import parse
from kleene.cli.terminal import Terminal
from kleene.repl.commands import run_command
from kleene.repl.shell import Shell, chunks
from tests.docs.blocks import PROMPT, Block, PageError
from tests.docs.screen import Screen

OPERATORS = set("|&;<>()")
# A busy machine must not change what is printed: EXPLAIN says when it stopped counting, and what a slow statement would keep.
UNHURRIED = ("SET measure_ms = 600000;", "SET materialise_ms = 600000;")
TYPED = re.compile(r"^kleene> (.*(?:\n     -> .*)*)\n?", re.MULTILINE)


@attrs.frozen
class Step:
    """What came of one thing that the reader did."""

    printed: str
    failed: bool = False


@attrs.define
class Page:
    """What the blocks so far have left behind. ``folder`` is the current one, empty at first."""

    folder: Path
    scope: dict[str, object] = attrs.field(factory=lambda: {"__name__": "page"})
    shell: Shell | None = None
    screen: Screen = attrs.field(factory=Screen)

    def run(self, block: Block) -> list[Step]:
        """Do what a block says. Raises ``PageError`` where it cannot be done at all."""
        if block.file is not None:
            path = self.folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
            return []
        if block.language in ("console", "bash"):
            return [self.command(typed) for typed in commands_of(block)]
        if block.language == "python":
            return [self.python(block)]
        if block.language == "sql":
            return [self.statements(block.text, block)]
        if block.is_transcript:
            return [self.statements(typed.replace("\n     -> ", "\n"), block) for typed in TYPED.findall(block.text)]
        check_syntax(block)
        return []

    # -- at the shell ------------------------------------------------------------------------------------------------------------------

    def command(self, typed: str) -> Step:
        """A command line: Kleene's own in this process, everything else by bash."""
        self.close_shell()
        argv = kleene_arguments(typed)
        if argv is None:
            return self.bash(typed)
        terminal = Terminal(Screen(""), self.screen, self.screen, environ={**os.environ, "TERM": "xterm"})
        if argv[:1] == ["repl"]:
            args = parse(argv)
            self.shell = Shell(Invocation(args, terminal, prompt), args.database, run_command)
            for setting in UNHURRIED:
                self.shell.feed(setting)
            self.screen.take()
            return Step("")
        with without_exit():
            code = main(argv, terminal=terminal)
        return Step(self.screen.take(), code != 0)

    def bash(self, typed: str) -> Step:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        done = subprocess.run(
            ["bash", "-c", typed],
            cwd=self.folder,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        return Step(done.stdout, done.returncode != 0)

    # -- at the prompt -----------------------------------------------------------------------------------------------------------------

    def statements(self, text: str, block: Block) -> Step:
        """What is typed at the prompt that the last `kleene repl` opened."""
        if self.shell is None:
            raise PageError(f"{block.where}: no prompt is open: `$ kleene repl` comes before")
        codes = [self.shell.feed(chunk) for chunk in chunks(text)]
        return Step(self.screen.take(), any(codes))

    def close_shell(self) -> None:
        if self.shell is not None:
            self.shell.close()
            self.shell = None

    # -- in Python ---------------------------------------------------------------------------------------------------------------------

    def python(self, block: Block) -> Step:
        self.close_shell()
        # As many lines above it as the page has: a traceback names the page's own line.
        code = compile("\n" * block.line + block.text, block.page, "exec")
        with contextlib.redirect_stdout(self.screen):
            exec(code, self.scope)
        return Step(self.screen.take())


def commands_of(block: Block) -> list[str]:
    """The command lines of a console or bash block; a backslash at the end of a line goes on in the next."""
    return [re.sub(r"\\\n", " ", typed) for typed, _ in shown(block)]


def shown(block: Block) -> list[tuple[str, str]]:
    """Each command of a block as it stands there, with what the page shows of its output."""
    if block.language == "bash":
        typed = re.findall(r"^((?:.*\\\n)*.*)$", block.text, re.MULTILINE)
        return [(line, "") for line in typed if line.strip() and not line.lstrip().startswith("#")]
    if block.is_transcript:
        at = [(m.start(), m.end(), m[1]) for m in TYPED.finditer(block.text)]
    elif block.language == "console":
        at = [(m.start(), m.end(), m[1]) for m in re.finditer(r"^\$ ((?:.*\\\n)*.*)\n?", block.text, re.MULTILINE)]
    else:
        return []
    if not at or at[0][0]:
        raise PageError(f"{block.where}: output before the first command")
    ends = [start for start, _, _ in at[1:]] + [len(block.text)]
    return [(typed, block.text[end:stop]) for (_, end, typed), stop in zip(at, ends, strict=True)]


def kleene_arguments(typed: str) -> list[str] | None:
    """The arguments where the line is one call of Kleene, None where it is anything else.

    >>> kleene_arguments("kleene sql 'SELECT 1'  # a remark"), kleene_arguments("kleene sql - | jq .")
    (['sql', 'SELECT 1'], None)

    Raises ``PageError`` where an interactive bash would make something else of the line: of ! (its history), $ and ` within double quotes.
    """
    if any(set("!$`") & set(quoted) for quoted in re.findall(r'"([^"]*)"', typed)):
        raise PageError(f"bash reads ! $ and ` within double quotes: {typed}")
    lexer = shlex.shlex(typed, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    if any(set(word) <= OPERATORS for word in words):
        return None
    for head in (["kleene"], ["python", "-m", "kleene"]):
        if words[: len(head)] == head:
            return words[len(head) :]
    return None


def check_syntax(block: Block) -> None:
    """What is not run is at least what it says. Raises whatever is wrong with it."""
    if block.language == "text" and re.match(r"(\$ |python |kleene |pip )", block.text):
        raise PageError(f"{block.where}: a command is no picture: `bash` or `console`")
    if block.reason == "a pattern":  # with holes to be filled, in no language
        return
    if block.language == "json":
        json.loads(block.text)
    elif block.language == "toml":
        tomllib.loads(block.text)
    elif block.language == "python":
        compile(block.text, block.page, "exec")
    elif block.language == "sql":
        from kleene.planner.statements import parse as parse_sql

        for statement in parse_sql(block.text):
            if statement.unreadable is not None:
                raise statement.unreadable
    elif block.language in ("console", "bash"):
        for typed in commands_of(block):
            argv = kleene_arguments(typed)
            if argv is not None and "--help" not in argv:
                parse(argv)


@contextlib.contextmanager
def without_exit() -> Iterator[None]:
    """argparse leaves the process after --help and for a wrong option: here that is an error of the page."""
    try:
        yield
    except SystemExit as error:
        if error.code:
            raise PageError(f"the arguments are not Kleene's: {error}") from error


__all__ = ["PROMPT", "Page", "Step", "check_syntax", "shown"]
