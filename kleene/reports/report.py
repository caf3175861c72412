"""The content of a report. Times are seconds since the epoch in UTC, dollars None where no call had a price."""

from __future__ import annotations

import attrs

from kleene.reports.axis import Axis


@attrs.frozen
class Cost:
    """What a group of calls came to. ``answers`` are those that were needed: asked, remembered or shared; ``requests`` went to a model."""

    name: str
    answers: int = 0
    requests: int = 0
    memo_hits: int = 0
    coalesced: int = 0
    unknown: int = 0
    failed: int = 0
    tokens: int = 0
    dollars: float | None = None
    seconds: float = 0.0

    @property
    def memo_share(self) -> float | None:
        return self.memo_hits / self.answers if self.answers else None


@attrs.frozen
class Costs:
    """The same calls in three ways."""

    total: Cost
    by_alias: tuple[Cost, ...]
    by_operator: tuple[Cost, ...]
    by_depth: tuple[Cost, ...]


@attrs.frozen
class Bar:
    """Something that went on from ``left`` to ``right`` of the axis. ``kind``: turn, statement, tool or failed; ``count`` were merged."""

    kind: str
    left: float
    right: float
    title: str
    count: int = 1
    anchor: str | None = None


@attrs.frozen
class Lane:
    """A row of the timeline: a session, a person's own statements, or several sessions that have no row of their own (``merged``).

    ``flight`` has, for each of the axis's bins, how many calls were under way in it, ``remembered`` how many the memo answered.
    """

    key: str
    name: str
    task: str
    depth: int
    left: float
    right: float
    outcome: str | None
    answers: int
    dollars: float | None
    bars: tuple[Bar, ...] = ()
    flight: tuple[int, ...] = ()
    remembered: tuple[int, ...] = ()
    merged: int = 0


@attrs.frozen
class Node:
    """A node of a statement's plan: estimated and counted, None where it was not. ``seconds`` are DuckDB's own."""

    number: int
    depth: int
    operator: str
    detail: str
    est_rows: float | None = None
    rows: int | None = None
    est_calls: float | None = None
    calls: int | None = None
    est_tokens: float | None = None
    tokens: int | None = None
    est_dollars: float | None = None
    dollars: float | None = None
    memo_hits: int | None = None
    seconds: float | None = None


@attrs.frozen
class Round:
    """A round of a recursive query."""

    cte: str
    number: int
    delta_rows: int
    total_rows: int


@attrs.frozen
class Statement:
    """``key`` is its id; ``session`` None for a person's own. ``sites``: its calls by call site; ``nodes``: its plan where it was measured."""

    key: str
    session: str | None
    sql: str
    started_at: float
    seconds: float | None
    rows: int | None
    answers: int
    tokens: int
    dollars: float | None
    memo_hits: int
    unknown: int
    error: str | None
    rules: str
    sites: tuple[Cost, ...] = ()
    nodes: tuple[Node, ...] = ()
    rounds: tuple[Round, ...] = ()
    runs: tuple[tuple[int, int, float], ...] = ()  # of the fixed point: what was missing, what was known, seconds


@attrs.frozen
class Turn:
    """``reply`` None where the process ended before the turn did."""

    number: int
    reply: str | None
    sql: str | None
    feedback: str | None
    statements: tuple[Statement, ...] = ()


@attrs.frozen
class Session:
    """``outcome`` None: it has not ended, or its process was ended. ``final`` are its answer's columns and rows, as JSON gives them."""

    key: str
    parent: str | None
    depth: int
    role: str
    task: str
    started_at: float
    seconds: float | None
    outcome: str | None
    forced: bool
    error: str | None
    answers: int
    tokens: int
    dollars: float | None
    turns: tuple[Turn, ...] = ()
    final: tuple[tuple[str, ...], tuple[tuple[object, ...], ...], int] | None = None


@attrs.frozen
class Call:
    """A call that is worth a look: a slow, a dear or a failed one."""

    key: str
    operator: str
    alias: str
    model: str
    seconds: float
    tokens: int
    dollars: float | None
    kind: str
    error: str | None
    prompt: str
    reply: str | None


@attrs.frozen
class ToolUse:
    """The uses of one tool together."""

    name: str
    uses: int
    seconds: float
    bytes_out: int
    failed: int


@attrs.frozen
class Stop:
    """A budget that ended a statement or a session."""

    dimension: str
    allowed: float
    used: float


@attrs.frozen
class Report:
    """``key`` is the run's id, or that of a process's own statements. ``statements`` are those
    whose plans are shown, ``own`` a person's, ``left_out`` says what has no place here."""

    key: str
    task: str
    started_at: float
    seconds: float
    outcome: str | None
    error: str | None
    axis: Axis
    costs: Costs
    sessions_in_all: int
    statements_in_all: int
    turns: int
    lanes: tuple[Lane, ...] = ()
    sessions: tuple[Session, ...] = ()
    statements: tuple[Statement, ...] = ()
    own: tuple[Statement, ...] = ()
    calls: tuple[Call, ...] = ()
    tools: tuple[ToolUse, ...] = ()
    stops: tuple[Stop, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
