from __future__ import annotations

import json
from collections.abc import Callable

import attrs
import pytest

from kleene.planner.errors import (
    BudgetExceeded,
    CallFailed,
    Cancelled,
    KleeneError,
    NoModel,
    ParseError,
    PlanError,
    Refused,
)
from kleene.planner.specs import BudgetLimits, Span, Usage
from kleene.session.feedback import CheckResult
from kleene.session.loop import PastTurn, Place, SessionResult, run_session
from kleene.session.world import CatalogView, ColumnView, FunctionView, Outcome, TableView
from kleene.udfs.events import Event, FinalRecorded, SessionFinished, SessionStarted, TurnFinished
from kleene.udfs.protocols import Reply, Request


@attrs.frozen
class Piece:
    text: str
    span: Span = attrs.field(factory=lambda: Span(0, 0))
    tree: object | None = None


Effect = Outcome | KleeneError | Callable[[], Outcome]


def one(value: object, *, final: bool = False, usage: Usage | None = None) -> Outcome:
    return Outcome(
        columns=("x",), types=("VARCHAR",), rows=[(value,)], row_count=1, final=final, usage=usage or Usage()
    )


@attrs.define
class World:
    """A world whose model replies from a list and whose statements have their outcomes in a table."""

    replies: list[str | Reply | KleeneError]
    effects: dict[str, Effect] = attrs.field(factory=dict)
    limits: BudgetLimits = attrs.field(factory=BudgetLimits)
    used: Usage = attrs.field(factory=Usage)
    requests: list[Request] = attrs.field(factory=list)
    ran: list[str] = attrs.field(factory=list)
    events: list[Event] = attrs.field(factory=list)

    def parse(self, sql_text: str) -> tuple[Piece, ...]:
        return tuple(Piece(t.strip()) for t in sql_text.split(";") if t.strip())

    def run(self, statement: Piece) -> Outcome:
        self.ran.append(statement.text)
        effect = self.effects.get(statement.text) or default(statement.text)
        if isinstance(effect, KleeneError):
            raise effect
        return effect if isinstance(effect, Outcome) else effect()

    def catalog_lines(self) -> CatalogView:
        table = TableView("ctx", (ColumnView("ordinal", "BIGINT"), ColumnView("text", "VARCHAR")), 3)
        return CatalogView((table,), (FunctionView("llm(prompt TEXT) -> TEXT", "the reply"),))

    def ask(self, request: Request) -> Reply:
        self.requests.append(request)
        if not self.replies:
            raise AssertionError("asked more often than scripted")
        reply = self.replies.pop(0)
        if isinstance(reply, KleeneError):
            raise reply
        self.used += Usage(requests=1, input_tokens=100, output_tokens=10, dollars=0.01)
        return reply if isinstance(reply, Reply) else Reply(reply)

    def release(self) -> None:
        pass

    def plan(self) -> list[tuple[object, object]]:
        return []

    def remaining(self) -> BudgetLimits:
        return self.limits

    def usage(self) -> Usage:
        return self.used

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def feedback(self, turn: int) -> str:
        """What the model was told after the turn."""
        return next(e.feedback for e in self.events if isinstance(e, TurnFinished) and e.turn == turn)


def default(text: str) -> Outcome:
    return one(text.removeprefix("FINAL"), final=text.startswith("FINAL"))


def sql(text: str) -> str:
    return f"```sql\n{text}\n```"


def run(world: World, **options: object) -> SessionResult:
    return run_session(world, "Count them", clock=lambda: 0.0, **options)  # type: ignore[arg-type]


def test_a_session_ends_with_final() -> None:
    world = World([sql("SELECT 1"), sql("FINAL('ok')")])
    result = run(world)
    assert result == SessionResult(one("('ok')", final=True), "final", turns=2, usage=world.used)
    assert world.ran == ["SELECT 1", "FINAL('ok')"]
    assert (
        world.feedback(1)
        == "x VARCHAR\nSELECT 1\n1 row\n\nturn 1/30 · 1 call · 110 tokens · $0.01\nGo on with SQL, or end with FINAL."
    )
    assert world.feedback(2) == "x VARCHAR\n('ok')\n1 row\n\nturn 2/30 · 2 calls · 220 tokens · $0.02"


