"""Whether a page shows what is printed: to the letter, but for what differs from run to run."""

from __future__ import annotations

import re

# What no two runs have alike, on both sides: how long it took, a run's or a statement's name; and tokens, which every new word that a
# model is told changes.
VARYING = (
    (re.compile(r"\b\d+(\.\d+)? (s|ms)\b"), "T s"),
    (re.compile(r"\b\d[\d,.]*k? (tok(ens)?)\b"), r"N \1"),
    (re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{4,6}(\.\d+)?\b"), "ID"),
)


def same(expected: str, real: str) -> bool:
    """``...`` stands for any text within a line, a line ``...`` for any lines.

    >>> same("1 row\\n2 requests · 0.1 s\\n", "1 row\\n2 requests · 0.3 s\\n")
    True
    >>> same("a ... z\\n...\\n", "a b z\\nc\\nd\\n"), same("a\\n", "a\\nb\\n")
    (True, False)
    """
    pattern = ""
    for line in plain(expected).splitlines():
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*?".join(re.escape(part) for part in line.split("...")) + r"\n"
    return re.fullmatch(pattern, plain(real)) is not None


def plain(text: str) -> str:
    """Without what varies, without blanks at the ends of lines and of the text."""
    for varying, word in VARYING:
        text = varying.sub(word, text)
    lines = "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")
    return f"{lines}\n" if lines else ""
