"""What a generator makes."""

from __future__ import annotations

import attrs

from kleene.bench.verify import Verify


@attrs.frozen
class Example:
    """One task with its truth. ``context`` is the text it is asked over, None where ``task`` says all; ``sql`` is CallSQL that answers it from
    the table ``ctx``, None where there is none; ``difficulty`` is a rating as of chess players, 800 (easy) to 1600; ``setup`` are commands that
    make what the task finds in its workspace."""

    kind: str
    task: str
    verify: Verify
    difficulty: float
    context: str | None = None
    sql: str | None = None
    setup: tuple[str, ...] = ()


def rating(share: float) -> float:
    """The prior rating of a task that is so hard, from 0 to 1."""
    return 800.0 + 800.0 * share
