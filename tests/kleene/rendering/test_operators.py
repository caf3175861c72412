"""Progress by operator."""

from __future__ import annotations

import kleene
from kleene.cli.progress import Tally
from kleene.rendering.operators import SHOWN, Operators, labels_of
from kleene.udfs.events import CallFinished, Event, RunOfStatement, StatementFinished, StatementPlanned


def planned(statement: str = "1", **sites: str) -> StatementPlanned:
    import json

    named = json.dumps({"sites": {name.removeprefix("s"): label for name, label in sites.items()}})
    return StatementPlanned(at=0, statement=statement, duckdb_sql="", explain="", estimate=named)


def lacks(statement: str = "1", **sites: int) -> RunOfStatement:
    lacked = {f"{statement}:{name.removeprefix('s')}": n for name, n in sites.items()}
    return RunOfStatement(at=0, statement=statement, run=1, notes=0, answered=0, seconds=0, lacked=lacked)


def call(site: str | None = "1:1", **more: object) -> CallFinished:
    given = {"alias": "a", "model": "m", "provider": "p", "digest": "d", "batch_size": 1, "attempts": 1} | more
    return CallFinished(at=0, call="c", session=None, statement="1", site=site, started_at=0, **given)  # type: ignore[arg-type]


def test_each_call_site_has_its_counts_rate_and_time_left() -> None:
    operators = Operators()
    operators.planned(planned(s1="llm(x)", s2="llm_bool('y' || z)"))
    assert operators.lines(0, 80) == []
    operators.ran(lacks(s1=10))
    operators.took(call(memo_hit=True, batch_size=4), 100.0)
    for second in (101.0, 102.0):
        operators.took(call(dollars=0.01), second)
    assert operators.lines(102.0, 80) == ["  llm(x)        6/≈10 · 1.0/s · 67% memo · $0.0200 · 4 s left"]
    operators.ran(lacks(s1=4, s2=2))
    assert [line.split()[0] for line in operators.lines(102.0, 80)] == ["llm(x)", "llm_bool('y'"]
    operators.finished("1")
    assert operators.lines(102.0, 80) == []


def test_lines_fit_a_terminal_and_steer_nothing() -> None:
    operators = Operators()
    operators.planned(planned(**{f"s{i}": f"llm_bool('\x1b[2J {'漢é' * 200}' || c{i})" for i in range(40)}))
    operators.ran(lacks(**{f"s{i}": 1000 + i for i in range(40)}))
    lines = operators.lines(0.0, 80)
    assert len(lines) == SHOWN
    assert all(len(line) < 80 and "\x1b" not in line for line in lines)
    assert lines[-1].endswith("0/≈1,039")


def test_what_is_not_known_is_passed_over() -> None:
    operators = Operators()
    for event in (planned("1"), StatementPlanned(at=0, statement="2", duckdb_sql="", explain="", estimate="[1]")):
        operators.planned(event)
    operators.ran(RunOfStatement(at=0, statement="1", run=1, notes=1, answered=0, seconds=0))
    operators.took(call(site=None), 0.0)
    assert operators.lines(0.0, 80) == []
    assert labels_of("{") == labels_of('{"sites": 3}') == labels_of(None) == {}


def test_a_statement_tells_what_each_of_its_calls_lacks() -> None:
    happened: list[Event] = []
    tally = Tally()
    shown: list[list[str]] = []

    def listen(event: Event) -> None:
        if isinstance(event, StatementFinished):
            shown.append(tally.lines(tally.started_at, 80))
        tally(event)
        happened.append(event)

    model = kleene.FunctionModel(lambda request: "true" if request.prompt[-1] in "02468" else "false")
    k = kleene.connect(store=":memory:", models=model, on_event=listen)
    try:
        k.sql("SELECT llm('Name ' || i) FROM range(20) t(i) WHERE llm_bool('Even? ' || i)")
    finally:
        k.close()
    lacked = [e.lacked for e in happened if isinstance(e, RunOfStatement)]
    assert lacked == [{"1:2": 20}, {"1:1": 10}, {}]
    assert shown == [["  llm('Name ' || i)        10", "  llm_bool('Even? ' || i)  20"]]
    assert tally.lines(tally.started_at, 80) == []
