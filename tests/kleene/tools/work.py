"""What the tests of effects share: a workspace, and the sandbox where this machine has one."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest

from kleene.config import Access
from kleene.planner.errors import ToolError
from kleene.tools import shell as shells
from kleene.tools import standard, web, websearch
from kleene.tools.base import Row, Tool, Work
from kleene.tools.hosts import HostRules
from kleene.tools.jail import Jail
from kleene.tools.providers import Service
from kleene.tools.sandbox import Sandbox, probe
from kleene.tools.settings import ToolSettings
from kleene.tools.webclient import Reach


def why_no_sandbox() -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        return probe(Sandbox(), Jail.of(folder))


NO_SANDBOX = why_no_sandbox()
needs_sandbox = pytest.mark.skipif(NO_SANDBOX is not None, reason=f"no sandbox here: {NO_SANDBOX}")


def shell(sandbox: Sandbox) -> Tool:
    """The tool over a sandbox of the test's."""
    return attrs.evolve(standard.shell(ToolSettings()), run=partial(shells.run_in, sandbox))


def web_fetch(reach: Reach) -> Tool:
    return attrs.evolve(standard.web_fetch(ToolSettings()), run=partial(web.run_within, reach))


def web_search(service: Service | None) -> Tool:
    return attrs.evolve(standard.web_search(Access()), run=partial(websearch.run_with, service, Reach(HostRules())))


def use(tool: Tool, work: Work, *arguments: Any) -> list[Row]:
    """The rows of one use, with the optional arguments filled up."""
    given = (*arguments, *[None] * (len(tool.params) - len(arguments)))
    rows = list(tool.run(work, given))
    assert all(len(row) == len(tool.columns) for row in rows)
    return rows


def refusal(tool: Tool, work: Work, *arguments: Any) -> ToolError:
    """The error of a use that must be refused."""
    with pytest.raises(ToolError) as caught:
        use(tool, work, *arguments)
    return caught.value


def tree(folder: Path) -> dict[str, str]:
    """All files below a folder, with what they hold."""
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}
