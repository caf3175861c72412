"""guard: a call is asked only on rows where its place in the expression is reached, left to right, with what is known.

    p AND c            = p AND CASE WHEN p THEN c END                 p pure, in a filter (a row is kept only when all is TRUE)
    p AND c            = p AND CASE WHEN p IS NOT FALSE THEN c END    p pure, anywhere else
    p OR c             = p OR CASE WHEN p IS NOT TRUE THEN c END
    CASE WHEN c ..     = CASE WHEN R(c) THEN CASE WHEN c .. END END   a branch below holds calls
    COALESCE(c, d)     = COALESCE(c, CASE WHEN R(c) THEN d END)       d holds calls
    g(c)               = CASE WHEN R(g(c)) THEN g(c) END              g is not strict, a whole item of the select list
    f(g(c))            = CASE WHEN R(g(c)) THEN f(g(c)) END           g is not strict

where c, d hold calls and R is readiness (``planner.strict``). Once every lookup answers both sides are equal. Side conditions: only pure,
stable expressions without queries are copied; conditions of outer joins never guard a WHERE (each clause is guarded by its own conjuncts
alone); a window or aggregate is never copied into another clause. Saves the calls of rows that the condition drops: DuckDB evaluates a
UDF before a computed predicate (5,000 calls where 500 rows pass), but a CASE branch only for its rows.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext
from kleene.planner.calls import (
    Call,
    all_of,
    any_of,
    case_when,
    conjuncts,
    disjuncts,
    has_call,
    is_not,
    paren,
    unparen,
)
from kleene.planner.dialect import function_name
from kleene.planner.groups import hide, show
from kleene.planner.strict import NotReadable, monotone, readiness, strict
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


def guard(plan: CallPlan, context: PlanContext) -> CallPlan:
    tree = plan.tree.copy()
    root = exp.Tuple(expressions=[tree])
    hidden: list[exp.Expression] = []
    for block in list(tree.find_all(exp.Select, exp.Update, exp.Delete)):
        if isinstance(block, exp.Select):
            hide(block, hidden)
        _block(block)
    show(root, [strictly(e) for e in hidden])
    tree = root.expressions[0]
    tree.pop()
    return plan if tree == plan.tree else plan.changed(tree, "guard")


def _block(block: exp.Expression) -> None:
    for key in ("where", "having", "qualify"):
        clause = block.args.get(key)
        if clause is not None and has_call(clause):
            clause.set("this", _filter(clause.this))
    for join in block.args.get("joins") or []:
        on = join.args.get("on")
        if on is not None and has_call(on):
            join.set("on", _filter(on))
    if isinstance(block, exp.Select):
        for key in ("expressions", "group", "order", "windows", "distinct"):
            value = block.args.get(key)
            for node in value if isinstance(value, list) else [value]:
                if node is not None and has_call(node):
                    _item(node)
    elif isinstance(block, exp.Update):
        for assignment in block.expressions:
            if has_call(assignment):
                assignment.expression.replace(strictly(assignment.expression))


def _item(node: exp.Expression) -> None:
    """Guard one item of a clause in place. The whole of it is NULL until it is ready, so that no run fails on a value that is not its own
    (``coalesce(f(x), '?')::INT``): inside a user's transaction that would cost the transaction."""
    if isinstance(node, exp.Alias | exp.Ordered):
        if has_call(node.this):
            node.this.replace(strictly(node.this))
        return
    if isinstance(node, exp.Group | exp.Order | exp.Distinct):
        for child in list(node.iter_expressions()):
            if has_call(child):
                _item(child)
        return
    node.replace(strictly(node))


def strictly(node: exp.Expression) -> exp.Expression:
    """The expression with its calls guarded, NULL as a whole until all that it needs is answered."""
    if function_name(node) == "unnest":  # only the root of a select item may be one: what it unnests is guarded
        copy = node.copy()
        copy.expressions[0].replace(strictly(copy.expressions[0]))
        return copy
    value = value_of(node)
    return value if strict(node) else _when_ready(node, value)


def _filter(node: exp.Expression) -> exp.Expression:
    """A condition whose rows are kept when it is TRUE: pure conjuncts first, and guarding the rest."""
    parts = conjuncts(node)
    pure = [p.copy() for p in parts if not has_call(p)]
    calls = [p for p in parts if has_call(p)]
    guards = [p for p in pure if copyable(p)]
    result = list(pure)
    for i, part in enumerate(calls):
        value = value_of(part)
        if not monotone(part):
            value = _when_ready(part, value)
        condition = list(guards)
        if i and len(calls) <= MAX_CALL_OPERANDS:
            condition += [v for v in (value_of(c) for c in calls[:i]) if not v.find(exp.Query)]
        if condition:
            value = case_when(all_of([c.copy() for c in condition]), value)
        result.append(value)
    return all_of(result)


