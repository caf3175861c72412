"""The prompt's life: read, run, read again; and scripts on stdin."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from kleene.cli.exits import Exit, exit_of
from kleene.cli.invocation import Invocation
from kleene.repl.commands import run_command, words
from kleene.repl.shell import Shell, chunks
from kleene.version import VERSION

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output


def run(inv: Invocation, database: str) -> int:
    """The prompt on a terminal; elsewhere what stdin says, until its first error."""
    shell = Shell(inv, database, run_command)
    with interrupts():
        try:
            if inv.terminal.is_interactive:
                return interactive(shell)
            return script(shell, inv.terminal.stdin.read())
        finally:
            shell.close()


def script(shell: Shell, text: str) -> Exit:
    for chunk in chunks(text):
        code = shell.feed(chunk)
        if code is not Exit.DONE or shell.done:
            return code
    return Exit.DONE


def interactive(shell: Shell, *, input: Input | None = None, output: Output | None = None) -> Exit:
    """Read and run until the person leaves. ``input`` and ``output`` stand in for the terminal in tests."""
    from kleene.config import config_dir
    from kleene.repl.history import NAME, KeptHistory
    from kleene.repl.prompt import Prompt

    terminal = shell.inv.terminal
    history = KeptHistory(config_dir(terminal.environ) / NAME)
    prompt = Prompt(
        history=history,
        names=lambda: shell.names,
        commands=words(),
        toolbar=lambda: toolbar(shell),
        color=terminal.color,
        on_shown=shell.worker.start,
        input=input,
        output=output,
    )
    shell.on_opened = lambda error: prompt.redraw() if error is None else prompt.interrupt(error)
    terminal.say(f"Kleene {VERSION}, SQL for model calls. \\? helps, Ctrl-D ends.")
    said = None
    while not shell.done:
        default, shell.draft = shell.draft, ""
        try:
            code = shell.feed(prompt.read(default))
            if shell.worker.failure is not None:
                return code  # it was said
        except KeyboardInterrupt:
            continue
        except EOFError:
            break
        if history.problem and history.problem != said:
            said = history.problem
            terminal.say(f"note: {said}")
    return Exit.DONE


def toolbar(shell: Shell) -> str:
    """Below the prompt: which database, and what was spent of which budget."""
    name = "in memory" if shell.database == ":memory:" else shell.database
    engine = shell.worker.engine
    if engine is None:
        return f"{name} · opening"
    ledger = getattr(engine, "ledger", None)
    parts = [name]
    if ledger is not None:
        used, limits = ledger.used, ledger.limits
        if limits.dollars is not None:
            parts.append(f"${used.dollars:.4f} of ${limits.dollars:.2f} spent")
        elif used.dollars:
            parts.append(f"${used.dollars:.4f} spent")
        if limits.calls is not None:
            parts.append(f"{used.requests:,} of {limits.calls:,} calls")
        elif used.requests:
            parts.append(f"{used.requests:,} call{'' if used.requests == 1 else 's'}")
    if shell.output.path is not None:
        parts.append(f"rows to {shell.output.path}")
    return " · ".join(parts)


@contextmanager
def interrupts() -> Iterator[None]:
    """Within the block every Ctrl-C is a ``KeyboardInterrupt`` (the second one does not end the program), SIGTERM and a terminal that goes
    away end it in order."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(int(exit_of(KeyboardInterrupt())))

    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: leave, signal.SIGHUP: leave}
    before = {number: signal.getsignal(number) for number in handlers}
    changed = {number: old for number, old in before.items() if old is not signal.SIG_IGN}
    for number in changed:
        signal.signal(number, handlers[number])
    try:
        yield
    finally:
        for number, old in changed.items():
            signal.signal(number, old)
