"""The plain agent's loop: ask the model, make its calls, tell it what they gave, until ``final`` or the end of turns or budget."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from kleene.bench.oracles.answer import Answer
from kleene.bench.plain import prompts
from kleene.bench.plain.history import History
from kleene.bench.plain.tables import Tables
from kleene.bench.plain.tools import Tools, answer_of, failed
from kleene.planner.errors import BudgetExceeded, CallFailed, Cancelled, KleeneError, NoModel, ToolError
from kleene.planner.specs import Usage
from kleene.runs.limits import budget_of
from kleene.session.feedback import CheckResult
from kleene.udfs.events import TurnFinished
from kleene.udfs.protocols import Message, Options, Reply, Request, ToolResult, ToolUse

if TYPE_CHECKING:
    from kleene.engine import Engine
    from kleene.planner.specs import BudgetLimits
    from kleene.udfs.ledger import Ledger
    from kleene.udfs.runtime import Task

ALIAS, ASK_ALIAS = "root", "worker"
MAX_TOKENS = 4096  # of a turn's reply: as a session's
ASK_TOKENS = 1024
WINDOW = 128_000
"""Tokens of a model's window where nobody says."""

CHARACTERS_PER_TOKEN = 3.5
SHARE_OF_CONTEXT = 0.4
"""A context that takes no more of the window than this is told in the prompt."""

SHARE_OF_HISTORY = 0.75
HEAD_LINES, HEAD_CHARACTERS = 20, 2_000
BLANK_TURNS = 3
WARNED = 3
"""So many turns before the last the model is told how many are left."""


@attrs.frozen
class Job:
    """What is asked, with the finish check of the pack (None: none) and its command."""

    task: str
    context: str | None = None
    allow: tuple[str, ...] = ()
    check: Callable[[object], CheckResult] | None = None
    check_name: str = ""


@attrs.frozen
class Done:
    """How it ended: ``outcome`` as that of ``kleene.runs.Run``. ``calls`` were made, ``failures`` of them failed; ``did`` has all of them."""

    answer: Answer | None
    outcome: str
    usage: Usage
    turns: int
    calls: int
    failures: int
    did: str
    error: str = ""
    cause: KleeneError | None = None


def solve(engine: Engine, job: Job, workspace: Path, budget: BudgetLimits | None, max_turns: int) -> Done:
    """Do a task. Raises ``Cancelled`` and ``NoModel``; whatever else ends it is in the outcome."""
    window = engine.services.handler.route(ALIAS).context_window or WINDOW
    limits, _ = budget_of(engine, budget)
    ledger = engine.ledger.child(limits, name="plain")
    tables = Tables(job.context)
    file = None
    try:
        shown = job.context is None or len(job.context) <= window * CHARACTERS_PER_TOKEN * SHARE_OF_CONTEXT
        if job.context is not None and not shown:
            file = _free(workspace)
            file.write_text(job.context, "utf-8")
        agent = _Agent(engine, ledger, tables, job, max_turns, window)
        engine.session_started(agent)
        try:
            return agent.run(_task_message(job, file))
        finally:
            engine.session_ended(agent)
    finally:
        tables.close()
        ledger.close()
        if file is not None:
            file.unlink(missing_ok=True)  # what is left of the task is looked at by its oracle


def _free(workspace: Path) -> Path:
    names = ("context.txt", *(f"context-{n}.txt" for n in range(2, 1000)))
    return next(path for name in names if not (path := workspace / name).exists())


def _task_message(job: Job, file: Path | None) -> str:
    parts = [f"Task: {job.task}"]
    if job.allow:
        parts.append(prompts.ALLOWED)
    if job.check is not None:
        parts.append(prompts.CHECKED.format(check=job.check_name))
    if job.context is not None and file is None:
        parts.append(prompts.SHORT.format(text=job.context))
    elif job.context is not None and file is not None:
        lines = job.context.splitlines()
        head = "\n".join(lines[:HEAD_LINES])[:HEAD_CHARACTERS]
        parts.append(prompts.LONG.format(characters=len(job.context), lines=len(lines), path=file.name, head=head))
    return "\n\n".join(parts)


