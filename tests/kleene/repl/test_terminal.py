"""Screens of the prompt as a person sees them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.kleene.repl.panes import needs_tmux, pane

MODEL = """\
import time
import kleene

def reply(request):
    time.sleep(0 if request.prompt.startswith("quick") else 100)
    return "done"

slow = kleene.FunctionModel(reply, name="slow", threads=True)

def hello(request):
    return "hello, " + request.prompt
"""
FIRST = r"""
Kleene 0.1.0, SQL for model calls. \? helps, Ctrl-D ends.
kleene> SELECT NULL AS nothing,
     -> '日本' AS wide;
┌─────────┬──────┐
│ nothing │ wide │
├─────────┼──────┤
│ NULL    │ 日本 │
└─────────┴──────┘
1 row
kleene> SELECT bdy FROM (SELECT 1 AS body);
error: Referenced column "bdy" not found in FROM clause
line 1: SELECT bdy FROM (SELECT 1 AS body);
               ^^^
hint: the nearest column is "body"
kleene> FROM trace_s
                     trace_sessions    table
                     trace_statements  table
in memory
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.py").write_text(MODEL, encoding="utf-8")
    return tmp_path


def squeezed(screen: str) -> str:
    return "\n".join(line for line in screen.split("\n") if line)


@needs_tmux
def test_a_session_and_its_history_in_the_next(folder: Path) -> None:
    with pane(folder, "--model-script", "m.py:slow") as shown:
        shown.wait("kleene>")
        shown.type("SELECT NULL AS nothing,", "Enter")
        shown.type("'日本' AS wide;", "Enter")
        shown.wait("1 row\nkleene>")
        shown.type("SELECT bdy FROM (SELECT 1 AS body);", "Enter")
        shown.wait('"body"\nkleene>')
        shown.type("FROM trace_s")
        assert squeezed(shown.wait("trace_statements  table")) == FIRST.strip("\n")
        colors = shown.screen(colors=True)
        assert "\x1b[31merror:" in colors, repr(colors)
        shown.press("C-c")

        shown.type("SELECT count(llm('quick ' || i)), count(llm('slow ' || i)) FROM range(500) t(i);", "Enter")
        shown.wait("500 of 1,000 calls")
        pressed = time.monotonic()
        shown.press("C-c")
        shown.wait("cancelled: 500 of 1,000 calls were answered and are kept\nkleene>")
        print(f"the prompt was back after {time.monotonic() - pressed:.3f} s")
        shown.type("SELECT count(llm('quick ' || i)) AS kept FROM range(500) t(i);", "Enter")
        screen = shown.wait(
            "kleene> SELECT count(llm('quick ' || i)) AS kept FROM range(500) t(i);\n┌──────┐\n│ kept │"
        )
        assert "│  500 │" in screen and "500 from the memo" in screen
        shown.press("C-d")
        shown.wait("ended with 0")

    with pane(folder, "--model-script", "m.py:hello", columns=40, rows=15, NO_COLOR="1") as shown:
        shown.wait("kleene>")
        shown.press("Up")
        shown.wait("AS kept FROM range(500)")
        shown.press("C-c")
        shown.type(
            "SELECT 'one two three four five' AS a, llm('x') AS b, 3 AS c, 4 AS d, 5 AS e, 6 AS f, 7 AS g, 8 AS h;",
            "Enter",
        )
        screen = shown.wait("1 request")
        assert "c │ 3\nd │ 4\ne │ 5\n" in screen and "│ a │" not in screen  # too narrow for columns side by side
        assert "\x1b[3" not in shown.screen(colors=True)
        shown.resize(200, 60)
        shown.type("/run Why?", "Enter")
        assert "turn 1" in shown.wait("error: the run failed")
        shown.type("\\q", "Enter")
        shown.wait("ended with 0")


@pytest.mark.slow
@needs_tmux
def test_a_store_that_is_locked_ends_the_prompt(folder: Path) -> None:
    from kleene.store import Store

    with Store.open(folder / ".kleene" / "run.duckdb"), pane(folder, "repl") as shown:
        screen = shown.wait("ended with 5")
        assert "error: " in screen and "--lock-wait" in screen and "Traceback" not in screen
