"""Tools in a model's sessions: what a run grants, what a role grants, approvals, and effects that are done once however often a run goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kleene
from tests.kleene.scripted import Script, engine, sql


class Tools:
    def __init__(self) -> None:
        self.done: list[str] = []

    def words(self, text: str) -> list[str]:
        """the words of a text"""
        return text.split()

    def note(self, text: str) -> str:
        """writes something down"""
        self.done.append(text)
        return f"noted {text}"

    @property
    def given(self) -> list[Any]:
        return [self.words, kleene.tool(self.note, volatility="volatile")]


@pytest.fixture
def tools() -> Tools:
    return Tools()


def test_a_session_has_tools_that_only_look(tools: Tools) -> None:
    script = Script(sql("FINAL FROM (SELECT value FROM words('a b'))"))
    with engine(script, tools=tools.given) as k:
        run = k.run("Go")
    assert run.answer is not None
    assert run.answer.fetchall() == [("a",), ("b",)]
    prefix = script.asked()[0].system
    assert "- words(text) -> value: the words of a text\n" in prefix.partition("\nRead tools (in FROM):\n")[2]
    assert "note(" not in prefix
    assert "CALL" not in prefix


def test_effects_are_granted_by_the_run(tools: Tools) -> None:
    script = Script(
        sql("CALL note(value) FROM words('b a') ORDER BY value"),
        sql("FINAL('done')"),
    )
    with engine(script, tools=tools.given) as k:
        run = k.run("Go", allow=["note"])
    assert (run.outcome, tools.done) == ("final", ["a", "b"])
    prefix = script.asked()[0].system
    assert (
        "only as a statement of its own: CALL note(...) [FROM query], or CREATE TABLE t AS CALL ... to keep its rows."
        in prefix
    )
    assert "\nTools with effects (CALL):\n- note(text) -> value: writes something down\n" in prefix
    assert "noted a\nnoted b" in script.told(1)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("CALL note('x')", "error: there is no function note here"),
        ("SELECT * FROM note('x')", "error: there is no function note here"),
        ("CREATE AGENT a TOOLS (note)", "error: there is no function note here"),
        ("CALL words('x')", "error: words is no tool with effects; CALL is for those"),
        (
            "CREATE FUNCTION words(a TEXT) RETURNS TEXT AS PROMPT '{a}'",
            "error: words is a built-in function and cannot be replaced",
        ),
        ("DROP FUNCTION words", "error: words is a built-in function and cannot be dropped"),
    ],
)
def test_what_is_not_granted_is_not_there(tools: Tools, text: str, told: str) -> None:
    script = Script(sql(text), sql("FINAL(1)"))
    with engine(script, tools=tools.given) as k:
        k.run("Go")
    assert told in script.told(1)
    assert tools.done == []


def test_an_unknown_grant_is_refused(tools: Tools) -> None:
    with engine(Script(sql("FINAL(1)")), tools=tools.given) as k:
        with pytest.raises(kleene.ConfigError) as caught:
            k.run("Go", allow=["nota"])
        assert (caught.value.message, caught.value.hint) == ("there is no tool nota to allow", "did you mean note?")


def test_with_approval_effects_are_there_and_each_is_asked(tools: Tools) -> None:
    asked: list[tuple[str, bool]] = []

    def approve(effect: kleene.Effect) -> bool:
        asked.append((str(effect), effect.session is not None))
        return "yes" in str(effect)

    script = Script(sql("CALL note('yes')"), sql("CALL note('no')"), sql("FINAL(1)"))
    with engine(script, tools=tools.given, approve=approve) as k:
        run = k.run("Go")
    assert (run.outcome, tools.done) == ("final", ["yes"])
    assert asked == [("note('yes')", True), ("note('no')", True)]
    assert "error: note was not approved: note('no')\nhint: go on without it" in script.told(2)


def test_a_child_has_the_tools_of_its_role(tools: Tools) -> None:
    script = Script(
        sql(
            "CREATE AGENT reader TOOLS (words) PROMPT 'Read.'; CREATE AGENT writer TOOLS (note, words) PROMPT 'Write.'; "
            "CREATE AGENT bare TOOLS () PROMPT 'Think.'"
        ),
        sql(
            "FINAL FROM (SELECT r.answer AS a FROM (VALUES ('reader'), ('writer'), ('bare')) v(x), LATERAL spawn(x, 'Do ' || x) r ORDER BY x)"
        ),
        children=lambda request: (
            sql("CALL note('hi')")
            if len(request.messages) == 1
            else sql("FINAL FROM (SELECT string_agg(value, '+') FROM words('a b'))")
            if len(request.messages) == 3
            else sql("FINAL('none')")
        ),
    )
    with engine(script, tools=tools.given) as k:
        run = k.run("Go", allow=["note"])
    assert run.answer is not None
    assert run.answer.fetchall() == [("none",), ("a+b",), ("a+b",)]
    assert tools.done == ["hi"]


def test_a_child_never_has_more_than_its_parent(tools: Tools) -> None:
    script = Script(
        sql("CREATE AGENT writer PROMPT 'Write.'"),
        sql("FINAL FROM (SELECT answer FROM spawn('writer', 'Do'))"),
        children=[sql("CALL note('hi')"), sql("FINAL('no')")],
    )
    with engine(script, tools=tools.given) as k:
        k.run("Go")
    assert tools.done == []


def test_groups_name_the_tools_that_there_are() -> None:
    def write_file(path: str) -> str:
        return path

    script = Script(sql("CALL write_file('x')"), sql("FINAL(1)"))
    with engine(script, tools=[kleene.tool(write_file, volatility="volatile")]) as k:
        k.run("Go", allow="write")
    assert "\nx\n" in script.told(1)


PROGRAM = """\
import os, sys
import kleene
from tests.kleene.scripted import Script, sql
folder, point = sys.argv[1], sys.argv[2]
def note(text: str) -> str:
    with open(folder + "/done", "a") as out:
        out.write(text + "\\n")
    return "noted " + text
