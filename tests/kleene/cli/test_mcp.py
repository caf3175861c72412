from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kleene.cli.mcp_serve import is_loopback
from tests.kleene.cli.doubles import Engine, invoke

pytest.importorskip("mcp")

HAND = Path(__file__).resolve().parents[1] / "mcp" / "by_hand.py"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLEENE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def work(tmp_path: Path) -> str:
    (tmp_path / "work").mkdir()
    return str(tmp_path / "work")


def test_a_server_is_added_listed_used_and_removed(work: str, tmp_path: Path, nothing_is_configured: Path) -> None:
    log = f"LOG={tmp_path / 'log'}"
    done = invoke("mcp", "add", "--workspace", work, "--env", log, "hand", sys.executable, str(HAND), real=True)
    assert (done.code, done.out) == (0, "")
    assert "hand is in " in done.err and "its tools: hand_echo, hand_note, " in done.err
    listed = invoke("mcp", "list", "--workspace", work, "--format", "jsonl", real=True)
    row = json.loads(listed.out)
    assert (row["server"], row["scope"], row["state"]) == ("hand", "user", "on")
    assert row["runs"] == f"LOG=... {sys.executable} {HAND}"
    used = invoke("sql", "SELECT text FROM hand_echo('a|b')", "--workspace", work, "--store", ":memory:", real=True)
    assert (used.out, used.code) == ('{"text":"a"}\n{"text":"b"}\n', 0)
    assert invoke("mcp", "remove", "hand", real=True).code == 0
    assert json.loads((nothing_is_configured / "mcp.json").read_text("utf-8")) == {"mcpServers": {}}
    assert "no MCP servers are configured" in invoke("mcp", "list", "--workspace", work, real=True).err


def test_a_workspaces_server_is_off_until_it_is_trusted(work: str, tmp_path: Path) -> None:
    entry = {"command": sys.executable, "args": [str(HAND)], "env": {"LOG": str(tmp_path / "log")}}
    Path(work, ".mcp.json").write_text(json.dumps({"mcpServers": {"p": entry}}), "utf-8")
    options = ("--workspace", work, "--store", ":memory:")
    before = invoke("sql", "SELECT 1 AS a", *options, real=True)
    assert "note: .mcp.json of this workspace names MCP servers that are off: p." in before.err
    assert not (tmp_path / "log").exists()
    trusted = invoke("mcp", "add", "--project", "p", "--workspace", work, real=True)
    assert trusted.code == 2  # options stand before the name
    trusted = invoke("mcp", "add", "--workspace", work, "--project", "p", real=True)
    assert trusted.code == 0
    assert trusted.err.startswith(f"p is trusted to run: LOG=... {sys.executable} {HAND}\n")
    assert invoke("sql", "SELECT text FROM p_echo('x')", *options, real=True).out == '{"text":"x"}\n'
    assert invoke("mcp", "remove", "--workspace", work, "--project", "p", real=True).code == 0


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("add", "a", "--url", "http://x"), "error: --url stands behind the name\nhint: options come first"),
        (("add", "a"), "error: mcp add: the server a has neither command nor url"),
        (("add", "--project", "a"), "error: there is no server a in "),
        (("add", "--env", "A", "a", "x"), "error: --env A is not NAME=VALUE"),
        (("remove", "a"), "error: there is no server a in "),
        (("serve", "--http", "0", "--host", "0.0.0.0"), "error: --host 0.0.0.0 lets other machines ask"),
    ],
)
def test_what_cannot_be_is_a_usage_error(work: str, argv: tuple[str, ...], told: str) -> None:
    done = invoke("mcp", argv[0], "--workspace", work, *argv[1:], real=True)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(told)


def test_a_server_that_does_not_start_stays_and_is_told(work: str) -> None:
    done = invoke("mcp", "add", "--workspace", work, "bad", "no-such-program", "-x", real=True)
    assert done.code == 1
    assert done.err.startswith("error: the MCP server bad cannot be used: there is no program no-such-program\n")
    row = json.loads(invoke("mcp", "list", "--workspace", work, "--format", "jsonl", real=True).out)
    assert row["state"].startswith("fails: the MCP server bad cannot be used")
    assert row["runs"] == "no-such-program -x"


def test_servers_are_on_unless_they_are_switched_off() -> None:
    for argv, given in (((), True), (("--mcp", "off"), None), (("--mcp", "f.json"), "f.json")):
        engine = Engine()
        invoke("sql", "SELECT 1", *argv, engine=engine)
        assert engine.options.get("mcp") == given


def test_notes_of_an_engine_are_said() -> None:
    engine = Engine(notes=["one"])
    assert invoke("sql", "SELECT 1 AS a", engine=engine).err == "note: one\n"


def test_loopback() -> None:
    assert [is_loopback(h) for h in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")] == [True] * 3 + [
        False
    ] * 2


def test_the_missing_library_is_named(work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = invoke("mcp", "serve", "--workspace", work, real=True)
    assert done.code == 2
    assert done.err == (
        "error: the library mcp is not installed: it is needed to serve\n"
        "hint: pip install 'kleene[mcp]' (or go without: --mcp off)\n"
    )
