"""What is said about finished statements: rows on stdout; messages, warnings and usage on stderr."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from kleene.cli.exits import Exit
from kleene.cli.invocation import Invocation, ResultLike
from kleene.cli.progress import thousands

if TYPE_CHECKING:
    from kleene.cli.rows import Relation
    from kleene.planner.specs import Usage

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


def usage_line(usage: Usage) -> str:
    """One line about what was used; empty where no call was made or remembered.

    >>> from kleene.planner.specs import Usage
    >>> usage_line(Usage(requests=3, memo_hits=1, input_tokens=1200, output_tokens=34, dollars=0.0123, seconds=1.44))
    '3 requests · 1 from the memo · 1.2k tokens · $0.0123 · 1.4 s'
    """
    if not usage.requests and not usage.memo_hits:
        return ""
    parts = [f"{usage.requests:,} request{'' if usage.requests == 1 else 's'}"]
    if usage.memo_hits:
        parts.append(f"{usage.memo_hits:,} from the memo")
    if usage.unknown:
        parts.append(f"{usage.unknown:,} unknown")
    if usage.tokens:
        parts.append(f"{thousands(usage.tokens)} tokens")
    if usage.dollars:
        parts.append(f"${usage.dollars:.4f}")
    if usage.unpriced:
        parts.append(f"{usage.unpriced:,} unpriced")
    parts.append(f"{usage.seconds:.1f} s")
    return " · ".join(parts)