def model(request):
    if request.path is None:
        if point == "inside":
            os._exit(9)
        return "true"
    turn = int(request.path.rpartition("/")[2])
    if turn == 2 and point == "turn":
        os._exit(9)
    if turn == 1:
        return sql("CALL note('one'); CALL note('two') FROM range(2); SELECT llm_bool('die?')")
    return sql("FINAL('end')")
k = kleene.connect(store=folder + "/run.duckdb", models=kleene.FunctionModel(model), tools=[kleene.tool(note, volatility="volatile")])
if point == "resume":
    run = k.resume()
else:
    run = k.run("Go", allow=["note"])
print(run.outcome)
k.close()
"""


@pytest.mark.parametrize(
    "point", ["inside", pytest.param("turn", marks=pytest.mark.slow), pytest.param("none", marks=pytest.mark.slow)]
)
def test_a_resumed_run_does_no_effect_twice(tmp_path: Path, point: str) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM, "utf-8")

    def start(at: str) -> subprocess.CompletedProcess[str]:
        root = Path(__file__).parents[3]
        return subprocess.run(
            [sys.executable, str(script), str(tmp_path), at],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            timeout=60,
        )

    first = start(point)
    assert first.returncode == (0 if point == "none" else 9), first.stderr
    if point != "none":
        assert start("resume").stdout == "final\n"
    assert (tmp_path / "done").read_text() == "one\ntwo\ntwo\n"


def test_a_session_keeps_what_a_tool_gave_in_a_table(tools: Tools) -> None:
    script = Script(
        sql("CREATE TABLE got AS CALL note(value) FROM words('a b')"),
        sql("CREATE OR REPLACE TABLE ctx AS CALL note('x')"),
        sql("CREATE TABLE kleene_x AS CALL note('x')"),
        sql("FINAL FROM got"),
    )
    with engine(script, tools=tools.given) as k:
        run = k.run("Go", context="some text", allow=["note"])
    assert run.answer is not None
    assert run.answer.fetchall() == [("noted a",), ("noted b",)]
    assert "created table got(value VARCHAR) with 2 rows" in script.told(1)
    assert "error: ctx cannot be replaced" in script.told(2)
    assert "error: names that begin with kleene_ are Kleene's" in script.told(3)
    assert tools.done == ["a", "b"]
