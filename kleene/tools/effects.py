"""The words in which tools with effects say what they would do. ``Tool.describe`` never raises, whatever the arguments are."""

from __future__ import annotations


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
