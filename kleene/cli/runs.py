"""``runs``: what ran, the latest first."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kleene.cli.command import Command
from kleene.cli.options import count

if TYPE_CHECKING:
    from kleene.cli.invocation import Invocation

QUERY = """\
SELECT r.run, r.started_at, s.outcome, s.turns, s.calls, s.tokens, s.dollars, r.task
FROM trace_runs AS r LEFT JOIN trace_sessions AS s ON s.run = r.run AND s.parent IS NULL
ORDER BY r.started_at DESC
LIMIT """


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", metavar="N", type=count, default=20, help="how many (default: 20)")


def execute(inv: Invocation) -> int:
    from kleene.cli.reading import print_query

    print_query(inv, QUERY + str(inv.args.limit))
    return 0


COMMAND = Command(
    name="runs",
    summary="list runs with their outcome and cost",
    usage="[--limit N] [OPTIONS]",
    description="List the runs in the store, the latest first: when, how they ended, turns, calls, tokens, dollars and the task.",
    examples="""\
# the last twenty
python -m kleene runs

# all of them, for a spreadsheet
python -m kleene runs --limit 1000000 --format csv""",
    add_arguments=add_arguments,
    execute=execute,
)
