"""The tools that one engine's statements may use: a use in FROM, and a use with effects under CALL."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from kleene.planner.errors import CallFailed, ConfigError, KleeneError, PolicyError, ToolError
from kleene.planner.specs import CallSpec, FunctionSpec, Volatility
from kleene.planner.tools import command_of, parameters_of, tool_function
from kleene.tools.asking import ask
from kleene.tools.base import Tool, Work
from kleene.tools.leaving import LeftRunning, leaving
from kleene.tools.values import argument, rows_json
from kleene.udfs.children import ChildReply
from kleene.udfs.events import Event, ToolUsed

if TYPE_CHECKING:
    from kleene.tools.skills import Skill

ARGUMENT_CHARACTERS = 2_000  # of the arguments in the trace
STATEMENT_BYTES = 512 << 20
"""Of all that a statement's uses in FROM give: it is held until the statement ends."""

MakeCommand = Callable[[str, tuple[str, ...], str], Tool]
"""Of a function's name, parameters and command: the tool that runs it, with its output as one row of one column."""
MakeWork = Callable[[Callable[[], bool], str], Work]


@attrs.frozen
class Effect:
    """One use of a tool with effects, before it is done: what ``approve`` is asked about.

    ``arguments`` by parameter, ``description`` in a few words (``write notes.md (1,204 bytes)``), ``session`` None for a person's own statement.
    """

    tool: str
    arguments: Mapping[str, Any]
    description: str
    session: str | None = None

    def __str__(self) -> str:
        return self.description


Approve = Callable[[Effect], bool]


class Toolbox:
    """``make_work`` gives a tool what it may use while it runs for a statement; ``approve`` is asked before each effect (None: all are approved).
    ``idle`` names the tools that have nothing to work on here: they can be used, and a model is not told of them. ``skills`` finds what ``skill``
    can tell."""

    def __init__(
        self,
        tools: Iterable[Tool],
        make_work: MakeWork,
        emit: Callable[[Event], None],
        approve: Approve | None = None,
        on_close: Callable[[], None] = lambda: None,
        idle: Callable[[], frozenset[str]] = frozenset,
        command: MakeCommand | None = None,
        skills: Callable[[], tuple[Skill, ...]] = tuple,
    ):
        self._tools = {t.name.lower(): t for t in tools}
        self._make_work = make_work
        self._emit = emit
        self.approve = approve
        self.close = on_close
        self.idle = idle
        self.skills = skills
        self._make_command = command
        self._lock = threading.Lock()
        self._given: dict[str, int] = {}  # bytes by statement, the last ones

    def functions(self) -> tuple[FunctionSpec, ...]:
        """The tools as the catalog has them."""
        return tuple(
            tool_function(t.name, t.params, t.required, t.columns, t.volatility, t.description)
            for t in self._tools.values()
        )

    def groups(self) -> dict[str, frozenset[str]]:
        """The names of tools that are granted together by one name."""
        groups: dict[str, set[str]] = {}
        for name, found in self._tools.items():
            if found.group:
                groups.setdefault(found.group.lower(), set()).add(name)
        return {group: frozenset(names) for group, names in groups.items()}

    def _command(self, name: str, params: tuple[str, ...], command: str) -> Tool:
        if self._make_command is None:
            raise ConfigError(f"{name} runs a command, and there is no shell here")
        return self._make_command(name, params, command)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._tools

    # -- in FROM -----------------------------------------------------------------------------------------------------------------------

    def open(self, spec: CallSpec, arguments: tuple[str, ...], statement: str, session: str | None = None) -> Use:
        """One use by a statement, as dispatch asks for it (``kleene.udfs.children.Tools``)."""
        names = parameters_of(spec)
        command = command_of(spec)
        if command is not None:
            return Use(
                self,
                self._command(spec.function, names, command),
                dict(zip(names, arguments, strict=False)),
                statement,
                session,
            )
        tool = self._tools[spec.function.lower()]
        types = {p.name: p.type for p in tool.params}
        given = {n: argument(a, types[n]) for n, a in zip(names, arguments, strict=False)}
        return Use(self, tool, given, statement, session)

    # -- under CALL --------------------------------------------------------------------------------------------------------------------

    def effect(self, name: str, given: Mapping[str, Any], session: str | None = None) -> Effect:
        """What a use would do."""
        tool = self._tools[name.lower()]
        return Effect(tool.name, dict(given), described(tool, given), session)

    def perform(self, effect: Effect, statement: str, cancelled: Callable[[], bool]) -> list[tuple[Any, ...]]:
        """Do it, once it is approved. Raises ``PolicyError`` where it is not, ``CallFailed`` where it cannot be done, ``Cancelled``."""
        return self.do(self._tools[effect.tool.lower()], effect, statement, cancelled)

    def do(self, tool: Tool, effect: Effect, statement: str, cancelled: Callable[[], bool]) -> list[tuple[Any, ...]]:
        """``perform`` with the tool at hand."""
        if self.approve is not None and not self.approve(effect):
            self._used(tool, effect.arguments, statement, time.time(), "", "not approved")
            raise PolicyError(
                f"{effect.tool} was not approved: {effect.description}",
                hint="go on without it, or ask for something else",
            )
        return self.use(tool, effect.arguments, statement, cancelled)[0]

    def read(
        self, name: str, given: Mapping[str, Any], statement: str, cancelled: Callable[[], bool]
    ) -> list[tuple[Any, ...]]:
        """A use outside of SQL of a tool without effects. Raises as ``perform`` does."""
        return self.use(self._tools[name.lower()], given, statement, cancelled)[0]

    # -- both --------------------------------------------------------------------------------------------------------------------------

    def use(
        self, tool: Tool, given: Mapping[str, Any], statement: str, cancelled: Callable[[], bool]
    ) -> tuple[list[tuple[Any, ...]], str]:
        """Run a tool in the calling thread: its rows, and the same as JSON. It is one row of ``trace_tool_calls`` whatever becomes of it."""
        started, text, error = time.time(), "", "cancelled"
        call = shown(tool, given)
        try:
            try:
                work = self._make_work(cancelled, statement)
                rows = _rows(tool, work, _positional(tool, given), call)
                text = rows_json(tool.columns, rows)
            except ToolError as problem:
                error = problem.message
                raise CallFailed(problem.message, call=call, kind=problem.kind, hint=problem.hint) from None
            except KleeneError as problem:
                error = problem.message
                raise
            except BaseException as problem:  # a function of the user's, or a library's surprise
                if _is_ours(problem):
                    raise
                error = f"{type(problem).__name__}: {problem}"
                raise CallFailed(error, call=call, kind="other") from problem
            error = ""
            return rows, text
        finally:
            self._used(tool, given, statement, started, text, error)

    def hold(self, tool: Tool, given: Mapping[str, Any], statement: str, size: int) -> None:
        """Count what a use in FROM gives. Raises ``CallFailed`` where its statement holds too much."""
        with self._lock:
            total = self._given.pop(statement, 0) + size
            self._given[statement] = total
            while len(self._given) > 1_000:
                del self._given[next(iter(self._given))]
        if total > STATEMENT_BYTES:
            raise CallFailed(
                f"the tools of this statement give more than {STATEMENT_BYTES:,} bytes",
                call=shown(tool, given),
                kind="too large",
                hint="use them on fewer rows at a time: CREATE TABLE ... AS for some, INSERT INTO for the rest",
            )

    def _used(
        self, tool: Tool, given: Mapping[str, Any], statement: str, started: float, text: str, error: str
    ) -> None:
        arguments = json.dumps(dict(given), ensure_ascii=False, default=str)
        now = time.time()
        self._emit(
            ToolUsed(
                at=now,
                statement=statement,
                tool=tool.name,
                args=arguments[:ARGUMENT_CHARACTERS],
                bytes_out=len(text.encode("utf-8", "replace")),
                elapsed_ms=(now - started) * 1000,
                error=error or None,
            )
        )


