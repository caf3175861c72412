from __future__ import annotations

from kleene.planner.errors import CallFailed, KleeneError
from kleene.session.folding import fold, folded_by_age
from kleene.session.loop import PastTurn
from kleene.udfs.protocols import Message
from tests.kleene.session.test_loop import World, one, run, sql

TALK = [Message("user", "task")] + [
    m for n in range(1, 4) for m in (Message("assistant", f"reply {n}"), Message("user", f"result {n}"))
]


def test_results_fold_and_replies_stay() -> None:
    assert [m.text for m in fold(TALK, 2)] == [
        "task",
        "reply 1",
        "(The result of turn 1 is left out. SELECT result FROM turns WHERE n = 1 shows it.)",
        "reply 2",
        "(The result of turn 2 is left out. SELECT result FROM turns WHERE n = 2 shows it.)",
        "reply 3",
        "result 3",
    ]
    assert fold(TALK, 0) == tuple(TALK)
    assert fold(TALK, 99)[-1].text.startswith("(The result of turn 3 is left out.")


def test_nothing_folds_before_turn_sixteen_and_then_in_eights() -> None:
    assert [n for n in range(40) if folded_by_age(n) != folded_by_age(n - 1)] == [16, 24, 32]


def test_a_long_session_sends_short_transcripts_with_a_prefix_that_stays() -> None:
    world = World([sql(f"SELECT {n}") for n in range(1, 20)] + [sql("FINAL(1)")])
    run(world)
    sixteen, seventeen, nineteen = (world.requests[n] for n in (15, 16, 18))
    assert sixteen.messages[2].text.startswith("x VARCHAR\nSELECT 1\n")
    assert (
        seventeen.messages[2].text
        == "(The result of turn 1 is left out. SELECT result FROM turns WHERE n = 1 shows it.)"
    )
    assert seventeen.messages[16].text.startswith("(The result of turn 8")
    assert seventeen.messages[18].text.startswith("x VARCHAR\nSELECT 9\n")
    assert nineteen.messages[: len(seventeen.messages)] == seventeen.messages


def test_a_transcript_that_is_too_long_is_asked_again_with_less() -> None:
    history = [PastTurn(f"reply {n}", f"error: result {n}") for n in range(1, 7)]
    too_long = CallFailed("prompt is too long", kind="context_overflow")
    world = World([too_long, too_long, sql("SELECT 1"), sql("FINAL(1)")])
    assert run(world, history=history).outcome == "final"
    stubs = [sum("is left out" in m.text for m in r.messages) for r in world.requests]
    assert stubs == [0, 2, 5, 5]
    assert "; a statement failed in it." in world.requests[1].messages[2].text


def test_a_task_that_is_too_long_by_itself_fails() -> None:
    replies: list[str | KleeneError] = [CallFailed("prompt is too long", kind="context_overflow")] * 9
    world = World(replies)  # type: ignore[arg-type]
    result = run(world)
    assert (result.outcome, result.error) == ("failed", "prompt is too long")
    assert len(world.requests) == 1


def test_a_reply_of_five_hundred_statements_runs_fifty() -> None:
    world = World([sql("; ".join(f"SELECT {n}" for n in range(500))), sql("FINAL(1)")])
    run(world)
    assert len(world.ran) == 51
    assert world.feedback(1).split("\n\n")[-2] == (
        "Only the first 50 of 500 statements were run. Write fewer a turn, and look at what they give."
    )


def test_much_text_in_one_turn_is_shown_shorter_and_shorter() -> None:
    big = one("x" * 30_000)
    world = World([sql("; ".join(["SELECT big"] * 50)), sql("FINAL(1)")], {"SELECT big": big})
    run(world)
    assert "1 row, not shown: a turn shows only so much" in world.feedback(1)
    assert len(world.feedback(1)) < 60_000
