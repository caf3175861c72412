"""``models``: which model stands behind each alias, and what it costs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kleene.cli.command import Command

if TYPE_CHECKING:
    from kleene.cli.invocation import Invocation
    from kleene.models.provider import Handler
    from kleene.rendering.rows import Table
    from kleene.udfs.protocols import Route

COLUMNS = (
    "alias",
    "rank",
    "provider",
    "model",
    "endpoint",
    "input_usd_per_mtok",
    "output_usd_per_mtok",
    "batch_input_usd_per_mtok",
    "batch_output_usd_per_mtok",
    "price_as_of",
    "without",
)
TYPES = ("VARCHAR", "BIGINT", *("VARCHAR",) * 3, *("DOUBLE",) * 4, "VARCHAR", "VARCHAR")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There is nothing but the global options."""


def execute(inv: Invocation) -> int:
    from kleene.cli.handlers import handler_of

    table = table_of(handler_of(inv))
    inv.write(legible(table) if inv.terminal.shows_tables and not inv.args.format else table)
    return 0


def legible(table: Table) -> Table:
    """What fits on a screen: the model in one column, as ``--model`` takes it, its prices in one, and no rates of batch APIs."""
    from kleene.rendering.rows import text_table

    rows = []
    for row in table.to_arrow_table().to_pylist():
        price = row["price_as_of"]
        if row["input_usd_per_mtok"] is not None:
            price = f"{row['input_usd_per_mtok']:g} in, {row['output_usd_per_mtok']:g} out"
        function = row["endpoint"] == "python"  # named once: there is no provider behind it
        model = row["model"] if function else f"{row['provider']}:{row['model']}"
        rows.append((row["alias"], model, row["endpoint"], price, row["without"]))
    return text_table(("alias", "model", "endpoint", "usd_per_mtok", "without"), rows)


def table_of(handler: Handler) -> Table:
    """One row a model of an alias, in the order in which they are tried. Prices are NULL where a model has none: ``price_as_of`` is then
    ``free`` or ``unpriced``. ``without`` is what calls to the model go without. Raises ``NoModel`` where nothing is configured."""
    import pyarrow

    from kleene.cli.handlers import routes_of
    from kleene.rendering.rows import Table

    rows = []
    for alias in handler.known_aliases() or ("worker",):
        for rank, route in enumerate(routes_of(handler, alias), 1):
            price = route.price
            as_of = (price.as_of or "given") if price else "free" if route.free else "unpriced"
            rates = (price.input, price.output, price.batch_input, price.batch_output) if price else (None,) * 4
            rows.append(
                (alias, rank, route.provider, route.model, route.endpoint, *rates, as_of, _without(handler, route))
            )
    arrow = {"VARCHAR": pyarrow.string(), "BIGINT": pyarrow.int64(), "DOUBLE": pyarrow.float64()}
    columns = [pyarrow.array(values, arrow[t]) for values, t in zip(zip(*rows, strict=True), TYPES, strict=True)]
    return Table(COLUMNS, TYPES, pyarrow.table(columns, names=list(COLUMNS)))


def _without(handler: Handler, route: Route) -> str | None:
    """What a chat model's calls do without; None for a model that makes vectors, a function, and where it is not known."""
    capabilities = getattr(handler, "capabilities", None)
    if capabilities is None or route.alias == "embed" or route.is_function:
        return None
    lacks: tuple[str, ...] = capabilities(route).lacks
    return ", ".join(lacks) or None


COMMAND = Command(
    name="models",
    summary="show the model behind each alias and its price",
    usage="[OPTIONS]",
    description="""\
Show which model answers for each alias, where it is reached, what a million tokens cost (in the provider's batch API too,
where that is known), and what its calls go without: json_schema (a forced tool or words ask for it instead), logprobs (a
score is a number in the reply), effort, prompt_cache (marks; a cache of the server's own needs none). A second model of an
alias is asked where the first fails. On a terminal some columns are drawn together; --format has all. Models come from --model,
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
