"""The keys of a call site as Arrow columns, from DuckDB's first run to the memo and back, without a Python object for each.

The first run's vectors are kept as they come (``NotedColumns``). Their distinct values are what is asked (``KeyColumn``); what the memo has of
them comes back as a column (``KnownColumn``), and a vector of a later run that equals one of the first gets its part of it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import pyarrow as pa

FEW = 1024  # rows from which a vector is worth a column
LONG = 256  # bytes of a key from which a Python object beside it is little, and a second copy of it in a column much
MOSTLY_DISTINCT = 0.75
REACH = 2**31 - 2  # bytes of text that one Arrow array holds with offsets of 32 bits


class KeyColumn(Sequence[str]):
    """Distinct keys, none of them NULL, as an Arrow column; a list of Python strings is made when one of them is asked for."""

    def __init__(self, array: pa.Array):
        self.array = array
        self._list: list[str] | None = None

    def _strings(self) -> list[str]:
        if self._list is None:
            self._list = self.array.to_pylist()
        return self._list

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        return self._strings()[at]

    def __iter__(self) -> Iterator[str]:
        return iter(self._strings())


class NotedColumns:
    """The vectors of keys that a run lacked, in the order in which DuckDB's threads brought them."""

    def __init__(self) -> None:
        self.vectors: list[pa.Array] = []

    def __bool__(self) -> bool:
        return bool(self.vectors)

    def wants(self, vector: pa.Array) -> bool:
        """False: the vector is small, or repeats itself, or its texts are long; it is noted key by key then.

        Whether it repeats itself is looked at in the first, and in one of sixteen."""
        if (not self.vectors and len(vector) < FEW) or vector.nbytes > LONG * len(vector):
            return False
        return len(self.vectors) % 16 != 0 or len(vector.unique()) >= MOSTLY_DISTINCT * len(vector)

    def weight(self) -> int:
        """Bytes of the distinct keys."""
        vectors = alike(list(self.vectors))
        return int(pa.chunked_array(vectors).unique().nbytes) if vectors else 0

    def known(self, others: Sequence[str]) -> KnownColumn:
        """The distinct keys of all vectors and of ``others``, to be filled with answers."""
        vectors = [*self.vectors, pa.array(others, pa.large_string())] if others else self.vectors
        encoded = pa.chunked_array(alike(vectors)).dictionary_encode()
        keys = encoded.chunk(0).dictionary
        return KnownColumn(KeyColumn(keys), self.vectors, [c.indices for c in encoded.chunks])


class KnownColumn:
    """Distinct keys with the answers that were given as columns. ``indices`` are the places in ``keys`` of each vector's rows (NULL: none)."""

    def __init__(self, keys: KeyColumn, vectors: list[pa.Array], indices: list[pa.Array]):
        self.keys = keys
        self.count = 0
        self._vectors = vectors
        self._indices = indices
        self._at: dict[tuple[int, Any, Any], list[int]] = {}
        for number, vector in enumerate(vectors):
            self._at.setdefault(_ends(vector), []).append(number)
        self._parts: list[tuple[np.ndarray[Any, Any], pa.Array]] = []
        self._values: pa.Array | None = None
        self._released: dict[Any, Any] | None = None
        self._lock = threading.Lock()

    def give(self, at: np.ndarray[Any, Any], values: pa.Array) -> None:
        """Answers for the keys at these places."""
        with self._lock:
            self._parts.append((at, values))
            self._values = None
            self.count += len(at)
            if self._released is not None:
                self._hand_over(self._released, self._parts[-1:])

    def answer(self, vector: pa.Array) -> pa.Array | None:
        """The answers of a vector's rows, where it is one of those that were noted and all of its keys have one."""
        if self.count < len(self.keys):
            return None
        for number in self._at.get(_ends(vector), ()):
            if vector.equals(self._vectors[number]):
                found = self._all().take(self._indices[number])
                return found.cast(pa.string()) if pa.types.is_large_string(found.type) else found
        return None

    def release(self, given: dict[Any, Any]) -> None:
        """Hand all answers over by their keys, and those that are still to come; an answer that is there already stays."""
        with self._lock:
            self._released = given
            self._hand_over(given, self._parts)

    def _hand_over(self, given: dict[Any, Any], parts: list[tuple[np.ndarray[Any, Any], pa.Array]]) -> None:
        strings = self.keys._strings()
        for at, values in parts:
            for key, value in zip(map(strings.__getitem__, at.tolist()), values.to_pylist(), strict=True):
                given.setdefault(key, value)

    def _all(self) -> pa.Array:
        """The answers in the order of the keys."""
        with self._lock:
            if self._values is None:
                places = np.concatenate([at for at, _ in self._parts])
                values = joined([v for _, v in self._parts])
                of = np.empty(len(self.keys), np.int64)
                of[places] = np.arange(len(places))
                self._values = values.take(pa.array(of))
                self._parts = [(np.arange(len(of)), self._values)]
            return self._values


def alike(arrays: list[pa.Array]) -> list[pa.Array]:
    """The arrays, texts with offsets of one width: of 32 bits where these reach all of them together, else of 64."""
    if not any(pa.types.is_string(a.type) or pa.types.is_large_string(a.type) for a in arrays):
        return arrays
    kind = pa.string() if sum(a.nbytes for a in arrays) <= REACH else pa.large_string()
    return [a if a.type == kind else a.cast(kind) for a in arrays]


def joined(arrays: list[pa.Array]) -> pa.Array:
    """The arrays as one."""
    return pa.concat_arrays(alike(arrays))


def _ends(vector: pa.Array) -> tuple[int, Any, Any]:
    return len(vector), vector[0].as_py(), vector[-1].as_py()
