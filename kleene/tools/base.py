"""What a tool is: what SQL sees of it, the function that does it, and what that function may use."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from kleene.planner.errors import Cancelled, ToolError
from kleene.planner.specs import Param, Volatility

if TYPE_CHECKING:
    from kleene.tools.index import SearchIndex
    from kleene.tools.jail import Jail
    from kleene.tools.reading_apart import Readers

__all__ = ["Limits", "Param", "Row", "Run", "Tool", "ToolError", "Volatility", "Work"]

Row: TypeAlias = tuple[Any, ...]


@attrs.frozen
class Limits:
    """What one use of a tool may take: ``file_bytes`` of each file that is read whole, and of its result ``rows`` and ``result_bytes``
    (of text, as UTF-8); ``seconds`` from its start."""

    file_bytes: int = 64 << 20
    rows: int = 1_000_000
    result_bytes: int = 256 << 20
    seconds: float = 60.0


@attrs.frozen
class Work:
    """What a tool may use while it runs, in a worker thread.

    ``cancelled`` is polled at least every 50 ms by a tool that takes long; ``check`` does that, and looks at ``deadline`` (``time.monotonic``)
    too. ``env`` holds the environment variables that ``env`` may show, ``skills`` the texts of the skills by name. ``index`` is the
    workspace's search index, ``readers`` the processes that read documents; without them each use makes its own and forgets them. ``statement`` names the statement that asks: what was
    refreshed for it once is not looked at again (empty: always look).
    """

    workspace: Jail
    limits: Limits = Limits()
    cancelled: Callable[[], bool] = lambda: False
    env: Mapping[str, str] = attrs.field(factory=dict)
    skills: Mapping[str, str] = attrs.field(factory=dict)
    git: str = "git"
    index: SearchIndex | None = None
    readers: Readers | None = None
    statement: str = ""
    deadline: float = float("inf")

    def check(self) -> None:
        """Raises ``Cancelled`` when the statement was cancelled, ``ToolError`` (timed out) when the time is over."""
        if self.cancelled():
            raise Cancelled("the statement was cancelled")
        if time.monotonic() > self.deadline:
            raise ToolError(
                f"not done after {self.limits.seconds:g} seconds",
                kind="timed out",
                hint="ask for less at once: a narrower glob, a shorter range, a simpler pattern",
            )

    @property
    def remaining(self) -> float:
        """Seconds to the deadline, at least 0."""
        return max(0.0, self.deadline - time.monotonic())


Run: TypeAlias = Callable[[Work, tuple[Any, ...]], Iterable[Row]]


@attrs.frozen
class Tool:
    """A tool as SQL sees it, and the function that does it.

    ``params`` are positional and nullable, the first ``required`` of them must be given. ``run`` gets one Python value (str, int, float, bool,
    None, list, dict) for each, None for an optional one that is missing, and gives rows with a value for each of ``columns``, in an order that
    the same workspace always gives. ``volatility``: IMMUTABLE is a function of its arguments alone and remembered in the memo, STABLE is
    asked once per statement and distinct arguments, VOLATILE runs under CALL only. ``describe`` says in a few words what a use with these
    arguments would do, on one line, for dry runs and approvals; it never raises. ``seconds`` is for a tool that takes its time as an argument: the most that a use may
    have, in place of ``Limits.seconds``. ``stops``: ``run`` ends soon after the statement does; what does not is left running. ``group``: the MCP server it
    is of, by which it can be granted with all others of it.
    """

    name: str
    params: tuple[Param, ...]
    required: int
    columns: tuple[Param, ...]
    run: Run
    volatility: Volatility
    description: str = ""
    describe: Callable[[tuple[Any, ...]], str] | None = None
    seconds: float | None = None
    stops: bool = True
    group: str = ""
