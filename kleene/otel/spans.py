"""Events to spans: run, session, turn, statement, DuckDB's runs of it, rounds of recursion, and calls, each below what it belongs to.

Names and attributes are those of OpenTelemetry's conventions for generative AI (https://opentelemetry.io/docs/specs/semconv/gen-ai/, as of
November 2026), and ``kleene.*`` for what they have no word for. Texts (prompts, replies, SQL, tasks, and messages that may quote them) are
set only where both the conventions' opt-in and ``SET trace_text`` allow it.
"""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from kleene.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import TracerProvider

    from kleene.udfs.events import (
        CallFinished,
        Event,
        RoundFinished,
        RunOfStatement,
        RunStarted,
        SessionFinished,
        SessionStarted,
        StatementFinished,
        StatementStarted,
        ToolUsed,
        TurnFinished,
    )

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
REMEMBERED = 1_000  # ended statements whose late calls still find their parent
IN_PROCESS = ("local",)
PROVIDERS = {"responses": "openai", "local": "llama.cpp"}
VARIANT = re.compile(r"@(?:effort|temperature)=.*$")
FINISH = {"truncated": "length", "refused": "content_filter"}


def captures_content(environ: Mapping[str, str]) -> bool:
    """Whether the environment asks for messages on spans: ``true`` as of old, ``SPAN_ONLY`` or ``SPAN_AND_EVENT`` since v1.37."""
    return environ.get(CAPTURE, "").strip().lower() in ("true", "1", "span_only", "span_and_event")


@attrs.define(eq=False)
class _Session:
    """``turn`` is the span of the turn that runs, ``used`` whether something stands below it."""

    span: Span
    number: int = 1
    turn: Span | None = None
    used: bool = False
    statements: list[str] = attrs.field(factory=list)


