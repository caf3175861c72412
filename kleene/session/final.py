"""The answer of a session as JSON text, for the trace and for machines."""

from __future__ import annotations

import json
import math
from typing import Any

from kleene.session.values import plain
from kleene.session.world import Outcome


def rows_json(answer: Outcome) -> str:
    """``{"columns": [...], "types": [...], "rows": [[...]], "row_count": n}`` of the rows at hand, as strict JSON.

    Numbers, booleans, texts, lists and structs stay themselves; NaN and the infinities, decimals, times and blobs become texts.
    """
    body = {
        "columns": list(answer.columns),
        "types": list(answer.types),
        "rows": [[jsonable(v) for v in row] for row in answer.rows],
        "row_count": answer.row_count,
    }
    return json.dumps(body, ensure_ascii=False, allow_nan=False)


def jsonable(value: Any) -> Any:
    """A value as strict JSON has it."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else plain(value)
    if isinstance(value, dict):
        return {k if isinstance(k, str) else plain(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "nanoseconds"):
        return [jsonable(v) for v in value]
    return plain(value)
