"""What the call runtime costs beside hand-written loops: ``python scripts/bench_runtime.py [--only NAME]``.

Each measurement runs both in one process, in turns, and prints their ratio, so that a busy machine is busy for both. Models wait with
trio.sleep; the HTTP server is a process of its own on loopback.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio

ROOT = Path(__file__).resolve().parent.parent
LATENCY_S = 0.05
STRAGGLER_S = 2.0
CONCURRENCY = 32


@contextmanager
def engine(model: Any, **options: Any) -> Iterator[Any]:
    import duckdb

    import kleene

    with tempfile.TemporaryDirectory() as folder:
        con = duckdb.connect()
        k = kleene.attach(con, store=Path(folder) / "run.duckdb", models=model, **options)
        try:
            k.sql("SELECT llm('warm up')")
            yield k
        finally:
            k.close()
            con.close()


class Sleeping:
    """A model that takes 50 ms, and 2 s for the prompts that ``slow`` picks. The same prompt is always as slow."""

    def __init__(self, share: float = 0.0):
        self.share = share

    def delay(self, prompt: str) -> float:
        return STRAGGLER_S if random.Random(prompt).random() < self.share else LATENCY_S

    async def __call__(self, request: Any) -> str:
        await trio.sleep(self.delay(request.prompt))
        return "true"

    async def ask(self, prompt: str) -> str:
        await trio.sleep(self.delay(prompt))
        return "true"


def by_hand(jobs: Sequence[Callable[[], Awaitable[Any]]], concurrency: int = CONCURRENCY) -> float:
    """The seconds that a plain trio loop with so many workers takes for the jobs, in order."""

    async def main() -> None:
        todo = iter(jobs)

        async def worker() -> None:
            for job in todo:
                await job()

        async with trio.open_nursery() as nursery:
            for _ in range(concurrency):
                nursery.start_soon(worker)

    started = time.perf_counter()
    trio.run(main)
    return time.perf_counter() - started


def by_kleene(model: Any, table: str, sql: str, **options: Any) -> tuple[float, Any]:
    import kleene

    with engine(kleene.FunctionModel(model), **options) as k:
        k.con.execute(table)
        started, cpu = time.perf_counter(), time.process_time()
        result = k.sql(sql)
        wall, cpu = time.perf_counter() - started, time.process_time() - cpu
        print(f"{'':18} {cpu / max(1, result.usage.requests) * 1e3:.2f} ms of CPU a call, all threads", flush=True)
        return wall, result


def report(name: str, ours: float, theirs: float, goal: float, note: str) -> None:
    verdict = "ok" if ours / theirs <= goal else "above"
    print(
        f"{name:18} kleene {ours:.2f} s · {note} {theirs:.2f} s · ratio {ours / theirs:.3f} (goal {goal}: {verdict})",
        flush=True,
    )


def latency() -> None:
    """1,000 distinct prompts of 50 ms, 32 at a time."""
    model = Sleeping()
    prompts = [f"prompt {i:04}" for i in range(1000)]
    theirs = by_hand([lambda p=p: model.ask(p) for p in prompts])  # type: ignore[misc]
    ours, _ = by_kleene(
        model,
        "CREATE TABLE t AS SELECT printf('prompt %04d', i) AS body FROM range(1000) r(i)",
        "SELECT llm(body) FROM t",
    )
    report("latency", ours, theirs, 1.05, "by hand")


def stragglers() -> None:
    """The same with 2 % of the calls at 2 s."""
    model = Sleeping(0.02)
    prompts = [f"prompt {i:04}" for i in range(1000)]
    theirs = by_hand([lambda p=p: model.ask(p) for p in prompts])  # type: ignore[misc]
    ours, _ = by_kleene(
        model,
        "CREATE TABLE t AS SELECT printf('prompt %04d', i) AS body FROM range(1000) r(i)",
        "SELECT llm(body) FROM t",
    )
    report("stragglers", ours, theirs, 1.1, "by hand, the same order")


def chain() -> None:
    """Filter, extract, filter over 500 rows with 2 % of stragglers, beside a pipeline that takes each row through by itself."""
    model = Sleeping(0.02)

    async def row(i: int) -> None:
        await model.ask(f"Is it? {i:04}")
        extracted = await model.ask(f"Extract {i:04}")
        await model.ask(f"Is this? {extracted} {i:04}")

    theirs = by_hand([lambda i=i: row(i) for i in range(500)])  # type: ignore[misc]
    sql = """
        SELECT id, x FROM (SELECT id, llm('Extract ' || id) AS x FROM t WHERE llm_bool('Is it? ' || id))
        WHERE llm_bool('Is this? ' || x || ' ' || id)
    """
    ours, result = by_kleene(model, "CREATE TABLE t AS SELECT printf('%04d', i) AS id FROM range(500) r(i)", sql)
    assert (len(result), result.usage.requests) == (500, 1500), (len(result), result.usage)
    report("chain", ours, theirs, 1.15, "row by row, by hand")


def independent() -> None:
    """Two independent calls a row at twice the concurrency take the time of one."""
    model = Sleeping()
    table = "CREATE TABLE t AS SELECT printf('%04d', i) AS id FROM range(500) r(i)"
    one, _ = by_kleene(model, table, "SELECT llm('a ' || id) FROM t")

    def doubled() -> tuple[float, Any]:
        import kleene

        with engine(kleene.FunctionModel(model)) as k:
            k.con.execute(table)
            k.sql("SET concurrency = 64")
            started = time.perf_counter()
            result = k.sql("SELECT llm('a ' || id), llm('b ' || id) FROM t")
            return time.perf_counter() - started, result

    two, _ = doubled()
    report("independent", two, one, 1.15, "one call a row")


SERVER = """
import sys
sys.path.insert(0, {root!r})
from tests.fake_server import FakeServer
with FakeServer(lambda ask: "ok") as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


