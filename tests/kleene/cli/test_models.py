from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kleene.cli.doubles import invoke


def test_no_model_has_an_exit_code_of_its_own() -> None:
    done = invoke("models")
    assert (done.code, done.out) == (4, "")
    assert done.err.startswith("error: no model is configured")


def test_every_candidate_is_listed_in_order_with_its_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-0123456789")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    done = invoke("models", "--model", "worker=anthropic:claude-sonnet-5", "--model", "worker=openai:in-house")
    rows = [json.loads(line) for line in done.out.splitlines()]
    worker = [row for row in rows if row["alias"] == "worker"]
    assert [(r["rank"], r["provider"], r["model"]) for r in worker] == [
        (1, "anthropic", "claude-sonnet-5"),
        (2, "openai", "in-house"),
    ]
    assert worker[0]["input_usd_per_mtok"] > 0
    assert worker[0]["batch_input_usd_per_mtok"] == worker[0]["input_usd_per_mtok"] / 2
    assert worker[0]["batch_output_usd_per_mtok"] == worker[0]["output_usd_per_mtok"] / 2
    assert [r["without"] for r in worker] == ["logprobs", "logprobs, prompt_cache"]
    assert (worker[1]["input_usd_per_mtok"], worker[1]["price_as_of"]) == (None, "unpriced")
    assert "0123456789" not in done.out + done.err


def test_a_function_is_free(tmp_path: Path) -> None:
    script = tmp_path / "m.py"
    script.write_text("def answer(request):\n    return ''\n", encoding="utf-8")
    rows = [json.loads(line) for line in invoke("models", "--model-script", f"{script}:answer").out.splitlines()]
    assert {(row["model"], row["price_as_of"], row["without"]) for row in rows} == {("m.answer", "free", None)}


def test_a_model_that_cannot_be_read_is_a_usage_error() -> None:
    done = invoke("models", "--model", "gpt")
    assert done.code == 2
    assert done.err.startswith("error: 'gpt' does not name a model\nhint: ")


def test_on_a_terminal_a_model_is_one_column_and_its_price_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-0123456789")
    done = invoke("models", "--model", "worker=anthropic:claude-sonnet-5", tty=True)
    heads, _, row = done.out.splitlines()[1:4]
    assert [cell.strip() for cell in heads.split("│")][1:-1] == [
        "alias",
        "model",
        "endpoint",
        "usd_per_mtok",
        "without",
    ]
    assert "│ anthropic:claude-sonnet-5 │" in row and " in, " in row and "…" not in done.out


def test_a_function_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def answer(request):\n    return 'yes'\n", encoding="utf-8")
    done = invoke("models", "--model-script", str(tmp_path / "mine.py") + ":answer", tty=True)
    assert "│ worker │ mine.answer │ python   │ free " in done.out
