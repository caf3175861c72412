"""The bodies of the functions that DuckDB calls back: Arrow in, Arrow out.

A *site* is one call expression of one statement, named ``'<statement>:<number>'``. ``get`` gives the answer it has, otherwise notes the
argument and gives NULL; ``ready`` tells which of the two it would be; ``call`` asks inside the run (on demand). Keys are the arguments as
text: a string where a call has one argument, else a tuple. A NULL argument gives NULL (ready: TRUE) and is never noted.
"""

from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np
import pyarrow as pa

from kleene.planner.errors import KleeneError
from kleene.planner.specs import Carrier
from kleene.udfs.keycolumns import KnownColumn, NotedColumns
from kleene.udfs.rounds import RoundCounter
from kleene.udfs.weight import Weight, weight_of

Key = str | tuple[str, ...]
Ask = Callable[["SiteAnswers", list[Key]], None]

ARROW_TYPES = {
    Carrier.BOOL: pa.bool_(),
    Carrier.BIGINT: pa.int64(),
    Carrier.DOUBLE: pa.float64(),
    Carrier.TEXT: pa.string(),
}
LONG = 8 << 20
"""Bytes of a vector from which its repetitions are looked for."""


@attrs.define(eq=False)
class SiteAnswers:
    """What is known and what was asked for at one site. Written by DuckDB's threads (notes) and by the fixed point (answers).

    ``answers`` maps a key to the answer's value, None for an unknown one. ``notes`` are the keys that the current run lacked; ``demanded``
    counts keys asked on demand. ``ask`` answers keys at once, inside the run (on demand sites only). ``weight`` bounds what a run keeps. Where
    there are many keys they are columns (``columns``, ``known``) until somebody wants them one by one. Who has an answer writes it to ``given``.
    """

    name: str
    given: dict[Key, Any] = attrs.field(factory=dict, alias="answers")
    noted: dict[Key, None] = attrs.field(factory=dict, alias="notes")
    columns: NotedColumns = attrs.field(factory=NotedColumns, init=False)
    known: KnownColumn | None = attrs.field(default=None, init=False)
    ask: Ask | None = None
    rows: int = 0
    watch: bool = False
    seen: set[Key] = attrs.field(factory=set)
    tokens: dict[Key, int] = attrs.field(factory=dict)
    keyed: dict[int, Key] = attrs.field(factory=dict, init=False)  # the other way round
    weight: Weight | None = None
    _serial: Iterator[int] = attrs.field(factory=lambda: itertools.count(1))

    TOKENS: ClassVar[int] = 4096  # a token is a serial number times this, plus the site's number

    @property
    def answers(self) -> dict[Key, Any]:
        known = self.known
        if known is not None:
            known.release(self.given)
            self.known = None
        return self.given

    @answers.setter
    def answers(self, answers: dict[Key, Any]) -> None:
        self.known, self.given = None, answers

    @property
    def notes(self) -> dict[Key, None]:
        columns = self.columns
        if columns:
            self.columns = NotedColumns()
            for vector in columns.vectors:
                self.noted.update(dict.fromkeys(vector.to_pylist()))
            self.noted.pop(None, None)  # type: ignore[call-overload]
        return self.noted

    @property
    def lacks(self) -> bool:
        """Whether anything is noted."""
        return bool(self.noted or self.columns)

    @property
    def count(self) -> int:
        """How many answers there are."""
        return len(self.given) + (0 if self.known is None else self.known.count)

    def token(self, key: Key) -> int:
        """A positive number that stands for the key in this statement."""
        found = self.tokens.get(key)
        if found is None:
            number = int(self.name.rpartition(":")[2])
            found = self.tokens.setdefault(key, next(self._serial) * self.TOKENS + number)
            self.keyed[found] = key
        return found

    def keys(self, arguments: tuple[pa.StringArray, ...], rows: int) -> list[Any]:
        """One key per row, None where any argument is NULL. Raises ``PlanError`` where the run asks with more than may be held."""
        if self.weight is not None:
            self.weight.add(arguments)
        return keys_of(arguments, rows)

    def kept(self) -> int:
        """Bytes of what the current run keeps."""
        kept = {*list(self.noted), *list(self.seen), *list(self.tokens)}  # lists first: other threads go on noting
        return weight_of(kept) + self.columns.weight()

    def take(self, vector: pa.StringArray) -> bool:
        """Note a vector of keys as a column, where it is worth that. Raises as ``keys`` does."""
        if not self.columns.wants(vector):
            return False
        if self.weight is not None:
            self.weight.add((vector,))
        self.columns.vectors.append(vector)
        return True

    def begin_run(self, *, watch: bool) -> None:
        """Forget what the last run noted. ``watch``: keep all keys that this run looks up in ``seen``."""
        self.noted, self.columns = {}, NotedColumns()
        self.seen = set()
        self.watch = watch

    def take_notes(self) -> Sequence[Key]:
        """What the run lacked, each key once; the site keeps no copy."""
        if self.columns and not self.answers:
            self.known = self.columns.known([k for k in self.noted if isinstance(k, str)])
            self.noted, self.columns = {}, NotedColumns()
            return self.known.keys
        notes = self.notes
        self.noted = {}
        return list(notes)


