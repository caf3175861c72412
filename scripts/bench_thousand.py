#!/usr/bin/env python3
"""A pack of many tasks, killed with -9 several times and resumed: is any task run twice, and does memory stay flat?

    bench_thousand.py [--tasks 1000] [--kills 3] [--jobs 2]

Tasks are made when they run (the generator puzzle); the model is a function that solves them in SQL and writes down each task that it was asked.
Ends with 1 where a finished task was asked again, a row is missing or there twice, or memory grew by more than a quarter after the first tenth.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from kleene.bench.results import read_rows  # noqa: E402

MODEL = r"""
import re

def solve(request):
    divisor = re.search(r"that (\d+) divides", str(request.messages))[1]
    with open("asked", "a") as log:
        log.write(re.search(r"task-\d+", str(request.messages))[0] + "\n")
    listed = "SELECT unnest(CAST(string_split(text, ', ') AS BIGINT[])) AS n FROM ctx"
    return f"```sql\nFINAL(SELECT coalesce(sum(n), 0) FROM ({listed}) WHERE n % {divisor} = 0)\n```"
"""
GREW = 1.25


def write_pack(folder: Path, count: int) -> None:
    from kleene.bench.generators import generate

    lines = ['name = "thousand"', 'description = "Sums."', 'license = "MIT"', 'kind = "sums"', "tasks = ["]
    for n in range(1, count + 1):
        asked = generate("puzzle", 0.5, n).task.replace('"', "'")
        lines.append(
            f'    {{id = "task-{n}", task = "task-{n}: {asked}", from = {{generator = "puzzle", dial = 0.5, seed = {n}}}}},'
        )
    (folder / "pack.toml").write_text("\n".join([*lines, "]"]) + "\n")
    (folder / "model.py").write_text(MODEL)


def start(folder: Path, jobs: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "kleene", "bench", "run", ".", "--model-script", "model.py:solve"]
    options = ["--results", "r.csv", "--resume", "--jobs", str(jobs)]
    return subprocess.Popen([*command, *options], cwd=folder, stderr=subprocess.DEVNULL, env=_environment())


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(ROOT)}


def rows_in(folder: Path) -> int:
    file = folder / "r.csv"
    return max(0, file.read_bytes().count(b"\n") - 1) if file.exists() else 0


def memory_mb(pid: int) -> float:
    """The resident memory of a process."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_pack(folder, args.tasks)
        began, finished = time.monotonic(), set[str]()
        asked_again: list[str] = []
        for kill in range(args.kills):
            process, until = start(folder, args.jobs), args.tasks * (kill + 1) // 20
            before = len(_asked(folder))
            while rows_in(folder) < until and process.poll() is None:
                time.sleep(0.05)
            time.sleep(chance.random())
            process.send_signal(signal.SIGKILL)
            process.wait()
            asked_again += [task for task in _asked(folder)[before:] if task in finished]
            finished = {row.task for row in read_rows(_whole(folder))}
            print(f"kill {kill + 1}: {len(finished):,} of {args.tasks:,} tasks were done")
        process, before = start(folder, args.jobs), len(_asked(folder))
        samples: list[tuple[int, float]] = []
        while process.poll() is None:
            samples.append((rows_in(folder), memory_mb(process.pid)))
            time.sleep(0.5)
        asked_again += [task for task in _asked(folder)[before:] if task in finished]
        rows = list(read_rows(folder / "r.csv"))
        times = Counter(_asked(folder))
        twice = sum(n > 1 for n in times.values())
        tenth = len(finished) + (args.tasks - len(finished)) // 10
        early = max((mb for done, mb in samples if done <= tenth), default=0.0)
        late = max((mb for done, mb in samples if done > tenth), default=0.0)
        print(
            f"{len(rows):,} rows, {len({row.task for row in rows}):,} tasks, {sum(row.solved is True for row in rows):,} solved"
        )
        print(f"finished tasks that were asked again: {len(asked_again)}")
        print(f"tasks in flight at a kill, asked twice: {twice} (at most {args.kills * args.jobs})")
        print(
            f"memory: at most {early:.0f} MB up to task {tenth:,}, {late:.0f} MB after; {time.monotonic() - began:.0f} s in all"
        )
        whole = len(rows) == len({row.task for row in rows}) == args.tasks
        return 0 if whole and not asked_again and twice <= args.kills * args.jobs and late <= GREW * early else 1


def _asked(folder: Path) -> list[str]:
    file = folder / "asked"
    return file.read_text().splitlines() if file.exists() else []


def _whole(folder: Path) -> Path:
    """The rows without what a kill left of the last one."""
    text = (folder / "r.csv").read_bytes()
    copy = folder / "whole.csv"
    copy.write_bytes(text[: text.rfind(b"\n") + 1])
    return copy


if __name__ == "__main__":
    sys.exit(main())
