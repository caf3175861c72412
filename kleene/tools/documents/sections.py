"""Markdown in sections: what documents without pages have in their place."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kleene.tools.documents.base import Page

_HEADING = re.compile(r"#{1,2}[ \t]+(.*)")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")


def sections(text: str) -> Iterator[Page]:
    """The text cut before each heading of the first two levels (outside of code) and at form feeds; one page without a title where there is
    none, no page for no text.

    >>> [(p.number, p.title, p.text) for p in sections("intro\\n# One\\na\\n## Two\\nb")]
    [(1, None, 'intro'), (2, 'One', '# One\\na'), (3, 'Two', '## Two\\nb')]
    """
    number, title, fence = 0, None, ""
    held: list[str] = []
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark is not None:
            fence = "" if fence and mark[1].startswith(fence) else fence or mark[1]
        heading = None if fence else _HEADING.match(line)
        if heading is None and not line.startswith("\f"):
            held.append(line)
            continue
        if (body := "\n".join(held).strip("\n")).strip():
            number += 1
            yield Page(number, title, body)
        title, held = (heading[1].rstrip(" \t#") if heading else None), [line.lstrip("\f")]
    if (body := "\n".join(held).strip("\n")).strip():
        yield Page(number + 1, title, body)
