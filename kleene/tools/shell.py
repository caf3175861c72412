"""``CALL shell(cmd [, cwd, timeout_ms])``: a command of ``sh`` in the sandbox, and how SHELL functions quote their arguments."""

from __future__ import annotations

import re
import shlex
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import attrs

from kleene.planner.errors import ToolError
from kleene.tools.base import Row, Work
from kleene.tools.effects import shortened
from kleene.tools.processes import Finished
from kleene.tools.sandbox import Outcome, Request, Sandbox, run_confined
from kleene.tools.settings import MAX_SHELL_MS, ToolSettings

TIMEOUT_MS = 30_000
MAX_COMMAND_BYTES = (128 << 10) - 1
"""Linux's MAX_ARG_STRLEN, with its end."""
UNCONFINED = "[kleene: ran without a sandbox, --unsafe-shell]"


def run(settings: ToolSettings, work: Work, arguments: tuple[Any, ...]) -> Iterable[Row]:
    """``CALL shell``. ``exit_code`` is -1 where a signal ended the command, and the last line of ``stderr`` then says which."""
    return run_in(sandbox_of(settings), work, arguments)


def run_in(sandbox: Sandbox, work: Work, arguments: tuple[Any, ...]) -> Iterable[Row]:
    command, cwd, timeout_ms = arguments
    yield row_of(run_command(sandbox, work, command, cwd, timeout_ms))


def sandbox_of(settings: ToolSettings) -> Sandbox:
    return Sandbox(network=settings.shell_network, unsafe=settings.unsafe_shell)


def run_command(
    sandbox: Sandbox, work: Work, command: str, cwd: str | None = None, timeout_ms: int | None = None
) -> Outcome:
    """Runs a command text. Raises ``ToolError``: timed out (with the last lines of its output), unsupported without a sandbox, access denied for
    a folder outside, too large for a command that was ended at a bound; ``Cancelled``."""
    if not command.strip() or "\0" in command:
        what = "holds a NUL character" if command.strip() else "is empty"
        raise ToolError(f"the command {what}", kind="invalid arguments")
    if len(command.encode("utf-8", "replace")) > MAX_COMMAND_BYTES:
        raise ToolError(
            f"the command has more than {MAX_COMMAND_BYTES:,} bytes, which the system takes for one argument",
            kind="too large",
            hint="write the text to a file with CALL write_file(path, text), and give the command its path",
        )
    wait_ms = TIMEOUT_MS if timeout_ms is None else timeout_ms
    if not 0 < wait_ms <= MAX_SHELL_MS:
        raise ToolError(f"timeout_ms is {wait_ms:,}; it may be 1 to {MAX_SHELL_MS:,}", kind="invalid arguments")
    with work.workspace.folder(cwd or "") as folder:
        request = Request(("/bin/sh", "-c", command), folder="/".join(folder.parts))
    own = time.monotonic() + wait_ms / 1000
    deadline = min(work.deadline, own)
    outcome = run_confined(sandbox, work.workspace, request, deadline=deadline, cancelled=work.cancelled)
    if outcome.finished.ended is not None:
        raise _ended(command, outcome.finished, own_time=own <= work.deadline)
    return outcome


def row_of(outcome: Outcome) -> Row:
    done = outcome.finished
    code, note = exit_code(done.status)
    notes = [note] if note else []
    if not outcome.confined:
        notes.append(UNCONFINED)
    stderr = "\n".join([*([done.stderr.rstrip("\n")] if done.stderr else []), *notes]) if notes else done.stderr
    return (done.stdout, stderr, code, done.duration_ms)


def output_of(outcome: Outcome) -> str:
    """What a command that must succeed wrote, without its last line end. Raises ``ToolError`` with the last of what it said where it failed."""
    done = outcome.finished
    code, note = exit_code(done.status)
    if code:
        said = (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2]
        raise ToolError(note or f"the command ended with exit code {code}{f': {said}' if said else ''}")
    return done.stdout.removesuffix("\n")


def exit_code(status: int) -> tuple[int, str | None]:
    """The code to show for a status, and a note where a signal ended the command. Shells say 128 + n for signal n, and so does bwrap.

    >>> exit_code(1), exit_code(-9), exit_code(139), exit_code(255)
    ((1, None), (-1, '[ended by signal 9, SIGKILL]'), (-1, '[ended by signal 11, SIGSEGV]'), (255, None))
    """
    number = -status if status < 0 else status - 128
    if status < 0 or 0 < number <= 64:
        name = f", {signal.Signals(number).name}" if number in {s.value for s in signal.Signals} else ""
        return -1, f"[ended by signal {number}{name}]"
    return status, None


def _ended(command: str, done: Finished, *, own_time: bool) -> ToolError:
    said = (done.stderr or done.stdout).rstrip("\n")[-1000:]
    tail = f"; its last output:\n{said}" if said else ""
    what = f"{shortened(command)!r}"
    if done.ended == "timed out":
        return ToolError(
            f"{what} was not done after {done.duration_ms / 1000:.1f} s and was killed{tail}",
            kind="timed out",
            hint=(
                "give it longer with shell(cmd, cwd, timeout_ms), or "
                if own_time
                else "the statement's own time was over: "
            )
            + "do less at once",
        )
    return ToolError(f"{what} was killed: {done.ended}{tail}", kind="too large", hint="do less at once")


