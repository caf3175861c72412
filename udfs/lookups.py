"""The bodies of the functions that DuckDB calls back: Arrow in, Arrow out.

A *site* is one call expression of one statement, named ``'<statement>:<number>'``. ``get`` gives the answer it has, otherwise notes the
argument and gives NULL; ``ready`` tells which of the two it would be; ``call`` asks inside the run (on demand). Keys are the arguments as
text: a string where a call has one argument, else a tuple. A NULL argument gives NULL (ready: TRUE) and is never noted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pyarrow as pa

from kleene.planner.errors import KleeneError
from kleene.planner.specs import Carrier
from kleene.udfs.rounds import RoundCounter

Key = str | tuple[str, ...]
Ask = Callable[["SiteAnswers", list[Key]], None]

ARROW_TYPES = {
    Carrier.BOOL: pa.bool_(),
    Carrier.BIGINT: pa.int64(),
    Carrier.DOUBLE: pa.float64(),
    Carrier.TEXT: pa.string(),
}


@attrs.define(eq=False)
class SiteAnswers:
    """What is known and what was asked for at one site. Written by DuckDB's threads (notes) and by the fixed point (answers).

    ``answers`` maps a key to the answer's value, None for an unknown one. ``notes`` are the keys that the current run lacked; ``demanded``
    counts keys asked on demand. ``ask`` answers keys at once, inside the run (on demand sites only).
    """

    name: str
    answers: dict[Key, Any] = attrs.field(factory=dict)
    notes: dict[Key, None] = attrs.field(factory=dict)
    ask: Ask | None = None
    rows: int = 0
    watch: bool = False
    seen: set[Key] = attrs.field(factory=set)

    def begin_run(self, *, watch: bool) -> None:
        """Forget what the last run noted. ``watch``: keep all keys that this run looks up in ``seen``."""
        self.notes = {}
        self.seen = set()
        self.watch = watch

    def take_notes(self) -> dict[Key, None]:
        """What the run lacked; the site keeps no copy."""
        notes, self.notes = self.notes, {}
        return notes


@attrs.define(eq=False)
class StopNotes:
    """What one run saw under a stop (``udfs.stops``): per group the missing keys with their places in the order (``''``: none), in the
    order in which DuckDB came to them, and per group the places of the rows that passed. ``site`` names the call site asked in waves."""

    name: str
    site: str
    missing: dict[str, dict[Key, str]] = attrs.field(factory=dict)
    passed: dict[str, list[str]] = attrs.field(factory=dict)

    def begin_run(self) -> None:
        self.missing = {}
        self.passed = {}


class Lookups:
    """All sites of one engine that a running statement may ask for. The functions below are registered once with DuckDB."""

    def __init__(self) -> None:
        self._sites: dict[str, SiteAnswers] = {}
        self._stops: dict[str, StopNotes] = {}
        self._rounds: dict[str, RoundCounter] = {}
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
        keys = keys_of(arguments, len(site))
        if state.watch:
            state.seen.update(keys)
        if not state.answers:  # the first run of most statements: nothing is known yet
            fresh = dict.fromkeys(keys)
            fresh.pop(None, None)
            state.notes.update(fresh)
            return pa.nulls(len(keys), ARROW_TYPES[carrier])
        out: list[Any] = list(map(state.answers.get, keys))
        if None in out:
            known, notes = state.answers, state.notes
            for i, value in enumerate(out):
                if value is None:
                    key = keys[i]
                    if key is not None and key not in known:
                        notes[key] = None
        return pa.array(out, type=ARROW_TYPES[carrier])

    def ready(self, site: pa.StringArray, *arguments: pa.StringArray) -> pa.Array:
        if len(site) == 0:
            return pa.nulls(0, pa.bool_())
        state = self._site(site[0].as_py())
        if state.watch:
            state.seen.update(keys_of(arguments, len(site)))
        known, notes = state.answers, state.notes
        out = []
        for key in keys_of(arguments, len(site)):
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
        keys = keys_of(arguments, len(site))
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
        keys = keys_of(arguments, len(site))
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
                if key not in of_group or place < of_group[key]:
                    of_group[key] = place

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

    def call(self, carrier: Carrier, site: pa.StringArray, *arguments: pa.StringArray) -> pa.Array:
        """On demand: distinct unknown keys of the vector are asked together, now. Errors end the run; the typed error is kept by ``ask``."""
        if len(site) == 0:
            return pa.nulls(0, ARROW_TYPES[carrier])
        state = self._site(site[0].as_py())
        assert state.ask is not None
        keys = keys_of(arguments, len(site))
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
        keys = keys_of(arguments, len(site))
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


def keys_of(arguments: tuple[pa.StringArray, ...], rows: int) -> list[Any]:
    """One key per row, None where any argument is NULL."""
    if len(arguments) == 1:
        return arguments[0].to_pylist()  # type: ignore[no-any-return]
    if not arguments:
        return [()] * rows
    tuples = list(zip(*(a.to_pylist() for a in arguments), strict=True))
    return [None if None in t else t for t in tuples]
