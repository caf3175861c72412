"""Objects of an attrs class as rows that ``--format`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kleene.result import Result

TYPES = {"str": "VARCHAR", "int": "BIGINT", "int | None": "BIGINT", "bool": "BOOLEAN", "bool | None": "BOOLEAN"}
"""DuckDB's types by what a field is declared as; all others are numbers with a point."""


def relation(kind: type[Any], items: Sequence[Any], **more: Any) -> Result:
    """A column a field, a row an item; ``more`` are columns with the same value in every row."""
    import attrs

    from kleene.result import Result

    fields = [(f.name, str(f.type)) for f in attrs.fields(kind)]
    fields += [(name, type(value).__name__) for name, value in more.items()]
    rows = [(*attrs.astuple(item), *more.values()) for item in items]
    return Result(tuple(name for name, _ in fields), tuple(TYPES.get(of, "DOUBLE") for _, of in fields), rows=rows)
