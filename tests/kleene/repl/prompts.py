"""A shell on streams of its own, and a prompt whose keys are typed in advance."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from kleene.__main__ import prompt
from kleene.cli.invocation import Invocation
from kleene.cli.parser import parse
from kleene.cli.terminal import Terminal
from kleene.repl.commands import run_command
from kleene.repl.loop import interactive
from kleene.repl.shell import Shell
from tests.kleene.cli.doubles import Engine, Stream

ENTER, CTRL_C, CTRL_D, TAB, UP = "\r", "\x03", "\x04", "\t", "\x1b[A"


@attrs.frozen
class Typed:
    shell: Shell
    out: str
    err: str


@contextmanager
def shell_on(
    folder: Path, *argv: str, engine: Engine | None = None, model: object = None, stdin: str = "", tty: bool = True
) -> Iterator[Shell]:
    """A shell with a store in memory. ``engine`` is a double of the real one; ``model`` answers its calls."""
    terminal = Terminal(
        Stream(stdin, tty=tty),
        Stream(tty=tty),
        Stream(tty=tty),
        environ={
            **{name: os.environ[name] for name in ("KLEENE_CONFIG_DIR", "EDITOR") if name in os.environ},
            "TERM": "dumb",
            "NO_COLOR": "1",
        },
    )
    args = parse(["repl", "--store", ":memory:", "--workspace", str(folder), *argv])
    inv = Invocation(args, terminal, prompt, None if engine is None else engine.connect)
    if model is not None:
        inv._models.append(model)
    shell = Shell(inv, args.database, run_command)
    try:
        yield shell
    finally:
        shell.close()


def said(shell: Shell) -> tuple[str, str]:
    """What was printed since the last look: rows, and notes."""
    texts = []
    for stream in (shell.inv.terminal.out, shell.inv.terminal.err):
        assert isinstance(stream, Stream)
        texts.append(stream.getvalue())
        stream.seek(0)
        stream.truncate()
    return texts[0], texts[1]


def typed(keys: str, folder: Path, *argv: str, **more: Any) -> Typed:
    """Everything that a person types from the first prompt to the last."""
    with shell_on(folder, *argv, **more) as shell, create_pipe_input() as pipe:
        pipe.send_text(keys)
        interactive(shell, input=pipe, output=DummyOutput())
        return Typed(shell, *said(shell))
