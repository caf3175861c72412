"""The seven workloads over HTTP: Kleene, a loop without thought, a hand-written asyncio program, and other systems where they are installed.

    python scripts/bench_peers.py [--peer NAME=PYTHON ...] [--latency 0.05] [--in-flight 32] [--rounds 3] [--only W1 ...]

A model server on loopback (``scripts/peer_server.py``), in a process of its own, answers every request after the latency and counts requests
and tokens. ``loop`` asks for each row (each pair of a join) and looks at cheap conditions afterwards; ``hand`` asks each distinct prompt once,
after the cheap conditions, and stops where it may; both share one thin client over keep-alive connections. ``--peer`` names a Python that has
the package of a peer: swan, lotus, blendsql, palimpzest, docetl, nirvana, thalamusdb. Each has its statements in ``scripts/peers/run_NAME.py``:

    python -m venv V && V/bin/pip install swan-aisql && python scripts/bench_peers.py --peer swan=V/bin/python

Seconds are of the query alone, without start-up and tables; processor seconds are the client's. Each round begins with nothing known. What a
peer made is told on stderr as soon as it is done.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import kleene
from scripts.bench_calls import tables
from scripts.peer_server import Count, served, take
from scripts.workloads import SEA, SEVEN, W4, Workload

Rows = list[tuple[Any, ...]]
Ask = Callable[[str], Awaitable[str]]


@attrs.frozen
class Run:
    """What one program made of one workload: the server's counts, wall and processor seconds of the client."""

    count: Count
    seconds: float
    cpu: float
    right: bool


# -- a thin client -------------------------------------------------------------------------------------------------------------------------


class Client:
    """Asks over at most ``in_flight`` keep-alive connections."""

    def __init__(self, url: str, in_flight: int):
        self.address = urlsplit(url)
        self.free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter] | None] = asyncio.Queue()
        for _ in range(in_flight):
            self.free.put_nowait(None)

    async def ask(self, prompt: str) -> str:
        connection = await self.free.get()
        reader, writer = connection or await asyncio.open_connection(self.address.hostname, self.address.port)
        body = json.dumps({"model": "fake", "messages": [{"role": "user", "content": prompt}]}).encode()
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % len(body)
            + body
        )
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        value = json.loads(await reader.readexactly(length))
        self.free.put_nowait((reader, writer))
        return str(value["choices"][0]["message"]["content"])

    async def close(self) -> None:
        while not self.free.empty():
            if connection := self.free.get_nowait():
                connection[1].close()


async def ask_each(ask: Ask, prompts: list[str]) -> list[str]:
    return await asyncio.gather(*(ask(p) for p in prompts))


async def ask_once(ask: Ask, prompts: list[str]) -> list[str]:
    """Each distinct prompt once."""
    distinct = list(dict.fromkeys(prompts))
    known = dict(zip(distinct, await ask_each(ask, distinct), strict=True))
    return [known[p] for p in prompts]


# -- the programs a person would write -----------------------------------------------------------------------------------------------------

PAIR = "'Both texts speak of the same event. A: ' || l.txt || ' B: ' || r.txt"
REFUTES = "'The counterexample refutes the claim. Claim: ' || c.claim || ' Counterexample: ' || x.counter"
TOPICS = "Say which topics the texts mention"
# What to ask for: the row's key, whether it may count, the prompt. ``hand`` leaves out first what may not count.
PROMPTS = {
    "W1": f"SELECT id, true, '{SEA}' || txt FROM t",
    "W2": f"SELECT id, price < 100, '{SEA}' || txt FROM t",
    "W3": "SELECT id, true, 'Name the country of the place in the text. Text: ' || txt FROM t",
    "W4": f"SELECT [l.id, r.id], l.grp = r.grp, {PAIR} FROM l, r",
    "W5": f"SELECT x.cid, true, {REFUTES} FROM c JOIN x ON x.cid = c.cid ORDER BY x.cid, x.pos",
    "W6": "SELECT id, true, 'How good is the place in the text? Text: ' || txt FROM t",
    "W7": f"SELECT id, true, '{TOPICS}. Text: ' || txt FROM t ORDER BY id",
}


def rows_of(name: str, keys: list[Any], replies: list[str]) -> Rows:
    """The rows that the replies to a workload's prompts make."""
    both = list(zip(keys, replies, strict=True))
    if name == "W3":
        return both
    if name == "W5":
        return [(c,) for c in sorted(set(keys) - {key for key, said in both if said == "true"})]
    if name == "W6":
        return [(key,) for key, _ in sorted(both, key=lambda pair: -float(pair[1]))[:5]]
    return [tuple(key) if isinstance(key, list) else (key,) for key, said in both if said == "true"]


async def loop(ask: Ask, name: str, asked: Rows) -> Rows:
    replies = await ask_each(ask, [prompt for _, _, prompt in asked])
    if name == "W7":
        return [(await ask(f"{TOPICS}\n" + "\n".join(prompt for _, _, prompt in asked)),)]
    counted = [(key, said) for (key, counts, _), said in zip(asked, replies, strict=True) if counts]
    return rows_of(name, [key for key, _ in counted], [said for _, said in counted])


