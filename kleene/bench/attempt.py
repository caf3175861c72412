"""One attempt at one task: the model's run (mode frozen), the plain agent's (plain) or the reference statement (relational), then the oracle's
verdict."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import duckdb

from kleene.bench.commands import run_of_pack
from kleene.bench.estimates import Estimated, estimated
from kleene.bench.judging import judge_of
from kleene.bench.oracles import Place, decide
from kleene.bench.oracles.answer import Answer, Verdict
from kleene.bench.pack import Ready
from kleene.bench.plain import Job
from kleene.bench.plain import solve as solve_plainly
from kleene.bench.recordings import Recordings, new_recording
from kleene.bench.verify import Judge, Redline
from kleene.planner.errors import CallFailed, Cancelled, ConfigError, KleeneError, NoModel, ToolError
from kleene.planner.specs import BudgetLimits, Usage
from kleene.planner.statements import parse
from kleene.session.context import Inline, text_feed
from kleene.session.feedback import CheckResult
from kleene.session.validity import valid_share
from kleene.tools.base import Work
from kleene.tools.jail import Jail
from kleene.tools.sandbox import Sandbox
from kleene.tools.shell import exit_code, run_command
from kleene.udfs.events import Event, ToolUsed, TurnFinished

if TYPE_CHECKING:
    from kleene.bench.outputs import Outputs
    from kleene.engine import Engine

SOLVERS = {"frozen": "root", "plain": "root", "relational": "worker"}
"""The modes, and the alias whose model solves."""

SETUP_MS = 60_000
CHECK_MS = 300_000
CHECK_LINES = 40
OpenEngine = Callable[..., AbstractContextManager["Engine"]]


@attrs.frozen
class Options:
    """How attempts are made. ``open_engine`` takes the options of ``kleene.attach``. ``budget`` is for each task; ``record`` and ``replay`` are
    folders with one recording an attempt (``kleene.bench.recordings``); with ``outputs`` a judge is LAB's, where there is no other."""

    mode: str
    open_engine: OpenEngine
    budget: BudgetLimits | None = None
    max_turns: int = 30
    record: Path | None = None
    replay: Recordings | None = None
    outputs: Outputs | None = None
    sandbox: Sandbox = attrs.field(factory=Sandbox)


@attrs.frozen
class Attempt:
    """What came of it. ``events`` are its turns and its uses of tools, ``began`` is in seconds since the epoch."""

    model: str
    outcome: str
    verdict: Verdict
    usage: Usage
    seconds: float
    turns: int = 0
    valid: int = 0
    statements: int = 0
    did: str = ""
    answer: str = ""
    estimated: Estimated = attrs.field(factory=Estimated)
    drift: str = ""
    found: Answer | None = None
    events: tuple[Event, ...] = ()
    began: float = 0.0


@attrs.frozen
class Solved:
    """How a mode did: ``did`` is the text of all that was run; see ``results.Row``."""

    answer: Answer | None
    outcome: str
    usage: Usage
    error: str = ""
    turns: int = 0
    valid: int = 0
    statements: int = 0
    did: str = ""
    estimated: Estimated = attrs.field(factory=Estimated)


class Solver(Protocol):
    """A mode: does a task in an engine of its own. ``turns`` grows while the model's turns end."""

    def __call__(
        self, engine: Engine, ready: Ready, workspace: Path, options: Options, turns: Sequence[TurnFinished]
    ) -> Solved: ...


def learner() -> Solver:
    """The mode ``learning``: ``frozen`` with a playbook that grows from task to task. Who builds it gives a ``Solver`` here."""
    raise ConfigError("the mode learning is not built yet", hint="--mode frozen runs the same tasks without a playbook")


def attempt(ready: Ready, repeat: int, workspace: Path, options: Options) -> Attempt:
    """Make it in a store of its own, so that nothing is answered from another's memo. Raises the model's error where not one reply came."""
    turns: list[TurnFinished] = []
    events: list[Event] = []

    def on_event(event: Event) -> None:
        if isinstance(event, TurnFinished):
            turns.append(event)
        if options.outputs is not None and isinstance(event, TurnFinished | ToolUsed):
            events.append(event)

    relational = options.mode == "relational"
    solve = learner() if options.mode == "learning" else _SOLVERS[options.mode]
    given: dict[str, Any] = {
        "workspace": workspace,
        "on_event": on_event,
        "budget": options.budget if relational else None,
        "record": None if options.record is None else new_recording(options.record, ready.id, repeat),
        "replay": None if options.replay is None else options.replay.path(ready.id, repeat),
    }
    with tempfile.TemporaryDirectory(prefix="kleene-bench-") as folder:
        with options.open_engine(store=Path(folder) / "run.duckdb", **given) as engine:
            model = _model(engine, SOLVERS[options.mode])
            began, started = time.time(), time.monotonic()
            solved = solve(engine, ready, workspace, options, turns)
            seconds = time.monotonic() - started
            verdict = _judged(engine, ready, solved, workspace, options)
            drift = next(iter(getattr(engine.services.handler, "warnings", ())), "")
    return Attempt(
        model=model,
        outcome=solved.outcome,
        verdict=verdict,
        usage=solved.usage,
        seconds=seconds,
        turns=solved.turns,
        valid=solved.valid,
        statements=solved.statements,
        did=_digest(solved.did),
        answer="" if solved.answer is None else _digest(json.dumps(solved.answer.rows, default=str)),
        estimated=solved.estimated,
        drift=drift,
        found=solved.answer,
        events=tuple(events),
        began=began,
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16] if text else ""


