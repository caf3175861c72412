"""``python -m kleene`` and the console script ``kleene``."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and sys.path and sys.path[0] == os.getcwd():
    # Python looks in the current folder first. That is often the workspace, and a model that writes docx.py there must not be imported.
    sys.path.append(sys.path.pop(0))

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kleene.cli.main import main as run_command

if TYPE_CHECKING:
    from kleene.cli.invocation import Invocation


def main(argv: Sequence[str] | None = None, **stand_ins: Any) -> int:
    """Do what the arguments say and return the exit code. ``stand_ins`` are those of ``kleene.cli.main.main``."""
    return run_command(argv, prompt=prompt, **stand_ins)


def prompt(inv: Invocation, database: str) -> int:
    """The prompt, which is made of the commands' parts and so stands above them."""
    from kleene.repl.loop import run

    return run(inv, database)


__all__ = ["main"]

if __name__ == "__main__":
    raise SystemExit(main())
