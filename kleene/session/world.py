"""What a session needs of the engine, and what it gets back: a protocol and frozen values.

The loop knows SQL text, outcomes and model turns. Connections, threads, budgets and stores are the engine's.
"""

from __future__ import annotations

from typing import Any, Protocol

import attrs

from kleene.planner.sought import Sought
from kleene.planner.specs import BudgetLimits, Span, Usage
from kleene.udfs.events import Event
from kleene.udfs.protocols import Reply, Request


class Statement(Protocol):
    """One parsed statement. ``text`` is its exact slice of the parsed source, ``span`` where that slice lies, ``tree`` its syntax tree."""

    @property
    def text(self) -> str: ...

    @property
    def span(self) -> Span: ...

    @property
    def tree(self) -> object | None: ...


@attrs.frozen
class Outcome:
    """What a statement gave.

    ``rows`` holds the first rows only (the engine fetches at least as many as are shown), ``row_count`` counts them all, ``arrow`` is the
    whole relation where there is one. ``types`` are DuckDB type names. ``message`` stands for the rows of a statement that has none
    (``created function f``). ``final`` is true of FINAL alone, not of EXPLAIN FINAL. ``sought`` is what the statement looked for in texts.
    """

    columns: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    rows: list[tuple[Any, ...]] = attrs.field(factory=list)
    row_count: int = 0
    usage: Usage = attrs.field(factory=Usage)
    warnings: tuple[str, ...] = ()
    message: str | None = None
    final: bool = False
    arrow: object | None = None
    sought: tuple[Sought, ...] = ()


@attrs.frozen
class ColumnView:
    name: str
    type: str


@attrs.frozen
class TableView:
    """A table the session can read. ``rows`` None: not counted (a view)."""

    name: str
    columns: tuple[ColumnView, ...]
    rows: int | None = None


@attrs.frozen
class FunctionView:
    """``signature`` as ``FunctionSpec.signature()`` prints it; ``description`` is one line or empty."""

    signature: str
    description: str = ""


@attrs.frozen
class AgentView:
    name: str
    description: str = ""


@attrs.frozen
class CatalogView:
    """What a session may use, in the order in which it is listed.

    ``model_calls``: llm and its kin. ``sessions``: rlm and its kin. ``read_tools``: table functions for FROM. ``effect_tools``: run through CALL only.
    ``declared``: the functions made by CREATE FUNCTION.
    """

    tables: tuple[TableView, ...] = ()
    model_calls: tuple[FunctionView, ...] = ()
    sessions: tuple[FunctionView, ...] = ()
    read_tools: tuple[FunctionView, ...] = ()
    effect_tools: tuple[FunctionView, ...] = ()
    declared: tuple[FunctionView, ...] = ()
    agents: tuple[AgentView, ...] = ()


class World(Protocol):
    """The engine as one session sees it. All methods are called from one thread, one at a time."""

    def parse(self, sql_text: str) -> tuple[Statement, ...]:
        """The statements of the text, in order. Raises nothing: ``run`` tells of one that cannot be read, when its turn has come."""
        ...

    def run(self, statement: Any) -> Outcome:
        """Plan and run one statement of ``parse``. Raises a ``KleeneError``, which ends the statement, not the session."""
        ...

    def catalog_lines(self) -> CatalogView:
        """What exists now: the session's tables, functions and agents."""
        ...

    def ask(self, request: Request) -> Reply:
        """One model turn: budgeted, traced and retried. Raises ``CallFailed``, ``BudgetExceeded``, ``Refused`` or ``Cancelled``."""
        ...

    def plan(self) -> list[tuple[Any, Any]]:
        """Step and status of the session's own table ``plan``, in the order of its rows; nothing where it has none."""
        ...

    def release(self) -> None:
        """Give back what was held of the budget for one last turn."""
        ...

    def remaining(self) -> BudgetLimits:
        """What is left in each limited dimension; None where there is no limit."""
        ...

    def usage(self) -> Usage:
        """What the session has used so far, its children included."""
        ...

    def emit(self, event: Event) -> None: ...
