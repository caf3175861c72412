"""Expressions with their calls guarded, and the readiness of expressions: what ``guard`` puts in place of what the user wrote.

    value_of(e)   = e, but every call inside is asked only where its place in e is reached, left to right
    truth_of(e)   = e in a place where only TRUE counts (a filter, the condition of a CASE branch): guarded further
    strictly(e)   = value_of(e), NULL as a whole until all that it needs is answered
    readiness(e)  = R(e): TRUE where all that e needs is answered
    decision(e)   = D(e): TRUE where it is decided whether e is TRUE

    R(pure)    = TRUE
    R(f(a))    = CASE WHEN R(a) THEN ready(f, a) END
    R(CASE ..) = by branch, R(a AND b) and R(COALESCE(a, b)) by short circuit
    R(g(a, b)) = R(a) AND R(b)
    D(a AND b) = D(a) AND (a is not TRUE OR D(b))

None of them changes the expression it is given. Once every lookup answers, value_of(e) = e, and R and D are TRUE.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from kleene.planner.calls import (
    Call,
    Lack,
    Ready,
    Route,
    all_of,
    any_of,
    calls_in,
    case_when,
    conjuncts,
    copied,
    disjuncts,
    has_call,
    is_not,
    paren,
    released,
    unparen,
)
from kleene.planner.dialect import function_name
from kleene.planner.strict import monotone, strict
from kleene.planner.volatile import copyable

STRUCTURE = (
    exp.Order,
    exp.Ordered,
    exp.Distinct,
    exp.WithinGroup,
    exp.WindowSpec,
    exp.IgnoreNulls,
    exp.RespectNulls,
    exp.PropertyEQ,
    exp.Kwarg,
    exp.Lambda,
)
MAX_CALL_OPERANDS = 6  # beyond, the text of readiness among call operands would grow quadratically
MAX_BRANCHING = 4  # levels of conditions under conditions: each about triples the text (12 kB at four)


def tame(node: exp.Expr) -> bool:
    """The guarded text stays in bounds: conditions with several calls do not nest deeper than ``MAX_BRANCHING``."""
    return _branching(node) <= MAX_BRANCHING


def _branching(node: exp.Expr) -> int:
    held = [c for c in node.iter_expressions() if has_call(c)]
    deepest = max((_branching(c) for c in held), default=0)
    branches = isinstance(node, exp.Connector | exp.Case | exp.If | exp.Coalesce) and len(held) > 1
    return deepest + branches


class NotReadable(Exception):
    """No readiness can be written for this expression (a subquery, aggregate or window with calls stands in the way)."""


def strictly(node: exp.Expr) -> exp.Expr:
    """The expression with its calls guarded, NULL as a whole until all that it needs is answered."""
    if function_name(node) == "unnest":  # only the root of a select item may be one: what it unnests is guarded
        copy = copied(node)
        copy.expressions[0].replace(strictly(copy.expressions[0]))
        return copy
    value = value_of(node)
    return value if _settles(node) else _when_ready(node, value)


def _settles(node: exp.Expr) -> bool:
    """``value_of(node)`` is NULL, or final, until all that it needs is answered."""
    node = unparen(node)
    if isinstance(node, exp.Case):
        return _case_settles(node)
    return isinstance(node, Call) or monotone(node)


def _case_settles(node: exp.Case) -> bool:
    """Each condition with calls is waited for, which ``value_of`` does where calls stand below it, and the branches settle."""
    below = node.args.get("default")
    if node.this is not None or (below is not None and not _settles(below)):
        return False
    called = has_call(below)
    for branch in reversed(node.args["ifs"]):
        value = branch.args["true"]
        called |= has_call(value)
        if not _settles(value) or (has_call(branch.this) and not called):
            return False
        called |= has_call(branch.this)
    return True


def truth_of(node: exp.Expr) -> exp.Expr:
    """A condition of which only matters whether it is TRUE: rows are kept, branches are taken. Pure conjuncts first, guarding the rest."""
    if not has_call(node):
        return copied(node)
    node = unparen(node)
    if isinstance(node, exp.Or):
        return _alternatives(node)
    if not isinstance(node, exp.And):
        value = value_of(node)
        return value if monotone(node) else _when_ready(node, value)
    parts = conjuncts(node)
    pure = [copied(p) for p in parts if not has_call(p)]
    calls = [p for p in parts if has_call(p)]
    guards = [p for p in pure if copyable(p)]
    guarded = [truth_of(p) for p in calls]
    result = list(pure)
    for i, value in enumerate(guarded):
        condition = list(guards)
        if len(calls) <= MAX_CALL_OPERANDS:
            condition += [v for v in guarded[:i] if not v.find(exp.Query)]
        result.append(case_when(all_of([copied(c) for c in condition]), value) if condition else value)
    return copied(node) if result == parts else all_of([r if r.parent is None else copied(r) for r in result])


def _alternatives(node: exp.Or) -> exp.Expr:
    """An OR of which only matters whether it is TRUE: a later operand is asked where the earlier ones are decided and not TRUE."""
    parts = disjuncts(node)
    pure = [copied(p) for p in parts if not has_call(p)]
    calls = [p for p in parts if has_call(p)]
    guards = [p for p in pure if copyable(p)]
    result = list(pure)
    for i, part in enumerate(calls):
        value = truth_of(part)
        for earlier in reversed(calls[:i] if len(calls) <= MAX_CALL_OPERANDS else []):
            if not earlier.find(exp.Query):
                value = _when_true_or_not(earlier, case_when(is_not(truth_of(earlier), True), value))
        if guards:
            value = case_when(is_not(any_of([copied(g) for g in guards]), True), value)
        result.append(value)
    return copied(node) if result == parts else any_of(result)


def _when_true_or_not(condition: exp.Expr, value: exp.Expr) -> exp.Expr:
    """``value`` where it is decided whether the condition is TRUE; the whole value where that cannot be told."""
    try:
        decided = decision(condition)
    except NotReadable:
        return value
    return value if decided is None else case_when(decided, value)


def value_of(node: exp.Expr) -> exp.Expr:
    """The expression with every call inside guarded; equal to it once all lookups answer. The argument is not changed."""
    if not has_call(node):
        return copied(node)
    if isinstance(node, Call):
        return _call(node)
    if isinstance(node, exp.Query | Route):
        return copied(node)  # a block of its own; a route guards its operands itself
    if isinstance(node, exp.And | exp.Or):
        return _connector(node)
    if isinstance(node, exp.Case):
        return _case(node)
    if function_name(node) == "if" and len(node.expressions) == 3:
        condition, yes, no = (copied(e) for e in node.expressions)
        return _case(exp.Case(ifs=[exp.If(this=condition, true=yes)], default=no))
    if isinstance(node, exp.Coalesce):
        return _coalesce(node)
    return _inside(copied(node), strictly if isinstance(node, exp.AggFunc) else value_of)


def _inside(copy: exp.Expr, guarded: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Guard the values below a node in place; what only gives them structure (ORDER BY in an aggregate, FILTER, OVER) stays as it is."""
    for child in list(copy.iter_expressions()):
        if not has_call(child):
            continue
        if isinstance(child, exp.Where):
            child.set("this", truth_of(child.this))
        elif isinstance(child, STRUCTURE):
            _inside(child, guarded)
        else:
            child.replace(guarded(child))
    return copy


