"""What OpenTelemetry is told: which spans, below which, with what on them, and no text that was not asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import duckdb
import pytest

import kleene
from kleene.planner.errors import CallFailed, ConfigError, KleeneError
from kleene.udfs.events import (
    RunStarted,
    SessionFinished,
    SessionStarted,
    StatementFinished,
    StatementStarted,
    TurnFinished,
)
from kleene.udfs.protocols import Reply
from tests.fake_server import FakeServer, failure
from tests.kleene.scripted import Script, sql

pytest.importorskip("opentelemetry.sdk", reason="pip install 'kleene[otel]'")

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from kleene.otel.enable import open_spans
from kleene.otel.spans import CAPTURE, Spans, captures_content

NOTES = "alpha one\n\nbeta two"
VARIABLES = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_SDK_DISABLED",
    "OTEL_TRACES_EXPORTER",
    CAPTURE,
)


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


class Seen:
    """Spans that were exported."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    @property
    def spans(self) -> list[ReadableSpan]:
        return sorted(self.exporter.get_finished_spans(), key=lambda s: s.start_time or 0)

    def named(self, name: str) -> list[ReadableSpan]:
        return [s for s in self.spans if s.name == name]

    def one(self, name: str) -> ReadableSpan:
        (found,) = self.named(name)
        return found

    def path(self, span: ReadableSpan) -> str:
        """The names from the root to a span."""
        by_id = {s.context.span_id: s for s in self.spans if s.context}
        above = by_id.get(span.parent.span_id) if span.parent else None
        return span.name if above is None else f"{self.path(above)} > {span.name}"

    def paths(self) -> Counter[str]:
        return Counter(map(self.path, self.spans))


@contextmanager
def engine(model: Any, seen: Seen, **options: Any) -> Iterator[kleene.Engine]:
    models = model if isinstance(model, dict) or hasattr(model, "send") else kleene.FunctionModel(model, name="m")
    with kleene.connect(store=":memory:", models=models, otel=seen.provider, **options) as k:
        yield k


def of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_a_statement_has_its_runs_and_calls_below_it() -> None:
    seen = Seen()
    with engine(lambda r: Reply("true", 7, 3, cache_read_tokens=2, cache_write_tokens=1), seen) as k:
        k.sql("SELECT llm_bool(x) FROM (VALUES ('a'), ('b')) t(x)").fetchall()
        k.sql("SELECT llm_bool('a')").fetchall()  # from the memo: no request, no span
        k.sql("SELECT 1").fetchall()
    assert seen.paths() == {"statement": 3, "statement > duckdb": 4, "statement > chat m": 2}
    call = seen.named("chat m")[0]
    assert of(call) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "m",
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 2,
        "gen_ai.usage.cache_creation.input_tokens": 1,
        "kleene.alias": "worker",
        "kleene.attempts": 1,
        "kleene.batch_size": 1,
        "kleene.kind": "answer",
        "kleene.site": of(call)["kleene.site"],
        "kleene.dollars": 0.0,
    }
    assert call.kind is SpanKind.CLIENT
    first, second, third = seen.named("statement")
    assert (of(first)["kleene.calls"], of(first)["db.response.returned_rows"], of(second)["kleene.memo_hits"]) == (
        2,
        2,
        1,
    )
    assert of(third)["db.system.name"] == "duckdb"
    assert all(s.status.status_code is StatusCode.UNSET for s in seen.spans)
    for span in seen.spans:
        assert (span.start_time or 0) <= (span.end_time or 0)
        if span.parent is not None:
            above = next(s for s in seen.spans if s.context and s.context.span_id == span.parent.span_id)
            assert (
                (above.start_time or 0) - 1_000_000
                <= (span.start_time or 0)
                <= (span.end_time or 0)
                <= (above.end_time or 0) + 1_000_000
            )


