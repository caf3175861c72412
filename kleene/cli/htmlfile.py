"""Writes a page that a command made: to a file, or to stdout."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kleene.cli.exits import UsageError

if TYPE_CHECKING:
    from kleene.cli.terminal import Terminal


def write_page(page: str, target: str, terminal: Terminal) -> None:
    """``target`` is a file, which is replaced, or ``-`` for stdout. Where it cannot be written this is a ``UsageError``."""
    if target == "-":
        terminal.out.write(page)
        return
    data = page.encode("utf-8", "replace")
    try:
        Path(target).write_bytes(data)
    except OSError as error:
        raise UsageError(
            f"{target} cannot be written: {error.strerror or error}",
            hint="--html FILE names a file in a folder that is there; --html - writes to stdout",
        ) from None
    terminal.say(f"wrote {target} ({max(1, round(len(data) / 1000)):,} kB)")
