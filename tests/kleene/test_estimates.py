"""Estimates come nearer to what a provider reports, and stay so in the next process."""

from __future__ import annotations

from pathlib import Path

import kleene
from tests.fake_server import Ask, FakeServer, Say

ROWS = "SELECT llm('word ' || i || ' of a text that is asked about') FROM range({low}, {high}) r(i)"


def tokens(ask: Ask) -> Say:
    return Say("fine", usage=(len(ask.prompt) // 2, 64))


def estimated(k: kleene.Engine, low: int) -> float:
    """The input tokens of 20 calls; a reply is estimated at 64."""
    return k.explain(ROWS.format(low=low, high=low + 20)).estimate.tokens - 20 * 64


def test_estimates_converge_to_what_is_reported_and_are_kept(tmp_path: Path) -> None:
    store = tmp_path / "run.duckdb"
    with FakeServer(tokens) as server:
        model = kleene.OpenAI("m", base_url=server.url + "/v1", api_key="k")
        with kleene.connect(store=str(store), models=model) as k:
            before = estimated(k, 100)
            used = k.sql(ROWS.format(low=100, high=120)).usage.input_tokens
            after = estimated(k, 200)
        with kleene.connect(store=str(store), models=model) as k:
            again = estimated(k, 200)
    assert abs(before - used) > 0.3 * used
    assert abs(after - used) < 0.2 * used
    assert again == after


def test_a_functions_made_up_tokens_teach_nothing() -> None:
    with kleene.connect(store=":memory:", models=kleene.FunctionModel(lambda r: "fine")) as k:
        before = estimated(k, 100)
        k.sql(ROWS.format(low=100, high=120)).fetchall()
        assert estimated(k, 200) == before