def test_the_transcript_grows_and_the_prefix_stays() -> None:
    world = World([sql("SELECT 1"), sql("SELECT 2"), sql("FINAL(3)")])
    run(world, context_note="Loaded: ctx")
    first, second, third = world.requests
    assert first.system == second.system == third.system
    assert first.messages[0].text == "Task: Count them\n\nLoaded: ctx\n\nReply with SQL."
    assert second.messages[:1] == first.messages
    assert third.messages[: len(second.messages)] == second.messages
    assert [m.role for m in third.messages] == ["user", "assistant", "user", "assistant", "user"]
    assert [r.path for r in world.requests] == ["root/1", "root/2", "root/3"]
    assert (first.alias, first.options.max_tokens, first.schema) == ("root", 4096, None)


def test_events_tell_the_session() -> None:
    world = World([sql("SELECT 1"), sql("FINAL(2)")])
    run(world)
    assert world.events == [
        SessionStarted(at=0.0, session="root", run="run", parent=None, depth=0, role="root", task="Count them"),
        TurnFinished(at=0.0, session="root", turn=1, reply=sql("SELECT 1"), sql="SELECT 1", feedback=world.feedback(1)),
        TurnFinished(at=0.0, session="root", turn=2, reply=sql("FINAL(2)"), sql="FINAL(2)", feedback=world.feedback(2)),
        FinalRecorded(
            at=0.0, session="root", rows='{"columns": ["x"], "types": ["VARCHAR"], "rows": [["(2)"]], "row_count": 1}'
        ),
        SessionFinished(
            at=0.0, session="root", outcome="final", forced=False, turns=2, calls=2, tokens=220, dollars=0.02
        ),
    ]


def test_several_statements_have_headings() -> None:
    world = World([sql("SELECT 1; SELECT 2"), sql("FINAL(1)")])
    run(world)
    assert world.feedback(1).startswith(
        "-- 1 of 2: SELECT 1\nx VARCHAR\nSELECT 1\n1 row\n\n-- 2 of 2: SELECT 2\nx VARCHAR\nSELECT 2\n1 row\n\nturn 1/30"
    )


def test_the_first_error_stops_the_rest() -> None:
    world = World([sql("SELECT 1; SELECT bad; SELECT 3; SELECT 4"), sql("FINAL(1)")])
    world.effects["SELECT bad"] = PlanError("no column bad", hint="columns: ordinal, text")
    run(world)
    assert world.ran == ["SELECT 1", "SELECT bad", "FINAL(1)"]
    assert world.feedback(1).split("\n\n")[1] == (
        "-- 2 of 4: SELECT bad\nerror: no column bad\nhint: columns: ordinal, text\n2 later statements were not run."
    )


def test_a_second_final_is_not_run() -> None:
    world = World([sql("FINAL(1); FINAL(2)")])
    result = run(world)
    assert result.answer == one("(1)", final=True)
    assert world.ran == ["FINAL(1)"]
    assert "1 statement after FINAL was not run." in world.feedback(1)


def test_a_repeated_failing_statement_gets_another_message() -> None:
    world = World([sql("SELECT bad")] * 2 + [sql("SELECT  bad"), sql("FINAL(1)")])
    world.effects["SELECT bad"] = world.effects["SELECT  bad"] = PlanError("no column bad")
    run(world)
    assert world.feedback(1).startswith("error: no column bad\n\nturn")
    assert world.feedback(2).startswith(
        "error: no column bad\n"
        "This statement failed in the same way in turn 1; this is the 2nd time. Do not send it again. What there is now:\n"
        "Tables:\n- ctx(ordinal BIGINT, text VARCHAR): 3 rows\nModel calls:\n- llm(prompt TEXT) -> TEXT\n\nturn"
    )
    assert "this is the 3rd time" in world.feedback(3)


