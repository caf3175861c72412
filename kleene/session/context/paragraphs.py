"""Cuts a text into paragraphs, line by line, holding one paragraph at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

LIMIT = 20_000
"""Characters above which a paragraph is split, at line ends only: a log without blank lines must not become one row."""


def paragraphs(lines: Iterable[str], limit: int = LIMIT) -> Iterator[str]:
    """The runs of lines between blank ones, joined by ``\\n``; lines keep their own white space. A single line is never cut.

    >>> list(paragraphs(["a\\n", "b\\n", " \\n", "\\n", "c"]))
    ['a\\nb', 'c']
    >>> list(paragraphs(["aaa\\n", "bbb\\n", "c\\n"], limit=8))
    ['aaa\\nbbb', 'c']
    """
    held: list[str] = []
    size = -1
    for line in lines:
        text = line.removesuffix("\n")
        blank = not text.strip()
        if held and (blank or size + 1 + len(text) > limit):
            yield "\n".join(held)
            held, size = [], -1
        if not blank:
            held.append(text)
            size += 1 + len(text)
    if held:
        yield "\n".join(held)
