"""How long a person waits for the prompt: ``python scripts/bench_repl.py [--runs N] [--only WORDS]``.

Wall and processor time of starts on a pseudo-terminal, in turns with their baselines; how long the first row of a call-free statement takes
in a process that has started, beside DuckDB's own; and how long Ctrl-C takes during 1,000 running calls that would take 100 s each. Prints
the median of each, and its least processor time over that of ``python -c pass``, by which busy machines can be compared.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pexpect

PYTHON = sys.executable
MODEL = """\
import time
import kleene

def reply(request):
    time.sleep(100)

slow = kleene.FunctionModel(reply, name="slow", threads=True)
"""


def spawn(folder: Path, *argv: str) -> pexpect.spawn:
    env = {**os.environ, "KLEENE_CONFIG_DIR": str(folder), "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
    return pexpect.spawn(
        PYTHON, list(argv), cwd=str(folder), env=env, encoding="utf-8", timeout=120, dimensions=(24, 80)
    )


def to_prompt(folder: Path) -> float:
    """Seconds until the prompt stands there and takes keys."""
    started = time.perf_counter()
    child = spawn(folder, "-m", "kleene")
    child.expect_exact("kleene>")
    taken = time.perf_counter() - started
    child.sendeof()
    child.expect(pexpect.EOF)
    child.close()
    return taken


def to_end(*argv: str) -> Callable[[Path], float]:
    def run(folder: Path) -> float:
        started = time.perf_counter()
        child = spawn(folder, *argv)
        child.expect(pexpect.EOF)
        taken = time.perf_counter() - started
        child.close()
        return taken

    return run


def to_cancel(folder: Path) -> float:
    (folder / "m.py").write_text(MODEL, encoding="utf-8")
    child = spawn(folder, "-m", "kleene", "--model-script", "m.py:slow")
    child.expect_exact("kleene>")
    child.send("SELECT count(llm('x ' || i)) FROM range(1000) t(i);\r")
    child.expect_exact("of 1,000 calls")
    time.sleep(1)
    started = time.perf_counter()
    child.sendintr()
    child.expect_exact("kept")
    child.expect_exact("kleene>")
    taken = time.perf_counter() - started
    child.sendeof()
    child.expect(pexpect.EOF)
    child.close()
    return taken


FIRST_ROW = """
import statistics, time, duckdb, kleene
con = duckdb.connect()
k = kleene.connect(store=":memory:")
taken = {"duckdb": [], "kleene": []}
for _ in range(50):
    for name, run in (("duckdb", con.execute), ("kleene", k.sql)):
        started = time.perf_counter()
        run("SELECT i FROM range(1000) t(i)").fetchone()
        taken[name].append(time.perf_counter() - started)
k.close()
duck, ours = (statistics.median(v) * 1000 for v in taken.values())
print(f"first row, in one process, median of 50: DuckDB {duck:.1f} ms, Kleene {ours:.1f} ms")
"""
BARE = "python -c pass"
MEASURES: dict[str, Callable[[Path], float]] = {
    BARE: to_end("-c", "pass"),
    "import duckdb": to_end("-c", "import duckdb"),
    "duckdb.sql('SELECT 1')": to_end("-c", "import duckdb; print(duckdb.sql('SELECT 1').fetchall())"),
    "import duckdb, pyarrow, sqlglot": to_end("-c", "import duckdb, pyarrow, sqlglot.dialects.duckdb"),
    "import prompt_toolkit": to_end("-c", "import prompt_toolkit.shortcuts"),
    "kleene --version": to_end("-m", "kleene", "--version"),
    "kleene sql 'SELECT 1'": to_end("-m", "kleene", "sql", "SELECT 1"),
    "start to prompt": to_prompt,
    "Ctrl-C to prompt": to_cancel,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="", help="measures whose name has this; the bare start is always taken")
    args = parser.parse_args()
    runs = args.runs
    taken: dict[str, list[tuple[float, float]]] = {n: [] for n in MEASURES if args.only in n or n == BARE}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs):
            for name in taken:
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                wall = MEASURES[name](Path(folder))
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                taken[name].append((wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    print(f"load {os.getloadavg()[0]:.1f}, median of {runs}")
    bare = min(cpu for _, cpu in taken[BARE])
    for name, pairs in taken.items():
        wall, cpu = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(
            f"{name:40} {wall:6.2f} s wall (least {min(w for w, _ in pairs):.2f})   {cpu:5.2f} s processor ({min(c for _, c in pairs) / bare:5.1f})"
        )
    if not args.only:
        subprocess.run([PYTHON, "-c", FIRST_ROW], check=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
