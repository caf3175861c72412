"""Prices as data."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kleene.models.prices import load_prices, missing_price_hint
from kleene.planner.specs import LongPrompts, Price, price_from


def test_every_row_has_rates_a_date_and_a_source() -> None:
    for model, price in load_prices().rows.items():
        assert price.input > 0, model
        assert (price.batch_input, price.batch_output) == (price.input / 2, price.output / 2), model
        assert len(price.as_of) == 10 and price.source, model
        if model.startswith("text-embedding"):
            assert (price.output, price.cache_read) == (0, None), model
            continue
        for rates in [price] if price.long is None else [price, price.long]:
            assert rates.output > rates.input > (rates.cache_read or 0) > 0, model
            assert rates.cache_write in (None, pytest.approx(rates.input * 1.25)), model


def test_windows_are_those_of_the_models() -> None:
    prices = load_prices()
    assert (prices.window("claude-haiku-5-5"), prices.window("claude-haiku-4-5-20251001")) == (1_000_000, 200_000)
    assert prices.window("unheard-of") is None


LONG = Price(1, 10, 0.1, 1.25, long=LongPrompts(100, 5, 50, 0.5))


@pytest.mark.parametrize(
    ("asked", "read", "written", "expected"),
    [
        (100, 0, 0, 100 * 1 + 7 * 10),  # as many tokens as the bound are not above it
        (101, 0, 0, 101 * 5 + 7 * 50),
        (40, 40, 20, 40 * 1 + 7 * 10 + 40 * 0.1 + 20 * 1.25),  # what a cache gives counts among the prompt's tokens
        (40, 40, 21, 40 * 5 + 7 * 50 + 40 * 0.5 + 21 * 5),
    ],
)
def test_a_long_prompt_has_rates_of_its_own(asked: int, read: int, written: int, expected: float) -> None:
    assert LONG.dollars(asked, 7, read, written) == pytest.approx(expected / 1e6)


@given(st.lists(st.tuples(st.integers(0, 250), st.floats(0, 50)), max_size=8))
def test_requests_are_priced_one_by_one(requests: list[tuple[int, float]]) -> None:
    for price in (LONG, attrs.evolve(LONG, long=None)):
        each = price.dollars_each([n for n, _ in requests], [m for _, m in requests])
        assert each == pytest.approx(sum(price.dollars(n, m) for n, m in requests))


def test_a_price_survives_its_fields() -> None:
    assert price_from(attrs.asdict(LONG)) == LONG and price_from({"input": 1, "output": 2}) == Price(1, 2)


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
        4 + 20 + 0.2 + 5
    )


def test_an_unknown_model_is_unpriced_and_the_hint_shows_the_lines_to_add() -> None:
    assert load_prices().of("gpt-in-house") is None
    assert missing_price_hint("gpt-in-house") == (
        'add to kleene.toml: [pricing."gpt-in-house"] input_per_mtok = 0.50, output_per_mtok = 2.00 (dollars per million tokens)'
    )


def test_a_users_row_wins() -> None:
    assert load_prices().with_rows({"claude-opus-5": Price(1, 2)}).of("claude-opus-5") == Price(1, 2)
