"""CALIBRATE as the planner sees it: what is asked for, the query that scores the rows, and what a calibration belongs to."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable

import attrs
from sqlglot import exp

from kleene.planner import nodes
from kleene.planner.callplan import Relations
from kleene.planner.calls import copied
from kleene.planner.catalog import Catalog
from kleene.planner.dialect import CallSQL
from kleene.planner.errors import ParseError, PlanError, did_you_mean
from kleene.planner.grammar import FORMS
from kleene.planner.resolve import as_text, call_spec
from kleene.planner.settings import Settings
from kleene.planner.specs import Calibration, FunctionSpec, Volatility
from kleene.planner.statements import Statement, span_of

SAMPLE = 300
RECALL = PRECISION = 0.9
CONFIDENCE = 0.95
ROWS = "kleene_rows"


@attrs.frozen
class Calibrating:
    """A CALIBRATE statement: choose thresholds for ``function`` from a sample of at most ``sample`` of the rows of ``query``."""

    function: FunctionSpec
    proxy: FunctionSpec
    sample: int
    recall: float
    precision: float
    confidence: float
    query: exp.Expr

    def scoring(self) -> exp.Select:
        """The rows' arguments as text, one column each, and their scores, NULL where the proxy has none."""
        names = [exp.column(name, quoted=True) for name in self._names()]
        asked = exp.Anonymous(this=self.proxy.name, expressions=[n.copy() for n in names])
        score = exp.Cast(this=asked, to=exp.DataType.build("DOUBLE", dialect=CallSQL))
        return self._over_rows([*self._arguments(), exp.alias_(score, "score")])

    def arguments(self) -> exp.Select:
        """The rows' arguments as text alone."""
        return self._over_rows(self._arguments())

    def _names(self) -> list[str]:
        return [f"kleene_{n}" for n, _ in enumerate(self.function.params, 1)]

    def _arguments(self) -> list[exp.Expr]:
        return [
            exp.alias_(as_text(exp.column(name, quoted=True), param.type), f"argument_{n}")
            for n, (name, param) in enumerate(zip(self._names(), self.function.params, strict=True), 1)
        ]

    def _over_rows(self, items: list[exp.Expr]) -> exp.Select:
        alias = exp.TableAlias(this=exp.to_identifier(ROWS), columns=[exp.to_identifier(n) for n in self._names()])
        source = exp.Subquery(this=copied(self.query), alias=alias)
        return exp.Select(expressions=items, from_=exp.From(this=source))


def calibrating(tree: nodes.Calibrate, statement: Statement, catalog: Catalog, relations: Relations) -> Calibrating:
    """What the statement asks for. Raises ``PlanError`` for a function that has no cascade, ``ParseError`` for a number out of range."""

    def wrong(message: str, hint: str | None) -> PlanError:
        span = span_of(statement, tree.this) or statement.span
        return PlanError(message, hint=hint, span=span, source=statement.source)

    name = tree.this.name
    function = catalog.function(name)
    if function is None:
        near = did_you_mean(name, (f.name for f in catalog.declared()))
        raise wrong(f"there is no function {name}", f"did you mean {near}?" if near else "SHOW FUNCTIONS lists them")
    if function.proxy is None:
        hint = f"CREATE OR REPLACE FUNCTION {name}(...) RETURNS BOOLEAN AS PROMPT '...' PROXY g"
        raise wrong(f"{name} has no proxy to calibrate", hint)
    if function.body != "prompt":
        raise wrong(f"{name} is no prompt function", "CALIBRATE chooses when a proxy answers in place of a prompt")
    proxy = catalog.function(function.proxy)
    if proxy is None:
        raise wrong(f"the proxy {function.proxy} of {name} was dropped", f"declare it, or {name} without PROXY")
    changing = next((f for f in (function, proxy) if f.volatility is Volatility.VOLATILE), None)
    if changing is not None:
        raise wrong(f"{changing.name} is VOLATILE: its answers change", "declare it IMMUTABLE or STABLE")
    columns = _columns(tree.args["query"], catalog, relations)
    if columns is not None and columns != len(function.params):
        noun = "column" if columns == 1 else "columns"
        raise wrong(
            f"the query has {columns} {noun}, {name} takes {len(function.params)}",
            f"select its arguments in order: {function.signature()}",
        )
    return Calibrating(
        function,
        proxy,
        int(_number(tree, "sample", SAMPLE, statement)),
        _number(tree, "recall", RECALL, statement),
        _number(tree, "precision", PRECISION, statement),
        _number(tree, "confidence", CONFIDENCE, statement),
        tree.args["query"],
    )


