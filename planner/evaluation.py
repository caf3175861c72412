"""What DuckDB evaluates of an expression whose parts are missing answers.

A function or operator one of whose arguments is a constant vector of NULL is NULL, and DuckDB 2.0 does not evaluate the arguments after it. What a
lookup gives for a single row is such a vector: of ``f(s) || g(s)`` over one row, ``g(s)`` would not be noted before ``f(s)`` is answered, so it would
be asked after it in place of beside it, and a count would not know of it. So a call that others follow is read through a list, at a place that
DuckDB cannot know to be 1:

    f(s) || g(s)   ->   list_extract(list_value(f(s)), 1 + floor(random())) || g(s)

The value is the same, its vector is flat.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from kleene.planner.calls import Call, Seen, has_call

_COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_CHOSEN = (exp.And, exp.Or, exp.Case, exp.If, exp.Coalesce)
_MADE = (exp.Array, exp.Struct, exp.Tuple, exp.Paren, exp.Alias)
_NOT_STRICT = (*_CHOSEN, *_MADE)  # what decides by itself which arguments to evaluate, and what evaluates all
_CLAUSES = (exp.From, exp.Join, exp.Where, exp.Group, exp.GroupingSets, exp.Rollup, exp.Cube, exp.Order, exp.Ordered)
_COLLECTED = (
    exp.AggFunc,
    exp.Distinct,
    exp.Filter,
    exp.Window,
)  # their arguments are columns of a block below, all computed
_ENDS = (exp.Query, exp.Lambda, exp.DML, exp.DDL, *_CLAUSES, *_COLLECTED)


def followed(calls: Iterable[Call]) -> set[int]:
    """The ``id`` of each call whose missing answer would keep DuckDB from evaluating a call after it."""
    return {id(call) for call in calls if _followed(call)}


def _followed(call: Call) -> bool:
    if _divides(call):
        return False
    node: exp.Expr = call
    parent = node.parent
    while parent is not None and not isinstance(parent, (*_ENDS, Call)) and not _ours(parent):
        if (
            not isinstance(parent, _NOT_STRICT)
            and not _joins(parent)
            and any(has_call(after) for after in _after(parent, node))
        ):
            return True
        node, parent = parent, parent.parent
    return False


def _divides(call: Call) -> bool:
    """It stands in a window's PARTITION BY or ORDER BY, where DuckDB allows nothing random."""
    node: exp.Expr = call
    while node.parent is not None and not isinstance(node.parent, exp.Query | exp.Window):
        node = node.parent
    return isinstance(node.parent, exp.Window) and node.arg_key in ("partition_by", "order", "spec")


def _joins(node: exp.Expr) -> bool:
    """A comparison that may join relations: it stays as it is, for DuckDB to see that."""
    above = node.parent
    while isinstance(above, exp.And | exp.Or | exp.Paren | Seen):
        above = above.parent
    block = above.parent if isinstance(above, exp.Where) else None
    joined = isinstance(above, exp.Join) or (block is not None and bool(block.args.get("joins")))
    return joined and isinstance(node, _COMPARED)


def _ours(node: exp.Expr) -> bool:
    """A function of Kleene's own, which is given all its arguments."""
    return isinstance(node, exp.Anonymous) and node.name.startswith("kleene_")


def _after(parent: exp.Expr, child: exp.Expr) -> list[exp.Expr]:
    """The arguments of a node that stand behind one of them."""
    arguments = [n for value in parent.args.values() for n in (value if isinstance(value, list) else [value])]
    expressions = [n for n in arguments if isinstance(n, exp.Expr)]
    place = next((i for i, n in enumerate(expressions) if n is child), len(expressions))
    return expressions[place + 1 :]


def flat(value: exp.Expr) -> exp.Expr:
    """The same value, in a vector that is not constant."""
    zero = exp.Cast(this=exp.Floor(this=exp.Anonymous(this="random")), to=exp.DataType.build("BIGINT"))
    place = exp.Add(this=exp.Literal.number(1), expression=zero)
    listed = exp.Anonymous(this="list_value", expressions=[value])
    return exp.Anonymous(this="list_extract", expressions=[listed, place])


__all__ = ["flat", "followed"]
