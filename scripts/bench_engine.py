"""How fast the engine is where no model holds it up: ``python scripts/bench_engine.py [--scale 0.1] [--only NAME]``.

Each measurement runs in a process of its own and prints one line: what, how much, and the figure it is compared with. Models are Python
functions that answer at once; the store is a file in a temporary folder. ``cpu`` is the processor time of all threads.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
Figures = dict[str, Any]


@contextmanager
def engine(store: Path | None = None) -> Iterator[Any]:
    import duckdb

    import kleene

    with tempfile.TemporaryDirectory() as folder:
        con = duckdb.connect()
        k = kleene.attach(
            con, store=store or Path(folder) / "run.duckdb", models=kleene.FunctionModel(answer, "function")
        )
        try:
            yield k
        finally:
            k.close()
            con.close()


def answer(request: Any) -> str:
    return "ok"


def timed(function: Callable[[], Any]) -> tuple[Any, float, float]:
    """The result, wall seconds, processor seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = function()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def peak_mb() -> float:
    """The most memory of this process since ``forget_peak``, where that can be known, else since its start."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def forget_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def cold(scale: float) -> Figures:
    """Distinct prompts that nobody knows yet: dispatch, memo, budget and trace of each."""
    rows = int(100_000 * scale)
    with engine() as k:
        k.con.execute(
            f"CREATE TABLE t AS SELECT 'prompt number ' || i || repeat(' x', 10) AS body FROM range({rows}) r(i)"
        )
        k.sql("SELECT llm('warm')")
        result, wall, cpu = timed(lambda: k.sql("SELECT llm(body) AS answer FROM t"))
        assert len(result) == result.usage.requests == rows
        return {"calls/s": rows / wall, "cpu us/call": cpu / rows * 1e6, "goal calls/s": 20_000}


def warm_repeated(scale: float) -> Figures:
    """Many rows, few prompts, all of them known."""
    rows = int(1_000_000 * scale)
    with engine() as k:
        k.con.execute(f"CREATE TABLE t AS SELECT 'prompt number ' || (i % 1000) AS body FROM range({rows}) r(i)")
        k.sql("SELECT llm(body) FROM t")
        result, wall, cpu = timed(lambda: k.sql("SELECT llm(body) AS answer FROM t"))
        _, plain, _ = timed(lambda: k.con.sql("SELECT upper(body) AS answer FROM t").to_arrow_table())
        assert (len(result), result.usage.requests) == (rows, 0)
        return {"rows/s": rows / wall, "cpu us/row": cpu / rows * 1e6, "DuckDB's own upper(body), rows/s": rows / plain}


def warm_distinct(scale: float) -> Figures:
    """Every prompt its own, all of them in the memo."""
    rows = int(1_000_000 * scale)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "run.duckdb"
        remember(store, f"SELECT 'prompt number ' || i AS prompt FROM range({rows}) r(i)")
        with engine(store) as k:
            k.con.execute(f"CREATE TABLE t AS SELECT 'prompt number ' || i AS body FROM range({rows}) r(i)")
            k.sql("SELECT llm('warm')")
            forget_peak()
            before = peak_mb()
            result, wall, cpu = timed(lambda: k.sql("SELECT llm(body) AS answer FROM t"))
            assert (len(result), result.usage.requests, result.usage.memo_hits) == (rows, 0, rows)
            bytes_a_key = (peak_mb() - before) * 2**20 / rows
            return {
                "rows/s": rows / wall,
                "cpu us/row": cpu / rows * 1e6,
                "peak bytes/key": bytes_a_key,
                "goal rows/s": 300_000,
                "goal bytes/key": 300,
            }


def long_texts(scale: float) -> Figures:
    """Memory where texts are long: the peak beyond what the table itself takes, over the texts' size."""
    rows = int(200_000 * scale)
    with engine() as k:
        k.con.execute(f"CREATE TABLE t AS SELECT i || repeat(' abcdefghi', 100) AS body FROM range({rows}) r(i)")
        k.sql("SELECT llm('warm')")
        forget_peak()
        before = peak_mb()
        _, wall, _ = timed(lambda: k.sql("SELECT llm(body) AS answer FROM t"))
        return {
            "peak/text": (peak_mb() - before) / (rows * 1000 / 2**20),
            "calls/s": rows / wall,
            "goal peak/text": 3.0,
        }


def remember(store: Path, prompts: str) -> None:
    """Put answers to all prompts of a query into a store's memo, as calls of ``llm`` on the bench's model would have."""
    import duckdb

    from kleene.planner.specs import IDENTITY, AnswerType, CallSpec
    from kleene.store import Store
    from kleene.udfs.memo import MemoEntry

    digest = CallSpec("llm", IDENTITY, AnswerType("text", "VARCHAR")).digest()
    with Store.open(store) as opened:
        memo = opened.memo()
        reader = duckdb.connect().execute(prompts)
        while found := reader.fetchmany(100_000):
            memo.commit([MemoEntry("function\npython\nfunction", digest, p, "ok") for (p,) in found])


