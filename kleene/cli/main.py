"""Run one command: errors become a line on stderr and an exit code, never a traceback."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kleene.cli.exits import Exit, exit_of
from kleene.cli.faults import described
from kleene.cli.parser import build_parser, command_named, parse, started_as
from kleene.cli.signals import interruptible
from kleene.cli.terminal import Terminal
from kleene.planner.errors import Cancelled, KleeneError

if TYPE_CHECKING:
    from kleene.cli.invocation import Connect, Prompt


def main(
    argv: Sequence[str] | None = None,
    *,
    prompt: Prompt,
    terminal: Terminal | None = None,
    connect: Connect | None = None,
) -> int:
    """Do what the arguments say and return the exit code. ``prompt`` is what ``repl`` starts; ``terminal`` and ``connect`` stand in for the real
    ones in tests."""
    args = parse(argv)
    terminal = terminal or Terminal()
    if args.command is None and terminal.is_interactive:
        args = parse([*(sys.argv[1:] if argv is None else argv), "repl"])
    if args.command is None:
        print(build_parser(program=started_as()).format_help(), file=terminal.out, end="")
        return Exit.DONE
    terminal.quiet = args.quiet
    try:
        with interruptible():
            from kleene.cli.invocation import Invocation

            if args.log in ("debug", "info"):
                log_to_stderr(args.log)
            code = command_named(args.command).execute(Invocation(args, terminal, prompt, connect))
            terminal.out.flush()
            return code
    except BrokenPipeError:
        return closed_pipe(terminal)
    except KeyboardInterrupt as error:
        return failed(error, "cancelled", terminal, args.log)
    except Cancelled as error:
        return failed(error, error.message, terminal, args.log)
    except KleeneError as error:
        return failed(error, error.render(), terminal, args.log)
    except Exception as error:
        return failed(error, described(error), terminal, args.log)


def failed(error: BaseException, text: str, terminal: Terminal, level: str) -> int:
    if level == "debug":
        terminal.error("".join(traceback.format_exception(error)).rstrip())
    terminal.error(text)
    return exit_of(error)


def closed_pipe(terminal: Terminal) -> int:
    """Whoever read the rows has seen enough (``| head``). What is still buffered goes nowhere, so that nothing fails at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), terminal.out.fileno())
    return Exit.DONE


def log_to_stderr(level: str) -> None:
    import logging

    logging.basicConfig(level=level.upper(), stream=sys.stderr, format="%(asctime)s %(name)s %(levelname)s %(message)s")
