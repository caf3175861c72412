"""How fast the tools that look through a workspace are: ``python scripts/bench_tools.py [--scale 0.1] [--only NAME]``.

A tree of 10,000 text files with 1,000,000 lines is made in a temporary folder. ``grep`` is timed beside ripgrep (where there is one) and a
plain loop in Python over the same files, ``search`` beside a loop that counts the words of every file; the lesser of two runs each. All of
them find the same lines. Peak memory is that of the tool's own process. ``documents`` reads 200 small
files of a kind in a process apart, as the tools do, beside the same libraries in this process (the lesser of three runs). ``lines`` reads
a file of 300,000 lines.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

FILES, LINES = 10_000, 100
RUNS = 2
WORDS = [
    f"{a}{b}{c}" for a in "bdfklmnprst" for b in ("a", "e", "ia", "o", "ur") for c in ("", "l", "n", "sk", "tem", "ver")
]
PATTERNS = {
    "a literal": "needle",
    "a word and a number": r"needle \d+ of",
    "a class": r"[a-z]+7{3}\b",
    "any case": r"(?i)NEEDLE",
}
QUERY = "needle haystack ledger"


def make(root: Path, files: int) -> None:
    random.seed(7)
    for i in range(files):
        folder = root / f"part{i % 100:02}" / f"group{i // 100 % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        lines = [" ".join(random.choices(WORDS, k=8)) + f" {random.randrange(10**6)}" for _ in range(LINES)]
        if i % 50 == 0:
            lines[i % LINES] = f"here is needle {i} of the haystack"
        if i % 997 == 0:
            lines[3] += " ledger"
        (folder / f"file{i:05}.txt").write_text("\n".join(lines) + "\n")


def least(function: Callable[[], Any]) -> tuple[Any, float]:
    """The result, and the least wall time of some runs in seconds."""
    times, result = [], None
    for _ in range(RUNS):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return result, min(times)


def loop(root: Path, pattern: str) -> list[tuple[str, int, str]]:
    """What one would write by hand."""
    search, found = re.compile(pattern).search, []
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8", errors="replace") as file:
                for number, line in enumerate(file, 1):
                    if search(line):
                        found.append((os.path.relpath(path, root), number, line.rstrip("\n")))
    return found


def ripgrep(root: Path, pattern: str) -> list[tuple[str, int, str]]:
    done = subprocess.run(
        ["rg", "--no-heading", "--line-number", "--sort=path", "--", pattern, "."],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    rows = [line.split(":", 2) for line in done.stdout.splitlines()]
    return [(path.removeprefix("./"), int(number), text) for path, number, text in rows]


def counting(root: Path, query: str) -> list[str]:
    """The ten files that hold the words of a query most, by plain counts."""
    words, scores = set(query.split()), {}
    for path in sorted(root.rglob("*.txt")):
        counts = Counter(re.findall(r"[^\W_]+", path.read_text().lower()))
        if score := sum(counts[word] for word in words):
            scores[str(path.relative_to(root))] = score
    return sorted(scores, key=lambda path: (-scores[path], path))[:10]


def show(what: str, seconds: float, beside: dict[str, float]) -> None:
    ratios = ", ".join(f"{seconds / other:.2f} of {name} ({other:.2f} s)" for name, other in beside.items())
    print(f"{what:<32} {seconds:6.2f} s  {ratios}", flush=True)


def bench_grep(root: Path) -> None:
    from kleene.tools.asking import ask
    from kleene.tools.base import Work
    from kleene.tools.jail import Jail
    from kleene.tools.standard import GREP

    work = Work(Jail.of(root))
    for name, pattern in PATTERNS.items():
        rows, seconds = least(lambda pattern=pattern: list(ask(GREP, work, [pattern])))
        expected, plain = least(lambda pattern=pattern: loop(root, pattern))
        assert rows == expected, (len(rows), len(expected))
        beside = {"a Python loop": plain}
        if shutil.which("rg"):
            found, other = least(lambda pattern=pattern: ripgrep(root, pattern))
            assert found == rows, (len(found), len(rows))
            beside["ripgrep"] = other
        show(f"grep, {name}: {len(rows):,} rows", seconds, beside)


def bench_search(root: Path) -> None:
    from kleene.tools.asking import ask
    from kleene.tools.base import Work
    from kleene.tools.index import SearchIndex
    from kleene.tools.jail import Jail
    from kleene.tools.standard import SEARCH

    index = SearchIndex(str(root))
    work = Work(Jail.of(root), index=index)
    start = time.perf_counter()
    first = list(ask(SEARCH, work, [QUERY]))
    built = time.perf_counter() - start
    expected, plain = least(lambda: counting(root, QUERY))
    assert first
    assert len(first) == len(expected) == 10
    show("search, the index is made", built, {"a loop that counts": plain})
    rows, seconds = least(lambda: list(ask(SEARCH, work, [QUERY])))
    assert rows == first
    show("search, nothing changed", seconds, {"a loop that counts": plain})
    (root / "part00" / "group0" / "file00000.txt").write_text("needle haystack ledger\n" * 3)
    rows, seconds = least(lambda: list(ask(SEARCH, work, [QUERY])))
    assert rows[0][0] == "part00/group0/file00000.txt"
    show("search, one file changed", seconds, {"a loop that counts": plain})
    index.close()
    print(f"the index: {(root / '.kleene' / 'search.duckdb').stat().st_size / 1e6:.1f} MB")


def bench_lines(root: Path, count: int) -> None:
    """Processor time of this process: a file of ``count`` lines through a statement, beside Python's own lines as an Arrow table for DuckDB."""
    import duckdb
    import pyarrow as pa

    import kleene

    random.seed(7)
    file = root / "long.txt"
    file.write_text("".join(f"{i} {' '.join(random.choices(WORDS, k=14))}\n" for i in range(count)))
    query = "SELECT count(*), sum(length(text)) FROM {} WHERE lineno > 10"

    def plain() -> list[Any]:
        with file.open() as stream:
            texts = [line.removesuffix("\n") for line in stream]
        table = pa.table({"lineno": range(1, len(texts) + 1), "text": texts})
        with duckdb.connect() as con:
            return con.from_arrow(table).query("t", query.format("t")).fetchall()

    times: dict[str, list[float]] = {"tool": [], "plain": []}
    with kleene.connect(store=":memory:", workspace=root, models=kleene.FunctionModel(lambda _: "")) as k:
        for _ in range(3):
            for name, run in (("tool", lambda: k.sql(query.format("lines('long.txt')")).fetchall()), ("plain", plain)):
                start = time.process_time()
                rows = run()
                times[name].append(time.process_time() - start)
                assert rows[0][0] == count - 10
    size = file.stat().st_size / 1e6
    show(f"lines of {size:.0f} MB (processor)", min(times["tool"]), {"a Python loop": min(times["plain"])})


