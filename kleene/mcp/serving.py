"""Kleene as an MCP server: ``callsql``, ``explain`` and ``run`` for other agents.

Callers are other agents, not the user: the engine is opened with the trust of a model's statements. They share it, one request at a time,
with its budget, its tables and what they define.
"""

from __future__ import annotations

import functools
import hmac
import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

import anyio
import anyio.to_thread
import attrs
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from kleene.planner.errors import Cancelled, KleeneError, PlanError, ToolError
from kleene.planner.specs import BudgetLimits, Usage
from kleene.version import VERSION

T = TypeVar("T")

POLL_S = 0.05
PROGRESS_S = 1.0
ANSWER_BYTES = 1 << 20
DEFAULT_ROWS = 100

INSTRUCTIONS = """\
Kleene runs SQL (DuckDB's dialect) that may ask models: llm(prompt) gives text, llm_bool(question) true or false, llm_score(question) \
0 to 1, llm_json(prompt, schema) JSON. Each distinct prompt is asked once and remembered. SHOW TABLES and SHOW FUNCTIONS say what there \
is. explain says what a statement would cost, without asking. run lets a model work on a task with SQL of its own."""


@attrs.frozen
class Rules:
    """``max_rows`` of one answer, ``wall_s`` of one request; ``writes``: statements may change tables; ``allow``: granted effects."""

    max_rows: int = 1000
    wall_s: float = 600.0
    writes: bool = False
    allow: tuple[str, ...] = ()


class Engine(Protocol):
    """What a server needs of an engine."""

    @property
    def usage(self) -> Usage: ...

    def sql(self, text: str) -> Any: ...

    def explain(self, text: str) -> Any: ...

    def run(self, task: str, **options: Any) -> Any: ...

    def cancel(self) -> None: ...


def serve_stdio(engine: Any, rules: Rules) -> None:
    """Serve one caller on stdin and stdout until it closes them. What is printed meanwhile goes to stderr."""
    server = server_of(engine, rules)

    async def main() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(main)


def serve_http(engine: Any, rules: Rules, host: str, port: int, token: str | None, say: Callable[[str], None]) -> None:
    """Serve streamable HTTP at ``/mcp`` until interrupted. With a ``token`` every request must bear it."""
    import uvicorn

    bound = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    place = f"[{host}]" if ":" in host else host
    app: Any = server_of(engine, rules).streamable_http_app(host=host)
    if token is not None:
        app = _bearing(app, token)
    say(f"serving on http://{place}:{bound.getsockname()[1]}/mcp")
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2, lifespan="on")
    anyio.run(functools.partial(uvicorn.Server(config).serve, sockets=[bound]))


def server_of(engine: Engine, rules: Rules) -> Server[Any]:
    """The protocol's side: the tools and what they do."""
    lock = anyio.Lock()
    done = {"callsql": _callsql, "explain": _explain, "run": _run}

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools_of(rules))

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        act = done.get(params.name)
        given = params.arguments or {}
        try:
            if act is None:
                raise PlanError(f"there is no tool {params.name}", hint=f"there are {', '.join(done)}")
            async with lock:
                found = await _in_engine(engine, context, rules, functools.partial(act, engine, rules, given))
        except KleeneError as error:
            return _failed(error.render())
        except Exception as error:  # DuckDB's own, or a fault
            return _failed(f"error: {str(error) or type(error).__name__}")
        text = json.dumps(found, ensure_ascii=False, default=str)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)],
            structured_content=json.loads(text),
            is_error=bool(found.get("error")),
        )

    return Server(
        "kleene", version=VERSION, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )


async def _in_engine(engine: Engine, context: Any, rules: Rules, act: Callable[[], T]) -> T:
    """Do it in a thread. A cancelled request and one past its wall are cancelled in the engine too, and waited for."""
    over = anyio.Event()
    late = False

    async def cancel() -> None:
        nonlocal late
        try:
            await anyio.sleep(rules.wall_s)
            late = True
        finally:
            with anyio.CancelScope(shield=True):
                while not over.is_set():  # a statement that is about to begin is not there to be cancelled yet
                    engine.cancel()
                    await anyio.sleep(POLL_S)

    async def report() -> None:
        began, before = time.monotonic(), engine.usage
        while True:
            await anyio.sleep(PROGRESS_S)
            used = engine.usage
            told = f"{used.requests - before.requests:,} calls, ${used.dollars - before.dollars:.4f}"
            await context.session.report_progress(time.monotonic() - began, None, told)

    async with _beside(cancel, report):
        try:
            return await anyio.to_thread.run_sync(act)
        except Cancelled:
            if late:
                raise ToolError(
                    f"not done within {rules.wall_s:g} seconds",
                    hint="ask for less at once, or serve with a larger --budget-wall",
                ) from None
            raise
        finally:
            over.set()