def overhead(scale: float) -> Figures:
    """A statement without calls, through ``k.sql`` and through DuckDB alone."""
    sql = "SELECT id, body FROM t WHERE id % 7 = 1"
    with engine() as k:
        k.con.execute("CREATE TABLE t AS SELECT i AS id, 'v' || i AS body FROM range(1000) r(i)")
        rounds = max(20, int(300 * scale))
        ours, plain = [], []
        for _ in range(rounds):  # in turns, so that a busy machine is busy for both
            plain.append(timed(lambda: k.con.sql(sql).to_arrow_table())[1])
            ours.append(timed(lambda: k.sql(sql))[1])
        ours_ms, plain_ms = statistics.median(ours) * 1e3, statistics.median(plain) * 1e3
        return {
            "k.sql ms": ours_ms,
            "DuckDB ms": plain_ms,
            "more ms": ours_ms - plain_ms,
            "least more ms": (min(ours) - min(plain)) * 1e3,
            "goal more ms": 1.0,
        }


def pure_scan(scale: float) -> Figures:
    """A heavy statement without calls costs what it costs in DuckDB."""
    rows = int(20_000_000 * scale)
    sql = "SELECT g, count(*), sum(x), max(y) FROM t GROUP BY g ORDER BY g"
    with engine() as k:
        k.con.execute(f"CREATE TABLE t AS SELECT i % 1000 AS g, i AS x, i * 7 % 10007 AS y FROM range({rows}) r(i)")
        plain = min(timed(lambda: k.con.sql(sql).to_arrow_table())[1] for _ in range(5))
        ours = min(timed(lambda: k.sql(sql))[1] for _ in range(5))
        return {"k.sql ms": ours * 1e3, "DuckDB ms": plain * 1e3, "ratio": ours / plain, "goal ratio": 1.05}


def slow_pure(scale: float) -> Figures:
    """A pure part of about 2 s under one call and under six nested ones (rule materialise): the statement over its pure part."""
    rows = int(9_000_000 * scale)
    pure = (
        f"SELECT g, max(m) AS m FROM (SELECT i % 50 AS g, md5(md5(i::VARCHAR)) AS m FROM range({rows}) r(i)) GROUP BY g"
    )
    figures: Figures = {}
    with engine() as k:
        k.sql("SET memo = off")
        for depth in (1, 2, 6):
            nested = "llm(" * depth + "m" + ")" * depth
            ours, plain = [], []
            for _ in range(3):  # in turns, so that a busy machine is busy for both
                plain.append(timed(lambda: k.con.sql(pure).to_arrow_table())[2])
                result, _, cpu = timed(lambda sql=f"SELECT g, {nested} AS x FROM ({pure})": k.sql(sql))
                ours.append(cpu)
                assert len(result) == 50
            figures[f"ratio at depth {depth}"] = statistics.median(ours) / statistics.median(plain)
        return {"DuckDB's cpu s": statistics.median(plain), **figures, "goal ratio": 2.5}


def start(scale: float) -> Figures:
    """What a process pays before it does anything."""

    def best(*command: str) -> float:
        return min(
            timed(lambda: subprocess.run([sys.executable, *command], check=True, capture_output=True))[1]
            for _ in range(5)
        )

    bare = best("-c", "pass")
    return {
        "import kleene ms": (best("-c", "import kleene") - bare) * 1e3,
        "--version ms": (best("-m", "kleene", "--version") - bare) * 1e3,
        "bare python ms": bare * 1e3,
        "goal import ms": 150,
    }


def opening(scale: float) -> Figures:
    """An engine in memory, opened and closed, least processor time of 25 after the first, beside a DuckDB instance without Kleene."""
    import duckdb

    import kleene

    def attached() -> Any:
        return kleene.attach(con, store=":memory:")

    def connected() -> Any:
        return kleene.connect(store=":memory:")

    taken: dict[str, list[float]] = {}
    for _ in range(26):
        con = duckdb.connect()
        for name, make in (("DuckDB", duckdb.connect), ("attach", attached), ("connect", connected)):
            made, _, opened = timed(make)
            _, _, closed = timed(made.close)
            taken.setdefault(f"{name} ms", []).append(opened * 1e3)
            taken.setdefault(f"{name} close ms", []).append(closed * 1e3)
        con.close()
    return {name: min(values[1:]) for name, values in taken.items()} | {"goal of attach and connect ms": 60}


BENCHES: dict[str, Callable[[float], Figures]] = {
    f.__name__: f
    for f in (start, opening, overhead, pure_scan, slow_pure, cold, warm_repeated, warm_distinct, long_texts)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="of the row counts (default 1)")
    parser.add_argument("--only", choices=BENCHES, help="one measurement, in this process, as JSON")
    options = parser.parse_args()
    if options.only:
        print(json.dumps(BENCHES[options.only](options.scale)))
        return
    for name, bench in BENCHES.items():
        command = [sys.executable, __file__, "--only", name, "--scale", str(options.scale)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        if done.returncode:
            print(f"{name:14} failed: {done.stderr.strip().splitlines()[-1]}")
            continue
        figures = json.loads(done.stdout)
        shown = " · ".join(
            f"{key} {value:,.4g}" if value < 1000 else f"{key} {value:,.0f}" for key, value in figures.items()
        )
        print(f"{name:14} {shown}\n{'':14} {(bench.__doc__ or '').strip()}", flush=True)


if __name__ == "__main__":
    main()