def value_of(node: exp.Expression) -> exp.Expression:
    """The expression with every call inside guarded; equal to it once all lookups answer. The argument is not changed."""
    if not has_call(node):
        return node.copy()
    if isinstance(node, Call):
        return _call(node)
    if isinstance(node, exp.Query):
        return node.copy()  # a block of its own
    if isinstance(node, exp.And | exp.Or):
        return _connector(node)
    if isinstance(node, exp.Case):
        return _case(node)
    if function_name(node) == "if" and len(node.expressions) == 3:
        condition, yes, no = (e.copy() for e in node.expressions)
        return _case(exp.Case(ifs=[exp.If(this=condition, true=yes)], default=no))
    if isinstance(node, exp.Coalesce):
        return _coalesce(node)
    return _inside(node.copy(), strictly if isinstance(node, exp.AggFunc) else value_of)


def _inside(copy: exp.Expression, guarded: Callable[[exp.Expression], exp.Expression]) -> exp.Expression:
    """Guard the values below a node in place; what only gives them structure (ORDER BY in an aggregate, FILTER, OVER) stays as it is."""
    for child in list(copy.iter_expressions()):
        if not has_call(child):
            continue
        if isinstance(child, exp.Where):
            child.set("this", _filter(child.this))
        elif isinstance(child, STRUCTURE):
            _inside(child, guarded)
        else:
            child.replace(guarded(child))
    return copy


def _call(node: Call) -> exp.Expression:
    inner = [a for a in node.expressions if has_call(a)]
    value = node.copy()
    value.set("expressions", [value_of(a) for a in node.expressions])
    if all(strict(a) for a in inner):
        return value
    ready = [r for r in (_ready_or_none(a) for a in inner) if r is not None]
    return case_when(all_of(ready), value) if ready else value


def _connector(node: exp.And | exp.Or) -> exp.Expression:
    is_and = isinstance(node, exp.And)
    parts = conjuncts(node) if is_and else disjuncts(node)
    join = all_of if is_and else any_of
    pure = [p.copy() for p in parts if not has_call(p)]
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
            value = case_when(is_not(join([g.copy() for g in guards]), not is_and), value)
        result.append(value)
    return exp.Paren(this=join(result))


def _case(node: exp.Case) -> exp.Expression:
    copy = node.copy()
    branches = copy.args["ifs"]
    default = copy.args.get("default")
    if copy.this is not None:
        # CASE x WHEN a: the same with conditions, so that each condition has a readiness of its own.
        for branch in branches:
            branch.set("this", exp.EQ(this=paren(copy.this.copy()), expression=paren(branch.this.copy())))
        copy.set("this", None)
    conditions = [b.this.copy() for b in branches]
    for branch in branches:
        branch.set("this", value_of(branch.this))
        branch.set("true", value_of(branch.args["true"]))
    if default is not None:
        copy.set("default", value_of(default))
    # What stands below a condition with calls must wait for it.
    for i in reversed(range(len(branches))):
        below = [branches[i].args["true"], *(b for b in branches[i + 1 :]), copy.args.get("default")]
        if has_call(conditions[i]) and any(has_call(b) for b in below if b is not None):
            rest = exp.Case(ifs=[b.copy() for b in branches[i:]], default=copy.args.get("default"))
            waiting = _when_ready(conditions[i], rest)
            if waiting is rest:
                continue
            branches = branches[:i]
            if not branches:
                return waiting
            copy = exp.Case(ifs=branches, default=waiting)
    return copy


def _coalesce(node: exp.Coalesce) -> exp.Expression:
    parts = [node.this, *node.expressions]
    values = [value_of(p) for p in parts]
    for i in range(1, len(parts)):
        if has_call(parts[i]):
            for earlier in reversed(parts[:i]):
                if has_call(earlier):
                    values[i] = _when_ready(earlier, values[i])
    return exp.Coalesce(this=values[0], expressions=values[1:])


def _ready_or_none(node: exp.Expression) -> exp.Expression | None:
    try:
        return readiness(node)
    except NotReadable:
        return None


def _when_ready(condition: exp.Expression, value: exp.Expression) -> exp.Expression:
    ready = _ready_or_none(unparen(condition))
    return value if ready is None else case_when(ready, value)
