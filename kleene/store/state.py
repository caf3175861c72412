"""What lives longer than a run and is not trace: sessions to resume, declared functions and agents, what was learned about calls.

Each record is one row of the table it names; saving a record of a key that is there replaces it.
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import attrs

from kleene.store.schema import STATE
from kleene.udfs.memo import retry_conflicts
from kleene.udfs.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kleene.store.store import Store


@attrs.frozen(kw_only=True)
class SessionRecord:
    """A session as it stands after a turn. ``record`` is JSON text: all that a resumed session needs."""

    table: ClassVar[str] = "kleene_sessions"
    session: str
    run: str
    parent: str | None = None
    depth: int = 0
    role: str = "root"
    task: str = ""
    status: str = "running"
    outcome: str | None = None
    turns: int = 0
    record: str = "{}"
    updated_at: float | None = None


@attrs.frozen(kw_only=True)
class FunctionRecord:
    """A prompt function or agent that was declared. ``kind`` is function or agent, ``definition`` its CREATE statement."""

    table: ClassVar[str] = "kleene_functions"
    name: str
    kind: str
    definition: str
    created_at: float | None = None


@attrs.frozen(kw_only=True)
class EstimateRecord:
    """What calls of one template were seen to do: ``sel`` and ``branch`` are rates (rows kept, rows made), ``n`` how many were seen."""

    table: ClassVar[str] = "estimates"
    template_hash: str
    function: str
    template: str
    sel: float | None = None
    branch: float | None = None
    output_tokens: float | None = None
    n: int = 0
    updated_at: float | None = None


@attrs.frozen(kw_only=True)
class CalibrationRecord:
    """The thresholds CALIBRATE chose for a function and its proxy (None: none on that side), what they guarantee, and what was seen.

    ``template_hash`` is a digest of the function, its proxy and the models of both; ``n`` is how many of the ``rows`` the function was asked;
    ``scores`` are scores of the rows at even steps of their order.
    """

    table: ClassVar[str] = "calibrations"
    function: str
    template_hash: str
    proxy: str
    low: float | None
    high: float | None
    n: int
    sample_precision: float | None = None
    sample_recall: float | None = None
    calibrated_at: float | None = None
    recall: float | None = None
    precision: float | None = None
    confidence: float | None = None
    rows: int | None = None
    accepted: int | None = None
    in_band: int | None = None
    rejected: int | None = None
    scores: Sequence[float | None] | None = None


ROWS_AT_ONCE = 200

R = TypeVar("R", SessionRecord, FunctionRecord, EstimateRecord, CalibrationRecord)
Record = SessionRecord | FunctionRecord | EstimateRecord | CalibrationRecord


class State:
    """Reads and writes records; its methods may be called from any thread. A time that is None becomes now when it is saved."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.time):
        self._cursor = store.cursor()
        self._clock = clock
        self._lock = threading.Lock()
        self._tables = {t.name: t for t in STATE}

    def save(self, *records: Record) -> None:
        """Inserts the records, which differ in their keys, or replaces those of the same key; on return they are on disk. Raises duckdb.Error where that cannot be done."""
        with self._lock:
            retry_conflicts(lambda: self._save(records))

    def _save(self, records: Sequence[Record]) -> None:
        # DuckDB takes 5 ms for a row by itself, most of it planning.
        for table in dict.fromkeys(self._tables[r.table] for r in records):
            rows = [
                [self._out(getattr(r, n), type_) for n, type_ in table.columns]
                for r in records
                if r.table == table.name
            ]
            holes = f"({', '.join('?' for _ in table.columns)})"
            for start in range(0, len(rows), ROWS_AT_ONCE):
                few = rows[start : start + ROWS_AT_ONCE]
                values = [value for row in few for value in row]
                self._cursor.execute(
                    f"INSERT OR REPLACE INTO {table.name} VALUES {', '.join([holes] * len(few))}", values
                )

    def all(self, kind: type[R], /, **where: object) -> list[R]:
        """The records of a kind whose fields have the given values, the oldest first."""
        table = self._tables[kind.table]
        names = [name for name, _ in table.columns]
        conditions = " AND ".join(f"{name} IS NOT DISTINCT FROM ?" for name in self._fields(table.name, where))
        stamp = next(name for name, type_ in table.columns if type_ == "TIMESTAMP")
        sql = f"SELECT {', '.join(names)} FROM {table.name} {'WHERE ' if where else ''}{conditions} ORDER BY {stamp}, {table.key[0]}"
        with self._lock:
            rows = self._cursor.execute(sql, list(where.values())).fetchall()
        return [kind(**{n: back(v) for n, v in zip(names, row, strict=True)}) for row in rows]

    def get(self, kind: type[R], /, **key: object) -> R | None:
        """The newest record with these values, or None."""
        found = self.all(kind, **key)
        return found[-1] if found else None

    def delete(self, kind: type[R], /, **where: object) -> int:
        """Removes the records with these values (without any: all of the kind) and returns how many."""
        conditions = " AND ".join(f"{name} IS NOT DISTINCT FROM ?" for name in self._fields(kind.table, where))
        sql = f"DELETE FROM {kind.table} {'WHERE ' if where else ''}{conditions}"
        with self._lock:
            row = self._cursor.execute(sql, list(where.values())).fetchone()
        return int(row[0]) if row else 0

    def close(self) -> None:
        """Closes the cursor; the store stays open."""
        with self._lock:
            self._cursor.close()

    def _fields(self, table: str, where: dict[str, object]) -> list[str]:
        known = {name for name, _ in self._tables[table].columns}
        unknown = [name for name in where if name not in known]
        if unknown:
            raise ValueError(f"{table} has no column {unknown[0]}")
        return list(where)

    def _out(self, value: object, type_: str) -> object:
        if type_ == "TIMESTAMP":
            seconds = self._clock() if value is None else float(str(value))
            return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
        return clean(value) if isinstance(value, str) else value


def back(value: Any) -> Any:
    """A column's value as a record has it: times in seconds since the epoch."""
    return value.replace(tzinfo=UTC).timestamp() if isinstance(value, datetime) else value