async def hand(ask: Ask, name: str, asked: Rows) -> Rows:
    if name == "W7":
        return [(await ask(f"{TOPICS}\n" + "\n".join(p.removeprefix(f"{TOPICS}. Text: ") for _, _, p in asked)),)]
    if name == "W5":
        return await stop_at_first(ask, asked)
    kept = [(key, prompt) for key, counts, prompt in asked if counts]
    replies = await ask_once(ask, [prompt for _, prompt in kept])
    return rows_of(name, [key for key, _ in kept], replies)


async def stop_at_first(ask: Ask, asked: Rows) -> Rows:
    """The claims that no counterexample refutes, each asked in windows of 1, 1, 1, 2, 4, ... until one does."""
    by_claim: dict[int, list[str]] = {}
    for claim, _, prompt in asked:
        by_claim.setdefault(claim, []).append(prompt)

    async def stands(prompts: list[str]) -> bool:
        done, window = 0, 1
        while done < len(prompts):
            if "true" in await ask_each(ask, prompts[done : done + window]):
                return False
            done += window
            window = 1 if done < 3 else 2 * window
        return True

    standing = await asyncio.gather(*(stands(prompts) for prompts in by_claim.values()))
    return [(claim,) for claim, stood in zip(by_claim, standing, strict=True) if stood]


def by_program(
    program: Callable[[Ask, str, Rows], Awaitable[Rows]], url: str, in_flight: int, workload: Workload
) -> Run:
    async def timed(asked: Rows) -> tuple[Rows, float, float]:
        client = Client(url, in_flight)
        wall, cpu = time.perf_counter(), time.process_time()
        rows = await program(client.ask, workload.name, asked)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        await client.close()
        return rows, wall, cpu

    with tables(workload) as con:
        asked = con.execute(PROMPTS[workload.name]).fetchall()
        true = con.execute(workload.truth).fetchall()
        rows, wall, cpu = asyncio.run(timed(asked))
    return Run(take(url), wall, cpu, workload.right(rows, true))


# -- engines -------------------------------------------------------------------------------------------------------------------------------


def by_kleene(url: str, in_flight: int, workload: Workload) -> Run:
    with tables(workload) as con:
        model = kleene.OpenAI("fake", base_url=url)
        with kleene.attach(con, store=":memory:", models=model, concurrency=in_flight) as k:
            true = con.execute(workload.truth).fetchall()
            wall, cpu = time.perf_counter(), time.process_time()
            rows = k.sql(workload.sql).fetchall()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Run(take(url), wall, cpu, workload.right(rows, true))


# -- other systems --------------------------------------------------------------------------------------------------------------------------

PEERS = Path(__file__).resolve().parent / "peers"
LIMIT_S = 1800
# W4 by a peer's operator for joins, where it has one that takes no equality.
W4_JOIN = attrs.evolve(W4, name="W4-join")
OWN_JOIN = ("lotus", "palimpzest", "nirvana")
HAS_NO_WORDS = {"thalamusdb": ("W3", "W6", "W7")}
# What a system sees of each table: the columns that the question reads, never those that hold its answer.
SEEN = {
    "W1": {"t": "id, txt"},
    "W2": {"t": "id, price, txt"},
    "W3": {"t": "id, txt"},
    "W4": {"l": "id, grp, txt", "r": "id, grp, txt"},
    "W5": {"c": "cid, claim", "x": "xid, cid, pos, counter"},
    "W6": {"t": "id, txt"},
    "W7": {"t": "id, txt"},
}
ASKS = {
    "sea": SEA.removesuffix(" Text: "),
    "country": "Name the country of the place in the text.",
    "event": "Both texts speak of the same event.",
    "refutes": "The counterexample refutes the claim.",
    "quality": "How good is the place in the text?",
    "topics": TOPICS,
}


def by_peer(
    peer: str, python: str, url: str, in_flight: int, rounds: int, workloads: list[Workload]
) -> dict[str, Run | str]:
    """What a peer made of each workload: the round of median seconds, or why there is none. Each round is a process: some keep answers in theirs."""
    made: dict[str, list[Run | str]] = {w.name: [] for w in workloads}
    for _ in range(rounds):
        for name, run in by_process(peer, python, url, in_flight, workloads).items():
            made[name].append(run)
    take(url)
    failures = {name: next((run for run in runs if isinstance(run, str)), None) for name, runs in made.items()}
    return {
        name: failures[name] or median([run for run in runs if isinstance(run, Run)]) for name, runs in made.items()
    }