def _call(node: Call) -> exp.Expr:
    inner = [a for a in node.expressions if has_call(a)]
    value = copied(node)
    value.set("expressions", [value_of(a) for a in node.expressions])
    if all(strict(a) for a in inner):
        return value
    ready = [r for r in (_ready_or_none(a) for a in inner) if r is not None]
    return case_when(all_of(ready), value) if ready else value


def _connector(node: exp.And | exp.Or) -> exp.Expr:
    is_and = isinstance(node, exp.And)
    parts = conjuncts(node) if is_and else disjuncts(node)
    join = all_of if is_and else any_of
    pure = [copied(p) for p in parts if not has_call(p)]
    calls = [p for p in parts if has_call(p)]
    guards = [p for p in pure if copyable(p)]
    result = list(pure)
    for i, part in enumerate(calls):
        value = value_of(part)
        for earlier in reversed(calls[:i] if len(calls) <= MAX_CALL_OPERANDS else []):
            if earlier.find(exp.Query):
                continue
            value = case_when(is_not(value_of(earlier), not is_and), value)
            value = _when_ready(earlier, value)
        if guards:
            value = case_when(is_not(join([copied(g) for g in guards]), not is_and), value)
        result.append(value)
    return exp.Paren(this=join(result))


def _case(node: exp.Case) -> exp.Expr:
    copy = copied(node)
    branches = copy.args["ifs"]
    default = copy.args.get("default")
    if copy.this is not None:
        # CASE x WHEN a: the same with conditions, so that each condition has a readiness of its own.
        for branch in branches:
            branch.set("this", exp.EQ(this=paren(copied(copy.this)), expression=paren(copied(branch.this))))
        copy.set("this", None)
    conditions = [copied(b.this) for b in branches]
    for branch in branches:
        branch.set("this", truth_of(branch.this) if has_call(branch.this) else branch.this)
        branch.set("true", value_of(branch.args["true"]))
    if default is not None:
        copy.set("default", value_of(default))
    # What stands below a condition with calls must wait for it.
    for i in reversed(range(len(branches))):
        below = [branches[i].args["true"], *(b for b in branches[i + 1 :]), copy.args.get("default")]
        if has_call(conditions[i]) and any(has_call(b) for b in below if b is not None):
            rest = exp.Case(ifs=[copied(b) for b in branches[i:]], default=copy.args.get("default"))
            waiting = _when_true_or_not(conditions[i], rest)
            if waiting is rest:
                continue
            branches = branches[:i]
            if not branches:
                return waiting
            copy = exp.Case(ifs=branches, default=waiting)
    return copy


