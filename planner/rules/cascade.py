"""cascade: a cheap proxy answers where it is sure, the oracle only between its thresholds.

    f(x) = CASE WHEN g(x) >= high THEN TRUE WHEN g(x) < low THEN FALSE ELSE f(x) END      f declared PROXY g THRESHOLDS (low, high)

A declared meaning, not an equation: the user (or CALIBRATE) says that g decides outside the band. Where g's score is unknown the oracle is
asked, and for every row on a side where CALIBRATE found no threshold. As an expression it works wherever f does: in OR, AND, CASE, in joins and nested calls. Side conditions: f BOOLEAN, g DOUBLE over the
same arguments. Saves the oracle's calls outside the band, for one call of the proxy an argument.
"""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.callplan import Cascade
from kleene.planner.calls import all_in
from kleene.planner.catalog import Catalog
from kleene.planner.specs import FunctionSpec

DEFAULT_THRESHOLDS = (0.2, 0.8)
ORACLE = "kleene_oracle"
PROXY = "kleene_proxy"


def cascade(tree: exp.Expr, catalog: Catalog) -> bool:
    """Rewrite, in place, every call of a function with a proxy; whether there was one."""
    found = [
        (node, spec)
        for node in all_in(tree, exp.Anonymous)
        if (spec := catalog.function(node.name)) is not None and spec.proxy is not None and ORACLE not in node.meta
    ]
    # Inner calls first, so that an outer call's copies hold what the inner became.
    for node, spec in reversed(found):
        _expand(node, spec)
    return bool(found)


def described(spec: FunctionSpec) -> Cascade:
    """The cascade that a function with a proxy is, for who explains and prices it."""
    calibration, (low, high) = spec.calibration, cut(spec)
    if calibration is None:
        return Cascade(spec.name, spec.proxy or "", low, high)
    if calibration.in_force:
        share = calibration.in_band / calibration.rows if calibration.rows else None
        return Cascade(spec.name, spec.proxy or "", low, high, share, calibration.guarantee())
    asked = [s for s in calibration.scores if s is None or not (s >= (high or 0) or s < (low or 0))]
    share = len(asked) / len(calibration.scores) if calibration.scores else None
    return Cascade(spec.name, spec.proxy or "", low, high, share)


def cut(spec: FunctionSpec) -> tuple[float | None, float | None]:
    """The thresholds that hold for a function with a proxy."""
    if spec.calibration is not None and spec.calibration.in_force:
        return spec.calibration.low, spec.calibration.high
    return spec.thresholds or DEFAULT_THRESHOLDS


def _expand(node: exp.Anonymous, spec: FunctionSpec) -> None:
    low, high = cut(spec)
    oracle = node.copy()
    oracle.meta[ORACLE] = True

    def score() -> exp.Anonymous:
        # The proxy's parameters have names of their own: arguments go by position.
        values = [a.expression if isinstance(a, exp.PropertyEQ) else a for a in node.expressions]
        made = exp.Anonymous(this=spec.proxy, expressions=[v.copy() for v in values])
        made.meta.update({k: v for k, v in node.meta.items() if k in ("start", "end", "close")})
        made.meta[PROXY] = True
        return made

    branches = []
    if high is not None:
        branches.append(exp.If(this=exp.GTE(this=score(), expression=_number(high)), true=exp.true()))
    if low is not None:
        branches.append(exp.If(this=exp.LT(this=score(), expression=_number(low)), true=exp.false()))
    node.replace(exp.Paren(this=exp.Case(ifs=branches, default=oracle)) if branches else oracle)


def _number(value: float) -> exp.Expr:
    """The threshold as DuckDB reads it back: without an exponent a number is a DECIMAL, which many digits do not survive."""
    text = repr(value)
    if value in (float("inf"), float("-inf")):
        return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build("DOUBLE"))
    if len(text) > 12 and "e" not in text:
        text += "e0"
    return exp.Literal.number(text)