COMMAND_SHOWN = 4_000
"""Characters of a command that whoever approves it is shown."""


def describe(arguments: tuple[Any, ...]) -> str:
    """
    >>> describe(("pytest -q", "src", None))
    'run in src: pytest -q'
    """
    command, cwd = (*arguments, None, None)[:2]
    return f"run{f' in {shortened(str(cwd))}' if cwd else ''}: {shortened(str(command), COMMAND_SHOWN)}"


# SHELL functions


def run_function(
    settings: ToolSettings, params: tuple[str, ...], body: str, work: Work, arguments: tuple[Any, ...]
) -> Iterable[Row]:
    """A use of ``CREATE FUNCTION f(a) AS SHELL '...'``: one row with what the command wrote. It stands in expressions, so it may look and not
    write: the sandbox is read-only."""
    text = fill(body, dict(zip(params, arguments, strict=True)))
    done = run_command(sandbox_of(settings), attrs.evolve(work, workspace=work.workspace.read_only()), text)
    yield (output_of(done),)


def describe_function(params: tuple[str, ...], body: str, arguments: tuple[Any, ...]) -> str:
    with suppress(ToolError):  # the use fails of it, where that is told
        body = fill(body, dict(zip(params, arguments, strict=True)))
    return f"run: {shortened(body, COMMAND_SHOWN)}"


def quote(value: object) -> str:
    """A value as one word of ``sh``, whatever it holds. NULL is the empty word, booleans are ``true`` and ``false``.

    Raises ``ToolError`` (invalid arguments) for a NUL character, which no argument can hold.

    >>> print(quote("it's; rm -rf *"), quote(3), quote(None), quote(True))
    'it'"'"'s; rm -rf *' 3 '' true
    """
    if value is None:
        return "''"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if "\0" in text:
        raise ToolError("an argument of a shell command holds a NUL character", kind="invalid arguments")
    return shlex.quote(text)


def fill(body: str, arguments: Mapping[str, object]) -> str:
    """The command of ``CREATE FUNCTION f(a) AS SHELL '... {a} ...'``. ``{{`` and ``}}`` are braces.

    A value never becomes part of the program: it is put into a variable first, and the hole becomes the variable, so that no place where a hole
    may stand (quotes, here-documents, comments) lets it be read as a command. It is one word, between double quotes a part of that word.
    Raises ``ToolError`` (invalid arguments) for a hole between single quotes, one that names no parameter, and a NUL character.

    >>> print(fill("wc -w < {path}", {"path": "my notes.md"}))
    kleene_path='my notes.md'
    wc -w < "${kleene_path}"
    >>> print(fill("awk '{{print $1}}' \\"in/{path}\\"", {"path": "$(id)"}))
    kleene_path='$(id)'
    awk '{print $1}' "in/${kleene_path}"
    """
    used: dict[str, str] = {}
    out, quoted, at = [], "", 0
    while found := _PARTS.search(body, at):
        out.append(body[at : found.start()])
        part, name = found[0], found["name"]
        if (quoted and part.startswith("#")) or (quoted == "'" and part.startswith("\\")):
            part = part[0]  # no comment, no escape: what follows it is looked at
        at = found.start() + len(part)
        if name:
            if name not in used:
                used[name] = _assigned(name, arguments)
            out.append(_hole(name, quoted))
        elif part in ("{{", "}}"):
            out.append(part[0])
        else:
            quoted = _after(part, quoted)
            out.append(part)
    return "".join([*used.values(), *out, body[at:]])


_PARTS = re.compile(r"\{\{|\}\}|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}|\\.|['\"]|(?<![^\s;|&()])#[^\n]*", re.DOTALL)


def _after(part: str, quoted: str) -> str:
    """Which quotes are open after a part of the text."""
    if part not in ("'", '"'):
        return quoted
    return "" if quoted == part else quoted or part


def _hole(name: str, quoted: str) -> str:
    if quoted == "'":
        raise ToolError(
            f"{{{name}}} stands between single quotes, where the shell fills in nothing",
            kind="invalid arguments",
            hint=f"write {{{name}}} without them: it is one word whatever it holds; {{{{ and }}}} are braces of the shell",
        )
    return f"${{kleene_{name}}}" if quoted else f'"${{kleene_{name}}}"'


def _assigned(name: str, arguments: Mapping[str, object]) -> str:
    if name not in arguments:
        raise ToolError(
            f"{{{name}}} is no parameter of this function",
            kind="invalid arguments",
            hint=f"its parameters: {', '.join(arguments) or 'none'}; {{{{ and }}}} are braces of the shell",
        )
    return f"kleene_{name}={quote(arguments[name])}\n"
