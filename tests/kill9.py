"""A real process that is killed at a random moment of a statement, over a loopback server that counts what it answered."""

from __future__ import annotations

import collections
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import attrs
import duckdb

from tests.fake_server import FakeServer, Say

ROOT = Path(__file__).resolve().parent.parent
CONCURRENCY = 16
CHILD = f"""
import sys
import duckdb, kleene
con = duckdb.connect()
con.execute("CREATE TABLE t AS SELECT 'prompt ' || i AS body FROM range(" + sys.argv[3] + ") r(i)")
k = kleene.attach(con, store=sys.argv[1], models=kleene.OpenAI("fake", base_url=sys.argv[2] + "/v1"))
k.sql("SET concurrency = {CONCURRENCY}")
print("ready", flush=True)
rows = k.sql("SELECT body, llm(body) AS answer FROM t")
assert all(answer == "about " + body for body, answer in rows), rows.fetchall()
print(len(rows), rows.usage.requests, rows.usage.memo_hits, flush=True)
k.close()
"""


@attrs.frozen
class Killed:
    """What one kill did: requests answered before it, prompts that were answered twice in the end, calls and memo hits of the re-run."""

    answered: int
    twice: int
    requests: int
    memo_hits: int
    problems: tuple[str, ...]


def kill_at(share: float, folder: Path, prompts: int = 400, delay_s: float = 0.02) -> Killed:
    """Run a statement over so many prompts, kill its process when about that share is answered, run it again to its end."""
    store = folder / "run.duckdb"
    with FakeServer(lambda ask: Say("about " + ask.prompt, delay=delay_s)) as server:
        command = [sys.executable, "-c", CHILD, str(store), server.url, str(prompts)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert process.stdout is not None
        process.stdout.readline()
        end = time.monotonic() + 60
        while server.count < share * prompts and process.poll() is None and time.monotonic() < end:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        time.sleep(0.1)  # what the server has read it answers and counts
        answered = server.count
        problems = [] if opens(store) else ["the store does not open"]
        again = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        if again.returncode:
            return Killed(answered, 0, 0, 0, (*problems, again.stderr.strip().splitlines()[-1]))
        rows, requests, hits = map(int, again.stdout.split()[1:])
        asked = collections.Counter(ask.prompt for ask in server.asks)
    twice = sum(count > 1 for count in asked.values())
    if rows != prompts or requests + hits != prompts:
        problems.append(f"{rows} rows, {requests} calls and {hits} hits for {prompts} prompts")
    if max(asked.values()) > 2:
        problems.append("a prompt was answered three times")
    # In flight is what was sent and not yet kept: on the wire, and as many again that are being committed.
    if twice > 2 * CONCURRENCY + 1:
        problems.append(f"{twice} prompts were answered twice, more than can have been in flight")
    return Killed(answered, twice, requests, hits, tuple(problems))


def opens(store: Path) -> bool:
    if not store.exists():
        return True
    with duckdb.connect(str(store)) as con:
        con.execute("SELECT count(*) FROM memo").fetchall()
    return True


def moments(count: int, seed: int) -> list[float]:
    return [random.Random(seed + i).random() for i in range(count)]
