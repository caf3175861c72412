"""The expression nodes that stand for calls between resolution and emission, and small builders of expressions around them.

``Call`` is a call site's occurrence; ``Ready`` asks whether that occurrence is answered. Rules move and copy them; ``emit`` turns them into
functions that DuckDB knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, TypeVar

from sqlglot import exp

from kleene.planner.specs import Carrier

CARRIER_SQL = {Carrier.BOOL: "BOOLEAN", Carrier.BIGINT: "BIGINT", Carrier.DOUBLE: "DOUBLE", Carrier.TEXT: "VARCHAR"}


E = TypeVar("E", bound=exp.Expr)


class Call(exp.Expression):
    """``this`` is the site's number, ``expressions`` its arguments (already cast to their declared types, then to VARCHAR).

    Under a stop, ``stop`` is the stop's number, ``group`` and ``order`` are text expressions (see ``Seen``). ``peek``: what is missing is
    not noted.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expressions": False,
        "stop": False,
        "group": False,
        "order": False,
        "peek": False,
    }

    @property
    def site(self) -> int:
        return int(self.args["this"])


class Ready(exp.Expression):
    """TRUE where the call has an answer (or a NULL argument), else FALSE; the argument is noted as ``Call`` would."""

    arg_types: ClassVar[dict[str, bool]] = Call.arg_types

    @property
    def site(self) -> int:
        return int(self.args["this"])


class Lack(Ready):
    """NULL where the call has an answer (or a NULL argument), else the number of its argument (``udfs.lookups``). Notes nothing."""


class Route(exp.Expression):
    """A condition whose operands ``expressions`` are asked in an order found while the statement runs (rule ``order``): TRUE where the
    formula of route number ``this`` is, NULL where it is open, else FALSE. What a row needs next is noted. ``decided``: TRUE where it is
    not open. Under a stop ``stop``, ``group`` and ``order`` are as in ``Call``."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expressions": True,
        "stop": False,
        "group": False,
        "order": False,
        "decided": False,
    }


class Seen(exp.Expression):
    """``expression`` as it is; its TRUE rows are kept for stop number ``this``: by ``group`` (the outer row, as text) and ``order`` (the
    place in the order of the rows, as text; empty where there is none)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True, "group": True, "order": True}


class Round(exp.Expression):
    """TRUE while recursive query number ``this`` may go on; ``expression`` is the size of the round's delta."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class KeptRows(exp.Expression):
    """Stands in FROM for the temp table that holds the rows of pure block number ``this`` while the statement runs (rule ``materialise``)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}

    @property
    def query(self) -> exp.Expr:
        """The block. Not a part of the tree, where its tables would count as read."""
        found: exp.Expr = self.meta["query"]
        return found


def new_call(site: int, arguments: list[exp.Expr], carrier: Carrier) -> Call:
    call = Call(this=site, expressions=arguments)
    call.meta["carrier"] = CARRIER_SQL[carrier]
    return call


def carrier_type(call: Call) -> str:
    """The SQL type in which a call's answer arrives."""
    return str(call.meta_get("carrier", "VARCHAR"))


def carrier_kind(name: str) -> exp.DataType:
    """One of the types in which answers arrive, made and not read from its name."""
    if name != "VARCHAR":
        return exp.DataType(this=exp.DType[name], nested=False)
    text = exp.DataType(this=exp.DType.TEXT, nested=False)  # what reading VARCHAR gives
    text.meta["text"] = name
    return text


def calls_in(node: exp.Expr) -> Iterator[Call | Ready]:
    """Every call and readiness in the tree, in the order of the text."""
    for found in nodes(node):
        if isinstance(found, (Call, Ready)):
            yield found


LEAVES = frozenset([str, bool, int, float, type(None)])
"""What most arguments of a node are: a look at the class spares them the dearer test for a node."""


def nodes(root: exp.Expr) -> list[exp.Expr]:
    """The nodes of a tree in the order of the text, each before what it holds."""
    found: list[exp.Expr] = []
    todo: list[exp.Expr] = [root]
    while todo:
        here = todo.pop()
        found.append(here)
        for value in reversed(here.args.values()):
            kind = value.__class__
            if kind is list:
                todo.extend(v for v in reversed(value) if v.__class__ not in LEAVES and isinstance(v, exp.Expr))
            elif kind not in LEAVES and isinstance(value, exp.Expr):
                todo.append(value)
    return found


def all_in(root: exp.Expr, *kinds: type[E]) -> list[E]:
    """The nodes of these kinds, outer ones before inner ones, as ``find_all`` gives them, in a third of its time."""
    level: list[exp.Expr] = [root]
    for here in level:
        for value in here.args.values():
            kind = value.__class__
            if kind is list:
                level.extend(v for v in value if v.__class__ not in LEAVES and isinstance(v, exp.Expr))
            elif kind not in LEAVES and isinstance(value, exp.Expr):
                level.append(value)
    return [node for node in level if isinstance(node, kinds)]


def parameters(root: exp.Expr) -> frozenset[str]:
    """The names, or numbers, of the parameters in a tree."""
    return frozenset(n.name for n in nodes(root) if isinstance(n, exp.Parameter | exp.Placeholder))


