"""The turn loop: ask the model, run its SQL, tell it what came of it, until FINAL.

A turn's request is the frozen system prefix and the whole transcript, which only grows. What a statement raises ends that statement and is told
to the model; what asking a turn raises ends the session. Every session ends in one of five outcomes: ``final``, ``turns_exhausted``,
``budget_exhausted``, ``failed`` or ``cancelled``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import attrs

from kleene.planner.errors import BudgetExceeded, CallFailed, Cancelled, KleeneError, Refused
from kleene.planner.specs import Usage
from kleene.session import feedback, folding, render
from kleene.session.extract import Extraction, extract
from kleene.session.failures import FailureLog
from kleene.session.feedback import CheckResult
from kleene.session.final import rows_json
from kleene.session.prefix import Standing, system_prefix, task_message
from kleene.session.steps import plan_line
from kleene.session.text import count, one_line, scrub
from kleene.session.world import Outcome, Statement, World
from kleene.udfs.events import FinalRecorded, SessionFinished, SessionStarted, TurnFinished
from kleene.udfs.protocols import Message, Options, Reply, Request

BLANK_TURNS = 3
"""So many turns in a row without anything to run end the session."""

TURN_CHARACTERS = 20_000
"""After so much text in one turn's feedback, the results that follow are shown short; after twice as much, only counted."""

STATEMENTS = 50
"""So many statements of one reply are run; a model that writes more has not looked at what they gave."""

Check = Callable[[Outcome], CheckResult]


@attrs.frozen
class Place:
    """Who a session is. ``path`` names it in recordings (turn n asks as ``path/n``); ``alias`` is the model alias its turns are asked of."""

    session: str = "root"
    run: str = "run"
    parent: str | None = None
    depth: int = 0
    max_depth: int = 0
    role: str = "root"
    role_prompt: str = ""
    path: str = "root"
    alias: str = "root"
    effort: str | None = None
    max_tokens: int = 4096


@attrs.frozen
class PastTurn:
    """A turn of an earlier run of the session: the model's reply, and the feedback it was given, as ``TurnFinished`` has them."""

    reply: str
    feedback: str


@attrs.frozen
class SessionResult:
    """How a session ended.

    ``answer`` is FINAL's relation, None without one. ``forced``: the answer was asked for after the turns were used up. ``turns`` counts the
    turns that were answered, earlier runs included. ``error`` says why it ended without an answer, ``cause`` is the error behind it, if any.
    """

    answer: Outcome | None
    outcome: str
    forced: bool = False
    turns: int = 0
    usage: Usage = attrs.field(factory=Usage)
    error: str | None = None
    cause: KleeneError | None = None


@attrs.frozen
class _End:
    outcome: str
    answer: Outcome | None = None
    error: str | None = None
    cause: KleeneError | None = None


def run_session(
    world: World,
    task: str,
    *,
    max_turns: int = 30,
    context_note: str = "",
    check: Check | None = None,
    check_name: str = "",
    history: Sequence[PastTurn] = (),
    system: str | None = None,
    place: Place = Place(),
    force: bool = False,
    clock: Callable[[], float] = time.time,
) -> SessionResult:
    """Run a session to its end and say how it ended; raises nothing of the KleeneError tree.

    ``check`` is asked before a FINAL is accepted; ``check_name`` tells the model of it. ``system`` (the prefix it had) and ``history`` take up
    an earlier run of the same task: its turns count towards ``max_turns``, and SessionStarted is not sent again. ``force`` asks once more
    for an answer when the turns or the budget are used up: the outcome stays what it is, the answer is marked forced. ``clock`` gives the
    events' times.
    """
    session = _Session(world, place, max_turns, check, force, clock)
    session.resumed = system is not None or bool(history)
    session.system = system or ""
    return session.run(scrub(task), scrub(context_note), check_name, history)


