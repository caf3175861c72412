"""Calls that sessions answer, before they are call sites: whose role, which columns, and a relation as context made one text."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import attrs
import sqlglot
from sqlglot import exp

from kleene.planner.calls import all_in
from kleene.planner.catalog import Catalog
from kleene.planner.dialect import CallSQL
from kleene.planner.errors import PlanError, did_you_mean
from kleene.planner.roles import MAIL, SELF, rows_type
from kleene.planner.specs import AgentSpec, CallSpec, FunctionSpec, Param, Template

RELATION = "\x02"
"""Begins a context that is a relation: this mark, the type of its list of rows, a line end, and the rows as JSON."""

SEPARATOR = "\x1e"
_ROWS = (
    "(SELECT chr(2) || typeof(list(kleene_row)) || chr(10) || to_json(coalesce(list(kleene_row), []))::VARCHAR "
    "FROM (SELECT 1) AS kleene_row)"
)


def shaped(spec: FunctionSpec, given: Mapping[str, exp.Expr], catalog: Catalog) -> FunctionSpec:
    """The function as this call uses it: its template for the arguments given, and a typed agent's own columns.

    Raises ``PlanError`` for an agent that does not exist.
    """
    count = sum(p.name.lower() in given for p in spec.params)
    parts: list[str | int] = []
    for i in range(count):
        parts += [SEPARATOR, i] if i else [i]
    spec = attrs.evolve(spec, template=Template(tuple(parts)))
    role = role_of(spec, given, catalog)
    if role is None or role.returns is None or spec.name != "spawn":
        return spec
    columns = (*role.returns, Param("detail", "JSON"), Param("session", "VARCHAR"))
    return attrs.evolve(spec, table=columns, answer=rows_type(columns))


def role_of(spec: FunctionSpec, given: Mapping[str, exp.Expr], catalog: Catalog) -> AgentSpec | None:
    """The role of the child, None where the statement computes it or there is no child."""
    if spec.name in MAIL:
        return None
    agent = given.get("agent")
    if agent is None:
        return catalog.agents[SELF]
    if not isinstance(agent, exp.Literal) or not agent.is_string:
        return None
    return agent_named(str(agent.this), catalog)


def agent_named(name: str, catalog: Catalog) -> AgentSpec:
    """Raises ``PlanError`` with the nearest name."""
    found = catalog.agents.get(name.lower())
    if found is None:
        near = did_you_mean(name, catalog.agents)
        known = ", ".join(sorted(catalog.agents))
        raise PlanError(f"there is no agent {name}", hint=f"did you mean {near}?" if near else f"there are {known}")
    return found


def specified(call: CallSpec, spec: FunctionSpec, given: Mapping[str, exp.Expr], catalog: Catalog) -> CallSpec:
    """The call's specification with who answers in it: a child is remembered under its role's definition."""
    if spec.name in MAIL:
        return attrs.evolve(call, session="mail", batch=1)
    role = role_of(spec, given, catalog)
    if role is None:
        return attrs.evolve(call, session="child", batch=1, system=definition(tuple(catalog.agents.values())))
    return attrs.evolve(call, session="child", batch=1, alias=role.model, system=definition((role,)))


def definition(roles: tuple[AgentSpec, ...]) -> str:
    """The role's name (``agents`` for several) and a digest of all that they say."""
    digest = hashlib.sha256("\n".join(repr(r) for r in roles).encode("utf-8", "replace")).hexdigest()
    return f"{roles[0].name if len(roles) == 1 else 'agents'}:{digest}"


def with_defaults(spec: FunctionSpec, given: Mapping[str, exp.Expr]) -> dict[str, exp.Expr]:
    """The arguments with a relation as context made one text; a call without any has one that says nothing."""
    found = dict(given)
    if "context" in found:
        found["context"] = as_context(found["context"])
    if not found:
        found[spec.params[0].name] = exp.Literal.string("")
    return found


def holds_nothing(context: str | None) -> bool:
    """Whether a context that was given is a blank text. A relation without rows is something: that there are none.

    >>> [holds_nothing(c) for c in (None, " ", "a", RELATION + "STRUCT(a INTEGER)[]\\n[]")]
    [False, True, False, False]
    """
    return context is not None and not context.strip()


def as_context(value: exp.Expr) -> exp.Expr:
    """A subquery as the text that carries its rows and their types; any other expression as it is.

    >>> as_context(sqlglot.parse_one("(SELECT a FROM t)", read=CallSQL)).sql(CallSQL).endswith("FROM (SELECT a FROM t) AS kleene_row)")
    True
    """
    if not isinstance(value, exp.Query):
        return value
    while isinstance(value, exp.Subquery) and not value.alias and isinstance(value.this, exp.Query):
        value = value.this
    carrier = sqlglot.parse_one(_ROWS, read=CallSQL)
    inner = next(s for s in all_in(carrier, exp.Subquery) if s.alias == "kleene_row")
    inner.set("this", value.copy())
    return carrier
