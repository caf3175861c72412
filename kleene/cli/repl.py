"""``repl``: the prompt."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kleene.cli.command import Command

if TYPE_CHECKING:
    from kleene.cli.invocation import Invocation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "database", metavar="FILE", nargs="?", default=":memory:", help="a DuckDB file (default: in memory)"
    )


def execute(inv: Invocation) -> int:
    return inv.prompt(inv, inv.args.database)


COMMAND = Command(
    name="repl",
    summary="the prompt: statements and commands, typed",
    usage="[FILE] [OPTIONS]",
    description="""\
Type statements; each runs when it ends in ';' and Enter. Tab completes tables, columns, functions, agents and settings; \\?
lists the commands, such as \\plan, \\budget, \\trace and /run TASK. Ctrl-C cancels a statement and keeps what was answered,
Ctrl-D ends. A statement that may cost more than $0.10 asks first. Where stdin is no terminal, what it says is run until
the first error. Without a command, python -m kleene on a terminal is the prompt, too.""",
    examples="""\
# a database in memory
python -m kleene repl

# on a file, at most two dollars
python -m kleene repl shop.duckdb --budget-dollars 2

# a script with commands in it
echo "SELECT 6 * 7 AS answer;" | python -m kleene repl""",
    add_arguments=add_arguments,
    execute=execute,
)
