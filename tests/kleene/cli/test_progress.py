from __future__ import annotations

import time

import attrs

from kleene.cli.progress import Tally, shown
from kleene.cli.terminal import Terminal
from kleene.cli.turns import Turns, turn_text
from kleene.udfs.events import (
    BudgetStopped,
    CallDropped,
    CallFinished,
    CallStreamed,
    RunOfStatement,
    SessionStarted,
    StatementFinished,
    StatementPlanned,
    TurnFinished,
)
from tests.kleene.cli.doubles import Stream
from tests.patience import PATIENCE_S


def call(**more: object) -> CallFinished:
    who = {
        "call": "c",
        "session": None,
        "statement": "1",
        "site": "1:1",
        "alias": "worker",
        "model": "m",
        "provider": "p",
    }
    return CallFinished(at=0.0, digest="d", batch_size=1, attempts=1, started_at=0.0, **who, **more)  # type: ignore[arg-type]


def run(notes: int) -> RunOfStatement:
    return RunOfStatement(at=0.0, statement="1", run=1, notes=notes, answered=0, seconds=0.0)


def test_calls_are_counted_against_those_known_so_far() -> None:
    tally = Tally()
    tally(run(3))
    tally(call(input_tokens=1000, output_tokens=200, dollars=0.01))
    assert tally.line(tally.started_at) == "1 of 3 calls · 1.2k tokens · $0.0100 · 0 s"
    tally(run(4))
    tally(call(memo_hit=True, input_tokens=5000, dollars=1.0))
    assert tally.line(tally.started_at + 61) == "2 of 5 calls · 1 from the memo · 1.2k tokens · $0.0100 · 61 s"


def test_unknown_and_failed_calls_are_told_apart() -> None:
    tally = Tally()
    tally(call(kind="unreadable", error="the reply is 'perhaps', not true or false"))
    tally(call(error="timeout"))
    assert tally.line(tally.started_at) == "2 of 2 calls · 1 unknown · 1 failed · 0 s"


def test_the_fullest_part_of_the_budget_is_a_bar() -> None:
    tally = Tally()
    tally.share = lambda: ("dollars", 0.42)
    tally(run(3))
    assert tally.line(tally.started_at) == "0 of 3 calls · ▰▰▰▰▱▱▱▱▱▱ 42% of the dollars · 0 s"
    tally.share = lambda: ("calls", 1.3)
    assert "▰▰▰▰▰▰▰▰▰▰ 100% of the calls" in tally.line(tally.started_at)


def test_turns_and_budget_stops_are_shown() -> None:
    tally = Tally()
    tally(TurnFinished(at=0, session="s", turn=2, reply="", sql=None, feedback=""))
    tally(BudgetStopped(at=0, statement=None, session=None, dimension="calls", limit=1, used=1))
    assert tally.line(tally.started_at) == "turn 3 · out of calls · 0 s"


def test_events_that_say_nothing_about_progress_are_passed_over() -> None:
    tally = Tally()
    tally(StatementFinished(at=0, statement="1", rows=1, calls=0, tokens=0, dollars=0, memo_hits=0, unknown=0))
    assert tally.line(tally.started_at) == "0 s"


def test_nothing_is_drawn_where_no_terminal_is() -> None:
    err = Stream()
    with shown(Tally(), Terminal(Stream(), Stream(), err, environ={})):
        time.sleep(0.01)
    assert err.getvalue() == ""


def test_a_terminal_shows_the_line_and_the_turns_above_it() -> None:
    err = Stream(tty=True)
    terminal = Terminal(Stream(), Stream(), err, environ={"TERM": "xterm", "NO_COLOR": "1"})
    tally = Tally()
    turns = Turns(tally, terminal)

    def until(said: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while said not in err.getvalue():
            assert time.monotonic() < deadline, err.getvalue()
            time.sleep(0.005)

    with shown(tally, terminal):
        tally.wake.set()  # as a reply would: what is there is shown without waiting
        until("0 s")
        turns(StatementPlanned(at=0, statement="1", duckdb_sql="", explain="", estimate='{"sites": {"1": "llm(x)"}}'))
        turns(attrs.evolve(run(7), lacked={"1:1": 7}))
        turns(TurnFinished(at=0, session="s", turn=1, reply="", sql="SELECT\n  '\x1b[2J'", feedback="1 row\n1"))
        tally.wake.set()
        until("0/≈7")
        until("turn 1")
    text = err.getvalue()
    assert "0 of 7 calls" in text and "llm(x)        0/≈7" in text
    assert "turn 1" in text and "  SELECT" in text and "    '\\x1b[2J'" in text
    assert tally.notes == type(tally.notes)()


def test_a_turn_shows_the_head_of_its_feedback() -> None:
    event = TurnFinished(at=0, session="s", turn=1, reply="", sql=None, feedback="\n".join(str(i) for i in range(20)))
    assert turn_text(event).splitlines() == [
        "turn 1",
        "  (no SQL)",
        "  → 0",
        *[f"    {i}" for i in range(1, 8)],
        "    … 12 more lines",
    ]


def piece(text: str, *, session: str = "root", attempt: int = 0, turn: int = 1) -> CallStreamed:
    return CallStreamed(at=0, session=session, call=f"{session}/{turn}", attempt=attempt, text=text)


def started(session: str, parent: str | None) -> SessionStarted:
    return SessionStarted(at=0, session=session, run="r", parent=parent, depth=0, role="root", task="t")


def test_the_root_sessions_reply_grows_and_begins_anew_with_each_attempt_and_turn() -> None:
    tally = Tally()
    tally(started("root", None))
    tally(started("child", "root"))
    for event in (piece("SEL"), piece("no", session="child"), piece("ECT")):
        tally(event)
    assert tally.reply == "SELECT"
    tally(piece("again", attempt=1))
    assert tally.reply == "again"
    tally(TurnFinished(at=0, session="root", turn=1, reply="again", sql=None, feedback=""))
    assert tally.reply == ""
    tally(piece("next", turn=2))
    assert tally.reply == "next"


def test_what_broke_off_is_taken_away() -> None:
    tally = Tally()
    tally(started("root", None))
    tally(piece("SELECT wro"))
    tally(CallDropped(at=0, session="child", call="child/1", attempt=0, model="m", error="cut"))
    assert tally.reply == "SELECT wro"
    tally.wake.clear()
    tally(CallDropped(at=0, session="root", call="root/1", attempt=0, model="m", error="cut", next_model="n"))
    assert (tally.reply, tally.wake.is_set()) == ("", True)
    tally(piece("SEL", attempt=1))
    assert tally.reply == "SEL"


def test_a_reply_is_shown_as_it_comes_without_waiting_for_the_next_refresh() -> None:
    err = Stream(tty=True)
    terminal = Terminal(Stream(), Stream(), err, environ={"TERM": "xterm", "NO_COLOR": "1"})
    tally = Tally()
    turns = Turns(tally, terminal)
    turns(started("root", None))
    assert turns.streams
    with shown(tally, terminal):
        turns(piece("-- first\nSELECT \x1b[2J"))
        deadline = time.monotonic() + PATIENCE_S
        while "SELECT" not in err.getvalue() and time.monotonic() < deadline:
            time.sleep(0.005)
    assert "-- first" in err.getvalue() and "SELECT \\x1b[2J" in err.getvalue()


def test_without_a_terminal_nobody_asks_for_pieces() -> None:
    assert not Turns(Tally(), Terminal(Stream(), Stream(), Stream(), environ={})).streams
