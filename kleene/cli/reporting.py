"""``report``: what a run did and cost, as one HTML page or as rows."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kleene.cli.command import Command

if TYPE_CHECKING:
    from kleene.cli.invocation import Invocation
    from kleene.reports import Report
    from kleene.result import Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", metavar="RUN", nargs="?", help="a run's id or its beginning, or a statement's id (default: the last run)"
    )
    parser.add_argument("--html", metavar="FILE", help="write one self-contained page to this file; - is stdout")


def execute(inv: Invocation) -> int:
    from kleene.cli.exits import misconfigured
    from kleene.cli.reading import reading
    from kleene.reports import read_report

    with reading(inv) as con, misconfigured():
        report = read_report(con, inv.args.run)
    if inv.args.html is None:
        inv.write(cost_rows(report))
        return 0
    from kleene.cli.htmlfile import write_page
    from kleene.rendering.report import report_page

    write_page(report_page(report), inv.args.html, inv.terminal)
    return 0


COLUMNS = {
    "by": "VARCHAR",
    "name": "VARCHAR",
    "answers": "BIGINT",
    "memo_hits": "BIGINT",
    "unknown": "BIGINT",
    "failed": "BIGINT",
    "requests": "BIGINT",
    "tokens": "BIGINT",
    "seconds": "DOUBLE",
    "dollars": "DOUBLE",
}


def cost_rows(report: Report) -> Result:
    """What the run cost, in one table: all of it, then by alias, operator and depth."""
    from kleene.result import Result

    costs = report.costs
    groups = (
        ("all", (costs.total,)),
        ("alias", costs.by_alias),
        ("operator", costs.by_operator),
        ("depth", costs.by_depth),
    )
    rows = [(by, *(getattr(cost, name) for name in list(COLUMNS)[1:])) for by, found in groups for cost in found]
    return Result(tuple(COLUMNS), tuple(COLUMNS.values()), rows=rows)


COMMAND = Command(
    name="report",
    summary="what a run did and cost: one page to look at, or rows",
    usage="[RUN] [--html FILE] [OPTIONS]",
    description="""\
Show a run: who ran when, what it cost by alias, operator and depth, the plans with estimated against counted, and the
transcript. With --html it is one page without scripts, which loads nothing: to be opened, mailed or printed. Without it
the cost is printed as rows. RUN is an id that `runs` lists, or its beginning; for statements of your own it is the id of
one, or what the ids of one process have in common. A run that still goes on, or was ended, is shown as far as it came.""",
    examples="""\
# the last run, as a page
python -m kleene report --html report.html

# what an earlier one cost, by alias, operator and depth
python -m kleene report 20260102-090000-1a2b3c --format table

# where did the money go? a spreadsheet's rows
python -m kleene report --format csv""",
    add_arguments=add_arguments,
    execute=execute,
)
