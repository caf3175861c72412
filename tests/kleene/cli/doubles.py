"""An engine and streams for the commands' tests: real rows from DuckDB, real text streams, no model."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import attrs
import duckdb
import pyarrow

from kleene.__main__ import main
from kleene.cli.terminal import Terminal
from kleene.own import State
from kleene.planner.errors import KleeneError
from kleene.planner.specs import Usage

UNUSED = Usage()


@attrs.frozen
class Answer:
    columns: tuple[str, ...]
    types: tuple[str, ...]
    table: pyarrow.Table
    usage: Usage = UNUSED
    warnings: tuple[str, ...] = ()
    message: str | None = None

    def to_arrow_table(self) -> pyarrow.Table:
        return self.table


def answer(text: str, **more: Any) -> Answer:
    """The rows of a DuckDB statement as an engine would give them."""
    relation = duckdb.sql(text)
    return Answer(tuple(relation.columns), tuple(str(t) for t in relation.types), relation.to_arrow_table(), **more)


def said(message: str) -> Answer:
    return Answer((), (), pyarrow.table({}), message=message)


@attrs.frozen
class Estimate:
    calls: int = 0
    dollars: float = 0.0


@attrs.frozen
class Plan:
    text: str = "scan"
    duckdb_sql: str = "SELECT 1"
    estimate: Estimate = Estimate()

    def to_dict(self) -> dict[str, Any]:
        return {"estimate": attrs.asdict(self.estimate)}


@attrs.frozen
class Run:
    answer: Answer | None = None
    outcome: str = "final"
    forced: bool = False
    usage: Usage = UNUSED
    run_id: str = "r1"
    error: str | None = None
    cause: KleeneError | None = None
    notes: tuple[str, ...] = ()


@attrs.define
class Engine:
    """Does what it was built with and keeps what it was asked."""

    on_sql: Callable[[str], Answer] = answer
    plan: Plan = Plan()
    state: State = attrs.field(factory=State)
    result: Run = Run()
    options: dict[str, Any] = attrs.field(factory=dict)
    asked: list[str] = attrs.field(factory=list)
    run_options: dict[str, Any] = attrs.field(factory=dict)
    notes: list[str] = attrs.field(factory=list)
    closed: bool = False
    cancelled: bool = False

    def connect(self, path: str, **options: Any) -> Engine:
        self.options = {"path": path, **options}
        return self

    def sql(self, text: str) -> Answer:
        self.asked.append(text)
        return self.on_sql(text)

    def explain(self, text: str) -> Plan:
        return self.plan

    def run(self, task: str, **options: Any) -> Run:
        self.asked.append(task)
        self.run_options = options
        return self.result

    def cancel(self) -> None:
        self.cancelled = True

    def close(self) -> None:
        self.closed = True


class Stream(io.StringIO):
    """A text stream that may say that it is a terminal."""

    def __init__(self, text: str = "", *, tty: bool = False):
        super().__init__(text)
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty


@attrs.frozen
class Done:
    code: int
    out: str
    err: str


def invoke(*argv: str, engine: Engine | None = None, real: bool = False, stdin: str = "", tty: bool = False) -> Done:
    """Run the program in this process on streams of its own; ``tty`` makes all three terminals, ``real`` takes no double."""
    out, err = Stream(tty=tty), Stream(tty=tty)
    terminal = Terminal(Stream(stdin, tty=tty), out, err, environ={"TERM": "dumb", "NO_COLOR": "1"})
    code = main(list(argv), terminal=terminal, connect=None if real else (engine or Engine()).connect)
    return Done(int(code), out.getvalue(), err.getvalue())
