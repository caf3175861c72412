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
    """A text on one line as a person may judge it: what cannot be seen is written out, and what is left out is counted.

    >>> print(shortened("a\\n b\\x1b[2J\\u202e"), shortened("abcdefgh", 6), sep="\\n")
    a b\\x1b[2J\\u202e
    abcdef... (2 more)
    """
    line = " ".join(text.split())
    cut = line[:width] + (f"... ({len(line) - width:,} more)" if len(line) > width else "")
    return cut if cut.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in cut)


def counted(text: object) -> str:
    """The size of a text as it will be written.

    >>> counted("ü" * 1000)
    '2,000 bytes'
    """
    size = len(str(text or "").encode("utf-8", "replace"))
    return f"{size:,} byte{'' if size == 1 else 's'}"