class Use:
    """One use in FROM (``kleene.udfs.children.ToolUse``)."""

    def __init__(self, box: Toolbox, tool: Tool, given: Mapping[str, Any], statement: str, session: str | None):
        self._box = box
        self._tool = tool
        self._given = given
        self._statement = statement
        self._session = session
        self._cancelled = threading.Event()
        self.left = ""

    def run(self) -> ChildReply:
        try:
            return self._reply()
        except LeftRunning as left:
            self.left = left.message
            raise

    def _reply(self) -> ChildReply:
        if self._tool.volatility is Volatility.VOLATILE:  # the command of a SHELL function: its output is the answer
            effect = Effect(self._tool.name, self._given, described(self._tool, self._given), self._session)
            rows = self._box.do(self._tool, effect, self._statement, self._cancelled.is_set)
            return ChildReply(str(rows[0][0]))
        self._box.hold(self._tool, self._given, self._statement, 0)
        text = self._box.use(self._tool, self._given, self._statement, self._cancelled.is_set)[1]
        self._box.hold(self._tool, self._given, self._statement, len(text))
        return ChildReply(text)

    def cancel(self) -> None:
        self._cancelled.set()

    def close(self) -> None:
        pass


def _rows(tool: Tool, work: Work, arguments: tuple[Any, ...], call: str) -> list[tuple[Any, ...]]:
    if tool.stops:
        return list(ask(tool, work, arguments))
    deadline = time.monotonic() + (work.limits.seconds if tool.seconds is None else tool.seconds)
    return leaving(lambda: list(ask(tool, work, arguments)), work.cancelled, deadline, call)


def described(tool: Tool, given: Mapping[str, Any]) -> str:
    """What a use would do, in the tool's own words where it has some."""
    if tool.describe is not None:
        return tool.describe(_positional(tool, given))
    return shown(tool, given)


def shown(tool: Tool, given: Mapping[str, Any]) -> str:
    """The use as a call, each argument cut at 60 characters, with what is left out counted."""
    return f"{tool.name}({', '.join(_brief(v) for v in given.values())})"


def _brief(value: Any) -> str:
    from kleene.tools.effects import shortened

    text = shortened(str(value), 60)
    return f"'{text}'" if isinstance(value, str) else text


def _is_ours(problem: BaseException) -> bool:
    """Whether it is for the program and not the tool's own: Ctrl-C reaches the main thread only; all others end a tool, not its engine."""
    if isinstance(problem, Exception | SystemExit | GeneratorExit):
        return False
    return not isinstance(problem, KeyboardInterrupt) or threading.current_thread() is threading.main_thread()


def _positional(tool: Tool, given: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(given.get(p.name) for p in tool.params)
