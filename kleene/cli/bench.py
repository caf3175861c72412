"""``bench``: run a pack of tasks with known answers, and report how it fared."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kleene.cli.bench_import import add_import, import_
from kleene.cli.bench_opening import opener
from kleene.cli.bench_results import ACTIONS, add_actions
from kleene.cli.command import Command
from kleene.cli.options import add_global_options, count
from kleene.planner.errors import ConfigError

if TYPE_CHECKING:
    from kleene.bench.results import Row
    from kleene.cli.invocation import Invocation

MODES = ("frozen", "plain", "relational", "learning")
DEFAULT_TURNS = 30
MOST_JOBS = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(
        dest="action", metavar="run|calibrate|report|results|compare|csv|curve|plot|import", required=True
    )

    def action(name: str, usage: str) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = actions.add_parser(
            name, prog=f"{parser.prog} {name}", usage=f"%(prog)s {usage}"
        )
        add_global_options(made, of_command=True)
        return made

    add = action("run", "PACK [OPTIONS]").add_argument
    add("pack", metavar="PACK", help="a pack's folder, or its .toml or .json")
    add(
        "--mode",
        choices=MODES,
        default="frozen",
        help="a model's runs, a plain tool-calling agent's, the pack's reference SQL, or (not built) runs that learn (default: frozen)",
    )
    add("--results", metavar="FILE", help="where rows go (default: .kleene/bench/PACK-MODE.csv in the workspace)")
    add("--resume", action="store_true", help="go on with the results that are there")
    add(
        "--outputs",
        metavar="FOLDER",
        help="of Harvey LAB's tasks: what each attempt wrote, laid out for LAB's own evaluator",
    )
    add("--limit", metavar="N", type=count, help="at most the first N tasks")
    add("--sample", metavar="N", type=count, help="N tasks drawn with --seed; those that continue one come with it")
    add("--seed", metavar="S", type=count, default=0, help="of --sample (default: 0)")
    add("--repeats", metavar="N", type=count, default=1, help="each task so often (default: 1)")
    add("--jobs", metavar="N", type=count, default=1, help=f"tasks at a time, at most {MOST_JOBS} (default: 1)")
    add("--max-turns", metavar="N", type=count, default=DEFAULT_TURNS, help=f"of a run (default: {DEFAULT_TURNS})")
    known = action("calibrate", "PACK [OPTIONS]").add_argument
    known("pack", metavar="PACK", help="a pack's folder, or its .toml or .json")
    known("--known", metavar="FILE", help="answers whose worth is known (default: known.toml in the pack's folder)")
    add_actions(action, count)
    add_import(action)


def execute(inv: Invocation) -> int:
    from kleene.cli.bench_calibrate import calibrate

    return {"run": run, "calibrate": calibrate, "import": import_, **ACTIONS}[inv.args.action](inv)


def run(inv: Invocation) -> int:
    from kleene.bench.attempt import Options, learner
    from kleene.bench.outputs import SCORED, Outputs
    from kleene.bench.pack import read_pack
    from kleene.bench.recordings import Recordings
    from kleene.bench.results import ResultsFile
    from kleene.bench.runner import Choice, no_reference, run_pack
    from kleene.cli.exits import misconfigured
    from kleene.rendering.table import visible
    from kleene.tools.sandbox import Sandbox

    args, terminal = inv.args, inv.terminal
    with misconfigured():
        if args.mode == "learning":
            learner()
        if args.jobs > MOST_JOBS:
            raise ConfigError(
                f"--jobs {args.jobs:,} is more than {MOST_JOBS}",
                hint="each of them has an engine and a store of its own",
            )
        pack = read_pack(args.pack)
        record, replay = folder_of(args.record, "--record", make=True), folder_of(args.replay, "--replay")
        outputs = None
        if args.outputs is not None:
            folder = folder_of(args.outputs, "--outputs", make=True)
            assert folder is not None
            outputs = Outputs.of(folder, pack, args.mode, args.max_turns)
        path = Path(args.results or Path(args.workspace) / ".kleene" / "bench" / f"{pack.name}-{args.mode}.csv")
        results = ResultsFile(path, pack=pack.name, digest=pack.digest[:16], mode=args.mode, resume=args.resume)
    options = Options(
        mode=args.mode,
        open_engine=opener(inv),
        budget=inv.budget,
        max_turns=args.max_turns,
        record=record,
        replay=None if replay is None else Recordings(replay),
        outputs=outputs,
        sandbox=Sandbox(unsafe=args.unsafe_shell),
    )
    choice = Choice(args.limit, args.sample, args.seed, args.repeats)
    try:
        done = run_pack(
            pack, choice, options, results, jobs=args.jobs, on_row=lambda row: terminal.say(visible(line_of(row)))
        )
    finally:
        results.close()
    if done.skipped and not done.ran and not done.before:
        raise no_reference(pack)
    before = f", {done.before:,} were there before" if done.before else ""
    skipped = f", {done.skipped:,} have no reference SQL" if done.skipped else ""
    unrecorded = f", {done.unrecorded:,} have no recording" if done.unrecorded else ""
    terminal.say(f"{done.ran:,} attempts{before}{skipped}{unrecorded}: python -m kleene bench report {path}")
    if outputs is not None:
        terminal.say(f"LAB scores each run of {args.outputs} ({SCORED}); then")
        terminal.say(f"python -m kleene bench import harvey-lab-results {args.outputs} --out lab.csv")
    if replay is None:
        return 0
    if done.unrecorded and not done.ran and not done.before:
        with misconfigured():
            raise ConfigError(f"{replay} has a recording of no task of {pack.name}", hint="--record FOLDER makes them")
    for drift in done.drifts:
        terminal.say(visible(f"drift: {drift}"))
    if not done.drifts:
        terminal.say(f"{done.ran:,} as recorded")
    return 1 if done.drifts else 0


def folder_of(path: str | None, option: str, *, make: bool = False) -> Path | None:
    """An option's folder. Raises ``ConfigError`` where it is none."""
    if path is None:
        return None
    folder = Path(path)
    if make and not folder.exists():
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise ConfigError(
                f"{option} {path} cannot be made: {error.strerror}",
                hint="give a folder, or a path where one can be made",
            ) from None
    if not folder.is_dir():
        raise ConfigError(
            f"{option} {path} is no folder", hint="give a folder: a bench keeps something of each attempt in it"
        )
    return folder


