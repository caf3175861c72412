"""Runs random queries with calls under Kleene and under plain UDFs, with and without the planner's rules, until time is up.

    python scripts/fuzz_planner.py --seconds 60 [--seed N] [--keep-going] [--wide]

Prints each statement whose rows differ, or that costs many more calls with the rules than without, with the tables that show it.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.semantics.compare import Case, Difference, compare
from tests.semantics.queries import Queries, WideQueries, tables
from tests.semantics.world import World


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first difference")
    parser.add_argument(
        "--dearer", action="store_true", help="print the statements that cost more calls with the rules"
    )
    parser.add_argument(
        "--wide", action="store_true", help="draw more shapes: aliases, grouping sets, methods, hidden names"
    )
    given = parser.parse_args()
    queries = WideQueries if given.wide else Queries
    seed = random.randrange(10**9) if given.seed is None else given.seed
    ends = time.monotonic() + given.seconds
    done = found = refused = 0
    calls = [0, 0]
    with World() as world:
        while time.monotonic() < ends:
            draw = random.Random(seed).randint
            case = Case(tables(draw), queries(draw).query(draw(0, 2)))
            try:
                outcome = compare(world, case, rule=seed)
                refused += outcome.error
                calls[0] += outcome.calls
                calls[1] += outcome.calls_without_rules
                if given.dearer and outcome.calls > outcome.calls_without_rules:
                    print(
                        f"-- seed {seed}: {outcome.calls} calls, {outcome.calls_without_rules} without rules\n{case.sql};\n"
                    )
            except Difference as difference:
                found += 1
                print(f"-- seed {seed}: {difference}\n" + ";\n".join([*case.tables, case.sql]) + ";\n", flush=True)
                if not given.keep_going:
                    return 1
            seed += 1
            done += 1
    print(f"{done} queries, {refused} refused by DuckDB, {found} differ; {calls[0]} calls, {calls[1]} without rules")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
