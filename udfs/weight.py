"""How much the arguments of one run may weigh: they are held outside DuckDB, whose own limit of memory does not know of them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
import pyarrow as pa

from kleene.planner.errors import KleeneError, PlanError, number


@attrs.define(eq=False)
class Weight:
    """The weight of what one statement's sites keep of a run. DuckDB's threads call ``add`` before they read a vector.

    ``limit`` is in bytes, ``held`` finds what is kept now. ``failed`` is given the typed error, of which DuckDB passes on only the text.
    """

    limit: int
    held: Callable[[], int]
    failed: Callable[[KleeneError], None] = lambda error: None
    _passed: int = 0  # at least what is held: each vector with its repetitions
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def begin_run(self) -> None:
        self._passed = 0

    def add(self, arguments: Sequence[pa.StringArray]) -> None:
        """A vector of arguments is about to be read. Raises ``PlanError`` where what is held and its distinct values weigh more than the limit."""
        size = sum(column.nbytes for column in arguments)
        with self._lock:
            self._passed += size
            if self._passed <= self.limit:
                return
            held = self.held()
            self._passed = held + distinct_bytes(arguments, self.limit - held)
            if self._passed <= self.limit:
                return
        error = PlanError(
            f"the arguments of the calls of one run weigh more than {number(self.limit)} bytes",
            hint="ask about fewer rows at a time (LIMIT, or INSERT INTO in parts) or with shorter texts; SET round_bytes = n is the bound",
        )
        self.failed(error)
        raise error


def distinct_bytes(columns: Sequence[pa.StringArray], enough: int) -> int:
    """Bytes of the distinct values of each column, counted until they are more than ``enough``. Values are compared by their hashes, and copied one
    at a time: a column may be as large as what it is weighed against."""
    total: int = 0
    for column in columns:
        seen: set[int] = set()
        for value in column:
            data = value.as_buffer() if value.is_valid else None
            if data is None:
                continue
            if int(data.size) > enough:
                return total + int(data.size)
            found = hash(data.to_pybytes())
            if found not in seen:
                seen.add(found)
                total += int(data.size)
                if total > enough:
                    return total
    return total


def weight_of(keys: Iterable[Any]) -> int:
    """Bytes of keys in Python's memory: texts, and tuples of them.

    >>> weight_of(["a" * 1000, ("a" * 1000, "b" * 1000)]) // 1000
    3
    """
    return sum(sys.getsizeof(k) if isinstance(k, str) else weight_of(k) for k in keys if k is not None)
