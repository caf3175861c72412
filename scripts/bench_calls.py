"""How many calls each statement makes, beside what it would make without the planner and the least it needs.

    python scripts/bench_calls.py [--only NAME ...] [--ours] [--sql]

One line a statement: calls under Kleene; with every rule off; of DuckDB alone, the functions being plain UDFs; the least that finds the
rows; and whether the rows are the true ones. The model is a Python function that counts, at its own side, what it is asked.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import duckdb

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import kleene
from kleene.planner.rules import RULES
from scripts.workloads import BASE, SEVEN, SHAPES, Workload, reply


class Counting:
    """A model that answers from the facts in the prompt. ``asked`` counts each request by its prompt."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def __call__(self, request: Any) -> str:
        self.asked[request.prompt] += 1
        return reply(request.prompt)

    def value(self, read: Callable[[str], object], prompt: str) -> object:
        """Answer as a plain function does."""
        self.asked[prompt] += 1
        return read(reply(prompt))

    def take(self) -> int:
        calls = self.asked.total()
        self.asked.clear()
        return calls


@attrs.frozen
class Outcome:
    """What one run of a statement gave. ``right`` says whether the rows are the true ones; ``problem`` is the error that ended it."""

    calls: int
    right: bool
    seconds: float
    problem: str | None = None

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(
            self.calls + other.calls,
            self.right and other.right,
            self.seconds + other.seconds,
            self.problem or other.problem,
        )


# The functions as plain UDFs: name, DuckDB type, how a reply becomes a value.
PLAIN: tuple[tuple[str, Any, Callable[[str], object]], ...] = (
    ("llm_bool", "BOOLEAN", lambda text: text == "true"),
    ("llm", "VARCHAR", str),
    ("llm_score", "DOUBLE", float),
)


@contextmanager
def tables(workload: Workload) -> Iterator[duckdb.DuckDBPyConnection]:
    con = duckdb.connect()
    try:
        con.execute(BASE)
        con.execute(workload.setup)
        yield con
    finally:
        con.close()


@contextmanager
def engine(con: duckdb.DuckDBPyConnection, workload: Workload) -> Iterator[tuple[kleene.Engine, Counting]]:
    """An engine with the workload's functions and a memo that begins empty."""
    model = Counting()
    models = {alias: kleene.FunctionModel(model) for alias in ("worker", "proxy")}
    with kleene.attach(con, store=":memory:", models=models) as k:
        for function in workload.functions:
            k.sql(function)
        yield k, model


def measure(workload: Workload, *, rules: bool = True) -> Outcome:
    """Run the statement once on each trial's tables, under the planner's rules or with all of them off. Calls and seconds are sums."""
    total = Outcome(0, True, 0.0)
    for trial in range(workload.trials):
        at = workload.at(trial)
        with tables(at) as con, engine(con, at) as (k, model):
            if not rules:
                for rule in RULES:
                    k.sql(f"SET rules.{rule.__name__} = off")
                k.sql("SET ondemand.calls = 1000000")
            started = time.perf_counter()
            problem = None
            try:
                rows = k.sql(at.sql).fetchall()
                right = at.right(rows, con.execute(at.truth).fetchall())
            except kleene.KleeneError as error:
                right, problem = False, error.message
            seconds = time.perf_counter() - started
            total += Outcome(model.take(), right, seconds, problem)
    return total


def plain_calls(workload: Workload) -> int | None:
    """The calls of DuckDB alone, with the functions as plain Python UDFs that are called for each row; None where that cannot be written."""
    at, total = workload, 0
    if workload.functions or "llm_agg" in workload.sql or "expand" in workload.sql:
        return None
    for trial in range(workload.trials):
        at = workload.at(trial)
        with tables(at) as con:
            model = Counting()
            for name, kind, read in PLAIN:
                con.create_function(name, partial(model.value, read), ["VARCHAR"], kind, side_effects=True)
            con.execute(at.sql).fetchall()
            total += model.take()
    return total


def emitted(workload: Workload) -> str:
    """The SQL that DuckDB runs for the statement."""
    at = workload.at(0)
    with tables(at) as con, engine(con, at) as (k, _):
        return str(k.explain(at.sql).duckdb_sql)


HEADINGS = ("Kleene", "rules off", "plain UDF", "least")


def line(workload: Workload, ours: Outcome, off: Outcome | None, plain: int | None) -> str:
    least = f"{'~' if workload.about else ''}{workload.least}"
    cells = [str(ours.calls), "" if off is None else str(off.calls), "" if plain is None else str(plain), least]
    right = "yes" if ours.right else "NO"
    if off is not None and not off.right:
        right += ", off NO"
    trials = f" ({workload.trials} tables)" if workload.trials > 1 else ""
    return f"{workload.name:18}" + "".join(f" {cell:>9}" for cell in cells) + f"   {right:7} {workload.title}{trials}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these statements")
    parser.add_argument("--ours", action="store_true", help="leave out the runs to compare with")
    parser.add_argument("--sql", action="store_true", help="print the SQL that DuckDB runs")
    given = parser.parse_args()
    print(f"{'statement':18}" + "".join(f" {heading:>9}" for heading in HEADINGS) + "   rows    what it is")
    wrong = 0
    for workload in (*SEVEN, *SHAPES):
        if given.only and workload.name not in given.only:
            continue
        ours = measure(workload)
        compared = not given.ours and workload.naive
        off = measure(workload, rules=False) if compared else None
        print(line(workload, ours, off, plain_calls(workload) if compared else None), flush=True)
        for problem in (ours.problem, off.problem if off else None):
            if problem:
                print(f"{'':18} {problem}")
        if given.sql:
            print(emitted(workload) + "\n")
        wrong += not ours.right
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