@contextmanager
def server() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER.format(root=str(ROOT))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(10)


def http() -> None:
    """A loopback server without latency, 64 at a time: requests a second and processor time a call, with bare httpx beside it."""
    import httpx

    import kleene

    calls = 3000
    with server() as url:
        body = {"model": "fake", "messages": [{"role": "user", "content": "prompt"}], "max_completion_tokens": 1024}

        def bare() -> tuple[float, float]:
            async def main() -> None:
                todo = iter(range(calls))

                async def worker() -> None:
                    async with httpx.AsyncClient() as client:
                        for _ in todo:
                            reply = await client.post(url + "/v1/chat/completions", json=body)
                            reply.raise_for_status()

                async with trio.open_nursery() as nursery:
                    for _ in range(64):
                        nursery.start_soon(worker)

            wall, cpu = time.perf_counter(), time.process_time()
            trio.run(main)
            return time.perf_counter() - wall, time.process_time() - cpu

        bare_wall, bare_cpu = bare()
        with engine(kleene.OpenAI("fake", base_url=url + "/v1")) as k:
            k.sql("SET concurrency = 64")
            k.con.execute(f"CREATE TABLE t AS SELECT 'prompt ' || i AS body FROM range({calls}) r(i)")
            wall, cpu = time.perf_counter(), time.process_time()
            k.sql("SELECT llm(body) FROM t")
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(
        f"{'http':18} kleene {calls / wall:,.0f} requests/s, {cpu / calls * 1e3:.2f} ms of CPU a call · bare httpx "
        f"{calls / bare_wall:,.0f}, {bare_cpu / calls * 1e3:.2f} ms (goal 1,500 and 0.5 ms)"
    )


