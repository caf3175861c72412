"""The commands that a pack runs itself, to set a task up and to decide: they see the pack's folder, read-only, as ``$PACK``; a model's do not."""

from __future__ import annotations

import shlex
from pathlib import Path

import attrs

from kleene.tools.base import Work
from kleene.tools.jail import Jail
from kleene.tools.processes import Finished
from kleene.tools.sandbox import Sandbox
from kleene.tools.shell import run_command


def run_of_pack(
    command: str,
    workspace: Path,
    sandbox: Sandbox,
    *,
    pack: Path | None,
    timeout_ms: int,
    readable: tuple[str, ...] = (),
) -> Finished:
    """Run a command in the workspace. Raises ``ToolError`` as ``run_command`` does."""
    if pack is not None:
        folder = str(pack.resolve())
        readable, command = (*readable, folder), f"PACK={shlex.quote(folder)}; export PACK\n{command}"
    confined = attrs.evolve(sandbox, readable=(*sandbox.readable, *readable))
    return run_command(confined, Work(Jail.of(workspace)), command, timeout_ms=timeout_ms).finished
