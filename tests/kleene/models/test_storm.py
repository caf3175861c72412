"""A storm: many calls through the whole engine against a server of which every twentieth reply is a failure."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import kleene
from kleene.planner.specs import Price
from tests.fake_server import Ask, FakeServer, Raw, Say, failure


@pytest.mark.parametrize("calls", [pytest.param(10_000, marks=pytest.mark.slow), 150])
@pytest.mark.parametrize("wire", ["openai", "anthropic", "responses"])
def test_every_row_is_right_and_the_ledger_too_when_five_in_a_hundred_requests_fail(
    tmp_path: Path, calls: int, wire: str
) -> None:
    chance = random.Random(7)
    wait = {"retry-after": "0.01"}

    def rule(a: Ask) -> str | Say | Raw:
        bad = [
            failure(429, "slow", headers=wait),
            failure(500, "boom"),
            Raw(b"{}" * 40, cut=10, reset=True),
            Say("", delay=0.1),
        ]
        if chance.random() < 0.05:
            found = chance.choice(bad)
            if isinstance(found, Raw):
                return found
        number = int("".join(c for c in a.prompt.split("?")[0] if c.isdigit()))
        return Say('{"answer": true}' if number % 3 == 0 else '{"answer": false}', usage=(20, 4))

    make: Any = {"openai": kleene.OpenAI, "anthropic": kleene.Anthropic, "responses": kleene.Responses}[wire]
    price = Price(1.0, 10.0)
    with FakeServer(rule) as server:
        url = server.url if wire == "anthropic" else server.url + "/v1"
        model = make("fake-1", base_url=url, api_key="sk-0123456789", price=price)
        with kleene.connect(store=tmp_path / "run.duckdb", models=model, workspace=tmp_path) as k:
            result = k.sql(
                f"SELECT i FROM range({calls}) t(i) WHERE llm_bool('Divisible by three: ' || i || '?') ORDER BY i"
            )
            assert [row[0] for row in result.fetchall()] == list(range(0, calls, 3))
            usage = result.usage
    assert (usage.items, usage.unknown) == (calls, 0)
    assert usage.requests == server.count <= 1.2 * calls
    answered = usage.output_tokens // 4
    assert answered == calls
    assert usage.dollars == pytest.approx(usage.input_tokens * 1e-6 + usage.output_tokens * 1e-5)
