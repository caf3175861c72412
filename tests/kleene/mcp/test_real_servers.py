"""Servers and clients of other makers: from PyPI, and (slow) from npm and over HTTP. Each is skipped where it is not installed."""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kleene
from kleene.planner.errors import CallFailed

pytest.importorskip("mcp")

ROOT = str(Path(__file__).resolve().parents[3])
NPM = [Path(p) for p in (os.environ.get("KLEENE_TEST_NPM", ""), ROOT) if p]
"""Folders with node_modules: npm install @modelcontextprotocol/server-everything @modelcontextprotocol/server-filesystem @modelcontextprotocol/sdk"""


def program(name: str) -> str:
    """A program of this environment, of the path, or of npm; without it the test is skipped."""
    near = Path(sys.executable).with_name(name)
    places = [near, *(p / "node_modules" / ".bin" / name for p in NPM)]
    found = next((str(p) for p in places if p.exists()), None) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def package(name: str) -> Path:
    folder = next((p / "node_modules" / name for p in NPM if (p / "node_modules" / name).is_dir()), None)
    if folder is None:
        pytest.skip(f"{name} is not installed: KLEENE_TEST_NPM names a folder with node_modules")
    return folder


@contextmanager
def engine(folders: Path, **entries: Any) -> Iterator[kleene.Engine]:
    with kleene.connect(store=":memory:", workspace=folders / "work", mcp=entries) as k:
        assert k.notes == []
        yield k


def git(folder: Path, *arguments: str) -> None:
    names = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *names, *arguments], cwd=folder, check=True, capture_output=True)


def test_mcp_server_time(folders: Path) -> None:
    with engine(folders, time={"command": program("mcp-server-time")}) as k:
        rows = k.sql(
            "SELECT v.z, t.timezone, t.is_dst FROM (VALUES ('UTC'), ('Asia/Tokyo'), ('UTC')) v(z), "
            "LATERAL time_get_current_time(v.z) t ORDER BY ALL"
        )
        assert rows.fetchall() == [("Asia/Tokyo", "Asia/Tokyo", False), ("UTC", "UTC", False), ("UTC", "UTC", False)]
        found = k.sql(
            "SELECT time_difference, target->>'datetime' FROM time_convert_time('UTC', '12:30', 'Asia/Tokyo')"
        )
        difference, there = found.fetchall()[0]
        assert (difference, there[11:]) == ("+9.0h", "21:30:00+09:00")
        with pytest.raises(CallFailed, match="nowhere"):
            k.sql("SELECT * FROM time_get_current_time('nowhere')")


@pytest.mark.slow
def test_mcp_server_git_and_one_that_is_killed(folders: Path) -> None:
    work = folders / "work"
    git(work, "init")
    (work / "a.txt").write_text("one\n", "utf-8")
    git(work, "add", ".")
    git(work, "commit", "-m", "first: ü")
    (work / "a.txt").write_text("two\n", "utf-8")
    entries = {"time": {"command": program("mcp-server-time")}, "git": {"command": program("mcp-server-git")}}
    with engine(folders, **entries) as k:
        assert "first: ü" in k.sql("SELECT * FROM git_git_log(?)", [str(work)]).fetchall()[0][0]
        assert (
            "+two" in k.sql("SELECT * FROM git_git_diff_unstaged(?, context_lines := 0)", [str(work)]).fetchall()[0][0]
        )
        with pytest.raises(kleene.PlanError, match="git_git_add has effects"):
            k.sql("SELECT * FROM git_git_add(?, ['a.txt'])", [str(work)])
        k.sql("CALL git_git_add(?, ['a.txt'])", [str(work)])
        staged = subprocess.run(["git", "diff", "--cached", "--name-only"], cwd=work, capture_output=True, text=True)
        assert staged.stdout == "a.txt\n"

        assert k.tools is not None
        server = k.services._closing[0].__self__._running["time"]  # type: ignore[attr-defined]
        os.kill(server._link.watch.process.pid, signal.SIGKILL)
        assert k.sql("SELECT is_dst FROM time_get_current_time('UTC')").fetchall() == [(False,)]
        (note,) = k.notes
        assert note.startswith("the MCP server time was started again: it was killed by signal 9")


