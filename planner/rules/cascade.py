"""cascade: a cheap proxy answers where it is sure, the oracle only between its thresholds.

    f(x) = CASE WHEN g(x) >= high THEN TRUE WHEN g(x) < low THEN FALSE ELSE f(x) END      f declared PROXY g THRESHOLDS (low, high)

A declared meaning, not an equation: the user (or CALIBRATE) says that g decides outside the band. Where g's score is unknown the oracle is
asked. As an expression it works wherever f does: in OR, AND, CASE, in joins and nested calls. Side conditions: f BOOLEAN, g DOUBLE over the
same arguments. Saves the oracle's calls outside the band, for one call of the proxy an argument.
"""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.catalog import Catalog
from kleene.planner.specs import FunctionSpec

DEFAULT_THRESHOLDS = (0.2, 0.8)
ORACLE = "kleene_oracle"


def cascade(tree: exp.Expr, catalog: Catalog) -> bool:
    """Rewrite, in place, every call of a function with a proxy; whether there was one."""
    found = [
        (node, spec)
        for node in tree.find_all(exp.Anonymous)
        if (spec := catalog.function(str(node.this))) is not None and spec.proxy is not None and ORACLE not in node.meta
    ]
    # Inner calls first, so that an outer call's copies hold what the inner became.
    for node, spec in reversed(found):
        _expand(node, spec)
    return bool(found)


def _expand(node: exp.Anonymous, spec: FunctionSpec) -> None:
    low, high = spec.thresholds or DEFAULT_THRESHOLDS
    oracle = node.copy()
    oracle.meta[ORACLE] = True

    def score() -> exp.Anonymous:
        # The proxy's parameters have names of their own: arguments go by position.
        values = [a.expression if isinstance(a, exp.PropertyEQ) else a for a in node.expressions]
        made = exp.Anonymous(this=spec.proxy, expressions=[v.copy() for v in values])
        made.meta.update({k: v for k, v in node.meta.items() if k in ("start", "end", "close")})
        return made

    yes = exp.If(this=exp.GTE(this=score(), expression=exp.Literal.number(high)), true=exp.true())
    no = exp.If(this=exp.LT(this=score(), expression=exp.Literal.number(low)), true=exp.false())
    node.replace(exp.Paren(this=exp.Case(ifs=[yes, no], default=oracle)))
