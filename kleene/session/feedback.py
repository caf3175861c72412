"""What a model is told between its turns, when it is not a result: nudges, repeated errors, a failed check, the end of a turn."""

from __future__ import annotations

import attrs

from kleene.planner.errors import (
    BudgetExceeded,
    CallFailed,
    KleeneError,
    NoModel,
    ParseError,
    PlanError,
    PolicyError,
    Refused,
    StoreLocked,
)
from kleene.session import render
from kleene.session.extract import Extraction
from kleene.session.prefix import catalog_text
from kleene.session.text import count, ordinal
from kleene.session.world import CatalogView

EMPTY_REPLY = "(empty reply)"
"""Stands in the transcript for a reply without text, which no provider takes back."""


@attrs.frozen
class CheckResult:
    """What the finish check said. ``output`` is shown to the model when it did not pass."""

    passed: bool
    output: str = ""


def nudge(found: Extraction, max_tokens: int) -> str:
    """What to do after a reply that held nothing to run."""
    if found.cut:
        return (
            f"Nothing was run: {found.reason} ({max_tokens:,} tokens). Go on with a complete ```sql fence, and keep it shorter: "
            "fewer statements a turn, less prose."
        )
    return f"Nothing was run: {found.reason}. Reply with one ```sql fence that holds a statement; to answer, FINAL('...') or FINAL FROM (query)."


def failed(problem: KleeneError, position: int, total: int, source: str | None) -> str:
    """A statement's error, and how many statements after it were not run."""
    text = render.error(problem, source)
    later = total - position
    if later:
        text += f"\n{count(later, 'later statement')} {'was' if later == 1 else 'were'} not run."
    return text


def repeated(problem: KleeneError, times: int, first_turn: int, catalog: CatalogView) -> str:
    """What to add when the same statement has failed with the same error before: another way, not the same words again."""
    said = f"This statement failed in the same way in turn {first_turn}; this is the {ordinal(times)} time. Do not send it again. "
    return said + _another_way(problem, catalog)


def too_many(written: int, run: int) -> str:
    """A reply with more statements than are run in one turn."""
    return f"Only the first {run} of {written:,} statements were run. Write fewer a turn, and look at what they give."


def check_failed(result: CheckResult) -> str:
    """The tail of the failed check's output, at most 40 lines that are not blank."""
    lines = [line.rstrip()[:400] for line in result.output.splitlines() if line.strip()]
    tail = "\n".join(lines[-40:]) or "(no output)"
    return f"FINAL was not accepted: the check failed. The end of its output:\n{tail}\nMend what it reports, then FINAL again."


def after_final(later: int) -> str:
    """The statements behind a FINAL never run."""
    return f"\n{count(later, 'statement')} after FINAL {'was' if later == 1 else 'were'} not run." if later else ""


def closing(turns_left: int) -> str:
    """The last line of a feedback: go on, or the warning that one turn is left."""
    if turns_left == 1:
        return "Your next turn is the last one: end it with FINAL, with the best answer you have."
    return "Go on with SQL, or end with FINAL."


SAME_STATEMENTS = (
    "These are the statements of your last turn again, and so are their results. Do something else, or FINAL."
)
FORCED_BY_BUDGET = (
    "Your budget is used up but for this turn. Answer now with what you know: one ```sql fence that holds only FINAL('...') or "
    "FINAL FROM (a query over your tables)."
)
FORCED = "You have no turns left. Answer now with what you know: one ```sql fence that holds only FINAL('...') or FINAL FROM (a query over your tables)."


def _another_way(problem: KleeneError, catalog: CatalogView) -> str:
    match problem:
        case ParseError():
            return (
                "Write it in simpler parts, each CTE a CREATE TABLE of its own. A quote in a text is doubled ('it''s'), a text with many quotes "
                "goes between $$ and $$, and a text that holds ``` needs a fence of four backticks."
            )
        case PlanError() | PolicyError():
            return "What there is now:\n" + catalog_text(catalog)
        case Refused() | BudgetExceeded():
            return (
                "Make fewer calls: filter with plain SQL first, LIMIT the rows, declare the prompt with BATCH 10, or FINAL with what you have. "
                "EXPLAIN shows the price without paying it."
            )
        case CallFailed() | StoreLocked() | NoModel():
            return "It is not the SQL that is wrong: calls fail. Plain SQL works; answer from what you can see, with FINAL."
        case _:
            return "Take it apart: run its innermost query alone with LIMIT 5, look at the columns and values, and build up from there."