@pytest.mark.slow
def test_server_everything_over_stdio(folders: Path) -> None:
    with engine(folders, ev={"command": program("mcp-server-everything")}) as k:
        assert k.sql("SELECT * FROM ev_echo('ü')").fetchall() == [("Echo: ü",)]
        assert k.sql("SELECT * FROM ev_get_sum(1, 2.5)").fetchall() == [("The sum of 1 and 2.5 is 3.5.",)]
        weather = k.sql("SELECT * FROM ev_get_structured_content('Chicago')")
        assert weather.columns == ("temperature", "conditions", "humidity")
        assert len(weather) == 1
        image = [text for (text,) in k.sql("SELECT * FROM ev_get_tiny_image()").fetchall()]
        assert any(text.startswith("[image image/png, ") for text in image)
        assert len(k.sql("SELECT * FROM ev_get_resource_links(3)")) >= 3


@pytest.mark.slow
def test_server_filesystem_over_stdio(folders: Path) -> None:
    work = folders / "work"
    (work / "a.md").write_text("# Ä\n", "utf-8")
    with engine(folders, fs={"command": program("mcp-server-filesystem"), "args": [str(work)]}) as k:
        assert k.sql("SELECT content FROM fs_list_directory(?)", [str(work)]).fetchall() == [("[FILE] a.md",)]
        assert k.sql("SELECT content FROM fs_read_text_file(?)", [str(work / "a.md")]).fetchall() == [("# Ä\n",)]
        k.sql("CALL fs_write_file(? || x || '.txt', x) FROM (VALUES ('one'), ('two')) v(x)", [f"{work}/"])
        assert ((work / "one.txt").read_text(), (work / "two.txt").read_text()) == ("one", "two")
        edits = json.dumps([{"oldText": "one", "newText": "three"}])
        k.sql("CALL fs_edit_file(?, ?)", [str(work / "one.txt"), edits])
        assert (work / "one.txt").read_text() == "three"
        with pytest.raises(CallFailed, match="Access denied"):
            k.sql("SELECT * FROM fs_read_text_file('/etc/passwd')")


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:Async generator:ResourceWarning"
)  # event streams of the library that a cancel cuts off
def test_server_everything_over_http(folders: Path) -> None:
    port = free_port()
    start = [program("mcp-server-everything"), "streamableHttp"]
    with running(start, port, PORT=str(port)) as server:
        with engine(folders, ev={"url": f"http://127.0.0.1:{port}/mcp"}) as k:
            assert k.sql("SELECT * FROM ev_echo('ü')").fetchall() == [("Echo: ü",)]
            assert len(k.sql("SELECT * FROM ev_get_structured_content('Chicago')")) == 1
            kill(server)
            with pytest.raises(CallFailed, match="the MCP server ev"):
                k.sql("SELECT * FROM ev_echo('gone')")
            assert "it cannot be reached" in k.notes[0]
        with (
            running(start, port, PORT=str(port)) as server,
            engine(folders, ev={"url": f"http://127.0.0.1:{port}/mcp"}) as k,
        ):
            assert k.sql("SELECT * FROM ev_echo('a')").fetchall() == [("Echo: a",)]
            kill(server)
            with running(start, port, PORT=str(port)):
                assert k.sql("SELECT * FROM ev_echo('b')").fetchall() == [("Echo: b",)]
                assert k.notes == ["the MCP server ev was started again: it has forgotten the session"]
    gc.collect()


MODEL = "def answer(request):\n    return request.messages[-1].text.upper()[:1]\n"


