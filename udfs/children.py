"""Calls that are answered by a session or a tool instead of a model: the seam between dispatch and who runs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import attrs

from kleene.planner.specs import Usage

if TYPE_CHECKING:
    from kleene.planner.specs import CallSpec
    from kleene.udfs.ledger import Ledger


@attrs.frozen
class ChildReply:
    """``text``: a JSON array, one object a row. ``remember``: the child came to its end, so that the memo may answer for it next time."""

    text: str
    usage: Usage = attrs.field(factory=Usage)
    remember: bool = False


class Child(Protocol):
    """One child that was admitted. ``close`` is called at the end whatever happened, from any thread."""

    def run(self) -> ChildReply:
        """Run it to its end in the calling thread. Raises ``KleeneError`` where the statement must fail, ``Cancelled`` after ``cancel``."""
        ...

    def cancel(self) -> None:
        """End ``run`` soon, or keep it from beginning."""
        ...

    def close(self) -> None: ...


class ToolUse(Child, Protocol):
    """``left``: what of it was left running when it was cancelled, in a sentence; empty for nothing."""

    left: str


class Children(Protocol):
    """What a session (or an engine) offers to its statements. All methods are quick and may be called from any thread."""

    def expect(self, count: int) -> None:
        """So many children are about to be opened: their budgets are shared out accordingly."""
        ...

    def open(self, spec: CallSpec, arguments: tuple[str, ...], ledger: Ledger) -> Child:
        """Admit one: its budget is taken from ``ledger``. Raises ``BudgetExceeded`` (depth too) and ``PlanError``."""
        ...

    def expected_cost(self, spec: CallSpec, arguments: Sequence[tuple[str, ...]]) -> tuple[int, int, float, str]:
        """Calls, tokens and dollars that children with these arguments are expected to use together, and what that is taken from."""
        ...

    def cancel(self) -> None:
        """End all that runs and is not waited for by a statement."""
        ...

    def close(self) -> None:
        """``cancel``, and wait for the end."""
        ...


class Tools(Protocol):
    """What an engine offers to its statements besides models. ``open`` is quick and may be called from any thread."""

    def open(self, spec: CallSpec, arguments: tuple[str, ...], statement: str, session: str | None = None) -> ToolUse:
        """One use of a tool for a statement of a session (None: a person's); ``run`` raises ``CallFailed`` where the tool cannot do it."""
        ...
