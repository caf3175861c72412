"""``trace``: SQL over what was recorded."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kleene.cli.command import Command

if TYPE_CHECKING:
    from kleene.cli.invocation import Invocation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "statement", metavar="SQL", help="plain DuckDB SQL over the trace_* tables; @FILE reads a file, - reads stdin"
    )


def execute(inv: Invocation) -> int:
    from kleene.cli.reading import print_query
    from kleene.cli.texts import read_text

    print_query(inv, read_text(inv.args.statement, inv.terminal.stdin))
    return 0


COMMAND = Command(
    name="trace",
    summary="query what was run: statements, calls, turns, costs",
    usage="SQL [OPTIONS]",
    description="""\
Run plain DuckDB SQL over the store, read-only: trace_runs, trace_sessions, trace_statements, trace_calls,
trace_operators, trace_runs_of_statement, trace_rounds, trace_tool_calls, trace_final, turns and memo. While another
process holds the store, its event file is read instead.""",
    examples="""\
# what did each model cost?
python -m kleene trace "SELECT model, count(*) AS calls, sum(dollars) AS dollars FROM trace_calls GROUP BY model"

# the ten slowest calls
python -m kleene trace "FROM trace_calls ORDER BY finished_at - started_at DESC LIMIT 10"

# answers that could not be read
python -m kleene trace "FROM trace_calls WHERE kind <> 'answer'"

# the tables and their columns
python -m kleene trace "SHOW ALL TABLES\"""",
    add_arguments=add_arguments,
    execute=execute,
)