@attrs.define
class _Session:
    world: World
    place: Place
    max_turns: int
    check: Check | None
    force: bool
    clock: Callable[[], float]
    system: str = ""
    messages: list[Message] = attrs.field(factory=list)
    failures: FailureLog = attrs.field(factory=FailureLog)
    blanks: int = 0
    turns: int = 0
    last_sql: str | None = None
    resumed: bool = False
    folded: int = 0

    def run(self, task: str, note: str, check_name: str, history: Sequence[PastTurn]) -> SessionResult:
        place = self.place
        standing = Standing(self.max_turns, place.depth, place.max_depth, place.role_prompt)
        self.system = self.system or system_prefix(self.world.catalog_lines(), self.world.remaining(), standing)
        self.messages.append(Message("user", task_message(task, note, check=check_name)))
        for turn in history:
            self._record(turn.reply, turn.feedback)
        self.turns = len(history)
        if not self.resumed:
            self.world.emit(
                SessionStarted(
                    at=self.clock(),
                    session=place.session,
                    run=place.run,
                    parent=place.parent,
                    depth=place.depth,
                    role=place.role,
                    task=task,
                )
            )
        end, forced = _End("failed", error="the session was ended by an internal error"), False
        try:
            end, forced = self._until_end()
        except KeyboardInterrupt:
            end = _End("cancelled", error="interrupted")
            raise
        finally:
            result = self._finish(end, forced)
        return result

    def _until_end(self) -> tuple[_End, bool]:
        end: _End | None = None
        while end is None and self.turns < self.max_turns:
            end = self._turn()
        if end is None:
            end = _End("turns_exhausted", error=f"no FINAL in {count(self.max_turns, 'turn')}")
            ask = feedback.FORCED
        elif end.outcome == "budget_exhausted":
            ask = feedback.FORCED_BY_BUDGET
        else:
            return end, False
        if not self.force:
            return end, False
        self.world.release()
        return self._forced(end, ask)

    def _forced(self, end: _End, ask: str) -> tuple[_End, bool]:
        """Ask for what there is, once, with what was held back for it."""
        self.folded = max(self.folded, self.turns - folding.TRIES[0])
        last = self._turn(ask)
        if last is not None and last.answer is not None:
            return attrs.evolve(end, answer=last.answer), True
        return (last if last is not None and last.outcome == "cancelled" else end), False

    def _turn(self, ask: str = "") -> _End | None:
        """One turn, or None while the session goes on. ``ask`` is added to what the model was told last."""
        try:
            reply = self._asked(ask)
        except KleeneError as problem:
            return _asking_failed(problem)
        text = scrub(reply.text)
        self.turns += 1
        sql, told, end = self._answer(text, reply)
        told = f"{told}\n\n{self._footer(end)}"
        self._record(text, told)
        place = self.place
        self.world.emit(
            TurnFinished(at=self.clock(), session=place.session, turn=self.turns, reply=text, sql=sql, feedback=told)
        )
        return end

    def _asked(self, ask: str) -> Reply:
        """The model's reply. A transcript that is too long for it is asked again with more results left out."""
        while True:
            try:
                return self.world.ask(self._request(ask))
            except CallFailed as problem:
                more = [self.turns - kept for kept in folding.TRIES if self.turns - kept > self._leaves_out()]
                if problem.kind != "context_overflow" or not more:
                    raise
                self.folded = more[0]

    def _answer(self, text: str, reply: Reply) -> tuple[str | None, str, _End | None]:
        """The SQL that was run, what the model is told, and the end if this turn brought it."""
        if reply.stop == "refusal":
            return (
                None,
                "The model declined.",
                _End("failed", error="the model declined the task (stop reason: refusal)"),
            )
        found = extract(text, cut=reply.stop == "length")
        if found.sql is None:
            return None, *self._blank(found)
        told, end = self._statements(found.sql)
        return found.sql, told, end

    def _blank(self, found: Extraction) -> tuple[str, _End | None]:
        self.blanks += 1
        end = None
        if self.blanks >= BLANK_TURNS:
            end = _End(
                "failed", error=f"{self.blanks} turns in a row without SQL to run; of the last one, {found.reason}"
            )
        return feedback.nudge(found, self.place.max_tokens), end

    def _statements(self, sql: str) -> tuple[str, _End | None]:
        statements = self.world.parse(sql)
        if not statements:
            return self._blank(Extraction(None, "the fence holds no statement"))
        self.blanks = 0
        told: list[str] = []
        end: _End | None = None
        complete = True
        for position, statement in enumerate(statements[:STATEMENTS], 1):
            heading = (
                f"-- {position} of {len(statements)}: {one_line(statement.text, 80)}\n" if len(statements) > 1 else ""
            )
            text, complete, end = self._statement(statement, position, len(statements), sql, sum(map(len, told)))
            told.append(heading + text)
            if not complete or end is not None:
                break
        if complete and end is None and len(statements) > STATEMENTS:
            told.append(feedback.too_many(len(statements), STATEMENTS))
        if complete and end is None and self.last_sql is not None and self.last_sql.split() == sql.split():
            told.append(feedback.SAME_STATEMENTS)
        self.last_sql = sql
        return "\n\n".join(told), end

    def _statement(
        self, statement: Statement, position: int, total: int, sql: str, told: int
    ) -> tuple[str, bool, _End | None]:
        """What one statement gave, whether it went well, and the end if it brought it."""
        try:
            result = self.world.run(statement)
        except Cancelled as problem:
            return render.error(problem), False, _End("cancelled", error=problem.message, cause=problem)
        except KleeneError as problem:
            text, end = self._failed(statement.text, problem, position, total, sql)
            return text, False, end
        if result.usage.items:
            self.failures.answered()
        shown = self._shown(result, told)
        if not result.final:
            return shown, True, None
        verdict = self._checked(result)
        if not verdict.passed:
            return feedback.check_failed(verdict) + feedback.after_final(total - position), False, None
        return shown + feedback.after_final(total - position), True, _End("final", answer=result)

    def _shown(self, result: Outcome, told: int) -> str:
        """A result as far as the turn has room for it."""
        if told < TURN_CHARACTERS or result.final:
            return render.outcome(result)
        return render.outcome(result, render.SHORT) if told < 2 * TURN_CHARACTERS else render.in_brief(result)

    def _failed(
        self, statement: str, problem: KleeneError, position: int, total: int, sql: str
    ) -> tuple[str, _End | None]:
        text = feedback.failed(problem, position, total, sql)
        times, first = self.failures.note(statement, problem, self.turns)
        if times > 1:
            text += "\n" + feedback.repeated(problem, times, first, self.world.catalog_lines())
        reason = self.failures.verdict(problem)
        return text, None if reason is None else _End("failed", error=reason, cause=problem)

    def _checked(self, answer: Outcome) -> CheckResult:
        if self.check is None:
            return CheckResult(True)
        try:
            return self.check(answer)
        except KleeneError as problem:
            return CheckResult(False, problem.render())

    def _request(self, ask: str = "") -> Request:
        place = self.place
        options = Options(max_tokens=min(place.max_tokens, 1024) if ask else place.max_tokens, effort=place.effort)
        messages = folding.fold(self.messages, self._leaves_out())
        if ask and not messages[-1].text.endswith(ask):
            messages = (*messages[:-1], Message("user", f"{messages[-1].text}\n{ask}"))
        return Request(
            place.alias,
            messages,
            system=self.system,
            options=options,
            path=f"{place.path}/{self.turns + 1}",
        )

    def _leaves_out(self) -> int:
        return max(self.folded, folding.folded_by_age(self.turns))

    def _record(self, reply: str, told: str) -> None:
        self.messages.append(Message("assistant", reply if reply.strip() else feedback.EMPTY_REPLY))
        self.messages.append(Message("user", told))

    def _footer(self, end: _End | None) -> str:
        footer = render.footer(self.turns, self.max_turns, self.world.usage(), self.world.remaining())
        if end is not None:
            return footer
        plan = plan_line(self.world.plan())
        footer = f"{footer}\n{plan}" if plan else footer
        left = self.max_turns - self.turns
        return f"{footer}\n{feedback.FORCED if self.force and left == 0 else feedback.closing(left)}"

    def _finish(self, end: _End, forced: bool) -> SessionResult:
        usage, place = self.world.usage(), self.place
        if end.answer is not None:
            self.world.emit(FinalRecorded(at=self.clock(), session=place.session, rows=rows_json(end.answer)))
        self.world.emit(
            SessionFinished(
                at=self.clock(),
                session=place.session,
                outcome=end.outcome,
                forced=forced,
                turns=self.turns,
                calls=usage.requests,
                tokens=usage.tokens,
                dollars=usage.dollars,
                error=end.error,
            )
        )
        return SessionResult(end.answer, end.outcome, forced, self.turns, usage, end.error, end.cause)


def _asking_failed(problem: KleeneError) -> _End:
    if isinstance(problem, Cancelled):
        outcome = "cancelled"
    elif isinstance(problem, (BudgetExceeded, Refused)):
        outcome = "budget_exhausted"
    else:
        outcome = "failed"
    return _End(outcome, error=problem.message, cause=problem)