def _columns(query: exp.Expr, catalog: Catalog, relations: Relations) -> int | None:
    """How many columns a query has: by its text, else as DuckDB binds it; None where that cannot be told before it is planned."""
    block = query
    while isinstance(block, exp.Subquery | exp.SetOperation):
        block = block.this
    if isinstance(block, exp.Select) and block.expressions and not block.find(exp.Star, exp.Columns):
        return len(block.expressions)
    if any(isinstance(n, exp.Anonymous) and catalog.function(n.name) is not None for n in query.walk()):
        return None
    found = relations.describe(query.sql(CallSQL))
    return None if found is None else len(found)


def _number(tree: nodes.Calibrate, word: str, default: float, statement: Statement) -> float:
    node = tree.args.get(word)
    if node is None:
        return default
    value = float(node.name)
    if word == "sample":
        good, wanted = value >= 2 and value.is_integer(), "a whole number of at least 2"
    elif word == "confidence":
        good, wanted = 0 < value < 1, "between 0 and 1, without both"
    else:
        good, wanted = 0 < value <= 1, "above 0 and at most 1"
    if not good:
        raise ParseError(
            f"{word.upper()} must be {wanted}, not {node.name}",
            hint=FORMS["calibrate"],
            span=span_of(statement, node) or statement.span,
            source=statement.source,
        )
    return value


# -- what a calibration belongs to -----------------------------------------------------------------------------------------------------


def key_of(function: FunctionSpec, catalog: Catalog, settings: Settings, models: Callable[[str], str]) -> str:
    """A digest of all that decides the answers of a function and of its proxy: a calibration holds while it stays the same.

    ``models`` names the models that answer for an alias.
    """
    proxy = catalog.function(function.proxy or "")
    parts = [_identity(f, catalog, settings, models, frozenset()) for f in (function, proxy) if f is not None]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _identity(
    spec: FunctionSpec, catalog: Catalog, settings: Settings, models: Callable[[str], str], above: frozenset[str]
) -> list[object]:
    found: list[object] = [spec.name.lower(), [p.type for p in spec.params], spec.text]
    if spec.template is not None:
        call = call_spec(spec, settings)
        found += [list(spec.template.parts), call.digest(), models(call.alias)]
    if spec.body == "sql":
        # What an SQL function calls decides what it gives.
        words = {w.lower() for w in re.findall(r"\w+", spec.text or "")} - above - {spec.name.lower()}
        inner = [f for name, f in sorted(catalog.functions.items()) if name in words and f.body in ("sql", "prompt")]
        inside = above | {spec.name.lower()}
        found += [_identity(f, catalog, settings, models, inside) for f in inner]
    return found


def with_calibrations(catalog: Catalog, find: Callable[[FunctionSpec], Calibration | None]) -> Catalog:
    """The catalog with what ``find`` knows of each function that has a proxy; the same object where nothing changes."""
    changed = {
        name: attrs.evolve(spec, calibration=found)
        for name, spec in catalog.functions.items()
        if spec.proxy is not None and (found := find(spec)) != spec.calibration
    }
    return attrs.evolve(catalog, functions={**catalog.functions, **changed}) if changed else catalog