class Spans:
    """A subscriber of the event stream. ``shows_text`` tells whether texts may be set now; ``close`` ends with the engine.

    What has no parent of ours stands below the span that is current where its event is emitted: the caller's own, in its thread.
    """

    streams = False

    def __init__(self, provider: TracerProvider, shows_text: Callable[[], bool], close: Callable[[], None] | None):
        self._tracer = provider.get_tracer("kleene", VERSION)
        self._shows_text = shows_text
        self._close = close
        self._lock = threading.Lock()
        self._runs: dict[str, Span] = {}
        self._sessions: dict[str, _Session] = {}
        self._statements: dict[str, tuple[Span, str | None]] = {}
        self._host: list[str] = []  # statements of no session that run
        self._ended: OrderedDict[str, Context] = OrderedDict()
        self._rounds: dict[tuple[str, str], float] = {}

    def __call__(self, event: Event) -> None:
        """Take an event. Kinds that are no span's are passed over."""
        handle = getattr(self, f"on_{type(event).__name__}", None)
        if handle is not None:
            with self._lock:
                handle(event)

    def close(self) -> None:
        """End what is open, as it stands, and hand over what was not exported yet where the exporter is ours."""
        with self._lock:
            open_ = [span for span, _ in self._statements.values()]
            for session in self._sessions.values():
                if session.turn is not None and session.used:
                    open_.append(session.turn)
                open_.append(session.span)
            for span in (*open_, *self._runs.values()):
                _failed(span, "closed")
                span.end()
            self._runs, self._sessions, self._statements = {}, {}, {}
        if self._close is not None:
            self._close()

    # -- runs, sessions and turns

    def on_RunStarted(self, event: RunStarted) -> None:
        attributes = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": "run",
            "kleene.run": event.run,
            **self._text("kleene.task", event.task),
        }
        self._runs[event.run] = self._start("invoke_workflow run", None, event.at, attributes)

    def on_SessionStarted(self, event: SessionStarted) -> None:
        self._open_session(event.session, event.parent, event.role, event.depth, event.at, event.task)

    def on_SessionFinished(self, event: SessionFinished) -> None:
        session = self._sessions.pop(event.session, None)
        if session is None:
            return
        if session.turn is not None and session.used:  # the turn was not answered
            _failed(session.turn, event.outcome)
            session.turn.end(_ns(event.at))
        run = self._runs.pop(event.session, None)
        for span in (session.span, run):
            if span is None:
                continue
            span.set_attributes(
                {
                    "kleene.outcome": event.outcome,
                    "kleene.forced": event.forced,
                    "kleene.turns": event.turns,
                    "kleene.calls": event.calls,
                    "kleene.tokens": event.tokens,
                    "kleene.dollars": event.dollars,
                }
            )
            if event.outcome != "final":
                _failed(span, event.outcome, self._said(event.error))
            span.end(_ns(event.at))

    def on_TurnFinished(self, event: TurnFinished) -> None:
        session = self._session(event.session, event.at)
        turn = self._turn(session, event.session, event.at)
        turn.set_attribute("kleene.turn", event.turn)
        turn.update_name(f"turn {event.turn}")
        turn.end(_ns(event.at))
        session.turn, session.used, session.number = None, False, event.turn + 1
        self._begin_turn(session, event.session, event.at)

    def _open_session(
        self, name: str, parent: str | None, role: str, depth: int, at: float, task: str = "", resumed: bool = False
    ) -> _Session:
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": role,
            "gen_ai.conversation.id": name,
            "kleene.depth": depth,
            **self._text("kleene.task", task),
        }
        if resumed:
            attributes["kleene.resumed"] = True
        above = self._above_session(name, parent)
        session = _Session(self._start(f"invoke_agent {role}", above, at, attributes))
        self._sessions[name] = session
        self._begin_turn(session, name, at)
        return session

    def _above_session(self, name: str, parent: str | None) -> Context | None:
        """The statement of the parent that asked for it; where that is over (the child is asynchronous), its turn."""
        if parent is None:
            return _in(self._runs.get(name))
        above = self._sessions.get(parent)
        if above is None:
            return self._context_of(self._host[-1]) if self._host else None
        if above.statements:
            return self._context_of(above.statements[-1])
        above.used = True
        return _in(above.turn or above.span)

    def _session(self, name: str, at: float) -> _Session:
        """The session, also one whose start another process told: it is resumed."""
        found = self._sessions.get(name)
        if found is not None:
            return found
        parent = name.rpartition(".")[0] or None
        return self._open_session(name, parent, "child" if parent else "root", name.count("."), at, resumed=True)

    def _begin_turn(self, session: _Session, name: str, at: float) -> None:
        attributes = {"gen_ai.conversation.id": name, "kleene.turn": session.number}
        session.turn = self._start(f"turn {session.number}", _in(session.span), at, attributes)

    def _turn(self, session: _Session, name: str, at: float) -> Span:
        if session.turn is None:
            self._begin_turn(session, name, at)
        assert session.turn is not None
        session.used = True
        return session.turn

    # -- statements

    def on_StatementStarted(self, event: StatementStarted) -> None:
        above = None
        if event.session is not None:
            session = self._session(event.session, event.at)
            above = _in(self._turn(session, event.session, event.at))
            session.statements.append(event.statement)
        else:
            self._host.append(event.statement)
        attributes = {
            "db.system.name": "duckdb",
            "kleene.statement": event.statement,
            **self._text("db.query.text", event.sql),
        }
        self._statements[event.statement] = (self._start("statement", above, event.at, attributes), event.session)

    def on_RunOfStatement(self, event: RunOfStatement) -> None:
        attributes = {
            "kleene.run_of_statement": event.run,
            "kleene.notes": event.notes,
            "kleene.answered": event.answered,
        }
        span = self._start("duckdb", self._context_of(event.statement), event.at - event.seconds, attributes)
        span.end(_ns(event.at))

    def on_RoundFinished(self, event: RoundFinished) -> None:
        key = (event.statement, event.cte)
        began = self._rounds.get(key, event.at) if event.round > 1 else event.at
        self._rounds[key] = event.at
        attributes = {
            "kleene.cte": event.cte,
            "kleene.round": event.round,
            "kleene.delta_rows": event.delta_rows,
            "kleene.total_rows": event.total_rows,
        }
        span = self._start(f"round {event.round}", self._context_of(event.statement), began, attributes)
        span.end(_ns(event.at))

    def on_StatementFinished(self, event: StatementFinished) -> None:
        found = self._statements.pop(event.statement, None)
        if found is None:
            return
        span, session = found
        running = (
            self._host if session is None else self._sessions[session].statements if session in self._sessions else []
        )
        if event.statement in running:
            running.remove(event.statement)
        self._rounds = {key: at for key, at in self._rounds.items() if key[0] != event.statement}
        self._ended[event.statement] = trace.set_span_in_context(span)
        if len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)
        span.set_attributes(
            {
                "db.response.returned_rows": event.rows,
                "kleene.calls": event.calls,
                "kleene.tokens": event.tokens,
                "kleene.dollars": event.dollars,
                "kleene.memo_hits": event.memo_hits,
                "kleene.unknown": event.unknown,
            }
        )
        if event.error is not None:
            _failed(span, "cancelled" if event.error == "cancelled" else "_OTHER", self._said(event.error))
        span.end(_ns(event.at))

    # -- calls and tools

    def on_ToolUsed(self, event: ToolUsed) -> None:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": event.tool,
            "gen_ai.tool.type": "function",
            "kleene.bytes_out": event.bytes_out,
            **self._text("gen_ai.tool.call.arguments", event.args),
        }
        above = None if event.statement is None else self._context_of(event.statement)
        span = self._start(f"execute_tool {event.tool}", above, event.at - event.elapsed_ms / 1e3, attributes)
        if event.error is not None:
            _failed(span, "_OTHER", self._said(event.error))
        span.end(_ns(event.at))

    def on_CallFinished(self, event: CallFinished) -> None:
        """A call is one span, its further attempts included. An answer that was there already is none, and a child has its session's."""
        if event.memo_hit or event.coalesced or event.wants == "session":
            return
        model = VARIANT.sub("", event.model)
        operation = "embeddings" if event.wants == "embedding" else "chat"
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": PROVIDERS.get(event.provider, event.provider),
            "gen_ai.request.model": model,
            # The conventions count what was read from and written to a cache as input too.
            "gen_ai.usage.input_tokens": event.input_tokens + event.cache_read_tokens + event.cache_write_tokens,
            "gen_ai.usage.cache_read.input_tokens": event.cache_read_tokens,
            "gen_ai.usage.cache_creation.input_tokens": event.cache_write_tokens,
            "kleene.alias": event.alias,
            "kleene.attempts": event.attempts,
            "kleene.batch_size": event.batch_size,
            "kleene.kind": event.kind,
        }
        if operation == "chat":
            attributes["gen_ai.usage.output_tokens"] = event.output_tokens
        optional = {
            "gen_ai.conversation.id": event.session,
            "kleene.site": event.site,
            "kleene.dollars": event.dollars,
            "kleene.degraded": event.degraded,
        }
        attributes |= {name: value for name, value in optional.items() if value is not None}
        if self._shows_text():
            attributes |= _messages(event)
        kind = SpanKind.INTERNAL if event.provider in IN_PROCESS else SpanKind.CLIENT
        span = self._start(f"{operation} {model}", self._above_call(event), event.started_at, attributes, kind)
        if event.error is not None and event.kind == "answer":
            _failed(span, event.error_kind or "_OTHER", event.error)
        span.end(_ns(event.at))

    def _above_call(self, event: CallFinished) -> Context | None:
        if event.statement is not None:
            found = self._context_of(event.statement)
            if found is not None:
                return found
        if event.session is None:
            return None
        return _in(self._turn(self._session(event.session, event.started_at), event.session, event.started_at))

    # -- spans

    def _start(
        self,
        name: str,
        above: Context | None,
        at: float,
        attributes: Mapping[str, Any],
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        where = contexts.get_current() if above is None else above
        return self._tracer.start_span(name, where, kind, attributes, start_time=_ns(at))

    def _context_of(self, statement: str) -> Context | None:
        running = self._statements.get(statement)
        return _in(running[0]) if running is not None else self._ended.get(statement)

    def _text(self, name: str, text: str) -> dict[str, str]:
        return {name: text} if text and self._shows_text() else {}

    def _said(self, error: str | None) -> str | None:
        """An error's words, where they may be shown: they quote arguments."""
        return error if self._shows_text() else None


def _in(span: Span | None) -> Context | None:
    return None if span is None else trace.set_span_in_context(span, contexts.Context())


def _failed(span: Span, kind: str, description: str | None = None) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR, description))


def _messages(event: CallFinished) -> dict[str, str]:
    """What was asked last and what was replied, in the conventions' form."""
    found = {}
    if event.prompt is not None:
        found["gen_ai.input.messages"] = _dump([{"role": "user", "parts": _parts(event.prompt)}])
    if event.reply is not None:
        finish = FINISH.get(event.kind, "stop")
        message = {"role": "assistant", "parts": _parts(event.reply), "finish_reason": finish}
        found["gen_ai.output.messages"] = _dump([message])
    return found


def _parts(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "content": text}]


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _ns(at: float) -> int:
    return int(at * 1e9)