def by_process(peer: str, python: str, url: str, in_flight: int, workloads: list[Workload]) -> dict[str, Run | str]:
    """One round of all workloads."""
    found: dict[str, Run | str] = {w.name: "it ended without an answer" for w in workloads}
    truths = {w.name: (w, true_rows(w)) for w in workloads}
    with tempfile.TemporaryDirectory(prefix="kleene-peer-") as folder:
        given = {
            "url": url, "in_flight": in_flight, "folder": folder, "asks": ASKS, "tables": {w.name: tables_of(w) for w in workloads},
        }  # fmt: skip
        said = Path(folder) / "said"
        with said.open("w") as out, (Path(folder) / "errors").open("w") as errors:
            try:
                subprocess.run(
                    [python, str(PEERS / f"run_{peer}.py")], input=json.dumps(given), text=True, stdout=out, stderr=errors,
                    timeout=LIMIT_S, cwd=folder,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                found = dict.fromkeys(found, f"more than {LIMIT_S} s for all")
        for result in map(json.loads, said.read_text().splitlines()):
            workload, true = truths[result["workload"]]
            found[workload.name] = result.get("failed") or Run(
                Count(**result["count"]),
                result["seconds"],
                result["cpu"],
                workload.right(rows_said(workload, result["rows"]), true),
            )
    return found


def true_rows(workload: Workload) -> Rows:
    with tables(workload) as con:
        return con.execute(workload.truth).fetchall()


def tables_of(workload: Workload) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table, as objects, with the columns that are seen."""
    with tables(workload) as con:
        return {
            name: con.sql(f"SELECT {columns} FROM {name}").to_arrow_table().to_pylist()
            for name, columns in SEEN[workload.name[:2]].items()
        }


def rows_said(workload: Workload, rows: list[list[Any]]) -> Rows:
    """What a peer gave, as rows; a summary may stand in a sentence or an object."""
    if workload.name != "W7":
        return [tuple(row) for row in rows]
    return [("topics: " + str(row[0]).partition("topics: ")[2].strip(" \"'}"),) for row in rows]


# -- the table ------------------------------------------------------------------------------------------------------------------------------


def cell(run: Run | str | None) -> str:
    """Requests, tokens in thousands, seconds; WRONG where the rows are."""
    if not isinstance(run, Run):
        return "-" if run is None else "fails"
    return f"{run.count.requests:,} / {run.count.tokens / 1000:.1f}k / {run.seconds:.2f}" + (
        "" if run.right else " WRONG"
    )


def median(runs: list[Run]) -> Run:
    return sorted(runs, key=lambda run: run.seconds)[len(runs) // 2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds before each answer")
    parser.add_argument("--in-flight", type=int, default=32, help="requests at a time")
    parser.add_argument("--peer", nargs="+", default=[], metavar="NAME=PYTHON", help="a Python that has the package")
    parser.add_argument("--only", nargs="+", metavar="WORKLOAD")
    parser.add_argument("--rounds", type=int, default=3, help="the median of so many runs")
    given = parser.parse_args()
    peers = dict(p.split("=", 1) for p in given.peer)
    workloads = [w for w in (*SEVEN, W4_JOIN) if w.name in (given.only or [w.name])]
    print(
        f"requests / tokens / seconds, {1000 * given.latency:.0f} ms a call, {given.in_flight} in flight, duckdb {version('duckdb')}\n"
    )
    found: dict[str, dict[str, Run | str]] = {}
    with served(given.latency) as url:
        for name, program in OURS.items():
            found[name] = {
                w.name: median([program(url, given.in_flight, w) for _ in range(given.rounds)])
                for w in workloads
                if w is not W4_JOIN
            }
        for name, python in peers.items():
            able = [w for w in workloads if w is not W4_JOIN or name in OWN_JOIN]
            able = [w for w in able if w.name not in HAS_NO_WORDS.get(name, ())]
            found[name] = by_peer(name, python, url, given.in_flight, given.rounds, able)
            done = "; ".join(f"{workload} {cell(run)}" for workload, run in found[name].items())
            print(f"{name}: {done}", file=sys.stderr, flush=True)
    report([w.name for w in workloads if any(w.name in runs for runs in found.values())], found)
    return 0


OURS: dict[str, Callable[[str, int, Workload], Run]] = {
    "loop": lambda url, n, w: by_program(loop, url, n, w),
    "hand": lambda url, n, w: by_program(hand, url, n, w),
    "Kleene": by_kleene,
}


def report(names: list[str], found: dict[str, dict[str, Run | str]]) -> None:
    """The table, that of processor seconds, and why something failed."""
    head = f"| workload | {' | '.join(found)} |\n|---|{'---:|' * len(found)}"
    print(head)
    for name in names:
        print(f"| {name} | {' | '.join(cell(runs.get(name)) for runs in found.values())} |")
    print(f"\nprocessor seconds of the client\n\n{head}")
    for name in names:
        runs = (by_name.get(name) for by_name in found.values())
        print(f"| {name} | {' | '.join(f'{run.cpu:.2f}' if isinstance(run, Run) else '-' for run in runs)} |")
    for program, by_name in found.items():
        for name, run in by_name.items():
            if isinstance(run, str):
                print(f"\n{program} {name}: {run}")


if __name__ == "__main__":
    sys.exit(main())
