"""Reads a document in a process of its own, which ends with its time, its memory or the statement.

The libraries that read documents cannot be interrupted, and a page made for it keeps them busy for hours: ``<!--`` a hundred thousand times
costs Python's HTML parser the square of that (3.11). What comes from the web is read this way.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import suppress

from kleene.planner.errors import ToolError
from kleene.tools.base import Work
from kleene.tools.documents import Source
from kleene.tools.documents import text as text_of
from kleene.tools.processes import Bounds, Command, Finished, run

TEXT_BYTES = 64 << 20
MEMORY_BYTES = 1 << 30
CANNOT = 3
"""The exit code with which the reader says that it cannot read; the reason is JSON on its standard error."""

_PROGRAM = """
import sys, types
sys.path[:] = sys.argv[3:]
import kleene
package = sys.modules["kleene.tools"] = types.ModuleType("kleene.tools")
package.__path__ = [sys.argv[2]]
from kleene.tools.reading_apart import main
main()
"""
"""The package is put in by hand: what it puts together loads DuckDB, which takes longer than most pages."""


def read_apart(name: str, data: bytes, work: Work, *, deadline: float) -> str:
    """The text of a document, as ``documents.text`` gives it. ``name`` is what it is called in errors, its suffix says its kind.

    Raises ``ToolError``: as ``documents.text``, timed out at ``deadline`` (of ``time.monotonic``), too large above 1 GiB of memory or 64 MiB
    of text; ``Cancelled``.
    """
    bounds = Bounds(memory_bytes=MEMORY_BYTES, processes=8, stream_bytes=2 * TEXT_BYTES, drained_bytes=TEXT_BYTES)
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        command = Command(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, name, os.path.dirname(__file__), *filter(None, sys.path)],
            {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"},
            cwd="/",
            stdin=file.fileno(),
        )
        done = run(command, bounds, deadline=deadline, cancelled=work.cancelled)
    if done.ended is None and done.status == 0:
        return done.stdout
    raise _error(name, done)


def _error(name: str, done: Finished) -> ToolError:
    if done.ended == "timed out":
        return ToolError(f"{name} could not be read in time", kind="timed out")
    if done.ended is not None:
        return ToolError(f"{name} could not be read: {done.ended}", kind="too large")
    if done.status == CANNOT:
        with suppress(ValueError, TypeError):
            said = json.loads(done.stderr.splitlines()[-1])
            return ToolError(str(said["message"]), kind=str(said["kind"]), hint=said["hint"])
    last = done.stderr.strip().splitlines()[-1:] or [f"the reader ended with {done.status}"]
    return ToolError(f"{name} could not be read: {last[0][:200]}")


def main() -> None:
    """The reader: a document on standard input, its text on standard output."""
    try:
        text = text_of(Source.of(sys.argv[1], sys.stdin.buffer.read()))
    except ToolError as error:
        said = {"message": error.message, "kind": error.kind, "hint": error.hint}
        sys.stderr.write(f"\n{json.dumps(said)}\n")
        sys.stderr.flush()
        os._exit(CANNOT)
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
    os._exit(0)
