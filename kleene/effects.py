"""CALL: a tool with effects, once for each row of its query, in order."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kleene.connection import Connection, Fetched
from kleene.planner.errors import Cancelled, KleeneError, PlanError, number
from kleene.result import Result

if TYPE_CHECKING:
    from kleene.connection import Kept
    from kleene.planner.specs import Param
    from kleene.planner.tools import ToolCall
    from kleene.runner import Running
from kleene.tools.leaving import LeftRunning
from kleene.tools.toolbox import Effect, Toolbox

SHOWN = 20  # effects that EXPLAIN lists
MOST_USES = 100_000
"""Rows of one CALL: they are gathered before the first is done."""


class _Once:
    """Does each use that was not done already. Uses are told apart by what they ask for: a query may give its rows in another order."""

    def __init__(self, kept: Kept | None, columns: Sequence[Param]):
        self._kept = kept
        self._columns = columns
        self._done: dict[str, list[str]] = {}
        for key, rows in kept.effects_done() if kept is not None else ():
            self._done.setdefault(key, []).append(rows)

    def rows(self, effect: Effect, do: Callable[[], list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
        from kleene.tools.values import rows_json

        if self._kept is None:
            return do()
        asked = json.dumps([effect.tool, dict(effect.arguments)], sort_keys=True, default=str)
        key = hashlib.sha256(asked.encode("utf-8", "replace")).hexdigest()
        if self._done.get(key):
            return [tuple(row[c.name] for c in self._columns) for row in json.loads(self._done[key].pop(0))]
        found = do()
        self._kept.effect_done(key, rows_json(self._columns, found))
        return found


def effects_of(call: ToolCall, box: Toolbox, rows: Sequence[tuple[Any, ...]], session: str | None) -> Iterator[Effect]:
    """What the rows ask for. As in every function of SQL, NULL where a value is needed asks for nothing."""
    needed = {p.name for p in call.spec.params[: call.spec.required]}
    for row in rows:
        given = {p.name: _value(value, p.type) for p, value in zip(call.given, row, strict=False) if value is not None}
        if needed <= given.keys():
            yield box.effect(call.spec.name, given, session)


def _value(value: Any, kind: str) -> Any:
    """The value as a tool takes it: DuckDB gives JSON as its text."""
    return json.loads(value) if kind.upper() == "JSON" and isinstance(value, str) else value


def perform(running: Running, call: ToolCall, box: Toolbox, fetched: Fetched, kept: Kept | None = None) -> Fetched:
    """Do what the rows of the query ask for; the tool's own rows. ``kept`` knows what was done already.

    Effects that were done stay done: the error of a later one says how many there were.
    """
    check_table(call, running.around.connection)
    effects = list(effects_of(call, box, rows_of(fetched), running.around.session))
    assert call.spec.table is not None
    once = _Once(kept, call.spec.table)
    found: list[tuple[Any, ...]] = []
    done = 0
    try:
        for effect in effects:
            running.check()
            found += once.rows(effect, functools.partial(_performed, running, box, effect))
            done += 1
        running.check()
    except KleeneError as error:
        if done:
            error.message += f" (after {number(done)} of {number(len(effects))} uses)"
        raise
    return _as_relation(call, running.around.connection, found)


def check_table(call: ToolCall, connection: Connection) -> None:
    """Raise ``PlanError`` before anything is done where the table that is to be made is there already."""
    if call.table is not None and not call.replace and connection.describe(f"SELECT * FROM {call.table}") is not None:
        raise PlanError(
            f"the table {call.table} is there already", hint=f"CREATE OR REPLACE TABLE {call.table} AS CALL ..."
        )


def _as_relation(call: ToolCall, connection: Connection, found: list[tuple[Any, ...]]) -> Fetched:
    from kleene.tools.values import rows_json

    assert call.spec.table is not None
    query = f"SELECT unnest(CAST(CAST(rows AS JSON) AS {call.spec.answer.sql}), max_depth := 2) FROM kleene_given"
    with connection.given("kleene_given", "rows", rows_json(call.spec.table, found)):
        if call.table is None:
            return connection.fetch(query, query=True)
        return connection.fetch(f"CREATE {'OR REPLACE ' if call.replace else ''}TABLE {call.table} AS {query}")


def _performed(running: Running, box: Toolbox, effect: Effect) -> list[tuple[Any, ...]]:
    try:
        return box.perform(effect, running.statement_id, running.is_over)
    except Cancelled as cancelled:
        try:
            running.check()  # where it was the wall that ended it, that is what is said
        except KleeneError as error:
            if isinstance(cancelled, LeftRunning):
                error.message += f"; {cancelled.message}"
            raise error from None
        raise


def foretold(call: ToolCall, box: Toolbox, rows: Sequence[tuple[Any, ...]], session: str | None) -> str:
    """What CALL would do, for EXPLAIN: the first effects, a line each, and how many there are."""
    effects = list(effects_of(call, box, rows, session))
    lines = [f"  {effect.description}" for effect in effects[:SHOWN]]
    if len(effects) > SHOWN:
        lines.append(f"  and {number(len(effects) - SHOWN)} more")
    return "\n".join([f"would use {call.spec.name} {times(len(effects))}" + (":" if lines else ""), *lines])


def times(count: int) -> str:
    """
    >>> times(1), times(2000)
    ('once', '2000 times')
    """
    return "once" if count == 1 else f"{number(count)} times"


def rows_of(fetched: Fetched) -> list[tuple[Any, ...]]:
    return Result(fetched.columns, fetched.types, table=fetched.table, rows=fetched.rows).rows
