"""The toolbox of an engine: the standard tools on its workspace, and the user's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kleene.config import Config
from kleene.planner.errors import ConfigError
from kleene.tools.base import Limits, Tool, Work
from kleene.tools.functions import tool
from kleene.tools.jail import Jail
from kleene.tools.toolbox import Approve, Toolbox
from kleene.udfs.events import Event

RESULT_BYTES = 64 << 20
"""Of one use's rows: DuckDB holds them as JSON beside its table of them."""


def toolbox_for(
    workspace: str | Path,
    config: Config,
    own: Sequence[Any],
    emit: Callable[[Event], None],
    approve: Approve | None = None,
) -> Toolbox:
    """The standard tools, and ``own``: Python functions or what ``kleene.tool`` made of them. Raises ``ConfigError`` for two of one name."""
    tools: dict[str, Tool] = {}
    for given in own:
        made = given if isinstance(given, Tool) else tool(given)
        if made.name.lower() in tools:
            raise ConfigError(
                f"there are two tools {made.name}", hint="kleene.tool(function, name='...') gives one another name"
            )
        tools[made.name.lower()] = made
    limits = Limits(result_bytes=RESULT_BYTES)

    def work(cancelled: Callable[[], bool]) -> Work:
        return Work(workspace=Jail.of(workspace), limits=limits, cancelled=cancelled)

    return Toolbox(tools.values(), work, emit, approve)
