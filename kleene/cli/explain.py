"""``explain``: what a statement would ask and cost."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from kleene.cli.command import Command

if TYPE_CHECKING:
    from kleene.cli.invocation import Invocation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("statement", metavar="SQL", help="one statement; @FILE reads a file, - reads stdin")
    parser.add_argument("--database", metavar="FILE", default=":memory:", help="a DuckDB file (default: in memory)")
    parser.add_argument(
        "--plan",
        metavar="FORM",
        choices=("text", "json", "sql"),
        default="text",
        help="text for people, json for programs, sql for what DuckDB is given (default: text)",
    )
    parser.add_argument("--html", metavar="FILE", help="write the plan as one self-contained page; - is stdout")


def execute(inv: Invocation) -> int:
    import json

    from kleene.cli.session import engine_of
    from kleene.cli.texts import read_text

    text = read_text(inv.args.statement, inv.terminal.stdin)
    with engine_of(inv, inv.args.database) as engine:
        plan = engine.explain(text)
        if inv.args.html is not None:
            return page_of(inv, plan, text)
        if inv.args.plan == "json":
            shown = json.dumps(plan.to_dict(), indent=2, ensure_ascii=False, default=str)
        else:
            shown = plan.duckdb_sql if inv.args.plan == "sql" else plan.text
    inv.terminal.out.write(shown.rstrip("\n") + "\n")
    return 0


def page_of(inv: Invocation, plan: Any, text: str) -> int:
    from kleene.cli.htmlfile import write_page
    from kleene.rendering.report import plan_page

    write_page(plan_page(plan, text), inv.args.html, inv.terminal)
    return 0


COMMAND = Command(
    name="explain",
    summary="what a statement would ask and cost; no call is made",
    usage="SQL [--database FILE] [--plan text|json|sql | --html FILE] [OPTIONS]",
    description="""\
Plan a statement and count its calls without making one: rows, calls, tokens and dollars at each step, and the rules
that saved calls. Where the arguments are known the number of calls is exact. No key is needed.""",
    examples="""\
# how many calls, and what they cost
python -m kleene explain "SELECT llm('Sum up: ' || body) FROM 'mails.csv' WHERE length(body) > 2000"

# the same for a program
python -m kleene explain @report.sql --database shop.duckdb --plan json

# as a page to be looked at
python -m kleene explain @report.sql --html plan.html

# the plain DuckDB statement that is run
python -m kleene explain "SELECT llm('hello')" --plan sql""",
    add_arguments=add_arguments,
    execute=execute,
)
