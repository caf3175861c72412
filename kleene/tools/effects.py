"""Effects: tools that change something outside of the database, and what each says it would do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from kleene.tools.base import Tool


@attrs.frozen
class Effect:
    """A VOLATILE tool, and ``describe(arguments)``: one line for dry runs and approvals. It never raises, whatever the arguments are."""

    tool: Tool
    describe: Callable[[tuple[Any, ...]], str]


def shortened(text: str, width: int = 120) -> str:
    """A text on one line, cut where it is long.

    >>> shortened("a\\n b"), shortened("abcdefgh", 6)
    ('a b', 'abc...')
    """
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 3] + "..."


def counted(text: object) -> str:
    """The size of a text as it will be written.

    >>> counted("ü" * 1000)
    '2,000 bytes'
    """
    size = len(str(text or "").encode("utf-8", "replace"))
    return f"{size:,} byte{'' if size == 1 else 's'}"
