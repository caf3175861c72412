"""What a traceback says of Kleene's errors."""

from __future__ import annotations

import subprocess
import sys
import traceback

from kleene.planner.errors import PlanError, Refused
from kleene.planner.specs import Span

SOURCE = "SELECT idd FROM t"


def printed(error: Exception) -> str:
    return "".join(traceback.format_exception(error))


def test_a_traceback_has_the_place_and_the_hint() -> None:
    error = PlanError("there is no column idd", hint="did you mean id?", span=Span.at(SOURCE, 7, 10), source=SOURCE)
    told = "there is no column idd\nline 1: SELECT idd FROM t\n               ^^^\nhint: did you mean id?\n"
    assert printed(error) == f"kleene.planner.errors.PlanError: {told}"
    assert error.render() + "\n" == f"error: {told}"


def test_a_hint_that_comes_later_and_notes_of_others_are_shown_too() -> None:
    error = Refused("too dear")
    error.add_note("while the report was made")
    error.hint = "raise budget.calls"
    assert (
        printed(error)
        == "kleene.planner.errors.Refused: too dear\nhint: raise budget.calls\nwhile the report was made\n"
    )


def test_an_error_without_either_is_its_message_alone() -> None:
    assert printed(PlanError("no")) == "kleene.planner.errors.PlanError: no\n"


def test_python_itself_prints_the_hint_of_an_error_that_nobody_caught() -> None:
    program = "from kleene.planner.errors import Refused\nraise Refused('too dear', hint='raise budget.calls')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.endswith("Refused: too dear\nhint: raise budget.calls\n")
