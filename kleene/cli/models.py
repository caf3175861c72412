"""``models``: which model stands behind each alias, and what it costs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kleene.cli.command import Command

if TYPE_CHECKING:
    from kleene.cli.invocation import Invocation
    from kleene.cli.rows import Table
    from kleene.udfs.protocols import CallHandler

COLUMNS = ("alias", "provider", "model", "endpoint", "input_usd_per_mtok", "output_usd_per_mtok", "price_as_of")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There is nothing but the global options."""


def execute(inv: Invocation) -> int:
    from kleene.cli.exits import UsageError
    from kleene.config import load_config
    from kleene.models import build_handler
    from kleene.planner.errors import ConfigError, NoModel

    try:
        handler = build_handler(
            inv.models(), load_config(inv.args.workspace, file=inv.args.config), replay=inv.args.replay
        )
        inv.write(table_of(handler))
    except NoModel:
        raise
    except ConfigError as error:
        raise UsageError(error.message, hint=error.hint) from error
    return 0


def table_of(handler: CallHandler) -> Table:
    """One row an alias. Prices are NULL where a model has none: it is unpriced, or free where ``price_as_of`` says so."""
    import pyarrow

    from kleene.cli.invocation import STANDARD_ALIASES
    from kleene.cli.rows import Table

    rows = []
    for alias in STANDARD_ALIASES:
        route = handler.route(alias)
        price = route.price
        as_of = price.as_of if price else "free" if route.free else "unpriced"
        rows.append(
            (alias, route.provider, route.model, route.endpoint, price and price.input, price and price.output, as_of)
        )
    types = ("VARCHAR",) * 4 + ("DOUBLE",) * 2 + ("VARCHAR",)
    arrow = [pyarrow.float64() if t == "DOUBLE" else pyarrow.string() for t in types]
    columns = [pyarrow.array(values, type_) for values, type_ in zip(zip(*rows, strict=True), arrow, strict=True)]
    return Table(COLUMNS, types, pyarrow.table(columns, names=list(COLUMNS)))


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
python -m kleene models --model anthropic:claude-opus-4-5 --model worker=openai:gpt-5-mini""",
    add_arguments=add_arguments,
    execute=execute,
)