def bench_documents(root: Path, count: int) -> None:
    from kleene.tools import documents
    from kleene.tools.building import docx_of
    from kleene.tools.documents import Source
    from kleene.tools.reading_apart import Readers

    random.seed(7)
    for number in range(count):
        paragraphs = "\n\n".join(" ".join(random.choices(WORDS, k=40)) for _ in range(10))
        (root / f"{number}.docx").write_bytes(docx_of(f"# Part {number}\n\n{paragraphs}"))
        body = paragraphs.replace("\n\n", "</p><p>")
        (root / f"{number}.html").write_text(f"<html><h1>Part {number}</h1><p>{body}</p></html>")

    def read(text_of: Callable[[Source], str], suffix: str) -> list[str]:
        texts = []
        for number in range(count):
            with (root / f"{number}{suffix}").open("rb") as stream:
                texts.append(text_of(Source(f"{number}{suffix}", stream)))
        return texts

    for suffix in (".docx", ".html"):
        readers = Readers()
        start = time.perf_counter()
        with (root / f"0{suffix}").open("rb") as stream:
            readers.text(Source(f"0{suffix}", stream))
        first = time.perf_counter() - start
        times: dict[str, list[float]] = {"apart": [], "here": []}
        for _ in range(3):
            for where, text_of in (("apart", readers.text), ("here", documents.text)):
                start = time.perf_counter()
                texts = read(text_of, suffix)
                times[where].append(time.perf_counter() - start)
                assert len(texts) == count and texts[0].startswith("# Part 0")
        readers.close()
        show(f"{count} {suffix} files apart", min(times["apart"]), {"this process": min(times["here"])})
        print(f"{'the first of them, with the start':<32} {first:6.2f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="a part of the files (default 1: 10,000)")
    parser.add_argument("--only", choices=["grep", "search", "documents", "lines"], help="one of the measurements")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        if arguments.only in (None, "documents"):
            (root / "documents").mkdir()
            bench_documents(root / "documents", max(1, int(200 * arguments.scale)))
            shutil.rmtree(root / "documents")
        if arguments.only in (None, "lines"):
            (root / "lines").mkdir()
            bench_lines(root / "lines", int(300_000 * arguments.scale))
            shutil.rmtree(root / "lines")
        if arguments.only in ("documents", "lines"):
            return 0
        make(root, int(FILES * arguments.scale))
        size = sum(path.stat().st_size for path in root.rglob("*.txt"))
        print(
            f"{FILES * arguments.scale:,.0f} files, {FILES * arguments.scale * LINES:,.0f} lines, {size / 1e6:.0f} MB"
        )
        if arguments.only in (None, "grep"):
            bench_grep(root)
        if arguments.only in (None, "search"):
            bench_search(root)
        print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
