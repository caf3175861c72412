"""The seven workloads over HTTP: Kleene, a loop without thought, a hand-written asyncio program, and SWAN AI-SQL where it is installed.

    python scripts/bench_peers.py [--latency 0.05] [--in-flight 32] [--swan PYTHON] [--only W1 ...]

A model server on loopback, in a process of its own, answers every request after the latency and counts it. ``loop`` asks for each row (each
pair of a join) and looks at cheap conditions afterwards; ``hand`` asks each distinct prompt once, after the cheap conditions, and stops
where it may; both share one thin client over keep-alive connections. ``--swan`` names a Python that has ``swan-aisql`` (it pins a DuckDB of its
own): ``python -m venv V && V/bin/pip install swan-aisql``. Seconds are of the query alone, without
start-up and tables; processor seconds are the client's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import kleene
from scripts.bench_calls import tables
from scripts.workloads import BASE, SEA, SEVEN, Workload, reply

Rows = list[tuple[Any, ...]]
Ask = Callable[[str], Awaitable[str]]


@attrs.frozen
class Run:
    """What one program made of one workload: requests at the server, wall and processor seconds of the client."""

    calls: int
    seconds: float
    cpu: float
    right: bool


# -- the server ----------------------------------------------------------------------------------------------------------------------------


class Server:
    """Chat completions on loopback; ``GET /take`` gives the number of requests since the last take."""

    def __init__(self, latency: float):
        self.latency = latency
        self.calls = 0

    async def run(self) -> None:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
                if fields.get(b"expect") == b"100-continue":
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await reader.readexactly(int(fields.get(b"content-length", 0)))
                value = {"calls": self.take()} if head.startswith(b"GET") else await self.answer(json.loads(body))
                text = json.dumps(value).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(text)
                    + text
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def take(self) -> int:
        calls, self.calls = self.calls, 0
        return calls

    async def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        self.calls += 1
        await asyncio.sleep(self.latency)
        prompt = asked["messages"][-1]["content"]
        prompt = prompt if isinstance(prompt, str) else "\n".join(part.get("text", "") for part in prompt)
        text = reply(prompt)
        schema = ((asked.get("response_format") or {}).get("json_schema") or {}).get("schema")
        if schema is not None:
            value = json.loads(text) if text in ("true", "false") or text.replace(".", "").isdigit() else text
            text = json.dumps(dict.fromkeys(schema.get("properties", {"answer": None}), value))
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text) // 4 + 1}
        message = {"role": "assistant", "content": text}
        return {"model": "fake", "usage": usage, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


@contextmanager
def served(latency: float) -> Iterator[str]:
    """The base URL of a server that ends with the block."""
    child = subprocess.Popen([sys.executable, __file__, "--serve", str(latency)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(child.stdout.readline())}/v1"
    finally:
        child.terminate()
        child.wait(10)
        child.stdout.close()


def take(url: str) -> int:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url + "/take", timeout=10) as response:
        return int(json.load(response)["calls"])


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
        return [(await ask(f"{TOPICS}\n" + "\n".join(prompt for _, _, prompt in asked)),)]
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


SWAN = """
import json, sys, time
import swan_aisql
given = json.load(sys.stdin)
con = swan_aisql.connect(endpoint=given["url"], model="fake", api_key="x", embed_server=False, ai_concurrency=given["in_flight"])
con.execute(given["setup"])
wall, cpu = time.perf_counter(), time.process_time()
rows = con.execute(given["sql"]).fetchall()
print(json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "rows": rows}))
"""


def in_swan(sql: str) -> str:
    """The statement in SWAN's words."""
    renamed = sql.replace("llm_bool(", "ai_filter(").replace("llm_score(", "ai_score(").replace("llm(", "ai_complete(")
    return renamed.replace(f"llm_agg('{TOPICS}', txt ORDER BY id)", f"ai_agg(list(txt ORDER BY id), '{TOPICS}')")


def by_swan(python: str, url: str, in_flight: int, workload: Workload) -> Run:
    """Raises ``RuntimeError`` with the last line of what it wrote if it fails."""
    given = {
        "url": url.removesuffix("/v1"),
        "in_flight": in_flight,
        "setup": BASE + workload.setup,
        "sql": in_swan(workload.sql),
    }
    done = subprocess.run([python, "-c", SWAN], input=json.dumps(given), capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or "no output").splitlines()[-1])
    found = json.loads(done.stdout.splitlines()[-1])
    with tables(workload) as con:
        true = con.execute(workload.truth).fetchall()
    return Run(take(url), found["wall"], found["cpu"], workload.right([tuple(r) for r in found["rows"]], true))


def cell(run: Run | None) -> str:
    return "-" if run is None else f"{run.calls} / {run.seconds:.2f} / {run.cpu:.2f}" + ("" if run.right else " WRONG")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds before each answer")
    parser.add_argument("--in-flight", type=int, default=32, help="requests at a time")
    parser.add_argument("--swan", metavar="PYTHON", help="a Python that has swan-aisql")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=3, help="the median of so many runs")
    parser.add_argument("--serve", type=float, metavar="LATENCY", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        asyncio.run(Server(given.serve).run())
    print(
        f"calls / seconds at {given.latency * 1000:.0f} ms a call, {given.in_flight} in flight, duckdb {version('duckdb')}"
    )
    print(f"{'':4} {'loop':>18} {'hand':>18} {'Kleene':>18} {'SWAN':>18}   Kleene / hand")
    with served(given.latency) as url:
        for workload in SEVEN:
            if given.only and workload.name not in given.only:
                continue
            programs: list[Callable[[], Run]] = [
                lambda w=workload: by_program(loop, url, given.in_flight, w),  # type: ignore[misc]
                lambda w=workload: by_program(hand, url, given.in_flight, w),  # type: ignore[misc]
                lambda w=workload: by_kleene(url, given.in_flight, w),  # type: ignore[misc]
            ]
            if given.swan:
                programs.append(lambda w=workload: by_swan(given.swan, url, given.in_flight, w))  # type: ignore[misc]
            runs = [median([program() for _ in range(given.rounds)]) for program in programs]
            shown = [*(cell(run) for run in runs), *["-"] * (4 - len(runs))]
            ratio = runs[2].seconds / runs[1].seconds
            print(f"{workload.name:4} " + " ".join(f"{text:>18}" for text in shown) + f"   {ratio:.2f}", flush=True)
    return 0


def median(runs: list[Run]) -> Run:
    return sorted(runs, key=lambda run: run.seconds)[len(runs) // 2]


if __name__ == "__main__":
    sys.exit(main())
