"""Prints how long planning takes: parsing, resolving, the rules and emission, without running anything but counts.

    python scripts/bench_planning.py [--rounds N] [--curve]

One line a statement: median and least CPU milliseconds (all threads, so that a busy machine changes little; the least is what it costs when
nobody else fills the caches), the median where the statement is planned again (``kleene.plans``: read, the plan that is kept, emitted), the rules that
fired, the length of the DuckDB text. The median of a block should stay under 5, again under 1.

--curve: 2 to 12 relations, once joined by equalities under three call predicates over pairs (one part, nothing to search), once connected by
calls alone, each with the next (``join_order`` searches the plan space: orders, sets of conditions priced and pruned). Goals: under 100 ms
for 8 relations, under 1 s for 12.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import statistics
import sys
import time

import duckdb

from kleene.connection import Connection
from kleene.planner.callplan import CallPlan
from kleene.planner.catalog import Catalog
from kleene.planner.emit import emit
from kleene.planner.plan import plan
from kleene.planner.settings import Settings
from kleene.planner.statements import parse
from kleene.plans import Plans

TABLES = """
    CREATE TABLE t AS SELECT i AS id, 'v' || i AS body, i % 7 AS g, i % 10 = 0 AS cheap FROM range(100) r(i);
    CREATE TABLE u AS SELECT i AS id, 'u' || i AS z FROM range(100) r(i);
    CREATE TABLE c AS SELECT i AS id, 'claim ' || i AS claim FROM range(40) r(i);
"""
STATEMENTS = {
    "filter": "SELECT id FROM t WHERE llm_bool('a ' || body)",
    "cheap and call": "SELECT id FROM t WHERE id % 10 = 0 AND llm_bool('a ' || body)",
    "two calls": "SELECT id FROM t WHERE cheap AND llm_bool('a ' || body) AND llm_bool('b ' || body)",
    "join": "SELECT t.id, u.z FROM t JOIN u ON t.id = u.id WHERE cheap AND llm_bool('a ' || t.body || u.z)",
    "or": "SELECT id FROM t WHERE cheap OR llm_bool('a ' || body) OR llm_bool('b ' || body)",
    "case": "SELECT CASE WHEN llm_bool('a ' || body) THEN llm('b ' || body) ELSE llm('c ' || body) END FROM t",
    "group": "SELECT g, llm_agg('sum up', body ORDER BY id) FROM t GROUP BY g HAVING count(*) > 3",
    "exists": "SELECT id FROM c WHERE EXISTS (SELECT 1 FROM t WHERE t.id = c.id AND llm_bool(claim || body))",
    "nested": "SELECT llm('c ' || llm('b ' || llm('a ' || body))) FROM t WHERE g = 3",
    "8 relations": "SELECT count(*) FROM t t1, t t2, t t3, t t4, t t5, u u1, u u2, c WHERE t1.id = t2.id AND t2.id = t3.id "
    "AND t3.id = t4.id AND t4.id = t5.id AND t5.id = u1.id AND u1.id = u2.id AND u2.id = c.id AND llm_bool('a ' || t1.body || u1.z) "
    "AND llm_bool('b ' || t2.body || c.claim) AND llm_bool('c ' || u2.z || t4.body)",
}


def joined(relations: int) -> str:
    """A join of so many relations by equalities, with three call predicates over pairs of them."""
    names = [f"t{i}" for i in range(1, relations + 1)]
    equal = " AND ".join(f"{a}.id = {b}.id" for a, b in itertools.pairwise(names))
    pairs = [(names[0], names[-1]), (names[relations // 2], names[-1]), (names[0], names[relations // 2])]
    calls = " AND ".join(f"llm_bool('{i} ' || {a}.body || {b}.body)" for i, (a, b) in enumerate(pairs))
    return f"SELECT count(*) FROM {', '.join(f't {n}' for n in names)} WHERE {equal} AND {calls}"


def connected(relations: int) -> str:
    """As many relations that only call predicates connect, each with the next, and one over the first alone."""
    names = [f"t{i}" for i in range(1, relations + 1)]
    calls = " AND ".join(f"llm_bool('{a} ' || {a}.body || {b}.body)" for a, b in itertools.pairwise(names))
    return f"SELECT count(*) FROM {', '.join(f't {n}' for n in names)} WHERE {calls} AND llm_bool('first ' || t1.g)"


def again(sql: str, catalog: Catalog, connection: Connection, rounds: int) -> float:
    """Median CPU milliseconds of a statement that was planned before."""
    plans, settings, times = Plans(), Settings(), []
    for _ in range(rounds + 1):
        started = time.process_time()
        (statement,) = parse(sql)
        make = functools.partial(plan, statement, catalog, settings)
        made = plans.plan(statement, catalog, settings, connection, lambda site: None, make)
        assert made is not None
        emit(made, "1")
        times.append(1000 * (time.process_time() - started))
    return statistics.median(times[1:])


def measure(sql: str, catalog: Catalog, connection: Connection, rounds: int) -> tuple[list[float], CallPlan, str]:
    """CPU milliseconds of each round, the plan and its text."""
    times = []
    for _ in range(rounds):
        started = time.process_time()
        made = plan(parse(sql)[0], catalog, Settings(), connection)
        assert made is not None
        text = emit(made, "1")
        times.append(1000 * (time.process_time() - started))
    return times, made, text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--curve", action="store_true", help="time and plan space against the number of relations")
    given = parser.parse_args()
    con = duckdb.connect()
    con.execute(TABLES)
    connection, catalog = Connection(con), Catalog()
    if given.curve:
        print("relations   equalities, ms   calls, ms        orders    priced    pruned")
        for n in range(2, 13):
            one = statistics.median(measure(joined(n), catalog, connection, given.rounds)[0])
            times, made, _ = measure(connected(n), catalog, connection, given.rounds)
            space = made.joins[0].space
            bar = "#" * max(1, round(10 * math.log10(1 + statistics.median(times))))
            print(
                f"{n:9}   {one:14.1f}   {statistics.median(times):9.1f}   {space.orders:11}   {space.priced:7}   {space.pruned:7}   {bar}"
            )
        return 0
    medians, leasts, repeated = [], [], []
    for name, sql in STATEMENTS.items():
        times, made, text = measure(sql, catalog, connection, given.rounds)
        medians.append(statistics.median(times))
        leasts.append(min(times))
        repeated.append(again(sql, catalog, connection, given.rounds))
        figures = f"{medians[-1]:7.2f} ms   least {leasts[-1]:7.2f}   again {repeated[-1]:7.2f}"
        print(f"{name:16} {figures}   {', '.join(made.rules):32} {len(text):6} characters")
    found = [statistics.median(column) for column in (medians, leasts, repeated)]
    print(f"{'median':16} {found[0]:7.2f} ms   least {found[1]:7.2f}   again {found[2]:7.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