def test_a_run_holds_sessions_turns_statements_calls_and_children() -> None:
    seen = Seen()
    script = Script(
        sql("SELECT llm_bool(text) FROM ctx; SELECT answer FROM ctx, LATERAL rlm('First word?', ctx.text) r"),
        sql("FINAL(1)"),
        children=[sql("FINAL FROM (SELECT split_part(text, ' ', 1) FROM ctx)")],
    )
    with engine(script, seen) as k:
        run = k.run("Go", context=NOTES)
        assert run.outcome == "final"
    root = "invoke_workflow run > invoke_agent root"
    child = f"{root} > turn 1 > statement > invoke_agent self"
    assert seen.paths() == {
        "invoke_workflow run": 1,
        root: 1,
        f"{root} > turn 1": 1,
        f"{root} > turn 2": 1,
        f"{root} > turn 1 > chat m": 1,
        f"{root} > turn 2 > chat m": 1,
        f"{root} > turn 1 > statement": 2,
        f"{root} > turn 2 > statement": 1,
        f"{root} > turn 1 > statement > duckdb": 4,
        f"{root} > turn 1 > statement > chat m": 2,
        child: 2,
        f"{child} > turn 1": 2,
        f"{child} > turn 1 > chat m": 2,
        f"{child} > turn 1 > statement": 2,
    }
    agent = of(seen.one("invoke_agent root"))
    assert agent == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "root",
        "gen_ai.conversation.id": run.run_id,
        "kleene.depth": 0,
        "kleene.outcome": "final",
        "kleene.forced": False,
        "kleene.turns": 2,
        "kleene.calls": run.usage.requests,
        "kleene.tokens": run.usage.tokens,
        "kleene.dollars": 0.0,
    }
    assert len({s.context.trace_id for s in seen.spans if s.context}) == 1


def test_what_the_caller_traces_is_above() -> None:
    seen = Seen()
    tracer = seen.provider.get_tracer("app")
    script = Script(sql("FINAL(1)"))
    with engine(script, seen) as k:
        with tracer.start_as_current_span("request"):
            k.sql("SELECT llm_bool('a')").fetchall()
            k.run("Go")
    assert {p.partition(" > ")[0] for p in seen.paths()} == {"request"}
    assert seen.paths()["request > statement > chat m"] == 1
    assert seen.paths()["request > invoke_workflow run > invoke_agent root > turn 1 > chat m"] == 1


def test_a_person_may_ask_a_child_too() -> None:
    seen = Seen()
    script = Script(sql("FINAL(1)"))
    script._children = (sql("FINAL(1)"),)
    with engine(script, seen) as k:
        k.sql("SELECT answer FROM rlm('q')").fetchall()
    assert seen.paths()["statement > invoke_agent self > turn 1 > statement"] == 1


def test_asynchronous_children_stand_below_the_turn_or_statement_that_began_them() -> None:
    seen = Seen()
    script = Script(
        sql("CREATE TABLE h AS SELECT handle FROM spawn_async('mapper', 'Work')"),
        sql("SELECT answer FROM h, LATERAL await(h.handle) a"),
        sql("FINAL(1)"),
        children=[sql("FINAL(1)")],
    )
    with engine(kleene.FunctionModel(script, name="m", threads=True), seen) as k:
        assert k.run("Go").outcome == "final"
    above = seen.path(seen.one("invoke_agent mapper"))
    assert above.startswith("invoke_workflow run > invoke_agent root > turn ")
    assert len({s.context.trace_id for s in seen.spans if s.context}) == 1


def test_rounds_of_recursion_are_spans_of_their_statement() -> None:
    seen = Seen()
    with engine(lambda r: "true", seen) as k:
        k.sql(
            "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t WHERE i < 3 AND llm_bool('go ' || i)) SELECT count(*) FROM t"
        ).fetchall()
    rounds = [s for s in seen.spans if s.name.startswith("round ")]
    assert rounds and {seen.path(s).partition(" > ")[0] for s in rounds} == {"statement"}
    assert of(rounds[0])["kleene.cte"] == "t"


def test_errors_are_statuses() -> None:
    seen = Seen()
    with FakeServer(lambda ask: failure(401, "no such key")) as server:
        model = kleene.OpenAI("gpt-x", base_url=server.url + "/v1", api_key="k")
        with engine({"worker": model}, seen) as k:
            with pytest.raises(CallFailed):
                k.sql("SELECT llm('secret words')").fetchall()
            with pytest.raises(KleeneError):
                k.sql("SELECT nothing").fetchall()
            run = k.run("Go")
            assert run.outcome == "failed"
    call = seen.named("chat gpt-x")[0]
    assert (call.status.status_code, of(call)["error.type"]) == (StatusCode.ERROR, "auth")
    assert "no such key" in (call.status.description or "")
    assert of(call)["gen_ai.provider.name"] == "openai"
    for name, kind in [
        ("statement", "_OTHER"),
        ("invoke_agent root", "failed"),
        ("invoke_workflow run", "failed"),
        ("turn 1", "failed"),
    ]:
        span = seen.named(name)[0]
        assert (span.status.status_code, of(span)["error.type"], span.status.description) == (
            StatusCode.ERROR,
            kind,
            None,
        )
    assert "secret words" not in dump(seen)


