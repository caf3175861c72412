"""Small facts about text: lone surrogates, plurals, thousands, and cutting in the middle."""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")


def scrub(text: str) -> str:
    """The text as UTF-8 can hold it: a surrogate pair becomes its character, a lone surrogate U+FFFD.

    >>> scrub("a\\ud83d\\ude00b\\ud83d") == "a\\U0001f600b\\ufffd"
    True
    """
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def count(n: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "row"), count(12345, "row")
    ('1 row', '12,345 rows')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def ordinal(n: int) -> str:
    """
    >>> [ordinal(n) for n in (1, 2, 3, 4, 11, 21)]
    ['1st', '2nd', '3rd', '4th', '11th', '21st']
    """
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def one_line(text: str, width: int) -> str:
    """The text on one line, white space folded, cut at ``width`` characters with an ellipsis.

    >>> one_line("SELECT 1,\\n       2", 10)
    'SELECT 1,…'
    """
    folded = " ".join(text.split())
    return folded if len(folded) <= width else folded[: width - 1].rstrip() + "…"


def tokens(characters: int) -> int:
    """The rule of thumb by which contexts are described: four characters a token, rounded up."""
    return -(-characters // 4)


def middle(text: str, width: int) -> str:
    """The text, or where it is longer than ``width`` its head and tail with the length between.

    >>> middle("abcdefghijkl", 8)
    'abcdef …[12 characters]… kl'
    """
    if len(text) <= width:
        return text
    tail = width // 4
    return f"{text[: width - tail]} …[{len(text):,} characters]… {text[len(text) - tail :]}"