def _model(engine: Engine, alias: str) -> str:
    """The model's name; empty where there is none, which a statement without calls does not need."""
    try:
        return engine.services.handler.route(alias).model
    except NoModel:
        return ""


def _run(engine: Engine, ready: Ready, workspace: Path, options: Options, turns: Sequence[TurnFinished]) -> Solved:
    run = engine.run(
        ready.task,
        context=ready.context,
        budget=options.budget,
        max_turns=options.max_turns,
        check=None if ready.check is None else _check(ready.check, workspace, options.sandbox),
        allow=ready.allow,
    )
    if run.outcome == "cancelled":
        raise Cancelled("cancelled")
    if run.outcome == "failed" and not run.usage.output_tokens and run.cause is not None:
        raise _down(ready, run.cause)
    valid, statements = valid_share(turns)
    answer = None if run.answer is None else Answer(tuple(run.answer.columns), tuple(run.answer.rows))
    did = "\n".join(turn.sql or "" for turn in turns)
    return Solved(answer, run.outcome, run.usage, run.error or "", run.turns, valid, statements, did)


def _plain(engine: Engine, ready: Ready, workspace: Path, options: Options, turns: Sequence[TurnFinished]) -> Solved:
    check = None if ready.check is None else _check(ready.check, workspace, options.sandbox)
    job = Job(ready.task, ready.context, ready.allow, check, ready.check or "")
    done = solve_plainly(engine, job, workspace, options.budget, options.max_turns)
    if done.outcome == "failed" and not done.usage.output_tokens and done.cause is not None:
        raise _down(ready, done.cause)
    valid = done.calls - done.failures
    return Solved(done.answer, done.outcome, done.usage, done.error, done.turns, valid, done.calls, done.did)


def _query(engine: Engine, ready: Ready, workspace: Path, options: Options, turns: Sequence[TurnFinished]) -> Solved:
    assert ready.sql is not None
    if ready.context is not None:
        feed = text_feed(Inline(ready.context, "the context"))
        engine.con.register("kleene_feed", feed.reader())
        engine.con.execute("CREATE TEMP TABLE ctx AS FROM kleene_feed")
        engine.con.unregister("kleene_feed")
    before, result = Estimated(), None
    try:
        for statement in parse(ready.sql):
            before += estimated(engine, statement.text)
            result = engine.sql(statement.text)
    except Cancelled:
        raise
    except KleeneError as error:
        if isinstance(error, CallFailed | NoModel) and not engine.usage.output_tokens:
            raise _down(ready, error) from error
        return Solved(None, "failed", engine.usage, error.message, did=ready.sql, estimated=before)
    except duckdb.Error as error:  # of the data: the next task has others
        said = str(error).strip().partition("\n")[0]
        return Solved(None, "failed", engine.usage, said, did=ready.sql, estimated=before)
    answer = None if result is None else Answer(tuple(result.columns), tuple(result.rows))
    return Solved(answer, "final", engine.usage, did=ready.sql, estimated=before)


_SOLVERS: dict[str, Solver] = {"frozen": _run, "plain": _plain, "relational": _query}


def _down(ready: Ready, cause: KleeneError) -> KleeneError:
    """Why the whole run stops: the next task would fare no better."""
    if isinstance(cause, ConfigError):
        return cause
    text = f"task {ready.id}: not one reply came from the model: {cause.message}"
    return CallFailed(
        text,
        kind=getattr(cause, "kind", "other"),
        hint=cause.hint or "when it answers again, --resume goes on from here",
    )


def _judged(engine: Engine, ready: Ready, solved: Solved, workspace: Path, options: Options) -> Verdict:
    if solved.answer is None:
        return Verdict(False, solved.error or solved.outcome)
    judge = None
    if isinstance(ready.verify, Judge | Redline):
        needed = isinstance(ready.verify, Judge) and options.outputs is None
        judge = judge_of(engine, SOLVERS[options.mode], needed=needed)
        if judge is None and isinstance(ready.verify, Judge):
            return Verdict(None, "LAB's evaluator decides")
    return decide(ready.verify, ready.task, solved.answer, Place(workspace, options.sandbox, judge, ready.folder))


# Commands of the pack


def set_up(ready: Ready, workspace: Path, sandbox: Sandbox) -> None:
    """Run what stands in ``setup``. Raises ``ConfigError`` where a command fails: then the task is not what the pack says."""
    for command in ready.setup:
        done = run_of_pack(command, workspace, sandbox, pack=ready.folder, timeout_ms=SETUP_MS)
        code, note = exit_code(done.status)
        if code:
            said = note or done.stderr.strip().rpartition("\n")[2] or f"exit code {code}"
            raise ConfigError(f"the setup of task {ready.id} failed: {said}", hint=f"its command: {command}")


def _check(command: str, workspace: Path, sandbox: Sandbox) -> Callable[[object], CheckResult]:
    """The finish check, in the sandbox: it runs what the model has written."""

    def run(_: object) -> CheckResult:
        try:
            done = run_command(sandbox, Work(Jail.of(workspace)), command, timeout_ms=CHECK_MS).finished
        except ToolError as error:
            return CheckResult(False, error.message)
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        return CheckResult(done.status == 0, "\n".join(lines[-CHECK_LINES:]))

    return run
