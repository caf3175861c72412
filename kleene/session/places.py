"""Where in a long text the thing is that a statement looked for, so that a cut cell shows it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kleene.planner.sought import Sought
from kleene.tools.matching import required

SHORTEST = 2
"""A shorter text stands everywhere."""


def finder(sought: Iterable[Sought]) -> re.Pattern[str] | None:
    """A pattern of literal texts alone, so that looking for it takes no longer than reading; None where nothing can be looked for.

    >>> finder([Sought("like", "%battle of%lipsk%", True), Sought("regexp", "K[uú]tuzov|Moscow")])
    re.compile('(?i:battle\\\\ of)|(?-i:tuzov)|(?-i:Moscow)')
    """
    pieces: dict[str, None] = {}
    for item in sought:
        for text, any_case in _literals(item):
            if len(text.strip()) >= SHORTEST:
                pieces[f"(?{'i' if any_case else '-i'}:{re.escape(text)})"] = None
    return re.compile("|".join(pieces)) if pieces else None


def _literals(item: Sought) -> Iterable[tuple[str, bool]]:
    if item.kind == "text":
        return [(item.text, item.any_case)]
    if item.kind == "like":
        return [(max(re.split("[%_]", item.text), key=len), item.any_case)]
    bare = re.sub(r"\[[^\]|]*\]|\\[bBwWdDsS]", "", item.text)
    branches = [item.text] if set("([\\") & set(bare) else item.text.split("|")
    flags = re.IGNORECASE if item.any_case or item.text.startswith("(?i)") else 0
    found = []
    for branch in branches:
        try:
            literal = required(branch.removeprefix("(?i)"), flags)
        except re.error:
            continue
        if literal is not None:
            found.append((literal.text, literal.any_case))
    return found