@attrs.define(eq=False)
class StopNotes:
    """What one run saw under a stop (``udfs.stops``): per group the missing keys, each with its site, and their places in the order (``''``:
    none), in the order in which DuckDB came to them, and per group the places of the rows that passed. ``site`` names the call site asked
    in waves (the first of them, under a route)."""

    name: str
    site: str
    missing: dict[str, dict[tuple[str, Key], str]] = attrs.field(factory=dict)
    passed: dict[str, list[str]] = attrs.field(factory=dict)

    def begin_run(self) -> None:
        self.missing = {}
        self.passed = {}

    def kept(self) -> int:
        """Bytes of what the current run keeps."""
        return weight_of({key for of_group in list(self.missing.values()) for _, key in list(of_group)})


@attrs.define(eq=False)
class RouteNotes(ABC):
    """What one run saw of a route (``udfs.routes``): ``counts`` has how many rows were of each pattern, and of the open rows ``patterns``
    and ``lacking`` (tokens by operand) a part for each vector, ``groups`` and ``places`` one for each row where a stop watches."""

    name: str
    units: int
    patterns: list[Any] = attrs.field(factory=list)
    lacking: list[list[Any]] = attrs.field(factory=list)
    groups: list[str] = attrs.field(factory=list)
    places: list[str] = attrs.field(factory=list)
    counts: Counter[int] = attrs.field(factory=Counter)
    stopped: bool = False
    lock: threading.Lock = attrs.field(factory=threading.Lock)

    def begin_run(self) -> None:
        self.patterns, self.lacking = [], []
        self.groups, self.places = [], []
        self.counts = Counter()

    @abstractmethod
    def verdicts(self, patterns: Any) -> Any:
        """What each row's pattern (the states of its operands) decides: an array of the same length."""


