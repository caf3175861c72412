"""A time axis without the hours in which nothing happened: a run that was resumed the next day is still readable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

IDLE_S = 5.0  # a pause has to be longer than this, and than IDLE_PART of all the rest, to be left out
IDLE_PART = 0.08
PAUSES = 12  # that are left out; the longest ones
GAP = 0.01  # of the axis, where a pause was left out
NICE = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)
HOURS = (3600, 7200, 14400, 21600, 43200, 86400)


@attrs.frozen
class Segment:
    """A stretch of time in seconds since the epoch, and its place on the axis from 0 to 1."""

    start: float
    end: float
    left: float
    right: float

    @property
    def scale(self) -> float:
        """Axis a second."""
        return (self.right - self.left) / (self.end - self.start)


@attrs.frozen
class Axis:
    """``segments`` are in order and apart. ``place`` maps a moment to 0..1; moments of a pause lie at its edge."""

    segments: tuple[Segment, ...]

    @classmethod
    def of(cls, start: float, end: float, pauses: Iterable[tuple[float, float]] = ()) -> Axis:
        """An axis from ``start`` to ``end`` without the longest of ``pauses``, which are (start, end) and do not overlap.

        >>> axis = Axis.of(0, 110, [(10, 100)])
        >>> [round(axis.place(t), 3) for t in (0, 5, 10, 50, 100, 110)]
        [0.0, 0.236, 0.471, 0.505, 0.529, 1.0]
        """
        end = max(end, start + 1e-3)
        left_out = [inner(pause) for pause in sorted(longest(end - start, pauses))]
        edges = [start, *(edge for pause in left_out for edge in pause), end]
        stretches = list(zip(edges[::2], edges[1::2], strict=True))
        active = sum(b - a for a, b in stretches)
        scale = (1 - GAP * len(left_out)) / active
        segments, left = [], 0.0
        for a, b in stretches:
            right = left + (b - a) * scale
            segments.append(Segment(a, b, left, right))
            left = right + GAP
        return cls(tuple(segments))

    def place(self, moment: float) -> float:
        for segment in self.segments:
            if moment < segment.start:
                return segment.left
            if moment <= segment.end:
                return segment.left + (moment - segment.start) * segment.scale
        return self.segments[-1].right

    @property
    def start(self) -> float:
        return self.segments[0].start

    @property
    def active_s(self) -> float:
        """Seconds without the pauses that were left out."""
        return sum(s.end - s.start for s in self.segments)

    @property
    def pauses(self) -> list[tuple[float, float]]:
        """The place of each pause that was left out, and its seconds."""
        pairs = zip(self.segments, self.segments[1:], strict=False)
        return [((a.right + b.left) / 2, b.start - a.end) for a, b in pairs]

    def ticks(self, most: int = 8) -> list[tuple[float, float]]:
        """Places of round numbers of seconds since the start, at most about ``most``; none before a pause's other side."""
        step = next((s for s in (*NICE, *HOURS) if self.active_s / s <= most), HOURS[-1])
        found, last = [], -1.0
        for segment in self.segments:
            first = int((segment.start - self.start) / step)
            for i in range(first, first + 10 * most):
                moment = self.start + i * step
                if segment.start <= moment <= segment.end:
                    place = self.place(moment)
                    if place - last >= 0.5 / most:
                        found.append((place, i * step))
                        last = place
        return found

    def sql(self, moment: str) -> str:
        """``place`` as a DuckDB expression of an expression that is seconds since the epoch."""
        whens = [
            f"WHEN {moment} < {s.start!r} THEN {s.left!r} WHEN {moment} <= {s.end!r} THEN {s.left!r} + ({moment} - {s.start!r}) * {s.scale!r}"
            for s in self.segments
        ]
        return f"CASE {' '.join(whens)} ELSE {self.segments[-1].right!r} END"


def inner(pause: tuple[float, float]) -> tuple[float, float]:
    """What is left out of a pause: its edges stay, so that what lies beside it can be seen."""
    margin = min(0.5, 0.02 * (pause[1] - pause[0]))
    return pause[0] + margin, pause[1] - margin


def longest(total: float, pauses: Iterable[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """The pauses that are to be left out, the longest first: each is longer than a share of what stays."""
    kept: list[tuple[float, float]] = []
    rest = total
    for pause in sorted(pauses, key=lambda p: (p[0] - p[1], p[0])):
        seconds = pause[1] - pause[0]
        rest -= seconds
        if len(kept) == PAUSES or seconds < IDLE_S or seconds < IDLE_PART * rest:
            break
        kept.append(pause)
    return kept
