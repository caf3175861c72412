"""The tool ``chunks``: a text in pieces of at most so many tokens, cut where it is natural to cut."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kleene.planner.errors import ToolError
from kleene.tools.base import Row, Work

CHARACTERS_PER_TOKEN = 4
_HEADING = re.compile(r"\n(?=#{1,6}[ \t])")
_PARAGRAPH = re.compile(r"\n[ \t\r]*\n")
_SMALLER = (re.compile(r"\n"), re.compile(r"[.!?…。！？]+[\"'”’)\]]*(?=\s)|[。！？]"), re.compile(r"\s"))


def cut(text: str, size: int, overlap: int = 0) -> Iterator[str]:
    """Pieces of at most ``size`` tokens (four characters each), in order and without blank lines around them.

    A cut is made at the last heading, else the last paragraph of the window's second half, else at the last line, sentence or word, else
    wherever the window ends. The next piece begins at most ``overlap`` tokens before the cut, at the first line, sentence or word there.

    >>> list(cut("One two.\\n\\nThree four.\\n\\nFive.", 6))
    ['One two.\\n\\nThree four.', 'Five.']
    """
    window, back = size * CHARACTERS_PER_TOKEN, overlap * CHARACTERS_PER_TOKEN
    # A cut lies so far on that the next piece begins later than this one, and by a fair step.
    least = back + max(1, (window - back) // 2)
    start, length = 0, len(text)
    while start < length:
        end = length if length - start <= window else _end(text, start + least, start + window)
        piece = text[start:end].strip("\r\n")
        if start and text[start - 1] != "\n":  # within a line; at its beginning spaces may mean something
            piece = piece.lstrip(" \t")
        if piece.strip():
            yield piece
        if end == length:
            return
        start = _begin(text, end - back, end) if back else end


def _end(text: str, first: int, last: int) -> int:
    """A place to cut in ``[first, last]``."""
    for border in (_HEADING, _PARAGRAPH, *_SMALLER):
        found = -1
        # One character more is seen, so that what ends just at the limit is found with what must follow it.
        for match in border.finditer(text, first - 1, min(last + 1, len(text))):
            if first <= match.end() <= last:
                found = match.end()
        if found >= 0:
            return found
    return last


def _begin(text: str, first: int, end: int) -> int:
    """Where the next piece begins: after a border in ``[first, end]``."""
    for border in (_PARAGRAPH, *_SMALLER):
        match = border.search(text, max(0, first - 1), end)
        if match is not None and match.end() < end:
            return match.end()
    return first


def tokens(text: str) -> int:
    """Four characters a token, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def chunks(work: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
    text, size, overlap = arguments
    overlap = 0 if overlap is None else overlap
    if size < 1:
        raise ToolError(f"a chunk has at least 1 token, not {size}", kind="invalid arguments")
    if not 0 <= overlap < size:
        raise ToolError(f"chunks of {size} tokens cannot overlap by {overlap}", kind="invalid arguments")
    for ordinal, piece in enumerate(cut(text, size, overlap), 1):
        yield ordinal, piece, tokens(piece)
