"""From events to rows: which table an event fills, under which column names. Used for live events and for those read from a file."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from kleene.store.columns import CallColumns
from kleene.store.schema import Table
from kleene.udfs.memo import text_array
from kleene.udfs.text import clean

# Event -> (table, event field -> column where the two differ). Fields without a column of their name are left out.
INTO: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "RunStarted": ("trace_runs", {"at": "started_at"}),
    "SessionStarted": ("trace_sessions", {"at": "started_at"}),
    "SessionFinished": ("trace_sessions", {"at": "finished_at"}),
    "TurnFinished": ("turns", {"at": "recorded_at", "turn": "n", "feedback": "result"}),
    "StatementStarted": ("trace_statements", {"at": "started_at"}),
    "StatementPlanned": ("trace_statements", {}),
    "StatementFinished": ("trace_statements", {"at": "finished_at"}),
    "RunOfStatement": ("trace_runs_of_statement", {"at": "recorded_at"}),
    "CallStarted": ("trace_calls", {"at": "started_at"}),
    "CallFinished": ("trace_calls", {"at": "finished_at"}),
    "RoundFinished": ("trace_rounds", {"at": "recorded_at"}),
    "ToolUsed": ("trace_tool_calls", {"at": "recorded_at"}),
    "OperatorMeasured": ("trace_operators", {"at": "recorded_at"}),
    "BudgetStopped": ("trace_budget", {"at": "recorded_at", "limit": "allowed"}),
    "FinalRecorded": ("trace_final", {"at": "recorded_at"}),
}
BUSIEST = "CallFinished"
TEXTS = {"CallFinished": ("prompt", "reply"), "TurnFinished": ("reply", "feedback")}  # what SET trace_text = off hides

Row = dict[str, Any]


def hide_texts(event: Row) -> None:
    """Replaces a model's words and what was said to it by ``sha256:...``, in place."""
    for name in TEXTS.get(event["event"], ()):
        text = event.get(name)
        if text is not None:
            event[name] = "sha256:" + hashlib.sha256(clean(text).encode()).hexdigest()


class Batch:
    """Rows by table. Events of one key (a statement's start, plan and end) become one row; later values win, None never does."""

    def __init__(self, tables: Iterable[Table]):
        self._tables = {t.name: t for t in tables}
        self._into = {
            event: (self._tables[name], columns_of(event, self._tables[name])) for event, (name, _) in INTO.items()
        }
        self._rows: dict[str, dict[object, Row]] = {}
        self._calls: dict[
            object, Row
        ] = {}  # finished calls as they came: there can be a million, and they seldom come in pieces
        self._blocks: list[CallColumns] = []
        self.size = 0

    def add_block(self, block: CallColumns) -> None:
        """Takes many finished calls."""
        self._blocks.append(block)
        self.size += len(block)

    def add(self, event: Row) -> None:
        """Takes an event as its JSON form has it. Events of unknown kinds, and those without their key, are left out."""
        kind = event.get("event", "")
        if kind == BUSIEST and event.get("call") is not None:
            self._add_call(event)
            return
        target = self._into.get(kind)
        if target is not None:
            table, columns = target
            self._merge(table, {columns[f]: v for f, v in event.items() if f in columns and v is not None})

    def merge(self, older: Batch) -> None:
        """Puts an older batch, which could not be written, under this one."""
        self._mix_calls()
        older._mix_calls()
        newer, self._rows, self.size = self._rows, older._rows, older.size
        for name, rows in newer.items():
            for row in rows.values():
                self._merge(self._tables[name], row)

    def tables(self) -> Iterable[tuple[Table, pa.Table]]:
        """The rows as Arrow, one table after the other."""
        table, columns = self._into[BUSIEST]
        if table.name in self._rows:
            self._mix_calls()
        else:
            calls, types = list(self._calls.values()), dict(table.columns)
            parts = [b.table(columns, types) for b in self._blocks]
            if calls:
                parts.append(pa.table({c: CONVERT[types[c]]([e.get(f) for e in calls]) for f, c in columns.items()}))
            if parts:
                yield table, pa.concat_tables(parts)
        for name, rows in self._rows.items():
            table = self._tables[name]
            yield table, arrow(table, list(rows.values()))

    def _add_call(self, event: Row) -> None:
        key = event["call"]
        known = self._calls.get(key)
        self._calls[key] = event if known is None else {**known, **event}
        self.size += known is None

    def _mix_calls(self) -> None:
        """Treats the finished calls like all other events: they meet rows of their keys that came before."""
        table, columns = self._into[BUSIEST]
        calls, self._calls = list(self._calls.values()), {}
        blocks, self._blocks = self._blocks, []
        for block in blocks:
            calls += block.forms()
        self.size -= len(calls)
        for event in calls:
            self._merge(table, {columns[f]: v for f, v in event.items() if f in columns and v is not None})

    def _merge(self, table: Table, row: Row) -> None:
        key: object = self.size
        if table.key:
            key = tuple(row.get(k) for k in table.key)
            if None in key:
                return
        rows = self._rows.setdefault(table.name, {})
        if key in rows:
            rows[key].update(row)
        else:
            rows[key] = row
            self.size += 1


def columns_of(event: str, table: Table) -> dict[str, str]:
    """The column of each event field that has one."""
    renamed = INTO[event][1]
    taken = set(renamed.values())
    columns = {name: name for name, _ in table.columns if name not in taken}
    return columns | dict(renamed)


def arrow(table: Table, rows: list[Row]) -> pa.Table:
    """Rows as an Arrow table with all of a table's columns."""
    return pa.table({name: CONVERT[type_]([row.get(name) for row in rows]) for name, type_ in table.columns})


def texts(values: list[Any]) -> pa.Array:
    with contextlib.suppress(pa.ArrowException, TypeError):
        return text_array(values)
    return text_array([v if v is None or isinstance(v, str) else str(v) for v in values])


def numbers(type_: pa.DataType) -> Callable[[list[Any]], pa.Array]:
    """A converter; a value that is not of the type becomes NULL, so that one bad event costs no other."""

    def convert(values: list[Any]) -> pa.Array:
        try:
            return pa.array(values, type_)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return pa.array([v if fits(v, type_) else None for v in values], type_)

    return convert


def fits(value: Any, type_: pa.DataType) -> bool:
    try:
        pa.scalar(value, type_)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True


def times(values: list[Any]) -> pa.Array:
    """Seconds since the epoch as timestamps, UTC."""
    micros = [int(v * 1e6) if isinstance(v, int | float) and abs(v) < 1e11 else None for v in values]
    return pa.array(micros, pa.timestamp("us"))


CONVERT: Mapping[str, Callable[[list[Any]], pa.Array]] = {
    "VARCHAR": texts,
    "BIGINT": numbers(pa.int64()),
    "DOUBLE": numbers(pa.float64()),
    "BOOLEAN": numbers(pa.bool_()),
    "TIMESTAMP": times,
}