def test_an_answer_that_cannot_be_read_is_no_error_and_says_its_kind() -> None:
    seen = Seen()
    with engine(lambda r: "perhaps", seen) as k:
        assert k.sql("SELECT llm_bool('a')").fetchall() == [(None,)]
    call = seen.one("chat m")
    assert (call.status.status_code, of(call)["kleene.kind"], of(call)["kleene.attempts"]) == (
        StatusCode.UNSET,
        "unreadable",
        2,
    )


def test_a_cancelled_run_ends_its_spans() -> None:
    seen = Seen()
    asked = threading.Event()

    def slow(_: Any) -> str:
        asked.set()
        threading.Event().wait(1)
        return sql("FINAL(1)")

    with engine(kleene.FunctionModel(slow, name="m", threads=True), seen) as k:
        threading.Thread(target=lambda: (asked.wait(10), k.cancel())).start()
        assert k.run("Go").outcome == "cancelled"
    assert of(seen.one("invoke_workflow run"))["error.type"] == "cancelled"
    assert seen.one("chat m").status.status_code is StatusCode.ERROR
    assert "turn 1" in {s.name for s in seen.spans}


def test_vectors_are_an_operation_of_their_own() -> None:
    seen = Seen()
    with FakeServer(lambda ask: "x") as server:
        model = kleene.OpenAI("vec", base_url=server.url + "/v1", api_key="k")
        with engine({"embed": model}, seen) as k:
            k.sql("SELECT embed(x) FROM (VALUES ('a'), ('b')) t(x)").fetchall()
    span = seen.one("embeddings vec")
    assert (of(span)["gen_ai.operation.name"], of(span)["kleene.batch_size"]) == ("embeddings", 2)
    assert "gen_ai.usage.output_tokens" not in of(span)


def test_tools_are_spans_of_their_statement() -> None:
    def words(text: str) -> list[str]:
        """The words of a text."""
        if text == "secret":
            raise ValueError(text)
        return text.split()

    seen = Seen()
    with engine(lambda r: "true", seen, tools=[words]) as k:
        assert k.sql("SELECT count(*) FROM words('my secret')").fetchall() == [(2,)]
        with pytest.raises(CallFailed):
            k.sql("SELECT * FROM words('secret')").fetchall()
    one, other = seen.named("execute_tool words")
    assert seen.path(one) == "statement > execute_tool words"
    assert (of(one)["gen_ai.operation.name"], of(one)["gen_ai.tool.name"]) == ("execute_tool", "words")
    assert (one.status.status_code, other.status.status_code) == (StatusCode.UNSET, StatusCode.ERROR)
    assert not seen.named("chat m")
    assert "secret" not in dump(seen)


def dump(seen: Seen) -> str:
    return json.dumps([json.loads(s.to_json()) for s in seen.spans])


SECRET = "SELECT llm_bool('the secret is x')"