class Lookups:
    """All sites of one engine that a running statement may ask for. The functions below are registered once with DuckDB."""

    def __init__(self) -> None:
        self._sites: dict[str, SiteAnswers] = {}
        self._stops: dict[str, StopNotes] = {}
        self._rounds: dict[str, RoundCounter] = {}
        self._routes: dict[str, RouteNotes] = {}
        self._demand_lock = threading.Lock()

    def open_rounds(self, counters: Sequence[RoundCounter]) -> None:
        """Let running statements count rounds; ``close_rounds`` ends it."""
        self._rounds.update((c.name, c) for c in counters)

    def close_rounds(self, counters: Sequence[RoundCounter]) -> None:
        for counter in counters:
            self._rounds.pop(counter.name, None)

    def round(self, name: pa.StringArray, delta: pa.Int64Array) -> pa.Array:
        """Counts a round of a recursive query and tells whether it may produce rows; one whose statement has ended may not."""
        counters = map(self._rounds.get, name.to_pylist())
        return pa.array(
            [c is not None and c.step(d or 0) for c, d in zip(counters, delta.to_pylist(), strict=True)], pa.bool_()
        )

    def open_routes(self, routes: Sequence[RouteNotes]) -> None:
        """Let running statements ask by these routes; ``close_routes`` ends it."""
        self._routes.update((r.name, r) for r in routes)

    def close_routes(self, routes: Sequence[RouteNotes]) -> None:
        for route in routes:
            self._routes.pop(route.name, None)

    def open(self, sites: Sequence[SiteAnswers], stops: Sequence[StopNotes] = ()) -> None:
        self._sites.update((s.name, s) for s in sites)
        self._stops.update((s.name, s) for s in stops)

    def close(self, sites: Sequence[SiteAnswers], stops: Sequence[StopNotes] = ()) -> None:
        for site in sites:
            self._sites.pop(site.name, None)
        for stop in stops:
            self._stops.pop(stop.name, None)

    def _site(self, name: str) -> SiteAnswers:
        try:
            return self._sites[name]
        except KeyError:
            raise KleeneError(
                f"call site {name} belongs to a statement that has ended",
                hint="run the CallSQL text again; emitted SQL lives as long as its statement",
            ) from None

    def get(self, carrier: Carrier, site: pa.StringArray, *arguments: pa.StringArray) -> pa.Array:
        if len(site) == 0:
            return pa.nulls(0, ARROW_TYPES[carrier])
        state = self._site(site[0].as_py())
        if len(arguments) == 1 and not state.watch:
            vector = arguments[0].combine_chunks() if isinstance(arguments[0], pa.ChunkedArray) else arguments[0]
            known = state.known
            if known is not None:
                found = known.answer(vector)
                if found is not None:
                    return found
            elif not state.given and state.take(vector):
                return pa.nulls(len(vector), ARROW_TYPES[carrier])
        keys = state.keys(arguments, len(site))
        if state.watch:
            state.seen.update(keys)
        if not state.answers:  # the first run of most statements: nothing is known yet
            fresh = dict.fromkeys(keys)
            fresh.pop(None, None)
            state.noted.update(fresh)
            return pa.nulls(len(keys), ARROW_TYPES[carrier])
        out: list[Any] = list(map(state.answers.get, keys))
        if None in out:
            answers, notes = state.answers, state.noted
            for i, value in enumerate(out):
                if value is None:
                    key = keys[i]
                    if key is not None and key not in answers:
                        notes[key] = None
        return pa.array(out, type=ARROW_TYPES[carrier])

    def ready(self, site: pa.StringArray, *arguments: pa.StringArray) -> pa.Array:
        if len(site) == 0:
            return pa.nulls(0, pa.bool_())
        state = self._site(site[0].as_py())
        keys = state.keys(arguments, len(site))
        if state.watch:
            state.seen.update(keys)
        known, notes = state.answers, state.noted
        out = []
        for key in keys:
            answered = key is None or key in known
            if not answered:
                notes[key] = None
            out.append(answered)
        return pa.array(out, type=pa.bool_())

    def wave(
        self,
        carrier: Carrier,
        site: pa.StringArray,
        stop: pa.StringArray,
        group: pa.StringArray,
        order: pa.StringArray,
        *arguments: pa.StringArray,
    ) -> pa.Array:
        """Like ``get`` under a stop: what is missing is noted there, with its group and its place in the order."""
        if len(site) == 0:
            return pa.nulls(0, ARROW_TYPES[carrier])
        state = self._site(site[0].as_py())
        keys = state.keys(arguments, len(site))
        out: list[Any] = list(map(state.answers.get, keys))
        if None in out:
            self._note_wave(state, stop, group, order, keys)
        return pa.array(out, type=ARROW_TYPES[carrier])

    def wave_ready(
        self,
        site: pa.StringArray,
        stop: pa.StringArray,
        group: pa.StringArray,
        order: pa.StringArray,
        *arguments: pa.StringArray,
    ) -> pa.Array:
        """Like ``ready`` under a stop."""
        if len(site) == 0:
            return pa.nulls(0, pa.bool_())
        state = self._site(site[0].as_py())
        keys = state.keys(arguments, len(site))
        known = state.answers
        out = [key is None or key in known for key in keys]
        if False in out:
            self._note_wave(state, stop, group, order, keys)
        return pa.array(out, type=pa.bool_())

    def _note_wave(
        self, state: SiteAnswers, stop: pa.StringArray, group: pa.StringArray, order: pa.StringArray, keys: list[Any]
    ) -> None:
        missing, known = self._stops[stop[0].as_py()].missing, state.answers
        for key, g, place in zip(keys, group.to_pylist(), order.to_pylist(), strict=True):
            if key is not None and key not in known:
                of_group = missing.setdefault(g, {})
                name = (state.name, key)
                if name not in of_group or place < of_group[name]:
                    of_group[name] = place

    def seen(
        self, stop: pa.StringArray, group: pa.StringArray, order: pa.StringArray, condition: pa.BooleanArray
    ) -> pa.Array:
        """The condition as it is; the groups and places of its TRUE rows are kept for the stop."""
        if len(stop) == 0:
            return pa.nulls(0, pa.bool_())
        passed = self._stops[stop[0].as_py()].passed
        for g, place, value in zip(group.to_pylist(), order.to_pylist(), condition.to_pylist(), strict=True):
            if value:
                passed.setdefault(g, []).append(place)
        return condition

    # -- routes --------------------------------------------------------------------------------------------------------------------------

    def peek(self, carrier: Carrier, site: pa.StringArray, *arguments: pa.StringArray) -> pa.Array:
        """Like ``get``, but nothing is noted."""
        if len(site) == 0:
            return pa.nulls(0, ARROW_TYPES[carrier])
        answers = self._site(site[0].as_py()).answers
        return each_distinct(arguments, len(site), lambda keys: list(map(answers.get, keys)), ARROW_TYPES[carrier])

    def lack(self, site: pa.StringArray, *arguments: pa.StringArray) -> pa.Array:
        """NULL where the answer is known, else the argument's token. Nothing is noted."""
        if len(site) == 0:
            return pa.nulls(0, pa.int64())
        state = self._site(site[0].as_py())
        known, token = state.answers, state.token
        if state.weight is not None:
            state.weight.add(arguments)

        def lacking(keys: list[Any]) -> list[int | None]:
            if state.watch:
                state.seen.update(keys)
            return [None if key is None or key in known else token(key) for key in keys]

        return each_distinct(arguments, len(site), lacking, pa.int64())

    def route(
        self, name: pa.StringArray, group: pa.StringArray, order: pa.StringArray, *operands: pa.Array
    ) -> pa.Array:
        """The condition where it is decided, NULL where it is open. ``operands`` are by turns what one lacks, and its value."""
        if len(name) == 0:
            return pa.nulls(0, pa.bool_())
        route = self._routes[name[0].as_py()]
        verdicts = self._follow(route, group, order, operands, counted=True)
        return pa.array(verdicts == 1, mask=verdicts == 0)

    def decided(
        self, name: pa.StringArray, group: pa.StringArray, order: pa.StringArray, *operands: pa.Array
    ) -> pa.Array:
        """TRUE where the condition is decided, else FALSE."""
        if len(name) == 0:
            return pa.nulls(0, pa.bool_())
        return pa.array(self._follow(self._routes[name[0].as_py()], group, order, operands, counted=False) != 0)

    def _follow(
        self,
        route: RouteNotes,
        group: pa.StringArray,
        order: pa.StringArray,
        operands: tuple[pa.Array, ...],
        *,
        counted: bool,
    ) -> Any:
        lacks = [_numbers(part) for part in operands[::2]]
        patterns = np.zeros(len(group), np.int64)
        for unit, (lacking, value) in enumerate(zip(lacks, operands[1::2], strict=True)):
            state = np.where(_truth(value), 1, 2)
            patterns += 3**unit * np.where(lacking > 0, 0, state)
        verdicts = route.verdicts(patterns)
        undecided = verdicts == 0
        with route.lock:
            if counted:
                distinct, counts = np.unique(patterns, return_counts=True)
                route.counts.update(dict(zip(distinct.tolist(), counts.tolist(), strict=True)))
            if undecided.any():
                route.patterns.append(patterns[undecided])
                route.lacking.append([part[undecided] for part in lacks])
                if route.stopped:
                    at = pa.array(undecided)
                    route.groups += group.filter(at).to_pylist()
                    route.places += order.filter(at).to_pylist()
        return verdicts

    def call(self, carrier: Carrier, site: pa.StringArray, *arguments: pa.StringArray) -> pa.Array:
        """On demand: distinct unknown keys of the vector are asked together, now. Errors end the run; the typed error is kept by ``ask``."""
        if len(site) == 0:
            return pa.nulls(0, ARROW_TYPES[carrier])
        state = self._site(site[0].as_py())
        assert state.ask is not None
        keys = state.keys(arguments, len(site))
        with self._demand_lock:  # two DuckDB threads with the same key must not both count it against ondemand.calls
            wanted = [k for k in dict.fromkeys(keys) if k is not None and k not in state.answers]
            if wanted:
                state.ask(state, wanted)
        return pa.array([None if k is None else state.answers.get(k) for k in keys], type=ARROW_TYPES[carrier])

    def each_row(self, carrier: Carrier, site: pa.StringArray, *arguments: pa.StringArray) -> pa.Array:
        """On demand for VOLATILE functions: one call per row, nothing shared. Each row's key carries the row's number."""
        if len(site) == 0:
            return pa.nulls(0, ARROW_TYPES[carrier])
        state = self._site(site[0].as_py())
        assert state.ask is not None
        keys = state.keys(arguments, len(site))
        with self._demand_lock:
            numbered: list[Key | None] = []
            for key in keys:
                state.rows += 1
                numbered.append(None if key is None else (str(state.rows), *((key,) if isinstance(key, str) else key)))
            wanted = [k for k in numbered if k is not None]
            if wanted:
                state.ask(state, wanted)
        return pa.array(
            [None if k is None else state.answers.pop(k, None) for k in numbered], type=ARROW_TYPES[carrier]
        )


