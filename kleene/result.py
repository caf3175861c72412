"""The rows of a statement, in memory, with what they cost."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kleene.planner.specs import Usage

if TYPE_CHECKING:
    import pyarrow as pa


class Result:
    """A materialised result: fetching or showing it again runs nothing again.

    ``types`` are DuckDB's type names. ``message`` says what a statement without rows did. ``final`` marks the relation of a FINAL,
    ``plan`` is the text of an EXPLAIN. ``order`` tells, for each condition with several calls, in which order they were asked and how many
    rows passed.
    ``fetchone`` and ``fetchmany`` move a cursor; ``fetchall`` gives what remains, iteration and ``len`` always everything.
    """

    def __init__(
        self,
        columns: tuple[str, ...],
        types: tuple[str, ...],
        *,
        table: pa.Table | None = None,
        rows: list[tuple[Any, ...]] | None = None,
        usage: Usage | None = None,
        warnings: tuple[str, ...] = (),
        statement_id: str = "",
        message: str | None = None,
        final: bool = False,
        plan: str | None = None,
        order: tuple[str, ...] = (),
    ):
        self.columns = columns
        self.types = types
        self.usage = Usage() if usage is None else usage
        self.warnings = warnings
        self.statement_id = statement_id
        self.message = message
        self.final = final
        self.plan = plan
        self.order = order
        self._table = table
        self._rows = rows if rows is not None or table is not None else []
        self._position = 0

    @property
    def description(self) -> list[tuple[Any, ...]]:
        """DB-API column descriptions."""
        return [(n, t, None, None, None, None, None) for n, t in zip(self.columns, self.types, strict=True)]

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """All rows as tuples of Python values, as DuckDB's ``fetchall`` gives them."""
        if self._rows is None:
            assert self._table is not None
            columns = [c.to_pylist() for c in self._table.columns]
            self._rows = list(zip(*columns, strict=True)) if columns else []
        return self._rows

    def head(self, count: int) -> list[tuple[Any, ...]]:
        """The first rows, without making the others."""
        if self._rows is None and self._table is not None and count < self._table.num_rows:
            return Result(self.columns, self.types, table=self._table.slice(0, count)).rows
        return self.rows[:count]

    def fetchall(self) -> list[tuple[Any, ...]]:
        rest = self.rows[self._position :] if self._position else self.rows
        self._position = len(self.rows)
        return rest

    def fetchone(self) -> tuple[Any, ...] | None:
        found = self.fetchmany(1)
        return found[0] if found else None

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        found = self.rows[self._position : self._position + size]
        self._position += len(found)
        return found

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return int(self._table.num_rows) if self._table is not None else len(self._rows or ())

    def to_arrow_table(self) -> pa.Table:
        """The rows as an Arrow table. Types that Arrow does not have come as text."""
        if self._table is None:
            self._table = _arrow(self.columns, self.rows)
        return self._table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow_table().__arrow_c_stream__(requested_schema)

    def df(self) -> Any:
        """The rows as a pandas DataFrame (pandas must be installed)."""
        return self.to_arrow_table().to_pandas()

    def pl(self) -> Any:
        """The rows as a polars DataFrame (polars must be installed)."""
        import polars

        return polars.from_arrow(self.to_arrow_table())

    def show(self, limit: int = 40) -> None:
        """Print the first rows as a table."""
        from kleene.rendering.table import show_result

        show_result(self, limit)

    def __str__(self) -> str:
        """What ``print`` shows: the first rows as ``show`` prints them, a plan's text, or what a statement without rows did."""
        from kleene.rendering.table import result_lines

        if self.plan is not None or not self.columns:
            return self.plan or self.message or ""
        return "\n".join(result_lines(self, 40, sys.stdout))

    def _repr_html_(self) -> str:
        """For notebooks: the first rows, usage and warnings, all escaped."""
        from kleene.rendering.html import result_html

        return result_html(self)

    def __repr__(self) -> str:
        return f"<Result {len(self)} rows x {len(self.columns)} columns, {self.usage.requests} calls>"


def _arrow(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> pa.Table:
    import pyarrow as pa

    arrays = []
    for i in range(len(columns)):
        values = [r[i] for r in rows]
        try:
            arrays.append(pa.array(values))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
            arrays.append(pa.array([None if v is None else str(v) for v in values], pa.string()))
    return pa.Table.from_arrays(arrays, names=list(columns))
