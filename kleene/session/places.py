"""Where in a long text the thing is that a statement looked for, so that a cut cell shows it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kleene.planner.sought import Sought
from kleene.tools.matching import required

SHORTEST = 2
"""A shorter text stands everywhere."""

_FLAGS = re.compile(r"\(\?[a-z]+\)")
_ALTERNATIVES = re.compile(r"\((?:\?:)?([^()|]+(?:\|[^()|]+)+)\)(?![?*{])")  # a group of them that every match has


def finder(sought: Iterable[Sought]) -> re.Pattern[str] | None:
    """A pattern of literal texts alone, so that looking for it takes no longer than reading; None where nothing can be looked for.

    >>> finder([Sought("like", "%battle of%lipsk%", True), Sought("regexp", "K[uú]tuzov|Moscow")])
    re.compile('(?i:battle\\\\ of)|(?-i:tuzov)|(?-i:Moscow)')
    >>> finder([Sought("regexp", r"(?is).{0,80}(?:govern\\w+|laws? of).{0,80}")])
    re.compile('(?i:govern)|(?i:law)')
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
    begin = _FLAGS.match(item.text)
    text = item.text[begin.end() :] if begin else item.text
    flags = re.IGNORECASE if item.any_case or (begin and "i" in begin[0]) else 0
    bare = re.sub(r"\[[^\]|]*\]|\\[bBwWdDsS]", "", text)
    found = _required([text] if set("([\\") & set(bare) else text.split("|"), flags)
    group = _ALTERNATIVES.search(text)
    return found or (_required(group[1].split("|"), flags) if group else [])


def _required(patterns: Iterable[str], flags: int) -> list[tuple[str, bool]]:
    """What every match of each holds, with whether its case matters."""
    found = []
    for pattern in patterns:
        try:
            literal = required(pattern, flags)
        except re.error:
            continue
        if literal is not None:
            found.append((literal.text, literal.any_case))
    return found
