"""The statements that are Kleene's own and touch no rows: SET, CREATE FUNCTION, SHOW and their kin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from kleene.planner import nodes
from kleene.planner.catalog import Catalog
from kleene.planner.errors import PolicyError, number
from kleene.planner.settings import KEYS, Settings
from kleene.planner.specs import BudgetLimits
from kleene.planner.statements import Statement, agent_spec, function_spec, setting_value
from kleene.result import Result

if TYPE_CHECKING:
    from kleene.tools.skills import Skill
    from kleene.udfs.ledger import Ledger

MODEL_SETTABLE = frozenset(k.key for k in KEYS if k.may_model_set)


@attrs.define
class State:
    """What a session's own statements change: its settings and its catalog."""

    settings: Settings = attrs.field(factory=Settings)
    catalog: Catalog = attrs.field(factory=Catalog)


def run_own(
    statement: Statement, state: State, ledger: Ledger, *, trust: str, skills: Callable[[], Sequence[Skill]] = tuple
) -> Result | None:
    """Run one of the statements above; None for any other (EXPLAIN, FINAL, CALL, ... need more than the state)."""
    tree = statement.tree
    if isinstance(tree, nodes.SetKey):
        value = setting_value(tree)
        return _set(tree.this.name, value, state, ledger, trust=trust)
    if isinstance(tree, nodes.ResetKey):
        return _reset(tree.this.name, state, ledger, trust=trust)
    if isinstance(tree, nodes.CreateFunction):
        spec = function_spec(tree, statement)
        state.catalog = state.catalog.with_function(spec, replace=bool(tree.args.get("replace")))
        return message(f"created function {spec.signature()}")
    if isinstance(tree, nodes.CreateAgent):
        agent = agent_spec(tree, statement)
        state.catalog = state.catalog.with_agent(agent, replace=bool(tree.args.get("replace")))
        return message(f"created agent {agent.name}")
    if isinstance(tree, nodes.DropFunction):
        state.catalog = state.catalog.without_function(tree.this.name, if_exists=bool(tree.args.get("exists")))
        return message(f"dropped function {tree.this.name}")
    if isinstance(tree, nodes.DropAgent):
        state.catalog = state.catalog.without_agent(tree.this.name, if_exists=bool(tree.args.get("exists")))
        return message(f"dropped agent {tree.this.name}")
    if isinstance(tree, nodes.Show):
        if tree.this.name.upper() == "SKILLS":
            return _rows(("name", "description", "scope"), [(s.name, s.description, s.scope) for s in skills()])
        return _show(tree.this.name.upper(), state, ledger)
    return None


def message(text: str) -> Result:
    return Result((), (), message=text)


def _set(key: str, value: object, state: State, ledger: Ledger, *, trust: str) -> Result:
    key = key.casefold()
    settings = state.settings.set(key, value)
    if trust == "model" and key not in MODEL_SETTABLE and not key.startswith("rules."):
        raise PolicyError(f"a session may not set {key}", hint="it may set " + ", ".join(sorted(MODEL_SETTABLE)))
    if key.startswith("budget."):
        _limit(settings.limits(), ledger, trust=trust)
    state.settings = settings
    return message(f"set {key} = {value}")


def _reset(key: str, state: State, ledger: Ledger, *, trust: str) -> Result:
    key = key.casefold()
    settings = state.settings.reset(key)
    if key.startswith("budget."):
        if trust == "model":
            raise PolicyError("a session may lower its budget, never raise it", hint=f"SET {key} = n with a lower n")
        ledger.replace(settings.limits())
    state.settings = settings
    return message(f"reset {key}")


def _limit(limits: BudgetLimits, ledger: Ledger, *, trust: str) -> None:
    if trust == "model":
        _check_room(limits, ledger)
        ledger.lower(limits)
        return
    ledger.lower(limits, allow_raise=True)


def _check_room(limits: BudgetLimits, ledger: Ledger) -> None:
    """A session that lowers its budget to what it has used, or below, would end at once, which no model means."""
    used, held = ledger.used, ledger.reserved
    spent = (
        ("calls", used.requests + (held.calls or 0)),
        ("tokens", used.tokens + (held.tokens or 0)),
        ("dollars", used.dollars + (held.dollars or 0)),
        ("wall", ledger.elapsed),
    )
    for dimension, gone in spent:
        limit = getattr(limits, dimension)
        if limit is not None and limit <= gone and (gone or dimension != "dollars"):
            raise PolicyError(
                f"budget.{dimension} = {number(limit)} would end the session: {number(round(gone, 6))} used already",
                hint="limits count from the session's start; SET statement.calls = n caps each statement",
            )


def _show(what: str, state: State, ledger: Ledger) -> Result:
    if what == "FUNCTIONS":
        rows = [
            (
                s.name,
                s.signature(),
                "built in" if s.body in ("builtin", "pure") else s.body,
                s.model,
                s.volatility.value,
                s.description,
            )
            for _, s in sorted(state.catalog.functions.items())
        ]
        return _rows(("name", "signature", "body", "model", "volatility", "description"), rows)
    if what == "AGENTS":
        agents = [(a.name, a.model, a.effort, a.turns, a.prompt) for _, a in sorted(state.catalog.agents.items())]
        return _rows(("name", "model", "effort", "turns", "prompt"), agents)
    used, limits, left = ledger.used, ledger.limits, ledger.remaining()
    spent = {"calls": used.requests, "tokens": used.tokens, "dollars": used.dollars, "depth": 0, "wall": None}
    budget = [
        (name, *(_told(v) for v in (getattr(limits, name), spent[name], getattr(left, name))))
        for name in ("calls", "tokens", "dollars", "depth", "wall")
    ]
    return _rows(("dimension", "limit", "used", "remaining"), budget)


def _told(value: float | None) -> str | None:
    """A number as it is read, for columns that hold calls, tokens and dollars under each other."""
    return None if value is None else number(value)


def _rows(columns: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> Result:
    return Result(columns, ("VARCHAR",) * len(columns), rows=list(rows))
