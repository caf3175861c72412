"""Conditions whose operands are asked in an order found while the statement runs: how a ``Route`` is read, and what is emitted for it."""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.callplan import Formula
from kleene.planner.calls import (
    Call,
    Ready,
    Route,
    all_of,
    any_of,
    calls_in,
    carrier_kind,
    carrier_type,
    copied,
    shape,
    unparen,
)
from kleene.planner.guarded import lack, peeking, readiness, strictly, truth_of


class Units:
    """The operands of a condition, each once, in the order of the text, and the condition as a formula over them."""

    def __init__(self) -> None:
        self.found: list[exp.Expr] = []
        self._known: dict[tuple[object, ...], int] = {}

    def read(self, node: exp.Expr, *, denied: bool = False) -> Formula:
        """The formula of a condition of which only matters whether it is TRUE (``denied``: FALSE): NOT is moved to the operands."""
        node = unparen(node)
        if isinstance(node, exp.Not):
            return self.read(node.this, denied=not denied)
        if isinstance(node, exp.And | exp.Or):
            joined = "and" if isinstance(node, exp.And) is not denied else "or"
            parts: list[Formula] = []
            for side in (node.left, node.right):
                part = self.read(side, denied=denied)
                parts += part[1] if isinstance(part, tuple) and part[0] == joined else (part,)
            return (joined, tuple(parts))
        key = (denied, shape(node))
        if key not in self._known:
            self._known[key] = len(self.found)
            self.found.append(exp.Not(this=exp.Paren(this=copied(node))) if denied else copied(node))
        return self._known[key]

    def forget(self, upto: int) -> None:
        """Keep only the first so many operands."""
        del self.found[upto:]
        self._known = {key: index for key, index in self._known.items() if index < upto}


def condition_of(route: Route) -> exp.Expr:
    """The condition that the route stands for, over its operands as they are now."""
    return _expression(route.meta["formula"], route.expressions)


def _expression(formula: Formula, operands: list[exp.Expr]) -> exp.Expr:
    if isinstance(formula, int):
        return copied(operands[formula])
    join = all_of if formula[0] == "and" else any_of
    return join([_expression(part, operands) for part in formula[1]])


def as_written(route: Route, waved: int | None) -> exp.Expr:
    """The route as a plain expression, its calls guarded in the order of the text; those of site ``waved`` are asked in waves."""
    condition = condition_of(route)
    value = (readiness(condition) or exp.true()) if route.args.get("decided") else truth_of(condition)
    if route.args.get("stop") is not None:
        for call in calls_in(value):
            if call.site == waved:
                under(call, route.args["stop"], route.args["group"], route.args["order"])
    return exp.Paren(this=value)


def under(node: Call | Ready | Route, stop: int, group: exp.Expr, order: exp.Expr) -> None:
    """Mark a node, in place, as asked in waves."""
    node.set("stop", stop)
    node.set("group", group.copy())
    node.set("order", order.copy())


def routed(route: Route, statement: str, suffix: str) -> exp.Expr:
    """The route as a function of what each operand lacks, and of its value."""
    none = exp.Literal.string("")
    name = "kleene_decided" if route.args.get("decided") else "kleene_route"
    arguments: list[exp.Expr] = [
        exp.Literal.string(f"{statement}:o{route.args['this']}"),
        route.args.get("group") or none,
        route.args.get("order") or none.copy(),
    ]
    for operand in route.expressions:
        arguments += [lack(operand) or exp.Null(), _boolean(peeking(strictly(operand)))]
    return exp.Anonymous(this=name + suffix, expressions=arguments)


def _boolean(value: exp.Expr) -> exp.Expr:
    """A value as WHERE reads it."""
    if isinstance(value, Call) and carrier_type(value) == "BOOLEAN":
        return value
    return exp.Cast(this=value, to=carrier_kind("BOOLEAN"))


__all__ = ["Units", "as_written", "condition_of", "routed", "under"]
