"""What a missing answer does to an expression: whether it becomes NULL, and whether its TRUE and FALSE are final.

Kleene's strong three-valued logic: an unknown can become defined, never flip what is decided. An expression is *strict* in its calls when
a missing answer makes it NULL, and *monotone* when its TRUE and FALSE under missing answers are final. Where neither holds (COALESCE,
IS NULL, concat, ...) the planner asks only where the expression is *ready* (``planner.guarded``).
"""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.calls import Call, Route, has_call, unparen
from kleene.planner.dialect import function_name

STRICT_NODES: tuple[type[exp.Expr], ...] = (
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
    exp.Dot,
    exp.Bracket,
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


def strict(node: exp.Expr) -> bool:
    """Missing answers inside make the expression NULL."""
    if isinstance(node, Call):
        return all(strict(a) for a in node.expressions if has_call(a))
    if isinstance(node, Route) or not has_call(node):
        return True
    if isinstance(node, exp.Cast | exp.TryCast):
        return (not node.to.is_type("json") or isinstance(node.this, Call)) and strict(node.this)
    if isinstance(node, exp.In):
        others = [*node.args.get("expressions", []), node.args.get("query"), node.args.get("unnest")]
        return not any(has_call(o) for o in others if o is not None) and strict(node.this)
    known = isinstance(node, STRICT_NODES) or (function_name(node) or "") in STRICT_NAMES
    return known and all(strict(c) for c in node.iter_expressions() if has_call(c))


def monotone(node: exp.Expr) -> bool:
    """The expression's TRUE or FALSE is final even while answers are missing: AND, OR and NOT over strict atoms."""
    node = unparen(node)
    if isinstance(node, exp.And | exp.Or):
        return monotone(node.left) and monotone(node.right)
    if isinstance(node, exp.Not):
        return monotone(node.this)
    return strict(node)