def kinds(root: exp.Expr) -> frozenset[type[exp.Expr]]:
    """The classes of a tree's nodes, and those that they are made from."""
    found = {type(node) for node in nodes(root)}
    return frozenset(base for kind in found for base in kind.__mro__ if issubclass(base, exp.Expr))


def copied(node: E) -> E:
    """A copy of a tree, made field by field: a quarter of the time of ``copy``, which clears the parents' hashes at each node."""
    made: E = node.__class__.__new__(node.__class__)
    args: dict[str, object] = {}
    made.args = args
    made.parent = made.arg_key = made.index = made._hash = None
    made.comments = list(node.comments) if node.comments else None
    made._type = node._type
    made._meta = dict(node._meta) if node._meta else None
    for key, value in node.args.items():
        kind = value.__class__
        if kind in LEAVES:
            args[key] = value
        elif kind is list:
            args[key] = items = []
            for index, item in enumerate(value):
                if item.__class__ not in LEAVES and isinstance(item, exp.Expr):
                    item = copied(item)
                    item.parent, item.arg_key, item.index = made, key, index
                items.append(item)
        elif isinstance(value, exp.Expr):
            args[key] = child = copied(value)
            child.parent, child.arg_key = made, key
        else:
            args[key] = value
    return made


def holds(node: exp.Expr, *kinds: type[exp.Expr]) -> bool:
    """The tree has a node of one of these kinds. Rules ask this of every clause: it is several times as fast as ``find``."""
    todo: list[exp.Expr] = [node]
    while todo:
        here = todo.pop()
        if isinstance(here, kinds):
            return True
        for value in here.args.values():
            kind = value.__class__
            if kind is list:
                todo.extend(v for v in value if v.__class__ not in LEAVES and isinstance(v, exp.Expr))
            elif kind not in LEAVES and isinstance(value, exp.Expr):
                todo.append(value)
    return False


def shape(node: exp.Expr) -> tuple[object, ...]:
    """A value that two trees share when they read the same, whatever the places and comments of their nodes: a key, and an equality, at a
    fraction of the price of their text."""
    parts: list[object] = [node.__class__]
    for key, value in node.args.items():
        if value is None or value is False or value == []:
            continue
        kind = value.__class__
        parts.append(key)
        if kind in LEAVES:
            parts.append(value)
        elif kind is list:
            parts.append(tuple([shape(v) if isinstance(v, exp.Expr) else v for v in value]))
        else:
            parts.append(shape(value) if isinstance(value, exp.Expr) else str(value))
    return tuple(parts)


def has_call(node: exp.Expr | None) -> bool:
    return node is not None and holds(node, Call, Ready)


def has_query(node: exp.Expr | None) -> bool:
    return node is not None and holds(node, exp.Query)


def has_own(value: exp.Expr, kind: type[exp.Expr]) -> bool:
    """The value holds a node of this kind, outside of its subqueries, and an aggregate outside of its windows."""
    if isinstance(value, kind):
        return True
    if isinstance(value, exp.Query | exp.Window):
        return False
    return any(has_own(child, kind) for child in value.iter_expressions())


def aggregates(block: exp.Select) -> bool:
    """The block's rows are groups of its sources' rows."""
    if block.args.get("group") or block.args.get("having"):
        return True
    return any(has_own(e, exp.AggFunc) for e in block.expressions)


def released(root: exp.Expr) -> exp.Expr:
    """The only expression of a tuple that served as its parent while it was changed in place."""
    node: exp.Expr = root.expressions[0]
    node.pop()
    return node


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """The operands of a tree of ANDs, parentheses around them removed, in written order."""
    node = unparen(node)
    if isinstance(node, exp.And):
        return conjuncts(node.left) + conjuncts(node.right)
    return [node]


def disjuncts(node: exp.Expr) -> list[exp.Expr]:
    node = unparen(node)
    if isinstance(node, exp.Or):
        return disjuncts(node.left) + disjuncts(node.right)
    return [node]


def unparen(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def paren(node: exp.Expr) -> exp.Expr:
    """The node in parentheses where its place in a larger expression may need them."""
    simple = (exp.Paren, exp.Column, exp.Literal, exp.Anonymous, Call, Ready, exp.Case, exp.Boolean, exp.Null)
    return node if isinstance(node, simple) else exp.Paren(this=node)


def all_of(nodes: list[exp.Expr]) -> exp.Expr:
    return _joined(exp.And, nodes)


def any_of(nodes: list[exp.Expr]) -> exp.Expr:
    return _joined(exp.Or, nodes)


def _joined(kind: type[exp.Connector], nodes: list[exp.Expr]) -> exp.Expr:
    if len(nodes) == 1:
        return nodes[0]
    result = paren(nodes[0])
    for node in nodes[1:]:
        result = kind(this=result, expression=paren(node))
    return result


def case_when(condition: exp.Expr, value: exp.Expr) -> exp.Case:
    """``CASE WHEN condition THEN value END``."""
    return exp.Case(ifs=[exp.If(this=condition, true=value)])


def is_not(node: exp.Expr, value: bool) -> exp.Expr:
    """``NOT (node) IS TRUE`` or ``NOT (node) IS FALSE``: never NULL."""
    return exp.Not(this=exp.Is(this=exp.Paren(this=node), expression=exp.Boolean(this=value)))
