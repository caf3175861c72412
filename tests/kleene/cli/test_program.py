"""The program as a process of its own, on the real engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kleene.store import Store
from tests.kleene.cli.doubles import Done, invoke

MODEL = """\
import time

import kleene
from kleene.planner.specs import Price


def answer(request):
    return "hello, " + request.prompt


def slow(request):
    print("asked", file=open("asked", "a"), flush=True)
    time.sleep(0 if request.prompt == "quick" else 60)
    return "done"


def solve(request):
    return "```sql\\nFINAL(SELECT 42 AS answer)\\n```"


dear = kleene.FunctionModel(answer, name="dear", price=Price(10_000.0, 10_000.0))
waiting = kleene.FunctionModel(slow, name="slow", threads=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.py").write_text(MODEL, encoding="utf-8")
    return tmp_path


def start(folder: Path, *argv: str, **more: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kleene", *argv],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,  # type: ignore[call-overload]
    )


def kleene(folder: Path, *argv: str, **more: Any) -> Done:
    """The same in this process, which is quicker to start."""
    at = (
        "--workspace",
        str(folder),
        *(("--model-script", f"{folder}/m.py:{more.pop('model')}") if "model" in more else ()),
    )
    return invoke(*argv, *at, real=True, **more)


def test_a_statement_is_answered_and_then_remembered(folder: Path) -> None:
    statement = "SELECT llm('world') AS greeting"
    assert kleene(folder, "sql", statement, model="answer") == Done(0, '{"greeting":"hello, world"}\n', "")
    assert kleene(folder, "sql", statement, model="answer") == Done(0, '{"greeting":"hello, world"}\n', "")
    calls = kleene(folder, "trace", "SELECT memo_hit FROM trace_calls ORDER BY started_at", "--format", "csv")
    assert calls.out == "memo_hit\nfalse\ntrue\n"


def test_a_task_is_answered(folder: Path) -> None:
    done = kleene(folder, "run", "What is six times seven?", model="solve")
    assert (done.code, done.out) == (0, '{"answer":42}\n'), done.err
    runs = json.loads(kleene(folder, "runs").out)
    assert (runs["outcome"], runs["task"]) == ("final", "What is six times seven?")


def test_no_model_exits_4(folder: Path) -> None:
    done = kleene(folder, "sql", "SELECT llm('world')")
    assert (done.code, done.out) == (4, "")
    assert done.err.startswith("error: no model is configured")


def test_out_of_budget_exits_3(folder: Path) -> None:
    two = "SELECT llm(x) FROM (VALUES ('a'), ('b')) AS t(x)"
    done = kleene(folder, "sql", two, "--budget-calls", "1", model="answer")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("error: ") and "calls" in done.err


def test_a_dear_statement_asks_first(folder: Path) -> None:
    done = kleene(folder, "sql", "SELECT llm('world')", model="dear")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("error: this statement may cost $")
    done = kleene(folder, "sql", "SET confirm.dollars = 1000; SELECT llm('world') AS greeting", model="dear")
    assert (done.code, done.out) == (0, '{"greeting":"hello, world"}\n'), done.err


def test_a_locked_store_exits_5(folder: Path) -> None:
    with Store.open(folder / ".kleene" / "run.duckdb"), start(folder, "sql", "SELECT 1") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (5, "")
    assert err.startswith("error: ") and "--lock-wait" in err


def test_an_error_of_duckdbs_exits_1_with_its_words(folder: Path) -> None:
    done = kleene(folder, "sql", "SELECT 'x'::INTEGER")
    assert (done.code, done.out) == (1, "")
    assert "Could not convert string 'x' to INT32" in done.err


def test_a_recording_is_replayed_without_the_model(folder: Path) -> None:
    statement = "SELECT llm('world') AS greeting"
    recording = str(folder / "r.jsonl")
    recorded = kleene(
        folder, "sql", statement, "--record", recording, "--store", str(folder / "a.duckdb"), model="answer"
    )
    assert recorded == Done(0, '{"greeting":"hello, world"}\n', "")
    assert kleene(folder, "sql", statement, "--replay", recording, "--store", str(folder / "b.duckdb")) == recorded


def test_a_closed_pipe_is_not_an_error(folder: Path) -> None:
    with start(folder, "sql", "SELECT i, repeat('x', 100) AS s FROM range(200000) AS t(i)") as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith('{"i":0,')
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=30) == 0


@contextmanager
def asking(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The program in the middle of a call that would take a minute."""
    argv = ("sql", "SELECT llm(x) FROM (VALUES ('quick'), ('slow')) AS t(x)", "--model-script", "m.py:waiting")
    process = start(folder, *argv)
    with process:
        try:
            deadline = time.monotonic() + 30
            while len((folder / "asked").read_text().split() if (folder / "asked").exists() else ()) < 2:
                assert process.poll() is None, process.stderr and process.stderr.read()
                assert time.monotonic() < deadline
                time.sleep(0.02)
            time.sleep(0.2)
            yield process
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_an_interrupt_ends_the_program_in_order(folder: Path, number: signal.Signals) -> None:
    with asking(folder) as process:
        sent = time.monotonic()
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
        assert (process.returncode, out) == (130, "")
        assert "cancelled" in err and "Traceback" not in err
        assert time.monotonic() - sent < 5
    kept = kleene(folder, "trace", "SELECT prompt FROM trace_calls WHERE error IS NULL", "--format", "csv")
    assert kept.out == "prompt\nquick\n"
    assert (
        kleene(folder, "trace", "SELECT count(*) AS n FROM trace_statements WHERE finished_at IS NULL").out
        == '{"n":0}\n'
    )


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
class TestOnATerminal:
    def test_rows_are_a_table(self, folder: Path) -> None:
        import pexpect

        child = pexpect.spawn(
            sys.executable, ["-m", "kleene", "sql", "SELECT 1 AS a"], cwd=str(folder), encoding="utf-8", timeout=30
        )
        child.expect_exact("│ a │")
        child.expect_exact("1 row")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0

    def test_an_interrupt_cancels_and_leaves_a_clean_line(self, folder: Path) -> None:
        import pexpect

        statement = "SELECT llm(x) FROM (VALUES ('quick'), ('slow')) AS t(x)"
        argv = ["-m", "kleene", "sql", statement, "--model-script", "m.py:waiting"]
        child = pexpect.spawn(
            sys.executable, argv, cwd=str(folder), encoding="utf-8", timeout=30, env={**os.environ, "TERM": "xterm"}
        )
        child.expect_exact("1 of 2 calls")
        child.sendintr()
        child.expect_exact("cancelled")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 130
        assert "Traceback" not in child.before

    def test_a_person_is_asked_before_a_dear_statement(self, folder: Path) -> None:
        import pexpect

        argv = [
            "-m",
            "kleene",
            "sql",
            "SELECT llm('world') AS greeting",
            "--model-script",
            "m.py:dear",
            "--format",
            "csv",
        ]
        child = pexpect.spawn(sys.executable, argv, cwd=str(folder), encoding="utf-8", timeout=30)
        child.expect_exact("(1 call). Run it? [y/N]")
        child.sendline("y")
        child.expect_exact("hello, world")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0
