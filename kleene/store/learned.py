"""What was learned about models, kept in the table ``estimates``: one row a model whose ``branch`` is the tokens that a character makes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import TYPE_CHECKING

import duckdb

from kleene.store.state import EstimateRecord, State
from kleene.udfs.tokens import TokenRatio

if TYPE_CHECKING:
    from kleene.store.store import Store

FUNCTION = "tokens a character"


def load_ratios(store: Store) -> tuple[TokenRatio, ...]:
    """Every model's ratio as it was kept."""
    with closing(State(store)) as state:
        found = state.all(EstimateRecord, function=FUNCTION)
    return tuple(TokenRatio(r.template, r.n / r.branch, r.n) for r in found if r.branch and r.n)


def save_ratios(store: Store, ratios: Iterable[TokenRatio]) -> None:
    """Keep ratios, each replacing its model's. They only sharpen estimates, so that a store that cannot take them is no error."""
    with closing(State(store)) as state:
        for ratio in ratios:
            if ratio.characters <= 0:
                continue
            record = EstimateRecord(
                template_hash=f"tokens of {ratio.model}",
                function=FUNCTION,
                template=ratio.model,
                branch=ratio.tokens / ratio.characters,
                n=round(ratio.tokens),
            )
            try:
                state.save(record)
            except duckdb.Error:
                return
