"""What the tests of effects share: a workspace, and the sandbox where this machine has one."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from kleene.planner.errors import ToolError
from kleene.tools.base import Row, Work
from kleene.tools.effects import Effect
from kleene.tools.jail import Jail
from kleene.tools.sandbox import Sandbox, probe


def why_no_sandbox() -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        return probe(Sandbox(), Jail.of(folder))


NO_SANDBOX = why_no_sandbox()
needs_sandbox = pytest.mark.skipif(NO_SANDBOX is not None, reason=f"no sandbox here: {NO_SANDBOX}")


def use(effect: Effect, work: Work, *arguments: Any) -> list[Row]:
    """The rows of one use, with the optional arguments filled up."""
    given = (*arguments, *[None] * (len(effect.tool.params) - len(arguments)))
    rows = list(effect.tool.run(work, given))
    assert all(len(row) == len(effect.tool.columns) for row in rows)
    return rows


def refusal(effect: Effect, work: Work, *arguments: Any) -> ToolError:
    """The error of a use that must be refused."""
    with pytest.raises(ToolError) as caught:
        use(effect, work, *arguments)
    return caught.value


def tree(folder: Path) -> dict[str, str]:
    """All files below a folder, with what they hold."""
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}
