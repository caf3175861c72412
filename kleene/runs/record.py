"""All that a session is besides its turns and its tables, as one JSON text: what a resumed session begins with."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from cattrs.preconf.json import make_converter

from kleene.planner.catalog import Catalog
from kleene.planner.errors import ConfigError
from kleene.planner.settings import Settings
from kleene.planner.specs import AgentSpec, BudgetLimits, FunctionSpec, Param, Usage
from kleene.session.loop import Place
from kleene.udfs.protocols import Reply

CONVERTER = make_converter()
"""Functions made of the classes, and nothing else: making them takes longer than a turn is written, and each child has records of its own."""


@attrs.frozen
class SessionState:
    """A session as it stands at the start of a turn.

    ``system`` is its prefix, None before the first turn; ``note`` what the first message says of its tables; ``limits`` bound the session
    from its start, ``used`` counts against them. ``loaded`` are the tables it was given, which it may not change. ``check`` is the finish
    check's command, ``calls_check`` says that it is a Python function, which cannot be kept. ``columns`` are what a typed child's FINAL must
    have. ``key`` and ``parent_turn`` tell a child apart from its parent's others; ``result`` is what it gave. ``tools`` names those that it
    may use.
    """

    schema: str
    place: Place
    max_turns: int
    system: str | None = None
    note: str = ""
    check: str = ""
    calls_check: bool = False
    settings: Settings = attrs.field(factory=Settings)
    functions: tuple[FunctionSpec, ...] = ()
    agents: tuple[AgentSpec, ...] = ()
    limits: BudgetLimits = attrs.field(factory=BudgetLimits)
    used: Usage = attrs.field(factory=Usage)
    loaded: tuple[str, ...] = ()
    columns: tuple[Param, ...] = ()
    key: str = ""
    parent_turn: int = 0
    result: str | None = None
    keep: bool = False
    tools: tuple[str, ...] = ()

    def with_catalog(self, catalog: Catalog) -> SessionState:
        return attrs.evolve(
            self,
            functions=tuple(catalog.declared()),
            agents=tuple(catalog.agents.values()),
            tools=tuple(t.name for t in catalog.tools()),
        )

    def catalog(self, tools: Iterable[FunctionSpec] = ()) -> Catalog:
        """The built-in functions with the session's own, and those of the tools that it may use."""
        granted = {name.lower() for name in self.tools}
        catalog = Catalog().with_tools(t for t in tools if t.name.lower() in granted)
        return attrs.evolve(
            catalog,
            functions={**catalog.functions, **{f.name.lower(): f for f in self.functions}},
            agents={a.name.lower(): a for a in self.agents},
        )


class Records:
    """Writes states and replies as JSON text, and reads them back."""

    def text(self, value: SessionState | Reply) -> str:
        return CONVERTER.dumps(value)

    def state(self, text: str) -> SessionState:
        """Raises ``ConfigError`` where the text is not what ``text`` wrote: another version's, say."""
        try:
            return CONVERTER.loads(text, SessionState)
        except Exception as error:
            raise ConfigError(
                f"the session's record cannot be read: {error}",
                hint="it was written by another version; start the task again",
            ) from None

    def reply(self, text: str) -> Reply:
        return CONVERTER.loads(text, Reply)
