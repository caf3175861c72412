"""Writes a page that a command made: to a file, or to stdout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kleene.cli.exits import UsageError

if TYPE_CHECKING:
    from kleene.cli.terminal import Terminal


def write_page(page: str, target: str, terminal: Terminal) -> None:
    """``target`` is a file, which is replaced when the page is whole, or ``-`` for stdout. Where it cannot be written this is a ``UsageError``."""
    if target == "-":
        terminal.out.write(page)
        return
    data, file = page.encode("utf-8", "replace"), Path(target)
    try:
        if not target or (file.exists() and not file.is_file()):
            file.write_bytes(data)  # a pipe, say; a folder is an error
        else:
            # Beside it first: a full disk or Ctrl-C leaves the earlier page as it was.
            partial = file.with_name(f".{file.name}.{os.getpid()}.partial")
            try:
                partial.write_bytes(data)
                os.replace(partial, file)
            finally:
                partial.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"{target or 'a file without a name'} cannot be written: {error.strerror or error}",
            hint="--html FILE names a file in a folder that is there; --html - writes to stdout",
        ) from None
    terminal.say(f"wrote {target} ({max(1, round(len(data) / 1000)):,} kB)")
