"""Tables that a statement names and the caller holds as Python variables: DuckDB cannot see them from its worker thread."""

from __future__ import annotations

from collections.abc import Mapping
from types import FrameType
from typing import Any

LIBRARIES = frozenset({"pandas", "polars", "pyarrow", "duckdb", "_duckdb", "numpy", "modin"})


def is_table(value: object) -> bool:
    """A data frame, Arrow table or reader, relation, or array: what DuckDB's own replacement scan accepts."""
    module = type(value).__module__.split(".", 1)[0]
    if module in LIBRARIES and not isinstance(value, type):
        name = type(value).__name__
        return name in {
            "DataFrame",
            "LazyFrame",
            "Table",
            "RecordBatchReader",
            "RecordBatch",
            "Dataset",
            "DuckDBPyRelation",
            "ndarray",
        } or (name.endswith("Dataset"))
    return hasattr(value, "__arrow_c_stream__") and not isinstance(value, type)


def find(names: set[str], frame: FrameType | None) -> dict[str, Any]:
    """The caller's variables that are tables, by name: locals before globals, as DuckDB looks them up. Readers that give their rows only
    once are read into memory, for a statement may run several times."""
    if frame is None or not names:
        return {}
    found: dict[str, Any] = {}
    scopes: tuple[Mapping[str, Any], ...] = (frame.f_locals, frame.f_globals)
    for name in names:
        for scope in scopes:
            if name in scope:
                if is_table(scope[name]):
                    found[name] = readable_again(scope[name])
                break
    return found


def readable_again(value: Any) -> Any:
    """The value itself, or its rows as an Arrow table where it can be read only once."""
    if type(value).__name__ == "RecordBatchReader":
        return value.read_all()
    if type(value).__name__ == "DuckDBPyRelation":
        return value.to_arrow_table()
    if hasattr(value, "__arrow_c_stream__") and type(value).__module__.split(".", 1)[0] not in LIBRARIES:
        import pyarrow as pa

        return pa.RecordBatchReader.from_stream(value).read_all()
    return value
