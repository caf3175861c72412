"""Traces for the tests of reports: events as an engine emits them, put into tables as the store's writer does."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html.parser import HTMLParser
from typing import Any

import attrs
import duckdb

from kleene.rendering.report import report_page
from kleene.reports import Report, read_report
from kleene.store.mapping import Batch
from kleene.store.schema import TRACE
from kleene.udfs import events as e
from kleene.udfs.memo import registered

VOID = {"meta", "br"}


def store(*happened: e.Event) -> duckdb.DuckDBPyConnection:
    """A store's tables in memory, filled with what happened."""
    con = duckdb.connect(config={"threads": 1})
    for table in TRACE:
        con.execute(table.ddl())
    fill(con, happened)
    return con


def fill(con: duckdb.DuckDBPyConnection, happened: Iterable[e.Event]) -> None:
    """Put more of what happened into a store's tables."""
    batch = Batch(TRACE)
    for event in happened:
        batch.add(event.to_dict())
    for table, rows in batch.tables():
        with registered(con, "given", rows):
            con.execute(f"INSERT INTO {table.name} BY NAME SELECT * FROM given")


def report(*happened: e.Event, wanted: str | None = None) -> Report:
    con = store(*happened)
    try:
        return read_report(con, wanted)
    finally:
        con.close()


def run(at: float = 0.0, task: str = "Who pays?") -> e.RunStarted:
    return e.RunStarted(at=at, run="r", task=task)


def session(key: str = "r", at: float = 0.0, parent: str | None = None, **more: Any) -> e.SessionStarted:
    given = {"run": "r", "depth": key.count("."), "role": "self" if parent else "root", "task": "Who pays?"} | more
    return e.SessionStarted(at=at, session=key, parent=parent, **given)


def ended(key: str = "r", at: float = 10.0, outcome: str = "final", **more: Any) -> e.SessionFinished:
    given = {"forced": False, "turns": 1, "calls": 2, "tokens": 30, "dollars": 0.25} | more
    return e.SessionFinished(at=at, session=key, outcome=outcome, **given)


def turn(key: str = "r", number: int = 1, at: float = 9.0, sql: str | None = "SELECT 1", **more: Any) -> e.TurnFinished:
    given = {"reply": "I look.", "feedback": "1 row"} | more
    return e.TurnFinished(at=at, session=key, turn=number, sql=sql, **given)


def statement(
    number: int = 1, key: str | None = "r", start: float = 1.0, end: float | None = 8.0, **more: Any
) -> list[e.Event]:
    name = f"p.{number}"
    found: list[e.Event] = [
        e.StatementStarted(at=start, statement=name, session=key, sql=more.pop("sql", "SELECT llm(x) FROM t"))
    ]
    if end is not None:
        given = {"rows": 3, "calls": 2, "tokens": 20, "dollars": 0.2, "memo_hits": 1, "unknown": 0} | more
        found.append(e.StatementFinished(at=end, statement=name, **given))
    return found


def call(
    n: int, start: float = 2.0, end: float = 4.0, key: str | None = "r", statement: str | None = "p.1", **more: Any
) -> e.CallFinished:
    given = {
        "site": None if statement is None else f"{statement.rpartition('.')[2]}:1",
        "alias": "root" if statement is None else "worker",
        "model": "m",
        "provider": "p",
        "digest": "d",
        "batch_size": 1,
        "attempts": 1,
        "input_tokens": 8,
        "output_tokens": 2,
        "dollars": 0.1,
        "prompt": f"prompt {n}",
        "reply": "yes",
    } | more
    return e.CallFinished(at=end, call=f"c{n}", session=key, statement=statement, started_at=start, **given)


def final(rows: list[list[Any]], columns: list[str], key: str = "r") -> e.FinalRecorded:
    text = json.dumps({"columns": columns, "types": ["VARCHAR"] * len(columns), "rows": rows})
    return e.FinalRecorded(at=9.5, session=key, rows=text)


@attrs.define
class Page(HTMLParser):
    """A page as a parser sees it: its elements, its texts and where it points. A tag that is not closed in its place is an error."""

    html: str
    elements: list[tuple[str, dict[str, str | None]]] = attrs.field(factory=list)
    texts: list[str] = attrs.field(factory=list)
    open: list[str] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.feed(self.html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return "\n".join(self.texts)

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag == name]


def page(found: Report) -> Page:
    return Page(report_page(found))
