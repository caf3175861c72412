"""What a function's declaration says of its calls (PROXY, VIA), applied to a statement before its calls are resolved."""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.calls import nodes
from kleene.planner.catalog import Catalog
from kleene.planner.rules.cascade import cascade
from kleene.planner.rules.classify_join import classify_join
from kleene.planner.settings import Settings

RULES = (classify_join, cascade)  # a label may itself have a proxy


def declared_calls(tree: exp.Expr, catalog: Catalog) -> list[exp.Anonymous]:
    """The calls of functions that are declared PROXY or VIA another."""
    calls = []
    for node in nodes(tree):
        spec = catalog.function(node.name) if isinstance(node, exp.Anonymous) else None
        if isinstance(node, exp.Anonymous) and spec is not None and (spec.proxy is not None or spec.via is not None):
            calls.append(node)
    return calls


def apply(tree: exp.Expr, catalog: Catalog, settings: Settings) -> tuple[exp.Expr, tuple[str, ...]]:
    """The tree (changed in place) and the names of the rules that changed it."""
    root = exp.Tuple(expressions=[tree])
    fired = tuple(r.__name__ for r in RULES if settings.rule_is_on(r.__name__) and r(root, catalog))
    changed = root.expressions[0]
    changed.pop()
    return changed, fired