def line_of(row: Row) -> str:
    word = {True: "ok", False: "NO", None: "??"}[row.solved]
    repeat = f" ({row.repeat})" if row.repeat > 1 else ""
    detail = f": {row.detail}" if row.detail and row.solved is not True else ""
    return f"{word} {row.task}{repeat} · {row.calls:,} calls · {row.tokens:,} tokens · ${row.dollars:.4f} · {row.seconds:.1f} s{detail}"


COMMAND = Command(
    name="bench",
    summary="run a pack of tasks with known answers, and report how it fared",
    usage="run PACK [OPTIONS] | report|results|csv|curve|plot RESULTS... [OPTIONS] | compare RESULTS RESULTS [OPTIONS] | calibrate PACK [OPTIONS] | import FORMAT PATH --out PACK [OPTIONS]",
    description="""\
run gives each task of a pack to the model (--mode frozen), to a plain tool-calling agent over the same model (--mode plain), or
runs the pack's own reference SQL without one that writes (--mode relational). Each attempt has a workspace and a store of its own; its row is on disk before the next begins, and
--resume runs only what is missing. --budget-* hold for each task. --record and --replay name a folder here, with one
recording an attempt; a replay runs what is recorded, needs no key, and ends with 1 where something is not as recorded, naming
the first request that differs. A model that does not answer at all stops the run with the reason.

report gives the pass rate with its 95 % interval (Wilson), calls, tokens, dollars, seconds, the share of statements that were
valid at once and the factor by which EXPLAIN was off; results the same by pack, with a line for what was not run. compare gives
the differences of two runs over the tasks of both, with bootstrap intervals. csv joins results into one table. curve gives the
pass rate from attempt to attempt. plot draws all of it as SVG (extra kleene[plots]). calibrate asks the judge about answers
whose worth is known, and says how far it agrees. import makes a pack from the files of OOLONG, Harvey LAB, FinanceBench, FinQA,
CUAD or UmaiTech's redlining; it fetches nothing.""",
    examples="""\
# six tasks of the shell, and what came of them
python -m kleene bench run tasks/packs/terminal --results terminal.csv
python -m kleene bench report terminal.csv

# ten of thirty long logbooks, three times each, four at a time
python -m kleene bench run tasks/packs/logbook-hard --sample 10 --seed 1 --repeats 3 --jobs 4 --budget-dollars 0.50

# what is recorded with the packs, without a key
python -m kleene bench run tasks/packs/terminal --replay tasks/packs/terminal/replay/frozen

# two modes over the same tasks, and pictures of both
python -m kleene bench compare frozen.csv plain.csv
python -m kleene bench plot frozen.csv plain.csv --out pictures

# the same tasks by the reference statements: what a planned query costs
python -m kleene bench run tasks/packs/logbook-hard --mode relational --model local

# a pack from another bench's file, of which 50 questions over windows of one length
python -m kleene bench import oolong trec.parquet --where context_len=131072 --limit 50 --out oolong-131k""",
    add_arguments=add_arguments,
    execute=execute,
)
