"""What a report says of a trace, and that its page is safe, bounded and the same each time."""

from __future__ import annotations

import random
import re

import pytest

from kleene.planner.errors import ConfigError
from kleene.rendering.report import report_page
from kleene.reports.axis import Axis
from kleene.reports.timeline import BINS, LANES
from kleene.reports.transcript import SESSIONS
from kleene.udfs.events import (
    BudgetStopped,
    Event,
    OperatorMeasured,
    RoundFinished,
    RunOfStatement,
    StatementPlanned,
    ToolUsed,
)
from tests.kleene.reports.traces import call, ended, final, page, report, run, session, statement, store, turn

HOSTILE = "</pre></td><script>alert(1)</script><img src=x onerror=alert(1)>\"' onload='x' \x1b[2J\u202e&lt;{{7*7}}"


def small() -> list[Event]:
    """A run of one session, one statement with two calls, one of them remembered."""
    return [
        run(),
        session(),
        call(1, 0.0, 1.0, statement=None),
        *statement(),
        call(2, dollars=0.2),
        call(3, 4.0, 4.0, memo_hit=True, attempts=0, dollars=0.0, input_tokens=0, output_tokens=0),
        turn(),
        final([["the seller", None]], ["who", "why"]),
        ended(),
    ]


def tree() -> list[Event]:
    """Sessions three deep; the calls of children cost their parent nothing of its own."""
    child = {"attempts": 0, "dollars": 0.0, "input_tokens": 0, "output_tokens": 0}
    found: list[Event] = [run(), session(at=0)]
    for i, key in enumerate(("r", "r.a", "r.a.b"), 1):
        found += [*statement(i, key, i, 20 - i), call(i, i, 20 - i, key, f"p.{i}", **child)]
        found += [session(f"{key}.{'abc'[i - 1]}", i + 0.5, key)]
    found += [
        call(9, 5, 6, "r.a.b.c", None, dollars=0.5),
        *statement(9, "r.a.b.c", 6, 7),
        call(10, 6, 7, "r.a.b.c", "p.9"),
    ]
    return [*found, *(ended(key, 20 - i) for i, key in enumerate(("r", "r.a", "r.a.b", "r.a.b.c")))]


def test_totals_are_those_of_the_trace() -> None:
    found = report(*small())
    total = found.costs.total
    assert (total.answers, total.requests, total.memo_hits, total.tokens, total.dollars) == (3, 2, 1, 20, 0.3)
    assert total.memo_share == pytest.approx(1 / 3)
    assert [(c.name, c.requests) for c in found.costs.by_alias] == [("worker · m", 1), ("root · m", 1)]
    assert [(c.name, c.answers) for c in found.costs.by_operator] == [("statement 1 #1", 2), ("turns of sessions", 1)]
    assert (found.turns, found.sessions_in_all, found.statements_in_all, found.seconds) == (1, 1, 1, 10.0)


def test_children_three_deep_have_lanes_beneath_each_other_and_costs_by_depth() -> None:
    found = report(*tree())
    assert [(lane.key, lane.depth) for lane in found.lanes] == [("r", 0), ("r.a", 1), ("r.a.b", 2), ("r.a.b.c", 3)]
    depths = [(c.name, c.answers, c.requests, c.dollars) for c in found.costs.by_depth]
    assert depths == [("depth 0", 1, 0, None), ("depth 1", 1, 0, None), ("depth 2", 1, 0, None), ("depth 3", 2, 2, 0.6)]
    assert sum(c.dollars or 0 for c in found.costs.by_operator) == found.costs.total.dollars == 0.6
    assert "statement 1 #1 (child sessions)" in [c.name for c in found.costs.by_operator]


