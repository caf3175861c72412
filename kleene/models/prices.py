"""What models cost: one TOML file with a date and a source a row, under the user's own rows."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib import resources

import attrs

from kleene.planner.specs import Price


@attrs.frozen
class Prices:
    """Prices by model name."""

    rows: Mapping[str, Price]

    def of(self, model: str) -> Price | None:
        """The price of a model, None where it is not known. A trailing date (``-20260901``), ``-latest`` and a ``vendor/`` in front do not count."""
        bare = model.rpartition("/")[2]
        for name in (model, bare, re.sub(r"-(\d{8}|\d{4}-\d\d-\d\d|latest)$", "", bare)):
            if name in self.rows:
                return self.rows[name]
        return None

    def with_rows(self, rows: Mapping[str, Price]) -> Prices:
        """These prices with the user's rows over them."""
        return Prices({**self.rows, **rows})


def load_prices() -> Prices:
    """Read the file that comes with Kleene."""
    text = resources.files("kleene.models").joinpath("prices.toml").read_text(encoding="utf-8")
    return Prices({model: Price(**row) for model, row in tomllib.loads(text).items()})


def missing_price_hint(model: str) -> str:
    """The lines to add to kleene.toml for an unpriced model."""
    return f'add to kleene.toml: [pricing."{model}"] input_per_mtok = 0.50, output_per_mtok = 2.00 (dollars per million tokens)'
