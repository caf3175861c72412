"""Expressions that a block groups by: each must be spelled alike in the whole block, so a rewrite hides them first and shows them last.

DuckDB compares texts: under ``GROUP BY f(s)`` neither ``CASE WHEN p THEN f(s) END`` nor a readiness that reads ``s`` may stand in the select
list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from sqlglot import exp

from kleene.planner.calls import has_call, unparen


class Grouped(exp.Expression):
    """Stands for a grouping expression that holds calls: pure to everything that looks at it. ``this`` is its number."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


def hide(block: exp.Select, hidden: list[exp.Expr]) -> None:
    """Replace the block's grouping expressions with calls, wherever they occur in it, by ``Grouped`` nodes; ``hidden`` gets the originals."""
    group = block.args.get("group")
    if group is None:
        return
    wanted = [e.copy() for e in _grouping(block, group) if has_call(e) and not e.find(exp.AggFunc, exp.Window)]
    for expression in dict.fromkeys(wanted):
        hidden.append(expression)
        for node in list(_places(block)):
            for found in [n for n in node.walk() if n == expression]:
                found.replace(Grouped(this=len(hidden) - 1))


def show(root: exp.Expr, shown: list[exp.Expr]) -> None:
    """Put expressions back in place of ``Grouped`` nodes; ``shown`` may itself hold such nodes, of lower numbers or higher."""
    while shown and (node := root.find(Grouped)) is not None:
        node.replace(exp.Paren(this=shown[int(node.args["this"])].copy()))


def _grouping(block: exp.Select, group: exp.Group) -> Iterator[exp.Expr]:
    items = [e.this if isinstance(e, exp.Alias) else e for e in block.expressions]
    if group.args.get("all"):
        yield from items
        return
    aliases = {e.alias.lower(): e.this for e in block.expressions if isinstance(e, exp.Alias)}
    for leaf in _leaves(group):
        if isinstance(leaf, exp.Literal) and not leaf.is_string and leaf.name.isdigit():
            position = int(leaf.name) - 1
            if 0 <= position < len(items):
                yield items[position]
        elif isinstance(leaf, exp.Column) and not leaf.table and leaf.name.lower() in aliases:
            yield aliases[leaf.name.lower()]
        else:
            yield leaf


def _leaves(node: exp.Expr) -> Iterator[exp.Expr]:
    for child in node.iter_expressions():
        if isinstance(child, exp.Cube | exp.Rollup | exp.GroupingSets | exp.Tuple):
            yield from _leaves(child)
        else:
            yield unparen(child)


def _places(block: exp.Select) -> Iterator[exp.Expr]:
    for key in ("expressions", "group", "having", "qualify", "order", "windows", "distinct"):
        value = block.args.get(key)
        if isinstance(value, list):
            yield from value
        elif value is not None:
            yield value
