"""What models cost: one TOML file with a date and a source a row, under the user's own rows."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import TypeVar

import attrs

from kleene.planner.specs import Price, price_from

T = TypeVar("T")


@attrs.frozen
class Prices:
    """Prices by model name, and how many tokens a model can take in. A trailing date in a model's name (``-20260901``), ``-latest`` and a
    ``vendor/`` in front do not count."""

    rows: Mapping[str, Price]
    windows: Mapping[str, int] = attrs.field(factory=dict)

    def of(self, model: str) -> Price | None:
        """The price of a model, None where it is not known."""
        return _of(self.rows, model)

    def window(self, model: str) -> int | None:
        """The context window of a model in tokens, None where it is not known."""
        return _of(self.windows, model)

    def with_rows(self, rows: Mapping[str, Price]) -> Prices:
        """These prices with the user's rows over them."""
        return attrs.evolve(self, rows={**self.rows, **rows})


def load_prices() -> Prices:
    """Read the file that comes with Kleene."""
    text = resources.files("kleene.models").joinpath("prices.toml").read_text(encoding="utf-8")
    rows = tomllib.loads(text)
    windows = {model: row.pop("context_window") for model, row in rows.items() if "context_window" in row}
    return Prices({model: price_from(row) for model, row in rows.items()}, windows)


def _of(rows: Mapping[str, T], model: str) -> T | None:
    bare = model.rpartition("/")[2]
    for name in (model, bare, re.sub(r"-(\d{8}|\d{4}-\d\d-\d\d|latest)$", "", bare)):
        if name in rows:
            return rows[name]
    return None


def missing_price_hint(model: str) -> str:
    """The lines to add to kleene.toml for an unpriced model."""
    return f'add to kleene.toml: [pricing."{model}"] input_per_mtok = 0.50, output_per_mtok = 2.00 (dollars per million tokens)'