@asynccontextmanager
async def _beside(*functions: Callable[[], Any]) -> AsyncIterator[None]:
    """Run functions beside the block, and end them with it. Its error leaves as it is."""
    raised: BaseException | None = None
    async with anyio.create_task_group() as group:
        for function in functions:
            group.start_soon(function)
        try:
            yield
        except Exception as error:
            raised = error
        group.cancel_scope.cancel()
    if raised is not None:
        raise raised


# -- what the tools do, in a thread ----------------------------------------------------------------------------------------------------------


def _callsql(engine: Engine, rules: Rules, given: Mapping[str, Any]) -> dict[str, Any]:
    text = _text(given, "sql")
    most = min(_number(given, "max_rows") or DEFAULT_ROWS, rules.max_rows)
    result = engine.sql(text)
    return {**answer_of(result, most), "warnings": list(result.warnings), "usage": usage_of(result.usage)}


def _explain(engine: Engine, rules: Rules, given: Mapping[str, Any]) -> dict[str, Any]:
    plan = engine.explain(_text(given, "sql"))
    estimate = plan.estimate
    return {"plan": plan.text, "calls": estimate.calls, "tokens": estimate.tokens, "dollars": estimate.dollars}


def _run(engine: Any, rules: Rules, given: Mapping[str, Any]) -> dict[str, Any]:
    names = given.get("tables") or []
    known = {str(row[0]).lower() for row in engine.sql("SHOW TABLES").rows}
    if not isinstance(names, list) or not all(isinstance(n, str) and n.lower() in known for n in names):
        raise PlanError(f"tables is {names!r}", hint=f"there are {', '.join(sorted(known)) or 'none'}")
    run = engine.run(
        _text(given, "task"),
        context=_text(given, "context") if given.get("context") is not None else None,
        tables=names,
        budget=_budget(given.get("budget"), rules),
        max_turns=min(_number(given, "max_turns") or 30, 100),
        allow=rules.allow,
    )
    answer = None if run.answer is None else answer_of(run.answer, rules.max_rows)
    return {
        "outcome": run.outcome,
        "answer": answer,
        "forced": run.forced,
        "turns": run.turns,
        "run_id": run.run_id,
        "error": run.error or (None if answer else run.outcome),
        "usage": usage_of(run.usage),
    }


def answer_of(result: Any, most: int) -> dict[str, Any]:
    """A relation as JSON: at most so many rows, and at most ``ANSWER_BYTES`` of them."""
    from kleene.rendering.rows import Table, json_batches

    rows: list[Any] = []
    size = 0
    if result.columns:
        head = Table(tuple(result.columns), tuple(result.types), result.to_arrow_table().slice(0, most))
        for line in (line for batch in json_batches(head) for line in batch):
            size += len(line.encode("utf-8", "replace"))
            if size > ANSWER_BYTES:
                break
            rows.append(json.loads(line))
    return {
        "columns": [{"name": n, "type": t} for n, t in zip(result.columns, result.types, strict=True)],
        "rows": rows,
        "row_count": len(result),
        "truncated": len(rows) < len(result),
        "message": result.message,
    }


def usage_of(usage: Usage) -> dict[str, Any]:
    return {
        "calls": usage.requests,
        "from_memo": usage.memo_hits,
        "unknown": usage.unknown,
        "tokens": usage.tokens,
        "dollars": usage.dollars,
        "seconds": round(usage.seconds, 3),
    }


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ToolError(f"{name} is {json.dumps(value, default=str)[:60]}, not a text", kind="invalid arguments")
    return value


def _number(given: Mapping[str, Any], name: str) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < 1:
        raise ToolError(f"{name} is {value!r}, not a whole number of 1 or more", kind="invalid arguments")
    return int(value)


def _budget(given: Any, rules: Rules) -> BudgetLimits:
    """A caller's budget for a run; it draws on the server's whatever it says."""
    known = ("calls", "tokens", "dollars", "wall")
    table = {} if given is None else given
    if not isinstance(table, dict) or not set(table) <= set(known):
        raise ToolError(f"budget is {given!r}", kind="invalid arguments", hint=f"an object of {', '.join(known)}")
    for name, value in table.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise ToolError(f"budget.{name} is {value!r}, not a number of 0 or more", kind="invalid arguments")
    limits = {n: v if n in ("dollars", "wall") else int(v) for n, v in table.items()}
    limits["wall"] = min(limits.get("wall", rules.wall_s), rules.wall_s)
    return BudgetLimits(**limits)


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


