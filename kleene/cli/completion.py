"""``completion``: scripts that let a shell complete commands and options."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kleene.cli.command import Command

if TYPE_CHECKING:
    from kleene.cli.invocation import Invocation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="bash|zsh|fish", choices=("bash", "zsh", "fish"), help="which shell")


def execute(inv: Invocation) -> int:
    from kleene.cli.completing import script

    inv.terminal.out.write(script(inv.args.shell, inv.args.parser))
    return 0


COMMAND = Command(
    name="completion",
    summary="print a script that lets bash, zsh or fish complete",
    usage="bash|zsh|fish",
    description="""\
Print a script with which a shell completes the commands, options and values of kleene, and files where one is meant.""",
    examples="""\
# for this bash (put the line source <(kleene completion bash) into ~/.bashrc)
python -m kleene completion bash

# for every fish
python -m kleene completion fish""",
    add_arguments=add_arguments,
    execute=execute,
)
