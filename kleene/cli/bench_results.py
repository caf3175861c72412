"""What ``bench`` says of results: report, compare, csv, curve, plot and results."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kleene.cli.exits import misconfigured
from kleene.cli.relation import relation

if TYPE_CHECKING:
    from kleene.bench.report import Line
    from kleene.bench.results import Row
    from kleene.cli.invocation import Invocation
    from kleene.result import Result

FORMATS = ("svg", "png", "pdf")


def add_actions(action: Callable[..., argparse.ArgumentParser], count: Callable[[str], int]) -> None:
    """The arguments of each; ``action`` makes a parser from a name and a usage."""
    for name in ("report", "results", "csv", "curve"):
        action(name, "RESULTS... [OPTIONS]").add_argument("files", metavar="RESULTS", nargs="+")
    compare = action("compare", "RESULTS RESULTS [OPTIONS]").add_argument
    compare("files", metavar="RESULTS", nargs=2, help="the differences are the first one's less the second one's")
    compare("--seed", metavar="S", type=count, default=0, help="of the bootstrap (default: 0)")
    compare(
        "--resamples",
        metavar="N",
        type=count,
        default=10_000,
        help="of the bootstrap, at most 1,000,000 (default: 10000)",
    )
    plot = action("plot", "RESULTS... [OPTIONS]").add_argument
    plot("files", metavar="RESULTS", nargs="+")
    plot("--out", metavar="FOLDER", default="plots", help="where the pictures go (default: plots)")
    plot("--type", choices=FORMATS, default="svg", help="of the pictures (default: svg)")


def report(inv: Invocation) -> int:
    """A line for each pack, mode and model."""
    from kleene.bench.report import Line, summarise

    with misconfigured():
        lines = summarise(_rows(inv.args.files))
    inv.write(relation(Line, lines))
    return 0


def results(inv: Invocation) -> int:
    """A line for each pack under each mode and model that is anywhere in the results; what was not run has no figures."""
    from kleene.bench.report import summarise

    with misconfigured():
        lines = summarise(_rows(inv.args.files))
    inv.write(_cells(lines))
    return 0


def csv(inv: Invocation) -> int:
    """All rows as one table, CSV unless another format is asked for."""
    from kleene.bench.results import Row

    with misconfigured():
        rows = list(_rows(inv.args.files))
    inv.args.format = inv.args.format or "csv"
    inv.write(relation(Row, rows))
    return 0


def curve(inv: Invocation) -> int:
    """A line for each attempt; the rates of each pack, mode and model in a line of marks on stderr."""
    from kleene.bench.series import Step, curve, sparkline

    with misconfigured():
        steps = curve(_rows(inv.args.files))
    inv.write(relation(Step, steps))
    by_key = sorted(steps, key=_key)
    for key, mine in groupby(by_key, key=_key):
        inv.terminal.say(f"{sparkline(step.rate for step in mine)} {' · '.join(part for part in key if part)}")
    return 0


def compare(inv: Invocation) -> int:
    """A line for each metric."""
    from kleene.bench.compare import Difference, compare
    from kleene.bench.results import read_rows

    args = inv.args
    with misconfigured():
        first, second = (list(read_rows(file)) for file in args.files)
        found = compare(first, second, seed=args.seed, resamples=args.resamples)
    inv.write(relation(Difference, found))
    both = {r.task for r in first} & {r.task for r in second}
    left = len({r.task for r in (*first, *second)} - both)
    if left:
        inv.terminal.say(f"{left:,} tasks are in one of them only and were left out")
    return 0


def plot(inv: Invocation) -> int:
    """A file a picture; their names on stdout."""
    from kleene.bench.plots import plot
    from kleene.result import Result

    with misconfigured():
        files = plot(_rows(inv.args.files), Path(inv.args.out), inv.args.type)
    inv.write(Result(("file",), ("VARCHAR",), rows=[(str(file),) for file in files]))
    return 0


ACTIONS: dict[str, Callable[[Invocation], int]] = {
    "report": report,
    "results": results,
    "csv": csv,
    "curve": curve,
    "compare": compare,
    "plot": plot,
}


def _rows(files: Iterable[str]) -> Iterator[Row]:
    from kleene.bench.results import read_rows

    return chain.from_iterable(map(read_rows, files))


def _key(step: Any) -> tuple[str, str, str]:
    return step.pack, step.mode, step.model


CELLS = (
    *(("pass_rate", "DOUBLE"), ("low", "DOUBLE"), ("high", "DOUBLE"), ("dollars_per_task", "DOUBLE")),
    *(("dollars", "DOUBLE"), ("calls_per_task", "DOUBLE"), ("tokens_per_task", "DOUBLE")),
    *(("seconds_per_task", "DOUBLE"), ("attempts", "BIGINT"), ("solved", "BIGINT")),
)


def _cells(lines: Sequence[Line]) -> Result:
    from kleene.result import Result

    known = {(line.pack, line.mode, line.model): line for line in lines}
    rows: list[tuple[Any, ...]] = []
    for pack in sorted({line.pack for line in lines}):
        for mode, model in sorted({(line.mode, line.model) for line in lines}):
            line = known.get((pack, mode, model))
            values = [None] * len(CELLS) if line is None else [_cell(line, name) for name, _ in CELLS]
            rows.append((pack, mode, model, *values))
    names, types = zip(*CELLS, strict=True)
    return Result(("pack", "mode", "model", *names), ("VARCHAR",) * 3 + types, rows=rows)


def _cell(line: Line, name: str) -> Any:
    return round(line.dollars / line.attempts, 6) if name == "dollars_per_task" else getattr(line, name)