@pytest.mark.parametrize(
    ("problem", "advice"),
    [
        (
            ParseError("unterminated string"),
            "Write it in simpler parts, each CTE a CREATE TABLE of its own. A quote in a text is doubled ('it''s'), a text with many quotes "
            "goes between $$ and $$, and a text that holds ``` needs a fence of four backticks.",
        ),
        (
            Refused("needs 900 calls, 20 are left"),
            "Make fewer calls: filter with plain SQL first, LIMIT the rows, declare the prompt with BATCH 10, or FINAL with what you have. "
            "EXPLAIN shows the price without paying it.",
        ),
        (
            CallFailed("no answer", kind="network"),
            "It is not the SQL that is wrong: calls fail. Plain SQL works; answer from what you can see, with FINAL.",
        ),
        (
            KleeneError("division by zero"),
            "Take it apart: run its innermost query alone with LIMIT 5, look at the columns and values, and build up from there.",
        ),
    ],
)
def test_the_advice_fits_the_error(problem: KleeneError, advice: str) -> None:
    world = World([sql("SELECT bad")] * 2 + [sql("FINAL(1)")], {"SELECT bad": problem})
    run(world)
    assert f"this is the 2nd time. Do not send it again. {advice}\n\nturn" in world.feedback(2)


def test_the_same_statements_again_are_remarked_on() -> None:
    world = World([sql("SELECT 1"), sql("SELECT  1"), sql("FINAL(1)")])
    run(world)
    assert (
        "These are the statements of your last turn again, and so are their results. Do something else, or FINAL."
        in world.feedback(2)
    )
    assert "again" not in world.feedback(1)


@pytest.mark.parametrize(
    ("reply", "nudge"),
    [
        (
            "I think.",
            "Nothing was run: the reply has no SQL fence. Reply with one ```sql fence that holds a statement; to answer, FINAL('...') or FINAL FROM (query).",
        ),
        (
            sql("-- later"),
            "Nothing was run: the fence holds no statement. Reply with one ```sql fence that holds a statement; to answer, FINAL('...') or FINAL FROM (query).",
        ),
        (
            Reply("```sql\nSELECT", stop="length"),
            "Nothing was run: the reply ended at its token limit inside its fence (4,096 tokens). Go on with a complete ```sql fence, and keep it shorter: "
            "fewer statements a turn, less prose.",
        ),
    ],
)
def test_a_turn_without_sql_is_nudged_and_counts(reply: str | Reply, nudge: str) -> None:
    world = World([reply, sql("FINAL(1)")])
    assert run(world).turns == 2
    assert (
        world.feedback(1) == f"{nudge}\n\nturn 1/30 · 1 call · 110 tokens · $0.01\nGo on with SQL, or end with FINAL."
    )


def test_three_blank_turns_in_a_row_end_the_session() -> None:
    world = World(["", " ", "Well."])
    result = run(world)
    assert (result.outcome, result.turns, result.answer) == ("failed", 3, None)
    assert result.error == "3 turns in a row without SQL to run; of the last one, the reply has no SQL fence"
    assert world.requests[2].messages[1].text == "(empty reply)"


def test_blank_turns_that_are_not_in_a_row_are_forgiven() -> None:
    world = World(["", "", sql("SELECT 1"), "", "", sql("FINAL(1)")])
    assert run(world).outcome == "final"


def test_five_like_infrastructure_failures_end_the_session() -> None:
    def down(n: int) -> CallFailed:
        return CallFailed(f"the tool did not answer (request {n}4b2c9d1e)", kind="network")

    world = World([sql(f"SELECT {n}") for n in range(9)], {f"SELECT {n}": down(n) for n in range(9)})
    result = run(world)
    assert (result.outcome, result.turns) == ("failed", 5)
    assert result.error == "5 calls in a row failed in the same way: the tool did not answer (request 44b2c9d1e)"
    assert isinstance(result.cause, CallFailed)


def test_an_answered_call_between_failures_starts_the_count_again() -> None:
    down = CallFailed("no", kind="network")
    texts = [f"SELECT {n}" for n in range(4)] + ["SELECT ok"] + [f"SELECT {n}" for n in range(4, 8)] + ["FINAL(1)"]
    world = World([sql(t) for t in texts], {f"SELECT {n}": down for n in range(8)})
    world.effects["SELECT ok"] = one("x", usage=Usage(requests=1, items=1))
    assert run(world).outcome == "final"


