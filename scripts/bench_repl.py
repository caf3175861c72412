"""How long a person waits for the prompt: ``python scripts/bench_repl.py [--runs N]``.

Wall and processor time of starts on a pseudo-terminal, in turns with their baselines, and how long Ctrl-C takes during 1,000 running calls
that would take 100 s each. Prints the median of each.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
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


MEASURES: dict[str, Callable[[Path], float]] = {
    "python -c pass": to_end("-c", "pass"),
    "import prompt_toolkit": to_end("-c", "import prompt_toolkit.shortcuts"),
    "start to prompt": to_prompt,
    "import duckdb, pyarrow, sqlglot, trio": to_end("-c", "import duckdb, pyarrow, sqlglot.dialects.duckdb, trio"),
    "kleene sql 'SELECT 1'": to_end("-m", "kleene", "sql", "SELECT 1"),
    "Ctrl-C to prompt": to_cancel,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in MEASURES}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs):
            for name, measure in MEASURES.items():
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                wall = measure(Path(folder))
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                taken[name].append((wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    print(f"load {os.getloadavg()[0]:.1f}, median of {runs}")
    for name, pairs in taken.items():
        wall, cpu = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"{name:40} {wall:6.2f} s wall (least {min(w for w, _ in pairs):.2f})   {cpu:5.2f} s processor")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
