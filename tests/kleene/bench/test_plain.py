"""The plain agent: what it is told, how its calls are made, how it ends, and how it keeps within the window."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kleene
from kleene.bench.oracles.answer import Answer
from kleene.bench.plain import Done, Job, solve
from kleene.bench.plain.history import History
from kleene.bench.plain.shown import rows_text
from kleene.bench.plain.tools import answer_of
from kleene.planner.errors import ToolError
from kleene.session.feedback import CheckResult
from kleene.udfs.protocols import Message, ProviderError, Reply, Request, ToolResult, ToolUse
from tests.kleene.tools.work import needs_sandbox

Model = Callable[[Request], Any]


def use(name: str, **arguments: Any) -> ToolUse:
    return ToolUse(f"{name}-{len(str(arguments))}", name, json.dumps(arguments))


def final(*rows: Any) -> Reply:
    return Reply("", uses=(use("final", rows=list(rows)),))


def script(*replies: Any) -> tuple[Model, list[Request]]:
    """A model that gives these, turn after turn, and what it was asked."""
    asked: list[Request] = []

    def model(request: Request) -> Any:
        asked.append(request)
        found = replies[min(len(asked), len(replies)) - 1]
        return found(request) if callable(found) else found

    return model, asked


def done(model: Model, folder: Path, job: Job, *, turns: int = 10, window: int | None = None, **budget: Any) -> Done:
    models = kleene.FunctionModel(model, context_window=window)
    with kleene.connect(models=models, store=":memory:", workspace=folder, approve=lambda _: True) as engine:
        return solve(engine, job, folder, kleene.Budget(**budget) if budget else None, turns)


def told(request: Request) -> str:
    last = request.messages[-1]
    return "\n".join([*(r.text for r in last.results), last.text])


def test_a_context_that_fits_is_read_in_the_prompt(tmp_path: Path) -> None:
    model, asked = script(final([3]))
    found = done(model, tmp_path, Job("How many lines?", "a\n\nb\n\nc"))
    assert (found.outcome, found.answer, found.turns, found.usage.requests) == ("final", Answer(("c1",), ((3,),)), 1, 1)
    assert asked[0].messages[0].text.startswith("Task: How many lines?")
    assert "<context>\na\n\nb\n\nc\n</context>" in asked[0].messages[0].text
    assert list(tmp_path.iterdir()) == []


def test_a_context_that_does_not_fit_is_a_file_and_a_table(tmp_path: Path) -> None:
    text = "\n".join(f"line {n}" for n in range(20_000))
    calls = (
        use("grep", pattern="line 1999[89]"),
        use("query", sql="SELECT count(*) AS n FROM ctx"),
        use("lines", path="context.txt", **{"from": 2, "to": 3}),
    )
    model, asked = script(Reply("I look.", uses=calls), final(["x"]))
    found = done(model, tmp_path, Job("?", text), window=32_000)
    assert (found.outcome, found.calls, found.failures) == ("final", 4, 0)
    assert "line 15000" not in asked[0].messages[0].text and "208,889 characters in 20,000 lines" in told(asked[0])
    assert [r.id for r in asked[1].messages[-1].results] == [u.id for u in calls]
    assert "context.txt\t19999\tline 19998" in told(asked[1]) and "2\tline 1\n3\tline 2" in told(asked[1])
    assert list(tmp_path.iterdir()) == [], "the oracle finds the workspace as the task left it"


def test_ask_reaches_other_models_all_at_once(tmp_path: Path) -> None:
    asks = [use("ask", question="What?", text=f"part {n}") for n in range(3)]
    seen: list[str] = []

    def model(request: Request) -> Any:
        if request.tools:
            return final([told(request)]) if request.messages[-1].results else Reply("", uses=tuple(asks))
        seen.append(request.prompt)
        return f"about {request.prompt.split('part ')[1][0]}"

    found = done(model, tmp_path, Job("?"))
    assert found.answer is not None and found.answer.rows[0][0].split() == ["about", "0", "about", "1", "about", "2"]
    assert sorted(seen) == [f"What?\n\n<text>\npart {n}\n</text>" for n in range(3)]
    assert found.usage.requests == 5


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (ToolUse("i", "grep", "{"), "error: the arguments are not JSON"),
        (ToolUse("i", "grep", "[]"), "error: the arguments must be a JSON object"),
        (use("grap", pattern="x"), "error: there is no function grap\nhint: there are "),
        (use("grep"), "error: grep needs pattern"),
        (use("lines", path="a.txt", **{"from": "two"}), "error: from is no integer: 'two'"),
        (use("read", path="../x"), "error: "),
        (use("query", sql="SELECT * FROM read_text('/etc/passwd')"), "error: "),
        (use("query", sql="SELECT llm('x')"), "error: "),
        (use("query"), "error: sql is needed, a text"),
        (use("ask", question="x"), "error: ask needs text or path"),
        (use("shell", cmd="touch x"), "error: there is no function shell"),
    ],
)
def test_a_call_that_fails_says_why_and_the_task_goes_on(bad: ToolUse, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    model, asked = script(Reply("", uses=(bad,)), final([1]))
    found = done(model, tmp_path, Job("?"))
    assert (found.outcome, found.failures, found.calls) == ("final", 1, 2)
    assert told(asked[1]).startswith(said)


@needs_sandbox
def test_effects_are_made_where_the_task_allows_them(tmp_path: Path) -> None:
    model, _ = script(
        Reply(
            "",
            uses=(
                use("write_file", path="a.txt", text="hi"),
                use("shell", cmd="cat a.txt"),
                use("final", rows=[["x"]]),
            ),
        )
    )
    found = done(model, tmp_path, Job("?", allow=("write", "shell")))
    assert (found.outcome, found.turns, found.failures) == ("final", 1, 0)
    assert (tmp_path / "a.txt").read_text() == "hi"


def test_a_check_that_fails_is_told_and_the_answer_is_not_taken(tmp_path: Path) -> None:
    verdicts = iter([CheckResult(False, "2 tests failed"), CheckResult(True)])
    model, asked = script(final([1]), final([2]))
    found = done(model, tmp_path, Job("?", check=lambda _: next(verdicts), check_name="make test"))
    assert found.answer == Answer(("c1",), ((2,),))
    assert "make test" in told(asked[0]) and "The check failed" not in told(asked[0])
    assert told(asked[1]).startswith("The answer was not taken, for the check failed:\n2 tests failed")


def test_turns_end_and_are_counted_down(tmp_path: Path) -> None:
    model, asked = script(Reply("", uses=(use("query", sql="SELECT 1"),)))
    found = done(model, tmp_path, Job("?"), turns=4)
    assert (found.outcome, found.turns, found.usage.requests, found.answer) == ("turns_exhausted", 4, 4, None)
    footers = [told(r).rpartition("\n")[2] for r in asked[1:]]
    assert footers[0] == "(3 turns are left: come to an end, with final.)"
    assert footers[2] == "(This is the last turn: call final now with the best answer you have.)"


def test_replies_without_a_call_are_asked_on_then_end_it(tmp_path: Path) -> None:
    model, asked = script("It is 3.", final([3]))
    assert done(model, tmp_path, Job("?")).outcome == "final"
    assert told(asked[1]).startswith("You called no function.")
    assert done(lambda r: "Well.", tmp_path, Job("?")).error == "3 turns in a row without a call"


def test_the_budget_ends_it(tmp_path: Path) -> None:
    model, _ = script(Reply("", uses=(use("query", sql="SELECT 1"),)))
    found = done(model, tmp_path, Job("?"), calls=2)
    assert (found.outcome, found.usage.requests) == ("budget_exhausted", 2)


def test_old_results_are_dropped_then_all_is_summed_up(tmp_path: Path) -> None:
    """The window holds a few results of 12,000 characters; the conversation never outgrows it."""
    big = Reply("", uses=(use("query", sql="SELECT repeat('x', 11000) AS t"),))
    sizes: list[int] = []
    summaries: list[str] = []

    def model(request: Request) -> Any:
        sizes.append(request.characters())
        if "summary" in (request.path or ""):
            summaries.append(request.messages[-1].text)
            return "All is x."
        return final([1]) if len(sizes) > 40 else big

    found = done(model, tmp_path, Job("?"), turns=60, window=16_000, calls=100)
    assert found.outcome == "final"
    assert max(sizes) < 16_000 * 3.5
    history = History(1_000, [Message("user", "t")])
    for n in range(5):
        history.add(
            Message("assistant", "", (ToolUse(str(n), "f", "{}"),)),
            Message("user", "", results=(ToolResult(str(n), "y" * 500),)),
        )
    assert history.is_full and history.drop_results()
    assert [len(m.results[0].text) for m in history.messages if m.results][:3] == [65, 65, 500]
    history.begin_again("so far")
    assert [m.text for m in history.messages] == [
        "t\n\nWhat you had done and found, in your own words, before the conversation was cut:\nso far\n\nGo on from there."
    ]


def test_a_conversation_of_words_is_summed_up(tmp_path: Path) -> None:
    asked: list[Request] = []

    def model(request: Request) -> Any:
        asked.append(request)
        if "summary" in (request.path or ""):
            return "I said much."
        return (
            final([1])
            if "I said much." in request.messages[0].text
            else Reply("w" * 9_000, uses=(use("query", sql="SELECT 1"),))
        )

    found = done(model, tmp_path, Job("?"), turns=30, window=16_000)
    assert found.outcome == "final"
    assert [r.path for r in asked if "summary" in (r.path or "")] == [f"plain/{len(asked) - 1}/summary"]


def test_an_overflow_that_the_model_reports_is_met_with_fewer_results(tmp_path: Path) -> None:
    big = Reply("", uses=(use("query", sql="SELECT repeat('x', 9000) AS t"),))

    def model(request: Request) -> Any:
        if request.characters() > 25_000:
            raise ProviderError("context_overflow", "too long")
        return final([1]) if len(request.messages) > 8 else big

    assert done(model, tmp_path, Job("?")).outcome == "final"


@pytest.mark.parametrize(
    ("given", "columns", "rows"),
    [
        ({"rows": [[1, "a"]], "columns": ["n", "t"]}, ("n", "t"), ((1, "a"),)),
        ({"rows": [[1], [2, 3]]}, ("c1", "c2"), ((1, None), (2, 3))),
        ({"rows": ["a", None]}, ("c1",), (("a",), (None,))),
        ({"rows": [{"a": 1, "b": [2]}]}, ("a", "b"), ((1, "[2]"),)),
        ({"rows": [], "columns": ["x"]}, ("x",), ()),
    ],
)
def test_an_answer_is_rows(given: Any, columns: tuple[str, ...], rows: Any) -> None:
    assert answer_of(ToolUse("i", "final", json.dumps(given))) == Answer(columns, rows)


def test_an_answer_without_rows_is_none() -> None:
    with pytest.raises(ToolError, match="final needs rows"):
        answer_of(ToolUse("i", "final", "{}"))


def test_long_results_say_what_they_leave_out() -> None:
    rows = [(n, "x" * 50) for n in range(300)]
    text = rows_text(("n", "t"), rows, 1_000)
    assert (
        len(text) < 1_200
        and text.splitlines()[-1] == f"[cut: {300 - (len(text.splitlines()) - 2)} more rows; narrow the call]"
    )
    assert rows_text(("n",), rows[:200], 10**6, more=True).endswith("[cut: more rows; narrow the call]")
    assert rows_text(("t",), [("y" * 100,)], 10) == "yyyyy\n[cut: 90 characters are left out here]\nyyyyy"
    assert rows_text(("a", "b"), []) == "a\tb\n(no rows)"
    assert rows_text(("out", "code"), [("one\ntwo\n", 0)]) == "out:\none\ntwo\n\ncode: 0"
    assert rows_text((), []) == "done"