def _coalesce(node: exp.Coalesce) -> exp.Expr:
    parts = [node.this, *node.expressions]
    values = [value_of(p) for p in parts]
    for i in range(1, len(parts)):
        if has_call(parts[i]):
            for earlier in reversed(parts[:i]):
                if has_call(earlier):
                    values[i] = _when_ready(earlier, values[i])
    return exp.Coalesce(this=values[0], expressions=values[1:])


def _ready_or_none(node: exp.Expr) -> exp.Expr | None:
    try:
        return readiness(node)
    except NotReadable:
        return None


def _when_ready(condition: exp.Expr, value: exp.Expr) -> exp.Expr:
    ready = _ready_or_none(unparen(condition))
    return value if ready is None else case_when(ready, value)


# -- readiness -----------------------------------------------------------------------------------------------------------------------


def readiness(node: exp.Expr) -> exp.Expr | None:
    """R(node) as SQL, None where it is always TRUE. TRUE means ready; FALSE and NULL mean not yet. Raises ``NotReadable``."""
    if not has_call(node):
        return None
    node = unparen(node)
    if isinstance(node, Call):
        below = _all([readiness(a) for a in node.expressions])
        here = Ready(this=node.args["this"], expressions=[value_of(a) for a in node.expressions])
        return here if below is None else case_when(below, here)
    if isinstance(node, Route):
        decided = copied(node)
        decided.set("decided", True)
        return decided
    if isinstance(
        node, exp.Query | exp.AggFunc | exp.Filter | exp.Window | exp.Lambda | exp.Comprehension | exp.Exists
    ):
        raise NotReadable
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        raise NotReadable
    if isinstance(node, exp.And):
        return _short_circuit(_cheap_first(conjuncts(node)), _is_false)
    if isinstance(node, exp.Or):
        return _short_circuit(_cheap_first(disjuncts(node)), _is_true)
    if isinstance(node, exp.Coalesce):
        parts = [node.this, *node.expressions]
        return _short_circuit(parts, _is_not_null)
    if isinstance(node, exp.Case):
        return _ready_case(node)
    if function_name(node) == "if" and len(node.expressions) == 3:
        return _branch(*node.expressions)
    return _all([readiness(c) for c in node.iter_expressions()])


def decision(node: exp.Expr) -> exp.Expr | None:
    """D(node) as SQL, None where it is always TRUE: it is decided whether the condition is TRUE. A conjunction is as soon as one operand is
    known not to be TRUE, also when that one is unknown. Raises ``NotReadable``."""
    if not has_call(node):
        return None
    inner = unparen(node)
    if isinstance(inner, exp.And):
        return _short_circuit(_cheap_first(conjuncts(inner)), _is_not_true, decision)
    if isinstance(inner, exp.Or):
        return _short_circuit(_cheap_first(disjuncts(inner)), _is_true, decision)
    return readiness(inner)


def lack(node: exp.Expr) -> exp.Expr | None:
    """L(node) as SQL, None where it is always NULL: NULL where R(node) is TRUE, else the number of an argument that it waits for. Its own
    calls only peek. Raises ``NotReadable``.

        L(f(a))   = COALESCE(L(a), lack(f, a))
        L(CASE ..), L(a AND b), L(COALESCE(a, b)) by short circuit, as R
    """
    ready = readiness(node)
    return None if ready is None else peeking(_lacking(ready))


