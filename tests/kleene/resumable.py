"""A run in a process of its own that is killed at a given point: ``python resumable.py FOLDER POINT``.

POINT is ``none``, or what happens how often before the process kills itself: ``ask:7`` (the model is asked for the seventh time),
``answer:7`` (it has answered), ``turn:2`` (a turn was written), ``statement:3`` (a statement has ended), ``begun:3`` (one has begun).
The model writes each prompt to FOLDER/asked before it answers. Everything is deterministic, so a run that goes on must come to the same answer.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import kleene
from kleene.udfs.events import Event

NOTES = "\n\n".join(f"note {i} of {'red' if i % 2 else 'blue'}" for i in range(8))
TURNS = [
    "CREATE TABLE log (what TEXT, n BIGINT); INSERT INTO log SELECT 'loaded', count(*) FROM ctx",
    "CREATE TABLE facts AS SELECT ordinal, llm_bool('Red? ' || text) AS red FROM ctx; INSERT INTO log SELECT 'facts', count(*) FROM facts WHERE red",
    "CREATE FUNCTION shout(t TEXT) RETURNS TEXT AS PROMPT 'Shout: {t}'; SET max_tokens = 99; "
    "INSERT INTO log SELECT shout(text), ordinal FROM ctx WHERE ordinal <= 3",
    "INSERT INTO log SELECT answer, f.ordinal FROM facts f JOIN ctx USING (ordinal) CROSS JOIN LATERAL rlm('Which?', text) r WHERE red",
    "UPDATE log SET n = n + 100; INSERT INTO log SELECT shout('end'), count(*) FROM log",
    "FINAL FROM (SELECT what, n FROM log ORDER BY ALL)",
]
CHILD = [
    "CREATE TABLE mine AS SELECT llm('Number in: ' || text) AS a FROM ctx; INSERT INTO mine SELECT 'x'",
    "FINAL FROM (SELECT string_agg(a, '+' ORDER BY a) AS all FROM mine)".replace(" AS all", " AS everything"),
]


class Killed:
    """Counts what happens and kills the process at the point."""

    def __init__(self, point: str):
        self._kind, _, number = point.partition(":")
        self._left = int(number or 0)

    def __call__(self, kind: str) -> None:
        if kind == self._kind:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def event(self, event: Event) -> None:
        names = {"TurnFinished": "turn", "StatementFinished": "statement", "StatementStarted": "begun"}
        self(names.get(type(event).__name__, ""))


class Model:
    """Answers turns and calls by rule, and writes down what it was asked."""

    def __init__(self, folder: Path, killed: Killed):
        self._asked = folder / "asked"
        self._killed = killed

    def __call__(self, request: Any) -> str:
        name = request.path or request.messages[0].text.split("\n", 1)[0]
        with self._asked.open("a", encoding="utf-8") as file:
            file.write(name + "\n")
        self._killed("ask")
        time.sleep(0.004)
        answer = self._answer(request)
        self._killed("answer")
        return answer

    def _answer(self, request: Any) -> str:
        prompt = request.messages[0].text
        if request.path:
            path, _, n = request.path.rpartition("/")
            return f"```sql\n{(CHILD if '/' in path else TURNS)[int(n) - 1]}\n```"
        if prompt.startswith("Red?"):
            return "true" if "red" in prompt else "false"
        return prompt.upper()


def open_engine(folder: Path, point: str = "none") -> kleene.Engine:
    killed = Killed(point)
    model = kleene.FunctionModel(Model(folder, killed), "m")
    return kleene.connect(store=folder / "run.duckdb", models=model, on_event=killed.event, workspace=folder)


def main(folder: str, point: str) -> None:
    with open_engine(Path(folder), point) as k:
        if (Path(folder) / "asked").exists():
            k.resume()
        else:
            k.run("Work", context=NOTES)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
