"""pick_first: what picks one row's value picks the argument, and the call is made for that one.

    first(f(x) ORDER BY k) = f(first(x ORDER BY k))          lag(f(x)) OVER w = f(lag(x) OVER w)

The same for last, lead, first_value and last_value: all give one of their inputs, NULL included, and f(NULL) is NULL. Side conditions: one
argument of f is not constant (two could be picked from two rows); no IGNORE NULLS and no default value; FILTER and the window travel along.
Functions that pass over NULL (arg_max, any_value, mode) are left alone: an unknown answer would not be passed over. Saves the calls of all
rows that are not picked.
"""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext
from kleene.planner.calls import Call, all_in, copied, has_call, holds, nodes
from kleene.planner.dialect import function_name

AGGREGATES = frozenset({"first", "last"})
WINDOWS = AGGREGATES | {"lag", "lead", "first_value", "last_value"}


def pick_first(plan: CallPlan, context: PlanContext) -> CallPlan:
    if not any(_picked(n) is not None for n in nodes(plan.tree)):
        return plan
    tree = copied(plan.tree)
    root = exp.Tuple(expressions=[tree])
    for node in [n for n in root.walk() if _picked(n) is not None]:
        _turn(node)
    tree = root.expressions[0]
    tree.pop()
    return plan.changed(tree, "pick_first")


def _picked(node: exp.Expr) -> tuple[Call, exp.Expr] | None:
    """The call that a picking function is given, alone or cast to its type, and its only argument that is not constant."""
    name = function_name(node)
    if name not in WINDOWS or not node.expressions:
        return None
    in_window = isinstance(_around(node).parent, exp.Window)
    if name not in AGGREGATES and not in_window:
        return None
    value = node.expressions[0]
    order = value if isinstance(value, exp.Order) else None
    value = order.this if order is not None else value
    if order is not None and any(has_call(o) for o in order.expressions):
        return None
    if any(has_call(e) for e in node.expressions[1:]) or len(node.expressions) > 2:
        return None
    while isinstance(value, exp.Cast | exp.Paren) and has_call(value):
        value = value.this
    if not isinstance(value, Call) or any(has_call(a) for a in value.expressions):
        return None
    varying = [a for a in value.expressions if holds(a, exp.Column)]
    return (value, varying[0]) if len(varying) == 1 else None


def _around(node: exp.Expr) -> exp.Expr:
    while isinstance(node.parent, exp.Filter | exp.IgnoreNulls | exp.RespectNulls) and node.parent.this is node:
        node = node.parent
    return node


def _turn(node: exp.Expr) -> None:
    found = _picked(node)
    assert found is not None
    call, argument = found
    whole = _around(node)
    if isinstance(whole, exp.IgnoreNulls) or holds(node, exp.IgnoreNulls):
        return
    if isinstance(whole.parent, exp.Window):
        if any(
            has_call(whole.parent.args.get(k))
            for k in ("partition_by", "order", "spec")
            if not isinstance(whole.parent.args.get(k), list)
        ):
            return
        whole = whole.parent
    value = node.expressions[0]
    order = value if isinstance(value, exp.Order) else None
    cast = order.this if order is not None else value
    outer = cast.copy()
    # The pick of the argument stands where the argument stood in the call.
    picked = whole.copy()
    inner = next(n for n in picked.walk() if n == node)
    first = inner.expressions[0]
    (first.this if isinstance(first, exp.Order) else first).replace(argument.copy())
    target = outer if isinstance(outer, Call) else next(c for c in all_in(outer, Call) if c == call)
    for child in list(target.expressions):
        if child == argument:
            child.replace(picked)
            break
    whole.replace(outer)