def _lacking(ready: exp.Expr) -> exp.Expr:
    """A readiness, TRUE turned into NULL and "not yet" into what is lacking. The readiness is taken apart."""
    if isinstance(ready, Ready):
        return Lack(this=ready.args["this"], expressions=ready.expressions)
    if isinstance(ready, exp.Boolean):
        return exp.Null()
    if isinstance(ready, exp.And):
        return _first_of([_lacking(unparen(part)) for part in conjuncts(ready)])
    assert isinstance(ready, exp.Case)
    branch, default = ready.args["ifs"][0], ready.args.get("default")
    if default is None:  # CASE WHEN R(a) THEN R(b) END
        return _first_of([_lacking(branch.this), _lacking(branch.args["true"])])
    return exp.Case(ifs=[exp.If(this=branch.this, true=_lacking(branch.args["true"]))], default=_lacking(default))


def _first_of(parts: list[exp.Expr]) -> exp.Expr:
    needed = [p for p in parts if not isinstance(p, exp.Null)]
    if len(needed) < 2:
        return needed[0] if needed else exp.Null()
    return exp.Coalesce(this=needed[0], expressions=needed[1:])


def peeking(node: exp.Expr) -> exp.Expr:
    """The same with calls that note nothing. The node is taken apart."""
    root = exp.Tuple(expressions=[node])
    for found in list(calls_in(root)):
        if isinstance(found, Call):
            found.set("peek", True)
        elif not isinstance(found, Lack):
            known = Lack(this=found.args["this"], expressions=found.expressions)
            found.replace(exp.Paren(this=exp.Is(this=known, expression=exp.Null())))
    return released(root)


def _cheap_first(parts: list[exp.Expr]) -> list[exp.Expr]:
    """The order in which ``value_of`` reaches operands: pure ones first. Those that must not be copied decide nothing here."""
    return [p for p in parts if not has_call(p) and copyable(p)] + [p for p in parts if has_call(p)]


def _is_true(condition: exp.Expr) -> exp.Expr:
    return exp.Is(this=paren(truth_of(condition)), expression=exp.true())


def _is_not_true(condition: exp.Expr) -> exp.Expr:
    return is_not(truth_of(condition), True)


def _is_false(condition: exp.Expr) -> exp.Expr:
    return exp.Is(this=paren(value_of(condition)), expression=exp.false())


def _is_not_null(value: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=paren(value_of(value)), expression=exp.Null()))


def _all(parts: list[exp.Expr | None]) -> exp.Expr | None:
    needed = [p for p in parts if p is not None]
    return all_of(needed) if needed else None


def _short_circuit(
    parts: list[exp.Expr],
    decided: Callable[[exp.Expr], exp.Expr],
    ready: Callable[[exp.Expr], exp.Expr | None] = readiness,
) -> exp.Expr | None:
    """Ready when a part is ready and decides, or when all are ready, left to right."""
    result: exp.Expr | None = None
    for part in reversed(parts):
        own = ready(part)
        if result is None:
            result = own
            continue
        rest = exp.Case(ifs=[exp.If(this=decided(part), true=exp.true())], default=result)
        result = rest if own is None else case_when(own, rest)
    return result


def _ready_case(node: exp.Case) -> exp.Expr | None:
    operand = node.this
    result = readiness(node.args["default"]) if node.args.get("default") is not None else None
    for branch in reversed(node.args["ifs"]):
        condition = (
            branch.this
            if operand is None
            else exp.EQ(this=paren(copied(operand)), expression=paren(copied(branch.this)))
        )
        result = _joined_branch(condition, readiness(branch.args["true"]), result)
    return result


def _branch(condition: exp.Expr, yes: exp.Expr, no: exp.Expr) -> exp.Expr | None:
    return _joined_branch(condition, readiness(yes), readiness(no))


def _joined_branch(condition: exp.Expr, yes: exp.Expr | None, no: exp.Expr | None) -> exp.Expr | None:
    own = decision(condition)
    if yes is None and no is None:
        return own
    chosen = exp.Case(ifs=[exp.If(this=truth_of(condition), true=yes or exp.true())], default=no or exp.true())
    return chosen if own is None else case_when(own, chosen)