# -- what callers are told -------------------------------------------------------------------------------------------------------------------

_SQL = {"type": "string", "description": "CallSQL: DuckDB's SQL with llm(), llm_bool(), ... as functions"}
_USAGE = {
    "type": "object",
    "properties": {
        "calls": {"type": "integer"},
        "from_memo": {"type": "integer"},
        "unknown": {"type": "integer"},
        "tokens": {"type": "integer"},
        "dollars": {"type": "number"},
        "seconds": {"type": "number"},
    },
}
_ANSWER: dict[str, Any] = {
    "columns": {
        "type": "array",
        "items": {"type": "object", "properties": {"name": {"type": "string"}, "type": {"type": "string"}}},
    },
    "rows": {"type": "array", "items": {"type": "object"}},
    "row_count": {"type": "integer"},
    "truncated": {"type": "boolean"},
    "message": {"type": ["string", "null"]},
}


def tools_of(rules: Rules) -> list[types.Tool]:
    """The three tools as callers see them."""
    writes = "may change tables" if rules.writes else "read only"
    quiet = not rules.writes and not rules.allow
    return [
        types.Tool(
            name="callsql",
            description=f"Run SQL statements ({writes}); the last one's rows, {DEFAULT_ROWS} unless max_rows says otherwise "
            f"(at most {rules.max_rows:,}), with what it used.",
            input_schema=_schema({"sql": _SQL, "max_rows": {"type": "integer", "minimum": 1}}, "sql"),
            output_schema=_schema(
                {**_ANSWER, "warnings": {"type": "array", "items": {"type": "string"}}, "usage": _USAGE},
                "rows",
                "usage",
            ),
            annotations=types.ToolAnnotations(
                read_only_hint=quiet, destructive_hint=not quiet, idempotent_hint=quiet, open_world_hint=True
            ),
        ),
        types.Tool(
            name="explain",
            description="What a SQL statement would ask models and cost. Nothing is asked.",
            input_schema=_schema({"sql": _SQL}, "sql"),
            output_schema=_schema(
                {
                    "plan": {"type": "string"},
                    "calls": {"type": "integer"},
                    "tokens": {"type": "integer"},
                    "dollars": {"type": "number"},
                },
                "plan",
            ),
            annotations=types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
        ),
        types.Tool(
            name="run",
            description="Let a model answer a task by writing SQL, turn by turn, in a database of its own. context is a text that it "
            "reads as the table ctx(ordinal, text), however long; tables are tables of this database to hand over.",
            input_schema=_schema(
                {
                    "task": {"type": "string"},
                    "context": {"type": "string"},
                    "tables": {"type": "array", "items": {"type": "string"}},
                    "budget": {
                        "type": "object",
                        "properties": {
                            "calls": {"type": "integer"},
                            "tokens": {"type": "integer"},
                            "dollars": {"type": "number"},
                            "wall": {"type": "number", "description": "seconds"},
                        },
                    },
                    "max_turns": {"type": "integer", "minimum": 1},
                },
                "task",
            ),
            output_schema=_schema(
                {
                    "outcome": {"type": "string"},
                    "answer": {"type": ["object", "null"], "properties": _ANSWER},
                    "forced": {"type": "boolean"},
                    "turns": {"type": "integer"},
                    "run_id": {"type": "string"},
                    "error": {"type": ["string", "null"]},
                    "usage": _USAGE,
                },
                "outcome",
                "usage",
            ),
            annotations=types.ToolAnnotations(
                read_only_hint=not rules.allow, destructive_hint=bool(rules.allow), open_world_hint=True
            ),
        ),
    ]


def _schema(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def _bearing(app: Any, token: str) -> Any:
    """Answers 401 to requests without the token."""
    wanted = f"Bearer {token}".encode()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        headers: Sequence[tuple[bytes, bytes]] = scope.get("headers") or ()
        given = next((value for name, value in headers if name.lower() == b"authorization"), b"")
        if scope["type"] != "http" or hmac.compare_digest(given, wanted):
            return await app(scope, receive, send)  # type: ignore[no-any-return]
        await send({"type": "http.response.start", "status": 401, "headers": [(b"www-authenticate", b"Bearer")]})
        await send({"type": "http.response.body", "body": b"unauthorized"})

    return guarded
