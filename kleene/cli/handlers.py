"""The models of an invocation without an engine: what ``models`` lists, and what a run's default budget depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kleene.cli.exits import misconfigured
from kleene.cli.invocation import Invocation

if TYPE_CHECKING:
    from kleene.models.provider import Handler
    from kleene.planner.specs import BudgetLimits
    from kleene.udfs.protocols import Route

RUN_DOLLARS = 1.0
RUN_CALLS = 200
RUN_ALIASES = ("root", "worker")


def handler_of(inv: Invocation) -> Handler:
    """The handler that the options, the configuration and the environment give. Whatever is wrong with them is a ``UsageError``."""
    from kleene.config import load_config
    from kleene.models import build_handler

    with misconfigured():
        config = load_config(inv.args.workspace, file=inv.args.config)
        return build_handler(inv.models, config, replay=inv.args.replay)


def routes_of(handler: Handler, alias: str) -> tuple[Route, ...]:
    """Every candidate of an alias in order; the one that answers where the handler has no more than one. Raises ``NoModel``, and
    ``UsageError`` where a candidate cannot be made."""
    routes = getattr(handler, "routes", None)
    with misconfigured():
        found: tuple[Route, ...] = routes(alias) if routes is not None else (handler.route(alias),)
        return found


def run_budget(inv: Invocation) -> BudgetLimits:
    """The budget of a run: the one that was given; without calls, tokens or dollars in it a dollar, or calls where a model has no price,
    which is said."""
    import attrs

    from kleene.planner.specs import BudgetLimits

    given = inv.budget or BudgetLimits()
    if (given.calls, given.tokens, given.dollars) != (None, None, None):
        return given
    handler = handler_of(inv)
    routes = [route for alias in RUN_ALIASES for route in routes_of(handler, alias)]
    unpriced = next((route.model for route in routes if route.price is None and not route.free), None)
    if unpriced is None:
        inv.terminal.say(f"note: no budget given: at most ${RUN_DOLLARS:.2f} (--budget-dollars X changes it)")
        return attrs.evolve(given, dollars=RUN_DOLLARS)
    inv.terminal.say(
        f"note: no budget given and {unpriced} has no price: at most {RUN_CALLS} calls (--budget-calls N changes it)"
    )
    return attrs.evolve(given, calls=RUN_CALLS)
