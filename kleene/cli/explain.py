"""``explain``: what a statement would ask and cost."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from kleene.cli.command import Command
from kleene.cli.exits import UsageError

if TYPE_CHECKING:
    from kleene.cli.invocation import Invocation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("statement", metavar="SQL", help="one statement; @FILE reads a file, - reads stdin")
    parser.add_argument("--database", metavar="FILE", default=":memory:", help="a DuckDB file (default: in memory)")
    parser.add_argument(
        "--plan",
        metavar="FORM",
        choices=("text", "json", "sql"),
        help="text for people, json for programs, sql for what DuckDB is given (default: text; json with --format json)",
    )
    parser.add_argument("--html", metavar="FILE", help="write the plan as one self-contained page; - is stdout")


def execute(inv: Invocation) -> int:
    import json

    from kleene.cli.session import engine_of
    from kleene.cli.texts import read_text

    form = form_of(inv.args.plan, inv.args.format)
    text = read_text(inv.args.statement, inv.terminal.stdin)
    with engine_of(inv, inv.args.database) as engine:
        plan = engine.explain(text)
        if inv.args.html is not None:
            return page_of(inv, plan, text)
        if form == "json":
            shown = json.dumps(plan.to_dict(), indent=2, ensure_ascii=False, default=str)
        else:
            shown = plan.duckdb_sql if form == "sql" else plan.text
    inv.terminal.out.write(shown.rstrip("\n") + "\n")
    return 0


def form_of(plan: str | None, format_: str | None) -> str:
    """The plan's form. ``--format``, made for rows, stands for it where it has such a form; else a ``UsageError``.

    >>> form_of(None, None), form_of(None, "json"), form_of("sql", "json")
    ('text', 'json', 'sql')
    """
    if plan is None and format_ not in (None, "table", "json"):
        raise UsageError(f"a plan has no form {format_}", hint="--plan text, --plan json or --plan sql")
    return plan or ("json" if format_ == "json" else "text")


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
