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


def default_budget(inv: Invocation) -> tuple[BudgetLimits, str]:
    """What a run without a budget may use, and the sentence that says so: a dollar, or calls where a model has no price."""
    from kleene.planner.specs import BudgetLimits

    handler = handler_of(inv)
    routes = [route for alias in RUN_ALIASES for route in routes_of(handler, alias)]
    unpriced = next((route.model for route in routes if route.price is None and not route.free), None)
    if unpriced is None:
        return BudgetLimits(
            dollars=RUN_DOLLARS
        ), f"no budget given: at most ${RUN_DOLLARS:.2f} (--budget-dollars X changes it)"
    note = f"no budget given and {unpriced} has no price: at most {RUN_CALLS} calls (--budget-calls N changes it)"
    return BudgetLimits(calls=RUN_CALLS), note