def test_the_same_error_of_the_same_statement_ends_the_session_at_the_fifth_time() -> None:
    world = World([sql("SELECT bad")] * 9, {"SELECT bad": PlanError("no table bad")})
    result = run(world)
    assert (result.outcome, result.turns) == ("failed", 5)
    assert result.error == "the same statement failed 5 times in a row: no table bad"


def test_the_turn_cap_ends_without_an_answer() -> None:
    world = World([sql(f"SELECT {n}") for n in range(3)])
    result = run(world, max_turns=3)
    assert (result.outcome, result.turns, result.forced, result.error) == (
        "turns_exhausted",
        3,
        False,
        "no FINAL in 3 turns",
    )
    assert world.feedback(2).endswith(
        "\nYour next turn is the last one: end it with FINAL, with the best answer you have."
    )


def test_a_forced_answer_is_marked() -> None:
    world = World([sql("SELECT 1"), sql("FINAL('so far')")])
    result = run(world, max_turns=1, force=True)
    assert (result.outcome, result.forced, result.turns) == ("turns_exhausted", True, 2)
    assert result.answer == one("('so far')", final=True)
    assert (
        world.requests[1]
        .messages[-1]
        .text.endswith(
            "\nYou have no turns left. Answer now with what you know: one ```sql fence that holds only FINAL('...') or FINAL FROM (a query over your tables)."
        )
    )
    assert [e.forced for e in world.events if isinstance(e, SessionFinished)] == [True]


def test_a_forced_turn_without_final_gives_no_answer() -> None:
    result = run(World([sql("SELECT 1"), sql("SELECT 2")]), max_turns=1, force=True)
    assert (result.outcome, result.forced, result.answer) == ("turns_exhausted", False, None)


@pytest.mark.parametrize(
    ("problem", "outcome"),
    [
        (BudgetExceeded("calls", 1, 2), "budget_exhausted"),
        (Refused("a turn needs $0.3, $0.1 is left"), "budget_exhausted"),
        (Cancelled("cancelled"), "cancelled"),
        (CallFailed("HTTP 401", kind="auth"), "failed"),
        (NoModel("no model is configured"), "failed"),
    ],
)
def test_what_asking_raises_ends_the_session(problem: KleeneError, outcome: str) -> None:
    world = World([sql("SELECT 1"), problem])
    result = run(world)
    assert (result.outcome, result.turns, result.error, result.cause) == (outcome, 1, problem.message, problem)
    assert [e.outcome for e in world.events if isinstance(e, SessionFinished)] == [outcome]


def test_a_budget_error_inside_a_statement_ends_that_statement_only() -> None:
    world = World(
        [sql("SELECT dear"), sql("FINAL(1)")], {"SELECT dear": BudgetExceeded("calls", 20, 21, hint="filter first")}
    )
    assert run(world).outcome == "final"
    assert world.feedback(1).startswith("error: calls budget exceeded: 21 > 20\nhint: filter first\n\nturn")


def test_a_cancelled_statement_cancels_the_session() -> None:
    world = World([sql("SELECT slow; SELECT 2")], {"SELECT slow": Cancelled("cancelled: 2 in flight")})
    result = run(world)
    assert (result.outcome, result.error, result.turns) == ("cancelled", "cancelled: 2 in flight", 1)
    assert world.ran == ["SELECT slow"]


def test_a_refusal_ends_the_session() -> None:
    result = run(World([Reply(sql("SELECT 1"), stop="refusal")]))
    assert (result.outcome, result.error) == ("failed", "the model declined the task (stop reason: refusal)")


