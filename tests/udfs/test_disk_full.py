"""The store's disk runs full while a statement runs: what was paid for is not lost, and a re-run pays only for the rest."""

from __future__ import annotations

import collections
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import kleene
from kleene.planner.errors import KleeneError

ROWS = 1000
SQL = "SELECT body, llm(body) AS answer FROM t"


def mount(folder: Path, size: str, *more: str) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", ",".join([*more, f"size={size}"]), "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True).returncode == 0


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of a megabyte and a half; only root can make one."""
    if os.name != "posix" or os.geteuid() != 0 or not mount(tmp_path, "1500k"):
        pytest.skip("needs root, to mount a small disk")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


class Asked:
    """Answers with two kilobytes, so that all of them never fit, and counts each prompt."""

    def __init__(self) -> None:
        self.prompts: collections.Counter[str] = collections.Counter()

    def __call__(self, request: Any) -> str:
        prompt = request.messages[0].text.split("\n", 1)[0]
        self.prompts[prompt] += 1
        return prompt + "!" * 2000

    async def later(self, request: Any) -> str:
        return self(request)


def attached(store: Path, answer: Any) -> kleene.Engine:
    con = duckdb.connect()
    con.execute(f"CREATE TABLE t AS SELECT 'prompt ' || i AS body FROM range({ROWS}) r(i)")
    return kleene.attach(con, store=store, models=kleene.FunctionModel(answer, "m"))


@pytest.mark.parametrize("waits", [False, True], ids=["answers at once", "answers later"])
def test_what_was_paid_for_is_not_paid_again(small: Path, waits: bool) -> None:
    asked = Asked()
    k = attached(small / "run.duckdb", asked.later if waits else asked)
    with pytest.raises(KleeneError, match=r"could not be kept in the memo: .*No space left on device") as caught:
        k.sql(SQL)
    assert "make room on the store's disk" in (caught.value.hint or "")
    assert k.sql("SELECT 1").fetchall() == [(1,)]
    first = len(asked.prompts)
    assert 0 < first <= ROWS
    assert mount(small, "64m", "remount")
    result = k.sql(SQL)
    assert all(answer == body + "!" * 2000 for body, answer in result.fetchall())
    assert len(result) == ROWS
    assert result.usage.requests == ROWS - first
    assert max(asked.prompts.values()) == 1
    k.close()


def test_the_store_opens_in_another_engine_with_what_fitted(small: Path) -> None:
    asked = Asked()
    k = attached(small / "run.duckdb", asked)
    with pytest.raises(KleeneError, match="No space left on device"):
        k.sql(SQL)
    k.close()
    assert mount(small, "64m", "remount")
    first = len(asked.prompts)
    with attached(small / "run.duckdb", asked) as k:
        result = k.sql(SQL)
    assert len(result) == ROWS
    assert result.usage.memo_hits >= 1, "what fitted was written"
    assert result.usage.requests == ROWS - result.usage.memo_hits
    assert first > 0