def _numbers(part: pa.Array) -> Any:
    """Whole numbers, 0 for NULL."""
    if pa.types.is_null(part.type):
        return np.zeros(len(part), np.int64)
    return part.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)


def _truth(part: pa.Array) -> Any:
    """Which values are TRUE."""
    if pa.types.is_null(part.type):
        return np.zeros(len(part), bool)
    return part.fill_null(False).to_numpy(zero_copy_only=False)


def each_distinct(
    arguments: tuple[pa.StringArray, ...], rows: int, values: Callable[[list[Any]], list[Any]], kind: pa.DataType
) -> pa.Array:
    """``values`` of the key of each row; where one argument repeats itself, worked out once for each distinct key of the vector."""
    if len(arguments) == 1 and rows > 64:
        column = arguments[0]
        encoded = (column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column).dictionary_encode()
        if 2 * len(encoded.dictionary) < rows:
            # The last value is that of NULL, which has no place in the dictionary.
            found = pa.array(values([*encoded.dictionary.to_pylist(), None]), type=kind)
            return found.take(encoded.indices.fill_null(len(found) - 1))
    return pa.array(values(keys_of(arguments, rows)), type=kind)


def keys_of(arguments: tuple[pa.StringArray, ...], rows: int) -> list[Any]:
    """One key per row, None where any argument is NULL."""
    if len(arguments) == 1:
        return _values(arguments[0])
    if not arguments:
        return [()] * rows
    tuples = list(zip(*map(_values, arguments), strict=True))
    return [None if None in t else t for t in tuples]


def _values(column: pa.StringArray) -> list[Any]:
    """The values of a column; a long text that stands in many rows is one object."""
    if column.nbytes < LONG:
        return column.to_pylist()  # type: ignore[no-any-return]
    encoded = (column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column).dictionary_encode()
    values = encoded.dictionary.to_pylist()
    return [None if at is None else values[at] for at in encoded.indices.to_pylist()]
