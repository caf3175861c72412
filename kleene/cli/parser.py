"""The command line as argparse sees it: one parser, one sub-parser a command, the global options on both."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NoReturn

from kleene.cli import (
    bench,
    completion,
    doctor,
    explain,
    mcp,
    memo,
    models,
    repl,
    reporting,
    resume,
    run,
    runs,
    setup,
    sql,
    trace,
)
from kleene.cli.command import Command
from kleene.cli.options import add_global_options
from kleene.planner.errors import did_you_mean
from kleene.version import VERSION

PROGRAM = "python -m kleene"
SCRIPT = "kleene"
COMMANDS: tuple[Command, ...] = (
    run.COMMAND,
    resume.COMMAND,
    sql.COMMAND,
    repl.COMMAND,
    explain.COMMAND,
    trace.COMMAND,
    runs.COMMAND,
    reporting.COMMAND,
    bench.COMMAND,
    memo.COMMAND,
    models.COMMAND,
    mcp.COMMAND,
    setup.COMMAND,
    doctor.COMMAND,
    completion.COMMAND,
)

DESCRIPTION = """\
SQL for model calls, run by DuckDB. A statement asks a model where it needs an answer: each distinct question once,
within a budget that is never exceeded, and every answer that was paid for is kept."""

EXAMPLES = """\
# ask a model about each row of a file
python -m kleene sql "SELECT body FROM 'mails.csv' WHERE llm_bool('Is this a complaint? ' || body)"

# what would it cost? (no call is made)
python -m kleene explain "SELECT llm('Sum up in five words: ' || body) FROM 'mails.csv'"

# let a model answer a question about a long document by writing SQL
python -m kleene run "Which party bears the cost of recall?" --context contract.txt --budget-dollars 0.50

# no key at hand? a Python function can be the model, and a recording can be replayed
python -m kleene sql "SELECT llm('hello')" --model-script my_model.py:answer"""

EXITS = """\
exit codes:
  0 done · 1 failed, turns exhausted or a forced answer · 2 usage or configuration · 3 refused or out of budget
  4 no model configured · 5 store locked by another process · 130 interrupted"""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps descriptions and examples as they were written, at one width, so that the generated page is the same everywhere."""

    def __init__(self, prog: str):
        super().__init__(prog, max_help_position=32, width=118)


class Parser(argparse.ArgumentParser):
    def __init__(self, **options: object):
        super().__init__(formatter_class=HelpFormatter, allow_abbrev=False, **options)  # type: ignore[arg-type]
        if hasattr(self, "color"):
            self.color = False  # Python 3.14 colours help; the page generated from it has none

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: error: {message}\nhint: {self.advice(message)}\n")

    def advice(self, message: str) -> str:
        """The nearest option or choice, else where all of them are told. argparse has one text for each kind of error."""
        choice = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message, re.DOTALL)
        option = re.match(r"unrecognized arguments: (--[\w-]+)", message)
        if choice is not None and message.startswith("argument COMMAND:") and re.search(r"\s", choice[1].strip()):
            return f'{self.prog} sql "..." runs statements'
        near = None
        if choice is not None:
            near = did_you_mean(choice[1], [name.strip(" '") for name in choice[2].split(",")])
        elif option is not None:
            near = did_you_mean(option[1], self.options())
        return f"{self.prog} --help" if near is None else f"did you mean {near}?"

    def options(self) -> set[str]:
        """The options of this parser and of its commands."""
        found = {name for action in self._actions for name in action.option_strings}
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                found.update(*(command.options() for command in action.choices.values()))
        return found


def build_parser(words: Collection[str] | None = None, program: str = PROGRAM) -> argparse.ArgumentParser:
    """The parser of a command line. ``words``: those of the line to be parsed. The commands that are none of them are only named, as the
    arguments of fifteen take 40 ms to describe. ``program``: what help and usage call it."""
    parser = Parser(
        prog=program,
        usage="%(prog)s [OPTIONS] COMMAND ...",
        description=DESCRIPTION,
        epilog=f"{examples(EXAMPLES, program)}\n\n{EXITS}\n\n{program} COMMAND --help says more about one command.",
    )
    parser.add_argument("--version", action="version", version=f"kleene {VERSION}", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=Parser)
    for command in COMMANDS:
        sub = commands.add_parser(
            command.name,
            prog=f"{program} {command.name}",
            help=command.summary,
            usage=f"%(prog)s {command.usage}".rstrip(),
            description=command.description,
            epilog=f"{examples(command.examples, program)}\n\nOptions of every command: {program} --help",
        )
        if words is None or command.name in words or completion.COMMAND.name in words:
            command.add_arguments(sub)
            add_global_options(sub, of_command=True)
    add_global_options(parser, of_command=False)
    parser.set_defaults(parser=parser)  # what a completion script is made of
    return parser


def examples(text: str, program: str) -> str:
    return "examples:\n" + textwrap.indent(text.replace(PROGRAM, program), "  ")


def started_as() -> str:
    """What the user typed: the installed script, or the module."""
    return SCRIPT if Path(sys.argv[0]).stem == SCRIPT else PROGRAM


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse a command line. Exits like argparse: 0 after help and version, 2 with a usage line on stderr."""
    words = list(sys.argv[1:] if argv is None else argv)
    args = build_parser(words, started_as()).parse_args(words)
    for name in ("model", "allow_host"):
        setattr(args, name, [*(getattr(args, name) or []), *getattr(args, f"more_{name}", [])])
    return args


def command_named(name: str) -> Command:
    return next(command for command in COMMANDS if command.name == name)
