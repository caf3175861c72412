"""``shell``: a command in the sandbox of the workspace, with the answer's rows as JSON on its stdin, must end with 0 within a minute."""

from __future__ import annotations

import json
import math
import shlex
import tempfile
from decimal import Decimal
from pathlib import Path

from kleene.bench.commands import run_of_pack
from kleene.bench.oracles.answer import Answer, Verdict
from kleene.bench.verify import Shell
from kleene.planner.errors import ToolError
from kleene.tools.sandbox import Sandbox
from kleene.tools.shell import exit_code

TIMEOUT_MS = 60_000


def shell(verify: Shell, answer: Answer, workspace: Path, sandbox: Sandbox, *, pack: Path | None = None) -> Verdict:
    """Raises ``ToolError`` (unsupported) where there is no sandbox: then nothing can be said of the answer."""
    # Outside of the workspace, where the answer's author could have left a file of this name; the command sees it read-only.
    with tempfile.TemporaryDirectory(prefix="kleene-answer-") as folder:
        file = Path(folder).resolve() / "answer.json"
        file.write_text(json_rows(answer), "utf-8")
        command = f"{{\n{verify.command}\n}} < {shlex.quote(str(file))}"
        try:
            done = run_of_pack(
                command, workspace, sandbox, pack=pack, timeout_ms=TIMEOUT_MS, readable=(str(file.parent),)
            )
        except ToolError as error:
            if error.kind == "unsupported":
                raise
            return Verdict(False, _line(error.message))
    code, note = exit_code(done.status)
    if code == 0:
        return Verdict(True)
    said = (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2]
    return Verdict(False, _line(f"{note or f'exit code {code}'}{f': {said}' if said else ''}"))


def json_rows(answer: Answer) -> str:
    """The rows as a JSON list of lists: numbers, true, false and null as such, all other values as text.

    >>> json_rows(Answer(("a", "b"), ((1, "x"), (Decimal("2.50"), None))))
    '[[1, "x"], [2.5, null]]'
    """
    return json.dumps([[_plain(value) for value in row] for row in answer.rows], ensure_ascii=False)


def _plain(value: object) -> object:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float | Decimal) and math.isfinite(value):
        return float(value)
    return str(value)


def _line(text: str) -> str:
    return " ".join(text.split())[:300]
