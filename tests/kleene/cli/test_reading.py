"""``trace``, ``runs`` and ``memo`` on a real store."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kleene.store import Store, TraceWriter
from kleene.udfs.events import RunStarted, SessionFinished, SessionStarted
from kleene.udfs.memo import MemoEntry
from tests.kleene.cli.doubles import invoke


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with one run and two answers, one of them a refusal."""
    path = tmp_path / "run.duckdb"
    with Store.open(path) as store:
        writer = TraceWriter(store)
        writer(RunStarted(at=1_000_000.0, run="r1", task="Who pays?"))
        writer(
            SessionStarted(at=1_000_000.0, session="s1", run="r1", parent=None, depth=0, role="root", task="Who pays?")
        )
        writer(
            SessionFinished(
                at=1_000_010.0, session="s1", outcome="final", forced=False, turns=3, calls=5, tokens=900, dollars=0.25
            )
        )
        writer.close()
        memo = store.memo()
        memo.commit(
            [
                MemoEntry("p\nhttp://x\nm", "d", "red?", "yes", input_tokens=10, output_tokens=1, dollars=0.5),
                MemoEntry("p\nhttp://x\nm", "d", "bad?", "no", kind="refused"),
            ]
        )
        memo.close()
    return path


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Another process that holds the store."""
    code = "import sys; from kleene.store import Store; s = Store.open(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin is not None and holder.stdout is not None
    try:
        assert holder.stdout.readline() == "open\n"
        yield
    finally:
        holder.stdin.close()
        holder.wait(timeout=20)
        holder.stdout.close()


def test_runs_lists_what_ran(path: Path) -> None:
    done = invoke("runs", "--store", str(path))
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        '{"run":"r1","started_at":"1970-01-12 13:46:40","outcome":"final","turns":3,"calls":5,"tokens":900,"dollars":0.25,"task":"Who pays?"}\n'
    )


def test_trace_answers_sql(path: Path) -> None:
    done = invoke(
        "trace",
        "SELECT count(*) AS n, sum(dollars) AS dollars FROM trace_sessions",
        "--store",
        str(path),
        "--format",
        "csv",
    )
    assert (done.code, done.out) == (0, "n,dollars\n1,0.25\n")


def test_trace_cannot_write(path: Path) -> None:
    done = invoke("trace", "DELETE FROM trace_runs", "--store", str(path))
    assert done.code == 1
    assert "read-only" in done.err


def test_a_store_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    done = invoke("trace", "SELECT 1", "--store", str(tmp_path / "no.duckdb"))
    assert (done.code, done.err) == (
        2,
        f"error: there is no store at {tmp_path}/no.duckdb\nhint: it is made by the first run; --store names another place\n",
    )
    assert not (tmp_path / "no.duckdb").exists()


def test_the_trace_can_be_read_while_another_process_runs(path: Path) -> None:
    with held(path):
        done = invoke("runs", "--store", str(path))
        assert (done.code, '"run":"r1"' in done.out) == (0, True)
        assert done.err.startswith("note: the store is in use by process ")
        assert invoke("memo", "stats", "--store", str(path)).code == 5
        assert invoke("memo", "prune", "--all", "--yes", "--store", str(path)).code == 5


def test_memo_stats_counts_answers_by_model_and_kind(path: Path) -> None:
    out = invoke("memo", "stats", "--store", str(path), "--format", "csv").out.splitlines()
    assert out[0] == "provider,model,kind,answers,input_tokens,output_tokens,dollars,oldest,newest"
    assert sorted(line.split(",")[:5] for line in out[1:]) == [
        ["p", "m", "answer", "1", "10"],
        ["p", "m", "refused", "1", ""],
    ]


def answers(path: Path) -> str:
    return invoke("trace", "SELECT count(*) AS n FROM memo", "--store", str(path)).out


def test_memo_prune_deletes_what_is_old_enough(path: Path) -> None:
    assert invoke("memo", "prune", "--older-than", "1h", "--store", str(path)).err == "0 answers deleted\n"
    assert answers(path) == '{"n":2}\n'
    assert invoke("memo", "prune", "--all", "--yes", "--store", str(path)).err == "2 answers deleted\n"
    assert answers(path) == '{"n":0}\n'


@pytest.mark.parametrize(
    ("argv", "err"),
    [
        ([], "error: memo prune needs --older-than AGE or --all\nhint: python -m kleene memo prune --older-than 30d\n"),
        (["--all"], "error: nothing was deleted\nhint: --yes deletes without asking\n"),
    ],
    ids=["neither", "nobody to ask"],
)
def test_memo_prune_deletes_nothing_unasked(path: Path, argv: list[str], err: str) -> None:
    done = invoke("memo", "prune", *argv, "--store", str(path))
    assert (done.code, done.err) == (2, err)
    assert answers(path) == '{"n":2}\n'
