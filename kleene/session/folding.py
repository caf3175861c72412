"""Leaves old results out of a transcript: what is sent to the model stays short, and the same text for many turns, so that it stays cached.

Only results fold, in blocks of ``KEEP``: the model's own replies stay, and each folded result is a line that says where it can be read again.
"""

from __future__ import annotations

from collections.abc import Sequence

from kleene.udfs.protocols import Message

KEEP = 8
"""The last 8 results at least are never folded for age; nothing folds before turn 16."""

TRIES = (4, 1, 0)
"""When a transcript is longer than the model reads: so many last results are kept, one after the other."""


def folded_by_age(turns: int, keep: int = KEEP) -> int:
    """How many of the first results are left out after so many turns. It changes every ``keep`` turns only.

    >>> [folded_by_age(n) for n in (0, 8, 15, 16, 23, 24, 30)]
    [0, 0, 0, 8, 8, 16, 16]
    """
    return max(0, turns // keep - 1) * keep


def fold(messages: Sequence[Message], count: int) -> tuple[Message, ...]:
    """The transcript (the task, then reply and result by turns) with the first ``count`` results as one line each."""
    out = list(messages)
    for turn in range(1, min(count, (len(out) - 1) // 2) + 1):
        out[2 * turn] = Message("user", stub(turn, out[2 * turn].text))
    return tuple(out)


def stub(turn: int, result: str) -> str:
    """What stands for a result.

    >>> stub(3, "error: no table x")
    '(The result of turn 3 is left out; a statement failed in it. SELECT result FROM turns WHERE n = 3 shows it.)'
    """
    failed = "; a statement failed in it" if "\nerror: " in f"\n{result}" else ""
    return f"(The result of turn {turn} is left out{failed}. SELECT result FROM turns WHERE n = {turn} shows it.)"
