from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import kleene
from kleene.cli.doctor import sandbox
from tests.fake_server import FakeServer, failure
from tests.kleene.cli.doubles import Done, invoke


def states(done: Done) -> dict[str, tuple[str, str]]:
    rows = [json.loads(line) for line in done.out.splitlines()]
    return {row["part"]: (row["state"], row["detail"]) for row in rows}


def test_without_a_model_it_says_how_to_get_one(tmp_path: Path) -> None:
    done = invoke("doctor", "--workspace", str(tmp_path))
    assert done.code == 4
    assert states(done)["model"] == ("none", "no model is configured: kleene setup")
    assert states(done)["store"] == ("absent", f"{tmp_path}/.kleene/run.duckdb is made by the first run")


def test_each_model_is_asked_one_tiny_thing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeServer(lambda a: "ready") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/v1")
        monkeypatch.setenv("OPENAI_MODEL", "m")
        done = invoke("doctor", "--workspace", str(tmp_path))
        found = states(done)
        assert done.code == (1 if found["sandbox"][0] == "failed" else 0)
        assert found["model root, worker, proxy, judge"][0] == "ok"
        assert found["model root, worker, proxy, judge"][1].startswith(f"openai:m at {server.url}/v1: answered in ")
        assert found["model embed"][0] == "ok"
        assert [a.wire for a in server.asks] == ["chat", "embeddings"]


def test_a_model_that_does_not_answer_is_an_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeServer(lambda a: failure(401, "no such key")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/v1")
        done = invoke("doctor", "--workspace", str(tmp_path), "--model", "openai:m")
    assert done.code == 1
    assert states(done)["model root, worker, proxy, judge"][0] == "failed"


def test_offline_sends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789abcdef")
    found = states(invoke("doctor", "--offline", "--workspace", str(tmp_path)))
    assert found["model proxy"] == (
        "ok",
        "anthropic:claude-haiku-5-5@effort=low at https://api.anthropic.com, not asked",
    )


def test_the_store_is_opened_and_counted(tmp_path: Path) -> None:
    place = tmp_path / ".kleene" / "run.duckdb"
    with kleene.connect(store=str(place), models=kleene.FunctionModel(lambda r: "true")) as k:
        k.sql("SELECT llm_bool('x')").fetchall()
    state, detail = states(invoke("doctor", "--workspace", str(tmp_path)))["store"]
    assert state == "ok" and detail.startswith(f"{place} (") and detail.endswith("keeps 1 answer")


@pytest.mark.skipif(shutil.which("bwrap") is not None, reason="bubblewrap is installed")
def test_without_bubblewrap_there_is_no_sandbox() -> None:
    assert sandbox().detail == "bubblewrap (bwrap) is not installed: shell tools are off"