@pytest.mark.parametrize(("opted", "trace_text"), [(False, True), (True, False), (False, False)])
def test_no_text_is_told_without_both_opt_ins(opted: bool, trace_text: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen()
    if opted:
        monkeypatch.setenv(CAPTURE, "SPAN_ONLY")
    script = Script(sql("SELECT 'secret' AS s"), sql("FINAL('secret')"), calls=lambda p: "secret")
    with engine(script, seen) as k:
        k.sql(f"SET trace_text = {'on' if trace_text else 'off'}")
        k.sql(SECRET).fetchall()
        with pytest.raises(duckdb.Error):
            k.sql("SELECT 'secret'::INT")
        k.run("the secret task")
    assert "secret" not in dump(seen)
    assert seen.paths()["statement > chat m"] == 1


@pytest.mark.parametrize("value", ["true", "SPAN_ONLY", "span_and_event"])
def test_with_both_opt_ins_texts_are_told_in_the_conventions_form(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen()
    monkeypatch.setenv(CAPTURE, value)
    with engine(lambda r: "true", seen) as k:
        k.sql(SECRET).fetchall()
        with pytest.raises(duckdb.Error):
            k.sql("SELECT 'secret'::INT")
    call, statements = seen.one("chat m"), seen.named("statement")
    (asked,) = json.loads(of(call)["gen_ai.input.messages"])
    assert (asked["role"], asked["parts"][0]["type"]) == ("user", "text")
    assert "the secret is x" in asked["parts"][0]["content"]
    assert json.loads(of(call)["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "true"}], "finish_reason": "stop"}
    ]
    assert of(statements[0])["db.query.text"] == SECRET
    assert "secret" in (statements[1].status.description or "")


@pytest.mark.parametrize("value", ["", "false", "NO_CONTENT", "EVENT_ONLY"])
def test_other_values_capture_nothing(value: str) -> None:
    assert not captures_content({CAPTURE: value})


# -- whether there are any -----------------------------------------------------------------------------------------------------------------

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


@pytest.mark.parametrize(
    ("otel", "environ", "on"),
    [
        (None, {}, False),
        (False, ENDPOINT, False),
        (True, {}, True),
        (True, {"OTEL_SDK_DISABLED": "true"}, False),
        (None, {**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, False),
        (None, {**ENDPOINT, "OTEL_SDK_DISABLED": "TRUE"}, False),
    ],
)
def test_when_spans_are_made(otel: bool | None, environ: dict[str, str], on: bool) -> None:
    spans = open_spans(otel, environ, lambda: True, lambda text: None)
    assert (spans is not None) is on


def test_what_is_no_provider_is_refused() -> None:
    with pytest.raises(ConfigError, match="otel is int"):
        kleene.connect(store=":memory:", models=kleene.FunctionModel(str), otel=3)


def test_an_endpoint_in_the_environment_is_sent_to_and_the_programs_provider_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="pip install 'kleene[otel]'")
    bodies: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        with kleene.connect(store=":memory:", models=kleene.FunctionModel(lambda r: "true", name="m")) as k:
            k.sql("SELECT llm_bool('a')").fetchall()
        assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert {path for path, _ in bodies} == {"/v1/traces"}
    assert b"chat m" in b"".join(body for _, body in bodies)


@pytest.mark.parametrize(("environ", "imported"), [({}, False), (ENDPOINT, True)])
def test_nothing_is_imported_while_it_is_off(environ: dict[str, str], imported: bool) -> None:
    program = (
        "import sys, kleene\n"
        "k = kleene.connect(store=':memory:', models=kleene.FunctionModel(lambda r: 'true'))\n"
        "print('opentelemetry.trace' in sys.modules)\n"
        "k.services.spans and setattr(k.services.spans, '_close', None)\n"
        "k.close()"
    )
    given = {n: v for n, v in os.environ.items() if not n.startswith("OTEL_")} | environ
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=given, timeout=60)
    assert done.stdout.strip() == str(imported), done.stderr


def test_open_spans_end_with_the_engine() -> None:
    seen = Seen()
    closed: list[bool] = []
    spans = Spans(seen.provider, lambda: False, lambda: closed.append(True))
    spans(RunStarted(at=1.0, run="r", task="t"))
    spans(SessionStarted(at=1.0, session="r", run="r", parent=None, depth=0, role="root", task="t"))
    spans(StatementStarted(at=1.0, statement="s", session="r", sql="SELECT 1"))
    spans.close()
    assert "invoke_workflow run > invoke_agent root > turn 1 > statement" in seen.paths()
    assert {of(s)["error.type"] for s in seen.spans} == {"closed"}
    assert closed == [True]


def test_a_resumed_session_has_a_span_though_its_start_was_told_elsewhere() -> None:
    seen = Seen()
    spans = Spans(seen.provider, lambda: False, None)
    spans(StatementStarted(at=1.0, statement="s", session="r.c", sql="SELECT 1"))
    spans(StatementFinished(at=2.0, statement="s", rows=1, calls=0, tokens=0, dollars=0, memo_hits=0, unknown=0))
    spans(TurnFinished(at=3.0, session="r.c", turn=4, reply="", sql=None, feedback=""))
    spans(SessionFinished(at=3.0, session="r.c", outcome="final", forced=False, turns=4, calls=0, tokens=0, dollars=0))
    assert sorted(seen.paths()) == [
        "invoke_agent child",
        "invoke_agent child > turn 4",
        "invoke_agent child > turn 4 > statement",
    ]
    assert of(seen.one("invoke_agent child"))["kleene.resumed"] is True
