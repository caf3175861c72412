"""``bench import``: a pack from another bench's files."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kleene.cli.options import count
from kleene.planner.errors import ConfigError

if TYPE_CHECKING:
    from kleene.cli.invocation import Invocation

FORMATS = ("cuad", "financebench", "finqa", "harvey-lab", "harvey-lab-results", "oolong", "redlining")
RESULTS = "harvey-lab-results"


def add_import(action: Callable[[str, str], argparse.ArgumentParser]) -> None:
    add = action("import", "FORMAT PATH --out PACK [OPTIONS]").add_argument
    add("format", metavar="FORMAT", choices=FORMATS, help=f"one of {', '.join(FORMATS)}")
    add("path", metavar="PATH", help="the file or folder that the bench publishes")
    add("--out", metavar="PACK", required=True, help="the pack's folder, which is made (of results: a CSV file)")
    add(
        "--where", metavar="FIELD=VALUE", action="append", default=[], help="only rows with this value; may be repeated"
    )
    add("--limit", metavar="N", type=count, help="at most the first N tasks")


def import_(inv: Invocation) -> int:
    from kleene.bench.importers import import_pack
    from kleene.cli.exits import misconfigured

    args = inv.args
    with misconfigured():
        if args.format == RESULTS:
            return results(inv)
        where = dict(map(equation, args.where))
        made = import_pack(args.format, Path(args.path), Path(args.out), where=where, limit=args.limit)
    inv.terminal.say(f"{made:,} tasks: python -m kleene bench run {args.out}")
    return 0


def equation(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise ConfigError(f"--where {text}: FIELD=VALUE is needed", hint="as in --where dataset=trec_coarse")
    return name, value


def results(inv: Invocation) -> int:
    """Kleene's results from those of a bench's own evaluator."""
    from kleene.bench.importers.lab import lab_results
    from kleene.bench.results import ResultsFile

    args = inv.args
    if args.where or args.limit is not None:
        raise ConfigError("--where and --limit are of tasks", hint=f"{RESULTS} takes all runs of a folder")
    rows = list(lab_results(Path(args.path)))
    file = ResultsFile(Path(args.out), pack=rows[0].pack, digest="", mode=rows[0].mode, resume=False)
    try:
        for row in rows:
            file.add(row)
    finally:
        file.close()
    inv.terminal.say(f"{len(rows):,} runs: python -m kleene bench report {args.out}")
    return 0
