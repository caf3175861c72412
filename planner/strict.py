"""What a missing answer does to an expression, and the readiness of expressions.

Kleene's strong three-valued logic: an unknown can become defined, never flip what is decided. An expression is *strict* in its calls when
a missing answer makes it NULL, and *monotone* when its TRUE and FALSE under missing answers are final. Where neither holds (COALESCE,
IS NULL, concat, ...) the planner asks only where the expression is *ready*:

    R(pure)    = TRUE
    R(f(a))    = CASE WHEN R(a) THEN ready(f, a) END
    R(CASE ..) = by branch, R(a AND b) and R(COALESCE(a, b)) by short circuit
    R(g(a, b)) = R(a) AND R(b)
"""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.calls import Call, Ready, all_of, case_when, disjuncts, has_call, paren, unparen
from kleene.planner.calls import conjuncts as conjuncts_of
from kleene.planner.dialect import function_name

STRICT_NODES: tuple[type[exp.Expression], ...] = (
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.IntDiv,
    exp.Mod,
    exp.Pow,
    exp.Neg,
    exp.DPipe,
    exp.Like,
    exp.ILike,
    exp.SimilarTo,
    exp.RegexpLike,
    exp.Not,
    exp.Paren,
    exp.Between,
    exp.JSONExtract,
    exp.JSONExtractScalar,
)
STRICT_NAMES = frozenset(
    [
        "lower",
        "upper",
        "length",
        "len",
        "trim",
        "ltrim",
        "rtrim",
        "substr",
        "substring",
        "replace",
        "left",
        "right",
        "reverse",
        "abs",
        "round",
        "floor",
        "ceil",
        "ceiling",
        "sqrt",
        "starts_with",
        "ends_with",
        "contains",
        "prefix",
        "suffix",
        "strpos",
        "position",
        "instr",
        "regexp_matches",
        "regexp_replace",
        "regexp_extract",
        "split_part",
        "json_extract",
        "json_extract_string",
        "repeat",
        "lpad",
        "rpad",
        "md5",
        "sha256",
        "strip_accents",
        "printf_strict",
        "ascii",
    ]
)


class NotReadable(Exception):
    """No readiness can be written for this expression (a subquery, aggregate or window with calls stands in the way)."""


def strict(node: exp.Expression) -> bool:
    """Missing answers inside make the expression NULL."""
    if isinstance(node, Call):
        return all(strict(a) for a in node.expressions if has_call(a))
    if not has_call(node):
        return True
    if isinstance(node, exp.Cast | exp.TryCast):
        return not node.to.is_type("json") and strict(node.this)
    if isinstance(node, exp.In):
        others = [*node.args.get("expressions", []), node.args.get("query"), node.args.get("unnest")]
        return not any(has_call(o) for o in others if o is not None) and strict(node.this)
    known = isinstance(node, STRICT_NODES) or (function_name(node) or "") in STRICT_NAMES
    return known and all(strict(c) for c in node.iter_expressions() if has_call(c))


def monotone(node: exp.Expression) -> bool:
    """The expression's TRUE or FALSE is final even while answers are missing: AND, OR and NOT over strict atoms."""
    node = unparen(node)
    if isinstance(node, exp.And | exp.Or):
        return monotone(node.left) and monotone(node.right)
    if isinstance(node, exp.Not):
        return monotone(node.this)
    return strict(node)


def readiness(node: exp.Expression) -> exp.Expression | None:
    """R(node) as SQL, None where it is always TRUE. TRUE means ready; FALSE and NULL mean not yet. Raises ``NotReadable``."""
    if not has_call(node):
        return None
    if isinstance(node, Call):
        below = _all([readiness(a) for a in node.expressions])
        here = Ready(this=node.args["this"], expressions=[a.copy() for a in node.expressions])
        return here if below is None else case_when(below, here)
    if isinstance(node, exp.Query | exp.AggFunc | exp.Filter | exp.Window | exp.Lambda | exp.Comprehension | exp.Exists):
        raise NotReadable
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        raise NotReadable
    inner = unparen(node)
    if isinstance(inner, exp.And):
        return _short_circuit(conjuncts_of(inner), decided=lambda c: exp.Is(this=paren(c), expression=exp.false()))
    if isinstance(inner, exp.Or):
        return _short_circuit(disjuncts(inner), decided=lambda c: exp.Is(this=paren(c), expression=exp.true()))
    if isinstance(inner, exp.Coalesce):
        parts = [inner.this, *inner.expressions]
        return _short_circuit(parts, decided=lambda c: exp.Not(this=exp.Is(this=paren(c), expression=exp.Null())))
    if isinstance(inner, exp.Case):
        return _case(inner)
    if function_name(inner) == "if" and len(inner.expressions) == 3:
        return _branch(*inner.expressions)
    return _all([readiness(c) for c in inner.iter_expressions()])


def _all(parts: list[exp.Expression | None]) -> exp.Expression | None:
    needed = [p for p in parts if p is not None]
    return all_of(needed) if needed else None


def _short_circuit(parts: list[exp.Expression], decided) -> exp.Expression | None:  # type: ignore[no-untyped-def]
    """Ready when a part is ready and decides, or when all are ready, left to right."""
    result: exp.Expression | None = None
    for part in reversed(parts):
        own = readiness(part)
        if result is None:
            result = own
            continue
        rest = exp.Case(ifs=[exp.If(this=decided(part.copy()), true=exp.true())], default=result)
        result = rest if own is None else case_when(own, rest)
    return result


def _case(node: exp.Case) -> exp.Expression | None:
    operand = node.this
    result = readiness(node.args["default"]) if node.args.get("default") is not None else None
    for branch in reversed(node.args["ifs"]):
        condition = (
            branch.this if operand is None else exp.EQ(this=paren(operand.copy()), expression=paren(branch.this.copy()))
        )
        result = _joined_branch(condition, readiness(branch.args["true"]), result)
    return result


def _branch(condition: exp.Expression, yes: exp.Expression, no: exp.Expression) -> exp.Expression | None:
    return _joined_branch(condition, readiness(yes), readiness(no))


def _joined_branch(
    condition: exp.Expression, yes: exp.Expression | None, no: exp.Expression | None
) -> exp.Expression | None:
    own = readiness(condition)
    if yes is None and no is None:
        return own
    chosen = exp.Case(ifs=[exp.If(this=condition.copy(), true=yes or exp.true())], default=no or exp.true())
    return chosen if own is None else case_when(own, chosen)
