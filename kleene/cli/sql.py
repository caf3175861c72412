"""``sql``: run statements and print the rows."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kleene.cli.command import Command

if TYPE_CHECKING:
    from kleene.cli.invocation import Invocation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("statements", metavar="STATEMENTS", help="CallSQL; @FILE reads a file, - reads stdin")
    parser.add_argument("--database", metavar="FILE", default=":memory:", help="a DuckDB file (default: in memory)")


def execute(inv: Invocation) -> int:
    from kleene.cli.confirm import confirm
    from kleene.cli.progress import Tally, shown
    from kleene.cli.report import report, unknown_exit, usage_line
    from kleene.cli.session import engine_of
    from kleene.cli.statements import placed, split
    from kleene.cli.texts import read_text
    from kleene.planner.specs import Usage

    statements = split(read_text(inv.args.statements, inv.terminal.stdin))
    usage = Usage()
    tally = Tally()
    with engine_of(inv, inv.args.database, tally=tally, on_event=tally) as engine:
        for statement in statements:
            with placed(statement):
                confirm(engine, statement.text, inv)
                with shown(tally, inv.terminal):
                    result = engine.sql(statement.text)
            report(result, statement.text, inv)
            usage += result.usage
        if inv.terminal.shows_progress and usage_line(usage):
            inv.terminal.say(usage_line(usage))
        return unknown_exit(usage, inv)


COMMAND = Command(
    name="sql",
    summary="run statements and print their rows",
    usage="STATEMENTS [--database FILE] [OPTIONS]",
    description="""\
Run statements, separated by ';', and print the rows of each query. The first error ends the command. All of DuckDB's
SQL works: a quoted file name reads the file. A statement that may cost more than $0.10 asks first; where nobody can
be asked it needs a budget or --yes.""",
    examples="""\
# any DuckDB statement
python -m kleene sql "SELECT 6 * 7 AS answer"

# one call for each distinct text, the rows as CSV, fifty cents at most
python -m kleene sql "SELECT id, llm_bool('Is this spam? ' || body) AS spam FROM 'mails.csv'" --format csv --budget-dollars 0.50

# from a file, on a database
python -m kleene sql @report.sql --database shop.duckdb

# from a pipe, with a Python function as the model
echo "SELECT llm('hello')" | python -m kleene sql - --model-script my_model.py:answer""",
    add_arguments=add_arguments,
    execute=execute,
)