def serve(folders: Path, *more: str) -> list[str]:
    (folders / "model.py").write_text(MODEL, "utf-8")
    options = [
        "--workspace",
        str(folders / "work"),
        "--model-script",
        f"{folders / 'model.py'}:answer",
        "--budget-calls",
        "9",
    ]
    return [sys.executable, "-m", "kleene", "mcp", "serve", *options, *more]


@pytest.mark.slow
def test_the_npm_client_calls_kleene(folders: Path) -> None:
    sdk = package("@modelcontextprotocol/sdk")
    script = folders / "client.mjs"
    script.write_text(
        f"""
        import {{ Client }} from "{sdk}/dist/esm/client/index.js";
        import {{ StdioClientTransport }} from "{sdk}/dist/esm/client/stdio.js";
        const [command, ...args] = {json.dumps(serve(folders))};
        const env = {{ ...process.env, PYTHONPATH: {json.dumps(ROOT)} }};
        const client = new Client({{ name: "other", version: "1" }});
        await client.connect(new StdioClientTransport({{ command, args, env }}));
        const tools = (await client.listTools()).tools.map((t) => t.name);
        const answer = await client.callTool({{ name: "callsql", arguments: {{ sql: "SELECT llm('abc') AS a" }} }});
        const refused = await client.callTool({{ name: "callsql", arguments: {{ sql: "FROM '/etc/passwd'" }} }});
        console.log(JSON.stringify({{ tools, rows: answer.structuredContent.rows, refused: refused.isError }}));
        await client.close();
        """,
        "utf-8",
    )
    done = subprocess.run([program("node"), str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"tools": ["callsql", "explain", "run"], "rows": [{"a": "A"}], "refused": True}


FASTMCP = """
import asyncio, json, sys
from fastmcp import Client

async def main():
    async with Client(json.loads(sys.argv[1]) if sys.argv[1].startswith("{") else sys.argv[1], **json.loads(sys.argv[2])) as client:
        tools = [t.name for t in await client.list_tools()]
        answer = await client.call_tool("callsql", {"sql": "SELECT llm('abc') AS a"})
        print(json.dumps({"tools": tools, "rows": answer.structured_content["rows"]}))

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["stdio", "http"])
def test_fastmcp_calls_kleene(folders: Path, way: str) -> None:
    python = os.environ.get("KLEENE_TEST_FASTMCP", sys.executable)
    if subprocess.run([python, "-c", "import fastmcp"], capture_output=True).returncode:
        pytest.skip("fastmcp is not installed: KLEENE_TEST_FASTMCP names a Python that has it")
    script = folders / "client.py"
    script.write_text(FASTMCP, "utf-8")
    port = free_port()
    command, *args = serve(folders, *(["--http", str(port)] if way == "http" else []))
    if way == "stdio":
        entry = {"command": command, "args": args, "env": {**os.environ, "PYTHONPATH": ROOT}}
        done = subprocess.run(
            [python, str(script), json.dumps({"mcpServers": {"k": entry}}), "{}"],
            capture_output=True,
            text=True,
            timeout=120,
        )
    else:
        with running([command, *args], port, PYTHONPATH=ROOT, KLEENE_MCP_TOKEN="t0k"):
            url = f"http://127.0.0.1:{port}/mcp"
            done = subprocess.run(
                [python, str(script), url, json.dumps({"auth": "t0k"})], capture_output=True, text=True, timeout=120
            )
            denied = subprocess.run([python, str(script), url, "{}"], capture_output=True, text=True, timeout=120)
            assert denied.returncode != 0
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"tools": ["callsql", "explain", "run"], "rows": [{"a": "A"}]}


@contextmanager
def running(command: list[str], port: int, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """A server on a port of this machine, ended with its children."""
    server = subprocess.Popen(
        command, env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        end = time.monotonic() + 60
        while True:
            assert server.poll() is None
            assert time.monotonic() < end
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield server
    finally:
        kill(server)


def kill(server: subprocess.Popen[bytes]) -> None:
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGKILL)
    server.wait(10)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
