"""docs/repl.md is what the prompt does: every block is typed and what comes back is compared."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from kleene.cli.parser import build_parser
from kleene.models import FunctionModel
from tests.kleene.cli.doubles import Stream
from tests.kleene.repl.prompts import shell_on

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "repl.md").read_text(encoding="utf-8")
PROMPTS = re.compile(r"^kleene> (.*(?:\n     -> .*)*)\n?", re.MULTILINE)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


def plain(text: str) -> str:
    """Without what differs from run to run: seconds."""
    return re.sub(r"\d+\.\d s$", "T s", text, flags=re.MULTILINE)


def test_every_block_is_true(tmp_path: Path) -> None:
    [model] = blocks("python")
    scope: dict[str, object] = {}
    exec(model, scope)
    expected, real = "", ""
    with shell_on(tmp_path, model=FunctionModel(scope["answer"], name="answer")) as shell:  # type: ignore[arg-type]
        stream = Stream(tty=True)
        shell.inv.terminal.out = shell.inv.terminal.err = stream
        for block in blocks("text"):
            assert block.startswith("kleene> ")
            expected += block
            for typed in PROMPTS.findall(block):
                stream.write(f"kleene> {typed}\n")
                shell.feed(typed.replace("\n     -> ", "\n"))
        real = stream.getvalue()
    assert plain(real) == plain(expected)


def test_every_command_of_the_page_can_be_parsed() -> None:
    lines = [line for block in blocks("console") for line in block.splitlines()]
    assert lines
    for line in [*lines, *re.findall(r"`(python -m kleene[^`<]*)`", PAGE)]:
        words = shlex.split(line.removeprefix("$ "))
        assert words[:3] == ["python", "-m", "kleene"]
        assert build_parser().parse_args(words[3:]).command in ("repl", None)
