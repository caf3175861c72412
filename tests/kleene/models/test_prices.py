"""Prices as data."""

from __future__ import annotations

import pytest

from kleene.models.prices import load_prices, missing_price_hint
from kleene.planner.specs import Price


def test_every_row_has_rates_a_date_and_a_source() -> None:
    for model, price in load_prices().rows.items():
        assert price.input > 0, model
        assert (price.batch_input, price.batch_output) == (price.input / 2, price.output / 2), model
        if model.startswith("text-embedding"):
            assert (price.output, price.cache_read) == (0, None), model
            continue
        assert price.output > price.input, model
        assert price.cache_read == pytest.approx(price.input * 0.1) and price.cache_write == pytest.approx(
            price.input * 1.25
        ), model
        assert len(price.as_of) == 10 and price.source, model


@pytest.mark.parametrize(
    "name",
    [
        "claude-opus-5",
        "claude-opus-5-20260901",
        "anthropic/claude-opus-5",
        "claude-opus-5-latest",
        "claude-opus-5-2026-09-01",
    ],
)
def test_a_date_or_a_vendor_in_the_name_does_not_matter(name: str) -> None:
    price = load_prices().of(name)
    assert price is not None and (price.input, price.output) == (5.0, 25.0)


def test_batch_rates_price_no_call() -> None:
    assert Price(2, 8, batch_input=1, batch_output=4).dollars(1_000_000, 1_000_000) == 10


def test_opus_5_5_is_not_opus_5() -> None:
    price = load_prices().of("claude-opus-5-5")
    assert price is not None and price.dollars(1_000_000, 1_000_000, 1_000_000, 1_000_000) == pytest.approx(
        4 + 20 + 0.4 + 5
    )


def test_an_unknown_model_is_unpriced_and_the_hint_shows_the_lines_to_add() -> None:
    assert load_prices().of("gpt-5.4-mini") is None
    assert missing_price_hint("gpt-5.4-mini") == (
        'add to kleene.toml: [pricing."gpt-5.4-mini"] input_per_mtok = 0.50, output_per_mtok = 2.00 (dollars per million tokens)'
    )


def test_a_users_row_wins() -> None:
    assert load_prices().with_rows({"claude-opus-5": Price(1, 2)}).of("claude-opus-5") == Price(1, 2)
