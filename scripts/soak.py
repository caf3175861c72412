"""Run statements with faults injected at random until the time is up: ``python scripts/soak.py [--seconds 120] [--seed 1]``.

Several engines of one process share a store. Their model fails, stalls, rambles and cuts its replies at random; statements are cancelled,
budgets run out, engines are closed and opened. After every statement its rows are compared with what the model would have said, its ledger
with what it may hold, and at the end threads and open files with the beginning.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import trio

import kleene
from kleene.udfs.protocols import ProviderError, Reply


class Faulty:
    """Answers ``<prompt>!``; at random it fails or cuts its reply first. What it answers in the end is always the same. It waits for nothing, so
    that prompts are asked in blocks."""

    def __init__(self, seed: int, faults: float = 0.1):
        self.random = random.Random(seed)
        self.faults = faults
        self.calls = 0

    def __call__(self, request: Any) -> Any:
        self.calls += 1
        roll = self.random.random()
        if roll < self.faults / 2:
            kind = self.random.choice(("network", "rate_limited", "overloaded", "timeout"))
            raise ProviderError(kind, "injected", retryable=True, retry_after=0.01)
        if roll < self.faults:
            return self.random.choice(("", Reply("cut", stop="length"), Reply("I cannot", stop="refusal")))
        return request.prompt + "!"


class Stalling(Faulty):
    """The same, after a wait."""

    async def __call__(self, request: Any) -> Any:
        await trio.sleep(self.random.choice((0, 0, 0.001, 0.01)))
        return super().__call__(request)


STATEMENTS = (
    "SELECT body, llm(body) FROM t",
    "SELECT body, llm(body) FROM t WHERE id % 3 = 0",
    "SELECT body, llm(body) FROM (SELECT DISTINCT body FROM t) ORDER BY 1",
    "SELECT t.body, llm(t.body) FROM t JOIN t u USING (id) WHERE u.id < 40",
)


def one_statement(k: kleene.Engine, chance: random.Random, outcomes: dict[str, int], end: float) -> str | None:
    """Run one; what is wrong with it, or None."""
    salt = chance.randrange(20)
    rows, distinct = chance.choice(((200, 70), (200, 70), (3000, 3000)))  # many distinct ones are looked up as columns
    k.con.execute(
        f"CREATE OR REPLACE TABLE t AS SELECT i AS id, 'row {salt} ' || (i % {distinct}) AS body FROM range({rows}) r(i)"
    )
    k.sql(f"SET batch = {chance.choice((1, 1, 1, 4))}")
    k.sql(f"SET on_error = '{chance.choice(('null', 'fail'))}'")
    k.sql(f"SET statement.calls = {chance.choice(('NULL', 'NULL', '30'))}")
    timer = threading.Timer(chance.random() * 0.3, k.cancel) if chance.random() < 0.2 else None
    if timer is not None:
        timer.start()
    try:
        result = k.sql(chance.choice(STATEMENTS))
        outcomes["right"] = outcomes.get("right", 0) + 1
        wrong = [(body, answer) for body, answer in result if answer not in (None, body + "!")]
        if wrong:
            return f"a wrong row: {wrong[0]}"
        if sum(answer is None for _, answer in result) and not result.warnings:
            return "NULL answers without a warning"
    except kleene.KleeneError as error:
        name = type(error).__name__
        outcomes[name] = outcomes.get(name, 0) + 1
    finally:
        if timer is not None:
            timer.cancel()
            timer.join()
    held = k.ledger.reserved
    if held.calls or held.tokens or held.dollars:
        return f"reserved after the statement: {held}"
    dispatcher = k.services.dispatcher
    # Answers that a cancelled statement had paid for are still being kept.
    settled(lambda: dispatcher.in_flight == 0, 5.0)
    if dispatcher.in_flight or dispatcher.gate.inside:
        return f"{dispatcher.in_flight} in flight, {dispatcher.gate.inside} inside the gate after the statement"
    return None


def settled(condition: Callable[[], bool], patience_s: float) -> bool:
    end = time.monotonic() + patience_s
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def client(number: int, store: Path, seed: int, end: float, problems: list[str], outcomes: dict[str, int]) -> None:
    chance = random.Random(seed + number)
    while time.monotonic() < end and not problems:
        faulty = chance.choice((Faulty, Stalling))(chance.randrange(10**9), chance.choice((0.1, 0.002)))
        model = kleene.FunctionModel(faulty, "faulty", on_asyncio=False)  # of one name: they share what is remembered
        con = duckdb.connect()
        with kleene.attach(con, store=store, models=model) as k:
            for _ in range(chance.randrange(5, 30)):
                if time.monotonic() > end or problems:
                    break
                problem = one_statement(k, chance, outcomes, end)
                if problem is not None:
                    problems.append(f"client {number}: {problem}")
        con.close()


def open_files() -> int:
    folder = Path("/proc/self/fd")
    return len(os.listdir(folder)) if folder.exists() else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=3)
    options = parser.parse_args()
    problems: list[str] = []
    outcomes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "run.duckdb"
        client(0, store, options.seed, time.monotonic() + 2, problems, {})  # libraries open what they keep open
        before = (threading.active_count(), open_files())
        end = time.monotonic() + options.seconds
        threads = [
            threading.Thread(target=client, args=(n, store, options.seed, end, problems, outcomes))
            for n in range(1, options.clients + 1)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(options.seconds + 60)
            if thread.is_alive():
                problems.append("a client hangs")
        gc.collect()
        settled(lambda: threading.active_count() <= before[0], 15.0)  # trio's idle worker threads end after 10 s
        after = (threading.active_count(), open_files())
    if after[0] > before[0] or after[1] > before[1] + 2:
        problems.append(f"threads and open files before and after: {before}, {after}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{sum(outcomes.values())} statements: {dict(sorted(outcomes.items()))}; peak memory {peak:,.0f} MB")
    print("\n".join(problems) or "rows right, ledgers right, nothing leaked")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