def test_the_flight_of_calls_is_counted_by_bin() -> None:
    found = report(run(), session(), *statement(end=10.0), call(1, 0, 10), call(2, 5, 10), ended())
    flight = found.lanes[0].flight
    assert (len(flight), flight[0], flight[BINS // 2 - 2], flight[BINS // 2 + 2], flight[-1]) == (BINS, 1, 1, 2, 2)


def test_the_page_loads_and_runs_nothing() -> None:
    text = report_page(report(*small(), *tree()[2:]))
    assert not re.search(r"(?i)<script|https?:|url\(|@import|javascript:|<link|<iframe|\son\w+=", text)
    assert "default-src &#x27;none&#x27;" in text


def test_a_hostile_text_stays_a_text_wherever_it_stands() -> None:
    happened = [
        run(task=HOSTILE),
        session(task=HOSTILE, role=HOSTILE),
        call(1, 0, 1, statement=None, model=HOSTILE, alias=HOSTILE, prompt=HOSTILE, reply=HOSTILE, error=HOSTILE),
        *statement(sql=HOSTILE, error=HOSTILE),
        call(2, kind=HOSTILE, prompt=HOSTILE, reply=HOSTILE),
        OperatorMeasured(at=8, statement="p.1", node=1, parent=None, operator=HOSTILE, detail=HOSTILE, rows=1),
        RoundFinished(at=8, statement="p.1", cte=HOSTILE, round=1, delta_rows=1, total_rows=1),
        ToolUsed(at=8, statement="p.1", tool=HOSTILE, args=HOSTILE, bytes_out=1, elapsed_ms=1, error=HOSTILE),
        BudgetStopped(at=8, statement="p.1", session="r", dimension=HOSTILE, limit=1, used=2),
        turn(sql=HOSTILE, reply=HOSTILE, feedback=HOSTILE),
        final([[HOSTILE, [HOSTILE]]], [HOSTILE, "b"]),
        ended(outcome=HOSTILE, error=HOSTILE),
    ]
    found = page(report(*happened))
    names = {tag for tag, _ in found.elements}
    assert not names & {"script", "img"}
    assert not [a for _, attributes in found.elements for a in attributes if a.startswith("on")]
    assert found.text.count("<script>alert(1)</script>") > 15
    assert "\x1b" not in found.html and "\u202e" not in found.html
    assert r"\x1b[2J\u202e" in found.text


def test_equal_traces_give_equal_pages_in_whatever_order_events_came() -> None:
    happened = tree()
    shuffled = list(happened)
    random.Random(1).shuffle(shuffled)
    assert report_page(report(*shuffled)) == report_page(report(*happened))


def test_parts_of_the_page_verbatim() -> None:
    text = report_page(report(*small()))
    assert "<title>Who pays? · Kleene</title>" in text
    assert (
        '<h1>Who pays?</h1><p class="dim"><span class="badge good">final</span> 1970-01-01 00:00:00 UTC · <span class="mono">r</span></p>'
        in text
    )
    assert "<div><span>memo share</span><strong>33%</strong><small>1 answers</small></div>" in text
    assert (
        '<a href="#s-p.1"><rect class="t-statement" x="100" y="12" width="700" height="8">'
        "<title>statement 1, 2 calls, 3 rows: SELECT llm(x) FROM t</title></rect></a>"
    ) in text
    assert '<rect class="t-call" x="200" y="21" width="204.17" height="13"><title>1 under way</title></rect>' in text
    assert '<td class="l">the seller</td><td class="l"><span class="null">NULL</span></td>' in text


def test_a_plan_shows_estimated_against_counted_with_its_tree() -> None:
    def node(n: int, parent: int | None, operator: str, **more: float) -> Event:
        return OperatorMeasured(at=8, statement="p.1", node=n, parent=parent, operator=operator, detail=f"d{n}", **more)  # type: ignore[arg-type]

    nodes = [
        node(2, 1, "call", est_calls=10, calls=100, est_dollars=0.1),
        node(1, 0, "filter", est_rows=5, rows=5),
        node(3, 2, "scan", rows=7),
        node(0, None, "project"),
    ]
    runs = [RunOfStatement(at=i, statement="p.1", run=i, notes=2 - i, answered=i, seconds=0.5) for i in (1, 2)]
    found = report(*small(), *nodes, *runs)
    [plan] = found.statements
    assert [(n.operator, n.depth) for n in plan.nodes] == [("project", 0), ("filter", 1), ("call", 2), ("scan", 3)]
    text = report_page(found)
    assert '<span class="off"><span class="dim">10 → </span><b>100</b></span>' in text
    assert '<span><span class="dim">5 → </span><b>5</b></span>' in text
    assert '<span class="dim">≈ $0.1000</span>' in text
    assert "DuckDB ran it 2 times" in text


def test_a_plan_whose_parents_go_in_a_circle_ends() -> None:
    nodes = [OperatorMeasured(at=8, statement="p.1", node=n, parent=1 - n, operator="x") for n in (0, 1)]
    assert report(*small(), *nodes).statements[0].nodes == ()


def test_an_interrupted_run_is_told_as_far_as_it_came() -> None:
    found = report(
        run(), session(), turn(at=1.0), *statement(2, start=2.0, end=None), call(5, 2.0, 3.0, statement="p.2")
    )
    text = page(found).text
    assert (found.outcome, found.sessions[0].turns[1].reply) == (None, None)
    for said in ("no end", "the turn did not end", "python -m kleene resume r"):
        assert said in text


def test_a_failed_run_shows_its_error_and_what_budget_ended_it() -> None:
    stop = BudgetStopped(at=5, statement=None, session="r", dimension="dollars", limit=0.5, used=0.6)
    found = report(
        run(), session(), stop, ended(outcome="budget_exhausted", error="dollars budget exceeded", forced=True)
    )
    text = page(found).text
    for said in (
        "budget exhausted, forced",
        "dollars budget exceeded",
        "out of dollars: 0.6 of 0.5 used",
        "no call was made",
    ):
        assert said in text


def test_a_run_of_nothing_but_its_start_has_a_page() -> None:
    assert "no end" in page(report(run(), session(task=""))).text


def test_own_statements_are_a_report_too() -> None:
    happened = [*statement(1, None), call(1, key=None), *statement(2, None, 20, 21, error="no such table")]
    for wanted in (None, "p"):
        found = report(*happened, wanted=wanted)
        assert [lane.name for lane in found.lanes] == ["your statements"]
        assert [s.key for s in found.own] == ["p.1", "p.2"]
        assert "no such table" in page(found).text
    assert [s.key for s in report(*happened, wanted="p.2").own] == ["p.2"]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [("x", "there is no run x in the store"), ("r", "several runs begin with r: r1, r2")],
    ids=["none", "several"],
)
def test_a_run_that_cannot_be_told_is_an_error(wanted: str, message: str) -> None:
    from kleene.udfs.events import RunStarted

    with pytest.raises(ConfigError, match=message):
        report(RunStarted(at=0, run="r1", task=""), RunStarted(at=0, run="r2", task=""), wanted=wanted)


def test_an_empty_store_says_so() -> None:
    with pytest.raises(ConfigError, match="the store has no run and no statement yet"):
        report()


def test_much_of_everything_is_counted_not_drawn() -> None:
    from kleene.reports import read_report

    con = store(run(), session(), *statement(), call(1), turn(), ended(at=4000.0))
    try:
        con.execute(
            """INSERT INTO trace_sessions (session, run, parent, depth, role, task, started_at, finished_at, outcome)
            SELECT 'r.' || i, 'r', 'r', 1, 'self', repeat('long ', 2000), make_timestamp(i * 1000000), make_timestamp(i * 1000000 + 1), 'final' FROM range(1, 301) t(i);
            INSERT INTO trace_statements (statement, session, sql, started_at, finished_at, rows, calls, dollars)
            SELECT 'p.' || i, 'r.' || i, repeat('sql ', 3000), make_timestamp(i * 1000000), make_timestamp(i * 1000000 + 1), 1, 10, 0.1 FROM range(2, 301) t(i);
            INSERT INTO turns SELECT 'r.' || i, 1, repeat('sql ', 3000), repeat('back ', 5000), repeat('reply ', 5000), make_timestamp(i * 1000000) FROM range(1, 301) t(i);
            INSERT INTO trace_calls (call, session, statement, site, alias, model, batch_size, attempts, started_at, finished_at, input_tokens, output_tokens, memo_hit, coalesced, kind, prompt)
            SELECT 'x' || i, 'r.' || (2 + i % 299), 'p.' || (2 + i % 299), '2:1', 'a' || (i % 300), 'm', 1, 1, make_timestamp(i * 100000), make_timestamp(i * 100000 + 50000), 1, 1, false, false, 'answer', repeat('p', 100) FROM range(6000) t(i)"""
        )
        found = read_report(con)
    finally:
        con.close()
    assert (len(found.lanes), len(found.sessions), found.costs.total.answers) == (LANES + 1, SESSIONS, 6_001)
    assert sum(lane.answers for lane in found.lanes) == 6_001
    assert sum(c.answers for c in found.costs.by_alias) == 6_001
    assert any(said.startswith("301 sessions ran") for said in found.left_out)
    text = report_page(found)
    assert len(text) < 2_500_000
    assert text.count("<rect") < LANES * 300


def test_a_pause_is_left_out_of_the_axis() -> None:
    found = report(
        run(), session(), *statement(end=3.0), *statement(2, start=100_000.0, end=100_007.0), ended(at=100_010.0)
    )
    assert [round(s) for _, s in found.axis.pauses] == [99_996]
    assert found.axis.active_s == pytest.approx(14.0)
    assert "1 d 3 h in all, 14.0 s without 1 pause" in page(found).text


def test_the_axis_in_sql_is_the_axis() -> None:
    import duckdb

    axis = Axis.of(0.0, 1000.0, [(100.0, 300.0), (400.0, 900.0)])
    moments = [-5.0, 0.0, 50.0, 100.0, 200.0, 300.0, 350.5, 899.0, 950.0, 1000.0, 2000.0]
    values = ", ".join(f"({m!r}::DOUBLE)" for m in moments)
    rows = duckdb.sql(f"SELECT {axis.sql('m')} FROM (VALUES {values}) t(m)").fetchall()
    assert [r[0] for r in rows] == pytest.approx([axis.place(m) for m in moments])
    places = [p for p, _ in axis.ticks()]
    assert places == sorted(places) and 2 < len(places) < 12


def test_a_call_is_named_as_it_is_written_and_added_up_over_statements() -> None:
    written = '{"sites": {"1": "llm(x <b>)"}}'
    planned = [StatementPlanned(at=1, statement=f"p.{n}", duckdb_sql="", explain="", estimate=written) for n in (1, 2)]
    broken = StatementPlanned(at=1, statement="p.3", duckdb_sql="", explain="", estimate="{")
    happened = [e for n in (1, 2, 3) for e in (*statement(n), call(n, statement=f"p.{n}"))]
    found = report(run(), session(), *happened, *planned, broken, ended())
    assert [(c.name, c.requests) for c in found.costs.by_operator] == [("llm(x <b>)", 2), ("statement 3 #1", 1)]
    assert found.statements[0].sites[0].name == "#1 llm(x <b>) · worker"
