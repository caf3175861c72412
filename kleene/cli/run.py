"""``run``: a model answers a task by writing SQL, turn after turn."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kleene.cli.command import Command
from kleene.cli.options import count
from kleene.planner.errors import ConfigError

if TYPE_CHECKING:
    from kleene.cli.invocation import Invocation, RunLike
    from kleene.cli.progress import Tally
    from kleene.rendering.rows import Relation

DEFAULT_TURNS = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("task", metavar="TASK", help="what is to be answered; @FILE reads a file, - reads stdin")
    add(
        "--context",
        metavar="FILE",
        action="append",
        default=[],
        help="a text, a document or a folder of them, which the model reads as the table ctx; may be repeated",
    )
    add(
        "--data",
        metavar="FILE",
        action="append",
        default=[],
        help="Parquet, CSV, JSON or DuckDB: tables the model may query; may be repeated",
    )
    add(
        "--max-turns",
        metavar="N",
        type=count,
        default=DEFAULT_TURNS,
        help=f"turns before the run ends (default: {DEFAULT_TURNS})",
    )
    add("--turns", action="store_true", help="show each turn's SQL and rows also where stderr is no terminal")
    add("--max-depth", metavar="N", type=count, help="levels of child sessions below this one (default: 2)")
    add(
        "--keep",
        action="store_true",
        help="keep the run's tables after its answer, so that another run can begin with them",
    )
    add("--from", dest="from_run", metavar="RUN", help="begin with the tables that this run kept")
    add(
        "--allow",
        metavar="TOOLS",
        action="append",
        help="tools with effects that the model may use: write, git, shell, web, all, an MCP server, or names; may be repeated",
    )
    add("--approve", choices=("effects",), help="ask before each effect (all tools are allowed then, unless --allow)")
    add("--check", metavar="CMD", help="a shell command that must succeed before an answer is taken")


def execute(inv: Invocation) -> int:
    from kleene.cli.handlers import run_budget
    from kleene.cli.progress import Tally, shown
    from kleene.cli.session import engine_of
    from kleene.cli.texts import read_text
    from kleene.cli.turns import Turns

    args, terminal = inv.args, inv.terminal
    task = read_text(args.task, terminal.stdin)
    tally = Tally()
    turns = Turns(tally, terminal, always=args.turns)
    given: dict[str, Any] = {"max_depth": args.max_depth, "keep": args.keep, "from_run": args.from_run}
    given["allow"] = None if args.allow is None else [n for text in args.allow for n in text.split(",") if n.strip()]
    given = {name: value for name, value in given.items() if value is not None and value is not False}
    approve = approval(inv, tally) if args.approve else None
    with engine_of(inv, tally=tally, on_event=turns, budget=run_budget(inv), approve=approve) as engine:
        with shown(tally, terminal, replies=True):
            done = engine.run(
                task,
                context=args.context or None,
                data=args.data or None,
                max_turns=args.max_turns,
                check=args.check,
                **given,
            )
        return end_of_run(done, inv)


def approval(inv: Invocation, tally: Tally) -> Callable[[object], bool]:
    """Asks for each effect on the terminal. Raises ``ConfigError`` where nobody can be asked."""
    if not inv.terminal.can_ask:
        raise ConfigError(
            "--approve effects asks on a terminal, and there is none",
            hint="--allow write,shell grants tools without asking",
        )

    def approve(effect: object) -> bool:
        from kleene.rendering.table import visible

        with tally.aside():
            return inv.terminal.ask(f"{visible(str(effect))}?")

    return approve


def end_of_run(done: RunLike, inv: Invocation, write: Callable[[Relation], None] | None = None) -> int:
    """Print the answer (with ``write`` where that is given), say how the run ended, and give the exit code."""
    from kleene.cli.exits import exit_of, exit_of_run
    from kleene.cli.report import unknown_exit

    if done.answer is not None and done.answer.message is None:
        (write or inv.write)(done.answer)
    say_how_it_ended(done, inv)
    if done.outcome == "failed" and done.cause is not None:
        return exit_of(done.cause)
    return exit_of_run(done.outcome, forced=done.forced) or unknown_exit(done.usage, inv)


OUTCOMES = {
    "turns_exhausted": ("the turns ran out before an answer", "go on with python -m kleene resume --last"),
    "budget_exhausted": (
        "the budget ran out before an answer",
        "python -m kleene resume --last --budget-dollars X (or --budget-calls N) goes on with more",
    ),
    "failed": ("the run failed", None),
    "cancelled": ("cancelled", None),
}


def say_how_it_ended(run: RunLike, inv: Invocation) -> None:
    from kleene.cli.report import usage_line

    terminal = inv.terminal
    for note in run.notes:
        terminal.say(f"note: {note}")
    if run.outcome in OUTCOMES:
        found, todo = OUTCOMES[run.outcome]
        hint = todo or (run.cause.hint if run.cause is not None else None)
        terminal.error(f"error: {found}{f': {run.error}' if run.error else ''}" + (f"\nhint: {hint}" if hint else ""))
    if run.forced:
        terminal.error("error: the answer was forced: it was asked for after the run had ended")
    usage = usage_line(run.usage)
    terminal.say(f"run {run.run_id}" + (f" · {usage}" if usage else ""))


COMMAND = Command(
    name="run",
    summary="a model answers a task by writing SQL, turn after turn",
    usage="TASK [--context FILE]... [--data FILE]... [OPTIONS]",
    description="""\
Give a model a task and data; it explores them with SQL, asks other models row by row where it must, and ends with a
relation, which is printed. A text given with --context is the table ctx(ordinal, text), however long it is. The model
works in a database of its own: it can neither reach yours nor raise its budget. Without a budget a run has
$1, or 200 calls where a model has no price.""",
    examples="""\
# a question about a long document
python -m kleene run "Which party bears the cost of recall?" --context contract.txt --budget-dollars 0.50

# tables beside the text, and the answer as JSON
python -m kleene run "Which five customers complain most, and about what?" --data mails.parquet --format json

# an answer that must pass a check
python -m kleene run @task.md --context notes.md --check "pytest -q"

# the same run again from a recording, without a network
python -m kleene run @task.md --context notes.md --replay run.jsonl""",
    add_arguments=add_arguments,
    execute=execute,
)
