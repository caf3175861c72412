"""``models``: which model stands behind each alias, and what it costs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kleene.cli.command import Command

if TYPE_CHECKING:
    from kleene.cli.invocation import Invocation
    from kleene.cli.rows import Table
    from kleene.models.provider import Handler

COLUMNS = ("alias", "rank", "provider", "model", "endpoint", "input_usd_per_mtok", "output_usd_per_mtok", "price_as_of")
TYPES = ("VARCHAR", "BIGINT", "VARCHAR", "VARCHAR", "VARCHAR", "DOUBLE", "DOUBLE", "VARCHAR")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There is nothing but the global options."""


def execute(inv: Invocation) -> int:
    from kleene.cli.handlers import handler_of

    inv.write(table_of(handler_of(inv)))
    return 0


def table_of(handler: Handler) -> Table:
    """One row a model of an alias, in the order in which they are tried. Prices are NULL where a model has none: ``price_as_of`` is then
    ``free`` or ``unpriced``. Raises ``NoModel`` where nothing is configured."""
    import pyarrow

    from kleene.cli.handlers import routes_of
    from kleene.cli.rows import Table

    rows = []
    for alias in handler.known_aliases() or ("worker",):
        for rank, route in enumerate(routes_of(handler, alias), 1):
            price = route.price
            as_of = (price.as_of or "given") if price else "free" if route.free else "unpriced"
            rates = (price.input, price.output) if price else (None, None)
            rows.append((alias, rank, route.provider, route.model, route.endpoint, *rates, as_of))
    arrow = {"VARCHAR": pyarrow.string(), "BIGINT": pyarrow.int64(), "DOUBLE": pyarrow.float64()}
    columns = [pyarrow.array(values, arrow[t]) for values, t in zip(zip(*rows, strict=True), TYPES, strict=True)]
    return Table(COLUMNS, TYPES, pyarrow.table(columns, names=list(COLUMNS)))


COMMAND = Command(
    name="models",
    summary="show the model behind each alias and its price",
    usage="[OPTIONS]",
    description="""\
Show which model answers for each alias, where it is reached and what a million tokens cost. Models come from --model,
from kleene.toml in the workspace, from ~/.config/kleene/config.toml, or from ANTHROPIC_API_KEY or OPENAI_API_KEY (with
OPENAI_BASE_URL and OPENAI_MODEL) in the environment.""",
    examples="""\
# what would be used now
python -m kleene models

# a strong model for runs, a cheap one for rows
python -m kleene models --model root=anthropic:claude-opus-5-5 --model worker=openai:gpt-5.4-mini""",
    add_arguments=add_arguments,
    execute=execute,
)
