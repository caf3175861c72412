"""How large the page of a long run is, and how long it takes to make.

    python scripts/bench_report.py [--sessions 3000] [--calls 400000] [--text 4000]

A trace is made up: a root session and its children, of five turns each, a statement in each session, and the calls of those statements, one
after the other. Replies, SQL and what came back are texts of ``--text`` characters. Then ``kleene report --html`` is what ``read_report`` and ``report_page`` do here.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kleene.rendering.report import report_page
from kleene.reports import read_report
from kleene.udfs.events import Event
from tests.kleene.reports.traces import call, ended, fill, run, session, statement, store, turn

CHUNK = 20_000  # calls that are put into the store together
TURNS = 5


def sessions_of(count: int, text: int) -> Iterator[Event]:
    """A session of its own each 600 s / count, with five turns and a statement of a minute."""
    long = ("Some words of a model, or of a document. " * (1 + text // 41))[:text]
    yield run()
    for n in range(count):
        key, start = key_of(n), 600.0 * n / count
        yield session(key, at=start, parent="r" if n else None)
        yield from statement(n + 1, key, start, start + 60)
        for number in range(1, TURNS + 1):
            yield turn(key, number, start + 60 + number, sql=f"SELECT '{long}'", reply=long, feedback=long)
        yield ended(key, at=start + 61 + TURNS)


def calls_of(sessions: int, count: int) -> Iterator[Event]:
    """Dealt out to the sessions, each in its statement's minute."""
    for n in range(count):
        own = n % sessions
        start = 600.0 * own / sessions + 60.0 * (n // sessions) * sessions / count
        yield call(n, start, start + 0.4, key_of(own), f"p.{own + 1}", prompt=f"Is text {n} a complaint?", reply="yes")


def key_of(session: int) -> str:
    return f"r.{session}" if session else "r"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=3_000)
    parser.add_argument("--calls", type=int, default=400_000)
    parser.add_argument("--text", type=int, default=4_000, help="characters of each text of a turn")
    given = parser.parse_args()
    con, calls = store(*sessions_of(given.sessions, given.text)), calls_of(given.sessions, given.calls)
    while chunk := list(itertools.islice(calls, CHUNK)):
        fill(con, chunk)
    began, cpu = time.perf_counter(), time.process_time()
    page = report_page(read_report(con))
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    size = len(page.encode()) / 1e6
    print(
        f"{given.calls:,} calls of {given.sessions:,} sessions: {size:.2f} MB, made in {wall:.1f} s ({cpu:.1f} s of CPU)"
    )
    print(
        f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB, the made-up trace included"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
