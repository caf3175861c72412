"""The functions of the plain agent: the engine's own tools, granted as for a run, and ``query``, ``ask`` and ``final``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from kleene.bench.oracles.answer import Answer
from kleene.bench.plain.shown import CHARACTERS, VARYING, cut, rows_text, without_varying
from kleene.bench.plain.tables import Tables
from kleene.planner.errors import Cancelled, KleeneError, ToolError
from kleene.planner.tools import has_effects
from kleene.runs.grants import granted
from kleene.udfs.protocols import ToolSpec, ToolUse

if TYPE_CHECKING:
    from kleene.engine import Engine
    from kleene.planner.specs import FunctionSpec, Param

OWN = ("query", "ask", "final")
_KINDS = {"VARCHAR": "string", "BIGINT": "integer", "INTEGER": "integer", "DOUBLE": "number", "BOOLEAN": "boolean"}


def _object(required: Sequence[str], **properties: Any) -> str:
    return json.dumps({"type": "object", "properties": properties, "required": list(required)})


def _text(description: str) -> dict[str, str]:
    return {"type": "string", "description": description}


QUERY = ToolSpec(
    "query",
    "runs one statement of DuckDB's SQL and gives its rows; ctx(ordinal, text) holds the context, a row a paragraph; tables you create stay; it sees "
    "no files",
    _object(["sql"], sql=_text("the statement")),
)
ASK = ToolSpec(
    "ask",
    "asks another model, which sees only this question and this text: yours in text, or the lines from first to last of a file",
    _object(
        ["question"],
        question=_text("what is asked, and the form of the answer"),
        text=_text("the text itself"),
        path=_text("the file that holds it"),
        first={"type": "integer", "description": "its first line, 1 where not given"},
        last={"type": "integer", "description": "its last line, the end where not given"},
    ),
)
FINAL = ToolSpec(
    "final",
    "gives the answer and ends the task",
    _object(
        ["rows"],
        columns={"type": "array", "items": {"type": "string"}, "description": "names of the columns"},
        rows={
            "type": "array",
            "items": {"type": "array", "items": {"type": ["string", "number", "boolean", "null"]}},
            "description": "the rows of the answer, each a list of values",
        },
    ),
)


@attrs.define(eq=False)
class Tools:
    """``asks`` sends one question with its text to a model and gives what waits for the reply. ``statement`` names the turn: what the workspace's
    index has seen in it is not looked at again."""

    engine: Engine
    tables: Tables
    asks: Callable[[str, str], Callable[[], str]]
    cancelled: Callable[[], bool]
    allow: tuple[str, ...] = ()
    statement: str = "plain"
    _functions: dict[str, FunctionSpec] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        box = self.engine.tools
        idle = frozenset[str]() if box is None else box.idle()
        catalog = granted(self.engine.state.catalog, self.allow, approved=False)
        found = {t.name.lower(): t for t in catalog.tools() if t.name.lower() not in idle}
        self._functions = {name: t for name, t in found.items() if name not in OWN}

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told of them, always in the same order."""
        return (*(_spec(f) for f in self._functions.values()), QUERY, ASK, FINAL)

    def run(self, uses: Sequence[ToolUse]) -> list[str]:
        """What each gave, or why it failed: questions to models go out at once, all else runs in the order of the uses. Raises what ends
        the whole task: ``Cancelled``, ``BudgetExceeded``, a model that is down."""
        waiting: dict[int, Callable[[], str]] = {}
        texts = [""] * len(uses)
        limit = min(CHARACTERS, 4 * CHARACTERS // max(1, len(uses)))
        for n, use in enumerate(uses):
            try:
                given = arguments_of(use)
                if use.name == "ask":
                    waiting[n] = self.asks(*self._asked(given))
                else:
                    texts[n] = self._run(use.name, given, limit)
            except ToolError as problem:
                texts[n] = failed(problem)
        for n, reply in waiting.items():
            texts[n] = cut(reply(), limit)
        return texts

    def _run(self, name: str, given: Mapping[str, Any], limit: int) -> str:
        if name == "query":
            columns, rows, more = self.tables.query(_needed(given, "sql"))
            return rows_text(columns, rows, limit, more=more)
        spec = self._functions.get(name.lower())
        if spec is None or self.engine.tools is None:
            raise ToolError(f"there is no function {name}", hint=f"there are {', '.join([*self._functions, *OWN])}")
        values = {p.name: _value(p, given[p.name]) for p in spec.params if given.get(p.name) is not None}
        for param in spec.params[: spec.required]:
            if param.name not in values:
                raise ToolError(f"{name} needs {param.name}", kind="invalid arguments")
        rows = self._used(spec, values)
        assert spec.table is not None
        return rows_text(*without_varying([c.name for c in spec.table], rows), limit)

    def _used(self, spec: FunctionSpec, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        box = self.engine.tools
        assert box is not None
        try:
            if has_effects(spec):
                return box.perform(box.effect(spec.name, values), self.statement, self.cancelled)
            return box.read(spec.name, values, self.statement, self.cancelled)
        except Cancelled:
            raise
        except KleeneError as problem:
            raise ToolError(problem.message, hint=problem.hint) from None

    def _asked(self, given: Mapping[str, Any]) -> tuple[str, str]:
        question, text, path = _needed(given, "question"), given.get("text"), given.get("path")
        if (text is None) == (path is None):
            raise ToolError("ask needs text or path, one of them", kind="invalid arguments")
        if text is not None:
            return question, str(text)
        values = {"path": path, "from": given.get("first"), "to": given.get("last")}
        rows = self._used(self._functions["lines"], {k: v for k, v in values.items() if v is not None})
        return question, "\n".join(str(row[1]) for row in rows)


def arguments_of(use: ToolUse) -> dict[str, Any]:
    """The arguments of a use. Raises ``ToolError`` where they are no JSON object."""
    try:
        value = json.loads(use.arguments or "{}")
    except ValueError as error:
        raise ToolError(f"the arguments are not JSON: {error}", kind="invalid arguments") from None
    if not isinstance(value, dict):
        raise ToolError("the arguments must be a JSON object", kind="invalid arguments")
    return value


def answer_of(use: ToolUse) -> Answer:
    """The rows of a ``final``: lists, objects, or single values, which are rows of one column. Raises ``ToolError``."""
    given = arguments_of(use)
    rows = given.get("rows")
    if not isinstance(rows, list):
        raise ToolError("final needs rows, a list of rows", kind="invalid arguments")
    columns = given.get("columns")
    names = [str(c) for c in columns] if isinstance(columns, list) else []
    if rows and isinstance(rows[0], dict):
        names = names or list(rows[0])
        rows = [[row.get(name) for name in names] if isinstance(row, dict) else row for row in rows]
    lists = [row if isinstance(row, list) else [row] for row in rows]
    width = max((len(row) for row in lists), default=len(names) or 1)
    names = [*names, *(f"c{n + 1}" for n in range(len(names), width))][:width]
    cells = tuple(tuple(_plain(v) for v in (*row, *[None] * (width - len(row)))) for row in lists)
    return Answer(tuple(names), cells)


def _plain(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def failed(problem: KleeneError) -> str:
    return f"error: {problem.message}" + (f"\nhint: {problem.hint}" if problem.hint else "")


def _needed(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ToolError(f"{name} is needed, a text", kind="invalid arguments")
    return value


def _value(param: Param, value: Any) -> Any:
    """A value as a tool takes it: of the type that it declares, where what the model wrote can be read as one."""
    try:
        match _kind(param.type):
            case "string":
                return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            case "integer":
                return int(value)
            case "number":
                return float(value)
            case _:
                return value
    except (TypeError, ValueError):
        raise ToolError(f"{param.name} is no {_kind(param.type)}: {value!r}", kind="invalid arguments") from None


def _kind(type_: str) -> str:
    return _KINDS.get(type_.upper(), "array" if type_.endswith("[]") else "string")


def _spec(function: FunctionSpec) -> ToolSpec:
    properties: dict[str, Any] = {}
    for param in function.params:
        kind = _kind(param.type)
        properties[param.name] = {"type": kind, **({"items": {"type": "string"}} if kind == "array" else {})}
    required = [p.name for p in function.params[: function.required]]
    columns = ", ".join(c.name for c in function.table or () if c.name not in VARYING)
    return ToolSpec(function.name, f"{function.description} -> {columns}", _object(required, **properties))