@attrs.define(eq=False)
class _Agent:
    engine: Engine
    ledger: Ledger
    tables: Tables
    job: Job
    max_turns: int
    window: int
    turns: int = 0
    calls: int = 0
    failures: int = 0
    blanks: int = 0
    did: list[str] = attrs.field(factory=list)
    _stopped: bool = False
    _tools: Tools = attrs.field(init=False)
    _history: History = attrs.field(init=False)
    _waiting: list[Task[Any]] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._tools = Tools(self.engine, self.tables, self._ask_about, lambda: self._stopped, self.job.allow)
        fixed = len(prompts.SYSTEM) + sum(len(t.description) + len(t.parameters) for t in self._tools.specs)
        room = int((self.window * SHARE_OF_HISTORY - MAX_TOKENS) * CHARACTERS_PER_TOKEN) - fixed
        self._history = History(max(room, 4_000))

    def cancel(self) -> None:
        """From any thread: what runs ends, and nothing begins any more."""
        self._stopped = True
        self.tables.interrupt()
        for task in list(self._waiting):
            task.cancel()

    def run(self, task: str) -> Done:
        self._history.add(Message("user", task))
        try:
            while self.turns < self.max_turns:
                answer = self._turn()
                if answer is not None:
                    return self._done("final", answer)
                if self.blanks >= BLANK_TURNS:
                    return self._done("failed", error=f"{self.blanks} turns in a row without a call")
            return self._done("turns_exhausted", error=f"no answer in {self.max_turns} turns")
        except (Cancelled, NoModel):
            raise
        except BudgetExceeded as problem:
            return self._done("budget_exhausted", error=problem.message, cause=problem)
        except KleeneError as problem:
            return self._done("failed", error=problem.message, cause=problem)

    def _done(
        self, outcome: str, answer: Answer | None = None, error: str = "", cause: KleeneError | None = None
    ) -> Done:
        did = "\n".join(self.did)
        return Done(answer, outcome, self.ledger.used, self.turns, self.calls, self.failures, did, error, cause)

    def _turn(self) -> Answer | None:
        reply = self._asked()
        self.turns += 1
        if reply.stop == "refusal":
            raise CallFailed("the model declined the task (stop reason: refusal)")
        self._history.add(Message("assistant", reply.text or ("" if reply.uses else "(nothing)"), reply.uses))
        if not reply.uses:
            self.blanks += 1
            cut_off = reply.stop == "length"
            said = prompts.CUT_OFF.format(tokens=MAX_TOKENS) if cut_off else prompts.NUDGE
            self._told(reply, (), said)
            return None
        self.blanks = 0
        answer, results = self._made(reply.uses)
        self._told(reply, results, "")
        return answer

    def _made(self, uses: tuple[ToolUse, ...]) -> tuple[Answer | None, tuple[ToolResult, ...]]:
        """Make the calls of a turn. ``final`` is looked at last, so that what was called beside it is done before a check looks."""
        self._tools.statement = f"plain-{self.turns}"
        others = [n for n, use in enumerate(uses) if use.name != "final"]
        texts = dict(zip(others, self._tools.run([uses[n] for n in others]), strict=True))
        answer: Answer | None = None
        for n, use in enumerate(uses):
            if use.name == "final":
                texts[n], answer = (prompts.NOT_RUN, answer) if answer is not None else self._final(use)
        self.calls += len(uses)
        self.failures += sum(text.startswith("error: ") for text in texts.values())
        self.did += [f"{use.name} {use.arguments}" for use in uses]
        return answer, tuple(ToolResult(use.id, texts[n]) for n, use in enumerate(uses))

    def _final(self, use: ToolUse) -> tuple[str, Answer | None]:
        try:
            answer = answer_of(use)
        except ToolError as problem:
            return failed(problem), None
        if self.job.check is not None:
            verdict = self.job.check(answer)
            if not verdict.passed:
                return prompts.CHECK_FAILED.format(output=verdict.output), None
        return "accepted", answer

    def _told(self, reply: Reply, results: tuple[ToolResult, ...], said: str) -> None:
        left = self.max_turns - self.turns
        footer = prompts.LAST if left == 1 else prompts.LEFT.format(left=left) if 0 < left <= WARNED else ""
        text = "\n\n".join(part for part in (said, footer) if part)
        message = Message("user", text, results=results)
        self._history.add(message)
        calls = "\n".join(f"{u.name} {u.arguments}" for u in reply.uses) or None
        told = message.more or text
        self.engine.services.events.emit(
            TurnFinished(at=time.time(), session="plain", turn=self.turns, reply=reply.said, sql=calls, feedback=told)
        )

    # -- asking ------------------------------------------------------------------------------------------------------------------------

    def _asked(self) -> Reply:
        """The reply of the next turn, in a conversation that fits."""
        if self._history.is_full and not (self._history.drop_results() and not self._history.is_full):
            self._sum_up()
        try:
            return self._send(self._request())
        except CallFailed as problem:
            if problem.kind != "context_overflow" or not self._history.drop_results(1):
                raise
            return self._send(self._request())

    def _sum_up(self) -> None:
        """Begin again with what the model writes down of the conversation: old results are gone from it already."""
        history = self._history
        if len(history.messages) < 3:
            return
        last = history.messages[-1]
        ask = attrs.evolve(last, text="\n\n".join(part for part in (last.text, prompts.SUM_UP) if part))
        messages = (*history.messages[:-1], ask)
        reply = self._send(attrs.evolve(self._request(), messages=messages, path=f"plain/{self.turns + 1}/summary"))
        history.begin_again(reply.text)

    def _request(self) -> Request:
        return Request(
            ALIAS,
            tuple(self._history.messages),
            system=prompts.SYSTEM,
            options=Options(max_tokens=MAX_TOKENS),
            path=f"plain/{self.turns + 1}",
            tools=self._tools.specs,
        )

    def _send(self, request: Request) -> Reply:
        return self._submitted(request)()

    def _ask_about(self, question: str, text: str) -> Callable[[], str]:
        """Ask a fresh model. What it says is waited for by what is given back; a failure of its own is told, as that of any call."""
        prompt = prompts.ASKED.format(question=question, text=text)
        options = Options(max_tokens=ASK_TOKENS)
        reply = self._submitted(
            Request(ASK_ALIAS, (Message("user", prompt),), system=prompts.ASK_SYSTEM, options=options)
        )

        def wait() -> str:
            try:
                return reply().text
            except CallFailed as problem:
                if problem.kind in ("auth", "quota"):
                    raise
                return failed(problem)

        return wait

    def _submitted(self, request: Request) -> Callable[[], Reply]:
        engine = self.engine
        options = attrs.evolve(request.options, timeout=engine.state.settings.timeout)
        request = attrs.evolve(request, options=options)
        if self._stopped:
            raise Cancelled("cancelled")
        services = engine.services
        task = services.runtime.submit(services.dispatcher.ask_turn, request, self.ledger, "plain", False)
        self._waiting.append(task)
        if self._stopped:
            task.cancel()

        def wait() -> Reply:
            try:
                reply: Reply = task.wait()[0]
                return reply
            finally:
                self._waiting.remove(task)

        return wait
