"""A workspace for tests of tools."""

from __future__ import annotations

import atexit
from pathlib import Path
from typing import Any

import attrs

from kleene.tools.asking import ask
from kleene.tools.base import Limits, Row, Tool, Work
from kleene.tools.jail import Jail
from kleene.tools.reading_apart import Readers


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


READERS = Readers()
"""For all tests: starting a process for each document would take most of their time."""
atexit.register(READERS.close)


def work(root: Path, **limits: Any) -> Work:
    return Work(Jail.of(root), limits=attrs.evolve(Limits(), **limits), readers=READERS)


def rows(tool: Tool, where: Path | Work, *arguments: Any) -> list[Row]:
    return list(ask(tool, where if isinstance(where, Work) else work(where), arguments))