def layers() -> None:
    """What a request costs in httpx, layer by layer, on the same server: the client, its transport, one connection of httpcore; Kleene's own; a bare stream."""
    import ssl

    import httpcore
    import httpx

    from kleene.models.shards import Direct, Target

    tls = ssl.create_default_context()
    calls, limits = 1500, httpx.Limits(max_connections=1, max_keepalive_connections=1)
    with server() as base:
        url, host = base + "/v1/chat/completions", base.partition("://")[2]
        body = b'{"model": "fake", "messages": [{"role": "user", "content": "prompt"}], "max_completion_tokens": 1024}'
        sent = {"host": host, "content-type": "application/json", "content-length": str(len(body))}
        raw = [(k.encode(), v.encode()) for k, v in sent.items()]
        head = "POST /v1/chat/completions HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in sent.items()) + "\r\n"

        def client() -> tuple[Any, Any]:
            made = httpx.AsyncClient(limits=limits, verify=tls)
            return made, lambda: made.post(url, content=body)

        def transport() -> tuple[Any, Any]:
            made = httpx.AsyncHTTPTransport(limits=limits, verify=tls)

            async def one() -> None:
                await (await made.handle_async_request(httpx.Request("POST", url, headers=sent, content=body))).aread()

            return made, one

        def connection() -> tuple[Any, Any]:
            at = httpcore.URL(url)
            made = httpcore.AsyncHTTPConnection(at.origin, ssl_context=tls)

            async def one() -> None:
                reply = await made.handle_async_request(httpcore.Request("POST", at, headers=raw, content=body))
                await reply.aread()
                await reply.aclose()

            return made, one

        def own() -> tuple[Any, Any]:
            made, at = Direct(None), Target(httpx.URL(url), httpx.Headers({"content-type": "application/json"}))

            async def one() -> None:
                made.is_ready()
                answer = await made.send(at, body, lambda: None)
                async for _ in answer.chunks:
                    pass
                await answer.close()

            return made, one

        def cost(make: Callable[[], tuple[Any, Any]]) -> float:
            async def main() -> None:
                todo = iter(range(calls))

                async def worker() -> None:
                    made, one = make()
                    for _ in todo:
                        await one()
                    await made.aclose()

                async with trio.open_nursery() as nursery:
                    for _ in range(64):
                        nursery.start_soon(worker)

            started = time.process_time()
            trio.run(main)
            return (time.process_time() - started) / calls * 1e3

        async def stream() -> None:
            todo = iter(range(calls))

            async def worker() -> None:
                made = await trio.open_tcp_stream(host.partition(":")[0], int(host.partition(":")[2]))
                for _ in todo:
                    await made.send_all(head.encode() + body)
                    found = b""
                    while not found.rstrip().endswith(b"}"):
                        found += await made.receive_some(65536)
                await made.aclose()

            async with trio.open_nursery() as nursery:
                for _ in range(64):
                    nursery.start_soon(worker)

        figures = {f.__name__: cost(f) for f in (client, transport, connection, own)}
        started = time.process_time()
        trio.run(stream)
        figures["stream"] = (time.process_time() - started) / calls * 1e3
    print(f"{'layers':18} ms of CPU a request: " + ", ".join(f"{name} {ms:.2f}" for name, ms in figures.items()))


def again() -> None:
    """The same statement from a new process on the same store: no call, and the answers within 10 ms beyond the start."""
    script = """
import sys, time, duckdb, kleene
con = duckdb.connect()
con.execute("CREATE TABLE t AS SELECT 'prompt ' || i AS body FROM range(1000) r(i)")
k = kleene.attach(con, store=sys.argv[1], models=kleene.FunctionModel(lambda r: "ok", "m"))
if sys.argv[2] == "again":
    k.sql("SELECT 1")
started, spent = time.perf_counter(), time.process_time()
r = k.sql("SELECT llm(body) FROM t")
print(r.usage.requests, (time.perf_counter() - started) * 1e3, (time.process_time() - spent) * 1e3)
k.close()
"""
    # As installed: with its bytecode at hand.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        for which in ("first", "again"):
            command = [sys.executable, "-c", script, str(Path(folder) / "run.duckdb"), which]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            calls, ms, cpu = done.stdout.split()
    print(
        f"{'again':18} {calls} calls, {float(ms):.1f} ms, {float(cpu):.1f} ms of CPU for 1,000 known answers in a new process (goal 0 and 10 ms)"
    )


BENCHES: dict[str, Callable[[], None]] = {
    f.__name__: f for f in (latency, stragglers, chain, independent, http, layers, again)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=BENCHES)
    options = parser.parse_args()
    for name, bench in BENCHES.items():
        if options.only in (None, name):
            bench()


if __name__ == "__main__":
    main()