def test_a_failed_check_keeps_the_session_going() -> None:
    seen: list[Outcome] = []

    def check(answer: Outcome) -> CheckResult:
        seen.append(answer)
        return CheckResult(len(seen) > 1, "collected 1 item\n\n  \nFAILED test_a\n" if len(seen) == 1 else "")

    world = World([sql("FINAL(1); SELECT 2"), sql("FINAL(2)")])
    result = run(world, check=check, check_name="pytest -q")
    assert result.answer == one("(2)", final=True)
    assert world.ran == ["FINAL(1)", "FINAL(2)"]
    assert world.feedback(1).split("\n\nturn")[0] == (
        "-- 1 of 2: FINAL(1)\nFINAL was not accepted: the check failed. The end of its output:\ncollected 1 item\nFAILED test_a\n"
        "Mend what it reports, then FINAL again.\n1 statement after FINAL was not run."
    )
    assert world.requests[0].messages[0].text == (
        "Task: Count them\n\nFINAL is accepted only if this check passes: pytest -q\n\nReply with SQL."
    )


def test_a_check_that_cannot_run_does_not_pass() -> None:
    def check(answer: Outcome) -> CheckResult:
        raise CallFailed("the check timed out", hint="it has 300 seconds")

    world = World([sql("FINAL(1)")])
    assert run(world, check=check, max_turns=1).outcome == "turns_exhausted"
    assert "The end of its output:\nerror: the check timed out\nhint: it has 300 seconds\n" in world.feedback(1)


def test_an_earlier_run_is_taken_up_again() -> None:
    world = World([sql("FINAL(9)")])
    result = run(world, max_turns=3, history=[PastTurn(sql("SELECT 1"), "x"), PastTurn("", "nothing")])
    assert (result.turns, result.outcome) == (3, "final")
    assert world.requests[0].path == "root/3"
    assert [m.text for m in world.requests[0].messages[1:]] == [sql("SELECT 1"), "x", "(empty reply)", "nothing"]
    assert not any(isinstance(e, SessionStarted) for e in world.events)


def test_lone_surrogates_of_a_reply_are_replaced() -> None:
    world = World([sql("FINAL('\ud83d')")])
    run(world)
    assert world.ran == ["FINAL('\ufffd')"]


def test_a_child_asks_under_its_own_path_and_alias() -> None:
    world = World([sql("FINAL(1)")])
    run(
        world,
        place=Place(
            session="s2",
            parent="root",
            depth=1,
            max_depth=2,
            path="root/3/0",
            alias="worker",
            effort="low",
            max_tokens=900,
        ),
    )
    request = world.requests[0]
    assert (request.path, request.alias, request.options.effort, request.options.max_tokens) == (
        "root/3/0/1",
        "worker",
        "low",
        900,
    )
    assert "You are a child session at depth 1 of 2: your FINAL goes to the session that asked." in (
        request.system or ""
    )


def test_a_session_is_closed_also_when_the_world_breaks() -> None:
    world = World([])
    with pytest.raises(AssertionError, match="asked more often"):
        run(world)
    assert [e.outcome for e in world.events if isinstance(e, SessionFinished)] == ["failed"]


def test_a_turn_with_very_much_text_shows_its_later_results_short() -> None:
    big = Outcome(columns=("t",), types=("VARCHAR",), rows=[("x" * 4000,)] * 20, row_count=20)
    world = World(
        [sql("; ".join(f"SELECT {n}" for n in range(20))), sql("FINAL(1)")], {f"SELECT {n}": big for n in range(20)}
    )
    run(world)
    assert len(world.feedback(1)) < 45_000
    assert (
        "... 17 more rows of the statement's 20: with an ORDER BY, LIMIT and OFFSET show what follows row 3; or aggregate"
        in world.feedback(1)
    )


def test_the_final_rows_are_strict_json() -> None:
    answer = Outcome(
        columns=("a", "a"),
        types=("DOUBLE", "BLOB"),
        rows=[(float("nan"), b"\x00"), (1.5, None)],
        row_count=2,
        final=True,
    )
    world = World([sql("FINAL(1)")], {"FINAL(1)": answer})
    run(world)
    rows = next(e.rows for e in world.events if isinstance(e, FinalRecorded))
    assert json.loads(rows) == {
        "columns": ["a", "a"],
        "types": ["DOUBLE", "BLOB"],
        "rows": [["nan", "\\x00"], [1.5, None]],
        "row_count": 2,
    }
