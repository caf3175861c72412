"""``resume``: go on with a run that has no answer yet."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kleene.cli.command import Command
from kleene.cli.options import count

if TYPE_CHECKING:
    from kleene.cli.invocation import Invocation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("run_id", metavar="RUN", nargs="?", help="the run's name, as run printed it and runs lists it")
    which.add_argument("--last", action="store_true", help="the last run that has no answer")
    parser.add_argument(
        "--max-turns",
        metavar="N",
        type=count,
        help="further turns (default: as many again where they ran out, else what was left)",
    )
    parser.add_argument(
        "--turns", action="store_true", help="show each turn's SQL and rows also where stderr is no terminal"
    )


def execute(inv: Invocation) -> int:
    from kleene.cli.exits import misconfigured
    from kleene.cli.progress import Tally, shown
    from kleene.cli.run import end_of_run
    from kleene.cli.session import engine_of
    from kleene.cli.turns import Turns

    args, terminal = inv.args, inv.terminal
    tally = Tally()
    turns = Turns(tally, terminal, always=args.turns)
    # The budget is the run's, what it has used included: the engine's own would count from here.
    with engine_of(inv, tally=tally, on_event=turns, budget=None) as engine:
        with shown(tally, terminal, replies=True), misconfigured():
            done = engine.resume(args.run_id, budget=inv.budget, max_turns=args.max_turns)
        return end_of_run(done, inv)


COMMAND = Command(
    name="resume",
    summary="go on with a run that stopped before its answer",
    usage="RUN | --last [--max-turns N] [OPTIONS]",
    description="""\
Go on with a run after its turns or its budget ran out, after an interrupt, or after its process was killed. Every reply
and every answer that was paid for is kept, so nothing is paid twice; a statement that had begun is finished. A budget
that is given here is for the whole run, what it has used included; without one the run keeps its own.""",
    examples="""\
# the last run that has no answer
python -m kleene resume --last

# ten more turns, and a dollar more than it had
python -m kleene resume 20260401-101500-a1b2c3 --max-turns 10 --budget-dollars 2""",
    add_arguments=add_arguments,
    execute=execute,
)
