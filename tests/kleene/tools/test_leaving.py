"""A function of the user's that never returns ends neither the wall nor the engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

import kleene
from kleene.planner.errors import BudgetExceeded, CallFailed, Cancelled, ToolError
from kleene.planner.specs import BudgetLimits
from kleene.tools import setup
from kleene.tools.leaving import LeftRunning, leaving
from tests.kleene.engines import engine

BEGUN = threading.Event()
END = threading.Event()


@pytest.fixture(autouse=True)
def released() -> Iterator[None]:
    END.clear()
    BEGUN.clear()
    yield
    END.set()


def stuck(n: int) -> str:
    BEGUN.set()
    END.wait()
    return str(n)


def quick(n: int) -> int:
    return n + 1


TOOLS = [stuck, quick, kleene.tool(stuck, name="act", volatility="volatile")]


@pytest.mark.parametrize(
    ("statement", "call"),
    [
        ("SELECT * FROM stuck(1)", "stuck(1)"),
        ("SELECT value FROM range(1) t(i), LATERAL stuck(i)", "stuck(0)"),
        ("CALL act(1)", "act(1)"),
    ],
)
def test_the_statement_ends_at_its_wall_and_says_what_was_left(statement: str, call: str) -> None:
    opened = time.monotonic()
    with engine(tools=TOOLS, budget=BudgetLimits(wall=600)) as (k, _):
        for seconds in (0.5, 4, 32):  # on a busy machine the wall may be there before the tool is
            k.sql(f"SET budget.wall = {time.monotonic() - opened + seconds}")
            with pytest.raises(BudgetExceeded) as caught:
                k.sql(statement).fetchall()
            if BEGUN.is_set():
                break
        assert caught.value.dimension == "wall"
        assert caught.value.message.endswith(f"; {call} did not end and was left running")
        k.sql("SET budget.wall = 600")
        assert k.sql("SELECT * FROM quick(1)").fetchall() == [(2,)]
        errors = k.sql("SELECT error FROM trace_tool_calls WHERE error IS NOT NULL").fetchall()
        assert errors == [(f"{call} did not end and was left running",)]


@pytest.mark.parametrize("statement", ["SELECT * FROM stuck(1)", "CALL act(1)"])
def test_a_cancel_does_not_wait_for_it(statement: str) -> None:
    with engine(tools=TOOLS) as (k, _):
        threading.Thread(target=lambda: (BEGUN.wait(10), k.cancel()), daemon=True).start()
        with pytest.raises(Cancelled):
            k.sql(statement).fetchall()
        assert k.sql("SELECT * FROM quick(1)").fetchall() == [(2,)]


def test_without_a_wall_it_has_the_time_of_any_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    from kleene.tools.base import Limits

    monkeypatch.setattr(setup, "Limits", lambda **given: Limits(seconds=0.1, **given))
    with engine(tools=TOOLS) as (k, _):
        for statement in ("SELECT * FROM stuck(1)", "CALL act(1)"):
            with pytest.raises(CallFailed, match=r"\(1\) did not return and was left running") as caught:
                k.sql(statement).fetchall()
            assert caught.value.kind == "timed out"


def test_what_ends_in_time_is_what_it_gave_or_raised() -> None:
    def fail() -> str:
        raise KeyError("x")

    far = time.monotonic() + 60
    assert leaving(lambda: "a", lambda: False, far, "f()") == "a"
    with pytest.raises(KeyError):
        leaving(fail, lambda: False, far, "f()")
    assert leaving(lambda: time.sleep(0.1) or "late", lambda: True, far, "f()") == "late"  # type: ignore[func-returns-value]
    with pytest.raises(LeftRunning):
        leaving(END.wait, lambda: True, far, "f()")
    with pytest.raises(ToolError, match="was left running"):
        leaving(END.wait, lambda: False, 0.0, "f()")
