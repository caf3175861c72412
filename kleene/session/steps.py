"""The convention of the table ``plan(step, status)``: where a session that keeps one stands, as a line under each turn."""

from __future__ import annotations

from collections.abc import Iterable

from kleene.session.text import one_line


def plan_line(rows: Iterable[tuple[object, object]]) -> str:
    """A line for these rows of (step, status), the last of each step counting; empty without rows. done and doing are known words.

    >>> plan_line([("look", "doing"), ("map", "todo"), ("look", "done"), ("map", "doing"), ("sum", "todo")])
    'plan: 1 of 3 done · doing: map · next: sum'
    """
    steps: dict[str, str] = {}
    for step, status in rows:
        steps[str(step)] = str(status).strip().casefold()
    if not steps:
        return ""
    doing = [s for s, status in steps.items() if status == "doing"]
    following = next((s for s, status in steps.items() if status not in ("done", "doing")), None)
    parts = [f"plan: {sum(status == 'done' for status in steps.values())} of {len(steps)} done"]
    if doing:
        parts.append(f"doing: {one_line(', '.join(doing), 100)}")
    if following is not None:
        parts.append(f"next: {one_line(following, 100)}")
    return " · ".join(parts)
