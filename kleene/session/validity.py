"""How many of a model's statements were right as written: told from its turns, as everything about a session can be."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kleene.planner.statements import read
from kleene.udfs.events import TurnFinished

_LATER = re.compile(r"^([\d,]+) later statements? (?:was|were) not run\.$", re.MULTILINE)
_ERROR = re.compile(r"^error: ", re.MULTILINE)


def statements_of(turn: TurnFinished) -> tuple[int, int]:
    """How many statements of the turn ran (or could not be read), and how many of them failed: none or one.

    >>> statements_of(TurnFinished(at=0, session="s", turn=1, reply="", sql="SELECT 1; SELECT x; SELECT 2",
    ...     feedback="-- 2 of 3: SELECT x\\nerror: no x\\n1 later statement was not run."))
    (2, 1)
    """
    if turn.sql is None:
        return 0, 0
    failed = 1 if _ERROR.search(turn.feedback) else 0
    later = _LATER.search(turn.feedback)
    written = len(read(turn.sql))
    return written - (int(later.group(1).replace(",", "")) if later else 0), failed


def valid_share(turns: Iterable[TurnFinished]) -> tuple[int, int]:
    """Statements without an error, and all, over these turns."""
    counted = [statements_of(t) for t in turns]
    total = sum(n for n, _ in counted)
    return total - sum(f for _, f in counted), total
