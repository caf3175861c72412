"""What is said about finished statements: rows on stdout; messages, warnings and usage on stderr."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from kleene.cli.exits import Exit
from kleene.cli.invocation import Invocation, ResultLike
from kleene.rendering.usage import usage_line

if TYPE_CHECKING:
    from kleene.planner.specs import Usage
    from kleene.rendering.rows import Relation

QUERY = re.compile(r"[\s(]*(SELECT|FROM|WITH|VALUES|TABLE)\b", re.IGNORECASE)


def report(result: ResultLike, text: str, inv: Invocation, write: Callable[[Relation], None] | None = None) -> None:
    """Print what a statement gave, its rows with ``write`` where that is given. How many rows a write has changed is a note, not a row."""
    if result.message is not None:
        inv.terminal.say(result.message)
    elif tuple(result.columns) == ("Count",) and not QUERY.match(text):
        for row in result.to_arrow_table().to_pylist():
            inv.terminal.say(f"{row['Count']:,} row{'' if row['Count'] == 1 else 's'}")
    else:
        (write or inv.write)(result)
    for warning in result.warnings:
        inv.terminal.say(f"warning: {warning}")


def unknown_exit(usage: Usage, inv: Invocation) -> Exit:
    """Whether ``--max-unknown`` makes a failure of the unknown answers."""
    most = inv.args.max_unknown
    if most is None or usage.unknown <= most:
        return Exit.DONE
    inv.terminal.error(
        f"error: {usage.unknown:,} unknown answer{'' if usage.unknown == 1 else 's'}, more than --max-unknown {most}\n"
        "hint: trace_calls has each of them: python -m kleene trace \"FROM trace_calls WHERE kind <> 'answer'\""
    )
    return Exit.FAILED


__all__ = ["report", "unknown_exit", "usage_line"]
