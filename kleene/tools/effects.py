"""The words in which tools with effects say what they would do. ``Tool.describe`` never raises, whatever the arguments are."""

from __future__ import annotations

import re

_BLANKS = re.compile("[ \t]+")
_UNSEEN = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Characters that count as printable and show nothing: the fillers of Hangul, and Braille without dots."""


def shortened(text: str, width: int = 120) -> str:
    """A text on one line as a person may judge it: what cannot be seen is written out, line ends too (to a shell they are what ``;`` is),
    and what is left out is counted.

    >>> print(shortened("a\\n b  c\\x1b[2J\\u202e"), shortened("abcdefgh", 6), sep="\\n")
    a\\n b c\\x1b[2J\\u202e
    abcdef... (2 more)
    """
    line = _BLANKS.sub(" ", text.strip())
    cut = line[:width] + (f"... ({len(line) - width:,} more)" if len(line) > width else "")
    return "".join(c if c.isprintable() and c not in _UNSEEN else ascii(c)[1:-1] for c in cut)


def counted(text: object) -> str:
    """The size of a text as it will be written.

    >>> counted("ü" * 1000)
    '2,000 bytes'
    """
    size = len(str(text or "").encode("utf-8", "replace"))
    return f"{size:,} byte{'' if size == 1 else 's'}"
