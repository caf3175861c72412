"""Other people's servers in SQL: one made by hand that has every fault, and what becomes of each."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

import kleene
from kleene.planner.errors import CallFailed, Cancelled, ConfigError
from tests.kleene.mcp.conftest import Hand
from tests.patience import until

pytest.importorskip("mcp")


def test_tools_are_functions_and_effects_by_their_hint(hand: Hand) -> None:
    with hand.engine() as k:
        told = {r[0]: (r[1], r[4], r[5]) for r in k.sql("SHOW FUNCTIONS").fetchall() if r[2] == "tool"}
    assert told["h_echo"] == ("h_echo(text VARCHAR) -> TABLE(text VARCHAR)", "STABLE", "Says it again.")
    assert told["h_note"][1] == "VOLATILE"
    assert told["h_args"][0] == (
        "h_args(a_b VARCHAR [, late BIGINT, more JSON, names VARCHAR[], share DOUBLE]) -> TABLE(text VARCHAR)"
    )
    assert told["h_people"][0] == "h_people() -> TABLE(full_name VARCHAR, age BIGINT, tags JSON, total BIGINT)"


def test_results_are_rows(hand: Hand) -> None:
    with hand.engine() as k:
        assert k.sql("SELECT * FROM h_echo('a|b|ü \N{PILE OF POO}')").fetchall() == [
            ("a",),
            ("b",),
            ("ü \N{PILE OF POO}",),
        ]
        people = k.sql("SELECT * FROM h_people()")
        assert people.types == ("VARCHAR", "BIGINT", "JSON", "BIGINT")
        assert people.fetchall() == [("Ada", 36, '["x"]', 2), ("Ü", None, None, 2)]
        rows = k.sql(
            "SELECT v.x, e.text, llm(e.text) FROM (VALUES ('p|q'), ('r'), ('r'), (NULL)) v(x), LATERAL h_echo(v.x) e ORDER BY ALL"
        )
        assert rows.fetchall() == [("p|q", "p", "P"), ("p|q", "q", "Q"), ("r", "r", "R"), ("r", "r", "R")]
    assert sorted(line for line in hand.asked[2:] if line.startswith("echo")) == [
        'echo {"text": "p|q"}',
        'echo {"text": "r"}',
    ]
    assert hand.starts == 1


def test_arguments_have_their_types_and_open_ones_are_left_out(hand: Hand) -> None:
    with hand.engine() as k:
        k.sql("SELECT * FROM h_args('x')")
        k.sql("""SELECT * FROM h_args('x', 3, '{"k": [1, null]}', ['a', 'b'], share := 0.5)""")
        k.sql("SELECT * FROM h_args('x', names := [], late := NULL)")
        with pytest.raises(CallFailed, match="share is not a number that JSON has: nan"):
            k.sql("SELECT * FROM h_args('x', share := 'nan'::DOUBLE)")
    assert [json.loads(line[5:]) for line in hand.asked if line.startswith("args")] == [
        {"a-b": "x"},
        {"a-b": "x", "late": 3, "more": {"k": [1, None]}, "names": ["a", "b"], "share": 0.5},
        {"a-b": "x", "names": []},
    ]


def test_effects_run_under_call_once_a_row(hand: Hand) -> None:
    with hand.engine() as k:
        assert k.sql("CALL h_note(x) FROM (VALUES ('a'), ('a'), ('b')) v(x)").fetchall() == [("did note",)] * 3
        assert k.sql("EXPLAIN CALL h_note('z')").plan == "would use h_note once:\n  h_note('z')"
        with pytest.raises(kleene.PlanError, match="h_note has effects"):
            k.sql("SELECT * FROM h_note('a')")
    assert [line for line in hand.asked if line.startswith("note")] == ['note {"text": "a"}'] * 2 + [
        'note {"text": "b"}'
    ]


def test_a_server_sees_only_its_own_environment(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET_KEY", "s")
    with hand.engine(env={"OWN": "${A_SECRET_KEY:-x}"}) as k:
        seen = {text for (text,) in k.sql("SELECT * FROM h_env()").fetchall()}
    assert seen - {"LC_CTYPE"} <= {"PATH", "HOME", "LANG", "LOG", "OWN"}


def test_an_engine_that_opens_again_starts_nothing(hand: Hand) -> None:
    with hand.engine():
        assert hand.starts == 1
    with hand.engine() as k:
        assert (hand.starts, k.notes) == (1, [])
        assert len(k.sql("SHOW FUNCTIONS").fetchall()) > 10
        k.sql("SELECT * FROM h_pid()")
        assert hand.starts == 2


FAILING = (
    ("SELECT * FROM h_fails()", "h_fails() failed: h_fails: there is no such thing"),
    ("SELECT * FROM h_refuses()", "h_refuses() failed: h_refuses: not like this"),
    ("SELECT * FROM h_wrong()", "h_wrong() failed: h_wrong: its result is malformed: Invalid structured content"),
)


def test_what_a_tool_cannot_do_fails_the_statement(hand: Hand) -> None:
    with hand.engine() as k:
        for sql, message in FAILING:
            with pytest.raises(CallFailed) as caught:
                k.sql(sql)
            assert caught.value.message.startswith(message)
        assert k.sql("SELECT * FROM h_echo('still there')").fetchall() == [("still there",)]
    assert hand.starts == 1


@pytest.mark.parametrize(
    ("tool", "told"),
    [
        ("huge", "it sent a message of more than 16,777,216 bytes"),
        ("broken", 'it sent a malformed message; it printed \'{"jsonrpc": "2.0", "id": \' where messages are expected'),
        ("noisy", "it does not speak MCP on its standard output; it printed 'chatter 0' where messages are expected"),
        ("dies", "it ended with exit code 3; its last words: out of luck"),
    ],
)
def test_a_server_that_misbehaves_is_started_again_once(hand: Hand, tool: str, told: str) -> None:
    with hand.engine() as k:
        with pytest.raises(CallFailed) as caught:
            k.sql(f"SELECT * FROM h_{tool}()")
        assert caught.value.message == f"h_{tool}() failed: the MCP server h ended twice and is left alone: {told}"
        assert k.notes == [f"the MCP server h was started again: {told}"]
        with pytest.raises(CallFailed, match="is left alone"):
            k.sql("SELECT * FROM h_pid()")
    assert (hand.starts, sum(line.startswith(tool) for line in hand.asked)) == (2, 2)


def test_one_that_dies_while_it_looks_is_asked_again(hand: Hand) -> None:
    with hand.engine() as k:
        assert k.sql("SELECT * FROM h_dies_once()").fetchall() == [("did dies_once",)]
    assert hand.starts == 2


def test_one_that_dies_while_it_acts_is_not(hand: Hand) -> None:
    with hand.engine() as k:
        with pytest.raises(CallFailed) as caught:
            k.sql("CALL h_dies_doing()")
        assert "the MCP server h ended while dies_doing ran: it ended with exit code 3" in caught.value.message
        assert caught.value.hint == "it may have been done or not: look before doing it again"
        assert k.sql("SELECT * FROM h_echo('a')").fetchall() == [("a",)]
    assert (hand.starts, sum(line.startswith("dies_doing") for line in hand.asked)) == (2, 1)


def test_one_that_is_killed_between_two_calls_is_started_again_each_time(hand: Hand) -> None:
    with hand.engine() as k:
        pids = []
        for _ in range(3):
            pids.append(int(k.sql("SELECT * FROM h_pid()").fetchall()[0][0]))
            os.kill(pids[-1], signal.SIGKILL)
            until(lambda: not is_alive(pids[-1]))
            k.sql("CALL h_note('after')")
        assert len(set(pids)) == 3
        assert k.notes == ["the MCP server h was started again: it was killed by signal 9"] * 3
    assert hand.asked.count('note {"text": "after"}') == 3
    assert (hand.starts, is_alive(pids[-1])) == (4, False)


def test_a_cancel_ends_a_request_and_the_server_is_told(hand: Hand) -> None:
    with hand.engine() as k:
        k.sql("SELECT * FROM h_pid()")
        ended: list[float] = []

        def wait() -> None:
            with pytest.raises(Cancelled):
                k.sql("SELECT * FROM h_hangs()")
            ended.append(time.monotonic())

        thread = threading.Thread(target=wait)
        thread.start()
        until(lambda: "hangs {}" in hand.asked)
        cancelled = time.monotonic()
        k.cancel()
        thread.join(5)
        until(lambda: "cancelled" in hand.asked)
        assert k.sql("SELECT * FROM h_echo('a')").fetchall() == [("a",)]
        assert (hand.starts, len(ended)) == (1, 1)
        assert ended[0] - cancelled < 2  # 0.1 s where the machine is free: see docs/mcp.md


def test_a_request_has_an_end(hand: Hand) -> None:
    with hand.engine(seconds=0.5) as k:
        with pytest.raises(CallFailed) as caught:
            k.sql("SELECT * FROM h_hangs()")
        assert "not done after 0.5 seconds" in caught.value.message
    assert hand.starts == 1


def test_a_greeting_on_stdout_is_passed_over(hand: Hand) -> None:
    with hand.engine(env={"GREETING": "welcome"}) as k:
        assert k.sql("SELECT * FROM h_echo('a')").fetchall() == [("a",)]


def test_servers_that_do_not_start_are_reported_and_have_no_tools(hand: Hand) -> None:
    broken = {
        "a": ({"command": "no-such-program"}, "there is no program no-such-program"),
        "b": (
            {"command": "sh", "args": ["-c", "echo oh no >&2; exit 4"]},
            "it ended with exit code 4; its last words: oh no",
        ),
        "c": ({"url": "http://127.0.0.1:9/mcp"}, "it cannot be reached"),
        "d": ({"command": "${NO_SUCH}"}, "the server d needs NO_SUCH in the environment"),
    }
    with hand.engine(mcp={"h": hand.entry(), **{name: entry for name, (entry, _) in broken.items()}}) as k:
        assert len(k.notes) == len(broken)
        for note, (name, (_, told)) in zip(k.notes, broken.items(), strict=True):
            assert note.startswith(f"the MCP server {name} cannot be used: {told}")
        assert k.sql("SELECT * FROM h_echo('a')").fetchall() == [("a",)]


def test_threads_share_one_process(hand: Hand) -> None:
    with hand.engine() as k:
        rows = k.sql("SELECT DISTINCT p.text FROM range(20) r(i), LATERAL h_echo('same') p").fetchall()
        pids = k.sql(
            "SELECT count(DISTINCT text), count(*) FROM range(20) r(i), LATERAL (SELECT * FROM h_pid()) p"
        ).fetchall()
    assert (rows, pids, hand.starts) == ([("same",)], [(1, 20)], 1)


def test_names_that_are_taken_get_a_number(hand: Hand) -> None:
    def h_echo(text: str) -> str:
        return "mine"

    with hand.engine(tools=[h_echo]) as k:
        assert k.sql("SELECT * FROM h_echo('a')").fetchall() == [("mine",)]
        assert k.sql("SELECT * FROM h_echo_2('a')").fetchall() == [("a",)]


def test_a_session_has_the_tools_and_effects_only_where_they_are_granted(hand: Hand) -> None:
    from tests.kleene.scripted import Script, sql
    from tests.kleene.scripted import engine as scripted

    granted = (("x", ["h_note"]), ("y", ["h"]), ("z", ["H", "write"]))
    turns = [turn for text, _ in granted for turn in (sql(f"CALL h_note('{text}')"), sql("FINAL(1)"))]
    replies = iter([sql("FINAL FROM (SELECT text FROM h_echo('a|b'))"), *turns])
    script = Script(lambda _: next(replies))
    with scripted(script, mcp={"h": hand.entry()}) as k:
        run = k.run("Go")
        assert run.answer is not None and run.answer.fetchall() == [("a",), ("b",)]
        assert "- h_echo(text) -> text: Says it again.\n" in script.asked()[0].system
        assert "h_note" not in script.asked()[0].system
        for number, (text, allow) in enumerate(granted):
            k.run("Go", allow=allow)
            assert f'note {{"text": "{text}"}}' in hand.asked
            assert ("write_file(" in script.asked()[1 + 2 * number].system) == ("write" in allow)
        with pytest.raises(ConfigError, match="there is no tool g to allow"):
            k.run("Go", allow=["g"])


def test_json_reaches_effects_as_json(folders: Path) -> None:
    got: list[object] = []

    def keep(value: dict) -> str:
        got.append(value)
        return "kept"

    with kleene.connect(store=":memory:", tools=[kleene.tool(keep, volatility="volatile")]) as k:
        k.sql("""CALL keep('{"a": [1]}')""")
    assert got == [{"a": [1]}]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
