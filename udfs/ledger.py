"""Budgets as a tree of ledgers: session -> statement -> child. The worst case is reserved before anything is sent, settled after.

At every instant, in every ledger and dimension (calls, tokens, dollars): settled + reserved <= limit. One lock guards a whole tree, so
that a reservation is taken through the chain at once or not at all. Dollars are added as whole trillionths, so that sums are exact.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import attrs

from kleene.planner.errors import BudgetExceeded, PolicyError, number
from kleene.planner.specs import BudgetLimits, Usage

COUNTED = ("calls", "tokens", "dollars")
TRILLIONTHS = 10**12  # a token at $0.01 per million is 10,000 of them


class Reservation:
    """The worst case of one request, held until it is settled or released. Whichever comes first counts; later ones do nothing."""

    __slots__ = ("_amounts", "_flights", "_ledger", "_open")

    def __init__(self, ledger: Ledger, amounts: tuple[int, int, int], *, in_flight: bool):
        self._ledger = ledger
        self._amounts = amounts
        self._flights = int(in_flight)
        self._open = True

    @property
    def open(self) -> bool:
        return self._open

    def settle(self, usage: Usage) -> None:
        """Replaces the reservation by what was used; ``usage.requests`` are the calls.

        More tokens or dollars than reserved are recorded as they are: they are spent, and the next reservation meets the limit.
        More requests than reserved calls are the caller's fault: recorded, then ValueError.
        """
        with self._ledger._lock:
            if not self._open:
                return
            self._open = False
            calls, tokens, dollars = self._amounts
            self._ledger._change((-calls, -tokens, -dollars), counted(usage), usage, -self._flights)
        if usage.requests > self._amounts[0]:
            raise ValueError(f"{usage.requests} requests were sent on a reservation of {self._amounts[0]} calls")

    def release(self) -> None:
        """Gives all of it back: nothing was sent."""
        with self._ledger._lock:
            if self._open:
                self._open = False
                calls, tokens, dollars = self._amounts
                self._ledger._change((-calls, -tokens, -dollars), (0, 0, 0), None, -self._flights)


class Ledger:
    """One budget in the tree. What it uses is used by its parents too.

    ``name`` (session, statement, child) chooses the hint of an error. ``clock`` is in seconds and is the parent's where there is one;
    the wall runs from the ledger's creation.
    """

    def __init__(
        self,
        limits: BudgetLimits | None = None,
        parent: Ledger | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        name: str = "session",
    ):
        self.name = name
        self.parent = parent
        self._clock: Callable[[], float] = parent._clock if parent is not None else clock
        self._lock: threading.RLock = parent._lock if parent is not None else threading.RLock()
        self._start = self._clock()
        self._path: tuple[Ledger, ...] = (self, *(parent._path if parent is not None else ()))
        self._sliced: bool = (
            parent is not None and parent._sliced
        )  # somewhere in the chain is a share: the general way is taken
        self._limits = limits or BudgetLimits()
        self._level: int = parent._level if parent is not None else 0
        self._share: tuple[int | None, ...] = (None, None, None)
        self._closed = False
        self._bounds = self._in_units()
        self._reserved = [0, 0, 0]
        self._settled = [0, 0, 0]
        self._usage: list[float] = [0] * 7 + [0.0, 0, 0, 0.0]  # in the order of Usage
        self._flights = 0

    # --- asking

    @property
    def limits(self) -> BudgetLimits:
        """This ledger's own limits; ``remaining`` is what counts."""
        return self._limits

    @property
    def used(self) -> Usage:
        """All that was settled or recorded here and in the ledgers below."""
        with self._lock:
            usage = Usage(*self._usage)  # type: ignore[arg-type]
            return attrs.evolve(usage, dollars=self._settled[2] / TRILLIONTHS)

    @property
    def reserved(self) -> BudgetLimits:
        """What is held for requests in flight and for children."""
        with self._lock:
            calls, tokens, dollars = self._reserved
        return BudgetLimits(calls=calls, tokens=tokens, dollars=dollars / TRILLIONTHS)

    @property
    def elapsed(self) -> float:
        """Seconds since the ledger was made: what its wall is compared with."""
        return self._clock() - self._start

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def deadline(self) -> float | None:
        """The earliest wall of the chain, in the clock's seconds; None where no wall is set."""
        walls = [n._start + n._limits.wall for n in self._chain() if n._limits.wall is not None]
        return min(walls) if walls else None

    def remaining(self) -> BudgetLimits:
        """What may still be reserved, the tightest through the chain, never below 0; None is unbounded. ``wall`` is in seconds from now."""
        with self._lock:
            calls, tokens, dollars = (self._left(d) for d in range(3))
            depths = [n._limits.depth - (self._level - n._level) for n in self._chain() if n._limits.depth is not None]
        deadline = self.deadline
        return BudgetLimits(
            calls=None if calls is None else max(0, calls),
            tokens=None if tokens is None else max(0, tokens),
            dollars=None if dollars is None else max(0, dollars) / TRILLIONTHS,
            depth=max(0, min(depths)) if depths else None,
            wall=None if deadline is None else max(0.0, deadline - self._clock()),
        )

    def fits(self, calls: int = 0, tokens: int = 0, dollars: float = 0.0) -> tuple[str, float, float] | None:
        """None if this much may be reserved now, else (dimension, needed, remaining) of the first dimension that is too small."""
        with self._lock:
            for d, asked in enumerate(exact(calls, tokens, dollars)):
                left = self._left(d)
                if left is not None and asked > left:
                    return COUNTED[d], shown(d, asked), shown(d, max(0, left))
        return None

    def has_reservations(self) -> bool:
        """Says whether a request in flight may yet settle below its worst case and so make room here: waiting can help.

        What is set aside for children and what is held back do not count: they may stay as long as the asker waits.
        """
        with self._lock:
            for node in self._chain():
                if node._flights:
                    return True
                if any(share is not None for share in node._share):
                    break
        return False

    def check_wall(self) -> None:
        """Raises ``BudgetExceeded('wall', ...)`` once a wall of the chain is reached."""
        for node in self._path:
            if node._limits.wall is not None:
                now = self._clock()
                if now >= node._start + node._limits.wall:
                    raise node._exceeded_wall(now)

    # --- spending

    def reserve(self, calls: int = 1, tokens: int = 0, dollars: float = 0.0) -> Reservation:
        """Holds the worst case of a request in this ledger and all above it.

        Raises ``BudgetExceeded``, and holds nothing, where a dimension of the chain is too small or the wall is reached; its ``used`` is
        what was settled, held and asked.
        """
        return self._reserve(exact(calls, tokens, dollars), in_flight=True)

    def hold_back(self, calls: int = 1, tokens: int = 0, dollars: float = 0.0) -> Reservation:
        """Like ``reserve``, for what is kept for later (a session's last turn, to report what it has): nobody waits for it to settle."""
        return self._reserve(exact(calls, tokens, dollars), in_flight=False)

    def record(self, usage: Usage) -> None:
        """Adds what needed no reservation (memo hits, unknown answers, seconds) here and above."""
        with self._lock:
            self._change((0, 0, 0), counted(usage), usage)

    # --- shaping

    def child(self, limits: BudgetLimits | None = None, *, name: str = "statement") -> Ledger:
        """A ledger below this one with limits of its own. Nothing is set aside for it: it draws on what remains here."""
        return Ledger(limits, self, name=name)

    def slice(self, children: int = 1, cap: BudgetLimits | None = None) -> Ledger:
        """A child session's ledger: what remains / (children + 1), at most ``cap``, set aside here until ``close``.

        ``children`` counts those of the round that have no slice yet, this one included, so that all get the same. Dimensions without a
        limit here or in ``cap`` stay shared. The wall is not divided: children run side by side. Raises ``BudgetExceeded`` where the
        share would be no call, no token or no money, or where the level below is deeper than allowed.
        """
        cap = cap or BudgetLimits()
        with self._lock:
            self._check_depth()
            shares = [self._share_of(d, children, getattr(cap, COUNTED[d])) for d in range(3)]
            calls, tokens, dollars = shares
            limits = BudgetLimits(
                calls=calls,
                tokens=tokens,
                dollars=None if dollars is None else dollars / TRILLIONTHS,
                depth=cap.depth,
                wall=cap.wall,
            )
            below = Ledger(limits, self, name="child")
            below._level = self._level + 1
            self._change(tuple(s or 0 for s in shares), (0, 0, 0), None)
            below._share = tuple(shares)
            below._sliced = True
        return below

    def close(self) -> None:
        """Returns what a slice did not use to its parent; what is in flight in it follows as it ends. Nothing more can be reserved here."""
        with self._lock:
            before = [self._held(d) for d in range(3)]
            self._closed = True
            self._bounds = self._in_units()
            if self.parent is not None:
                self.parent._change(tuple(self._held(d) - before[d] for d in range(3)), (0, 0, 0), None)

    def lower(self, limits: BudgetLimits, *, allow_raise: bool = False) -> None:
        """Sets the given dimensions (None: as it was). Raises ``PolicyError`` where one would rise, unless ``allow_raise``.

        A limit may be set below what is used: the next reservation then fails. A slice's share never rises: it was set aside once.
        """
        with self._lock:
            for field in attrs.fields(BudgetLimits):
                new, old = getattr(limits, field.name), getattr(self._limits, field.name)
                fixed = field.name in COUNTED and self._share[COUNTED.index(field.name)] is not None
                if new is not None and old is not None and new > old and (fixed or not allow_raise):
                    raise PolicyError(
                        f"budget.{field.name} can only be lowered here: {number(new)} > {number(old)}",
                        hint=f"set it to at most {number(old)}",
                    )
            given = attrs.asdict(limits, filter=lambda _, value: value is not None)
            self._limits = attrs.evolve(self._limits, **given)
            self._bounds = self._in_units()

    def replace(self, limits: BudgetLimits) -> None:
        """Sets all limits, None for none: the host's ``RESET budget.calls``. What is used stays used. Raises ``PolicyError`` on a slice."""
        with self._lock:
            if any(share is not None for share in self._share):
                raise PolicyError(
                    "a child's budget can only be lowered", hint="set the budget of its parent, before it starts"
                )
            self._limits = limits
            self._bounds = self._in_units()

    # --- within the lock

    def _reserve(self, amounts: tuple[int, int, int], *, in_flight: bool) -> Reservation:
        bounded = self._sliced
        for node in self._path:
            bounded = bounded or node._bounds is not None
            if node._limits.wall is not None:
                self.check_wall()
        with self._lock:
            if bounded:
                for d, asked in enumerate(amounts):
                    self._check(d, asked)
            self._change(amounts, (0, 0, 0), None, int(in_flight))
        return Reservation(self, amounts, in_flight=in_flight)

    def _chain(self) -> tuple[Ledger, ...]:
        return self._path

    def _in_units(self) -> tuple[int | None, ...] | None:
        """The limits of the counted dimensions in whole units; None where there is none at all. A closed ledger has what it used."""
        if self._closed:
            return ()
        given = [getattr(self._limits, name) for name in COUNTED]
        if given == [None, None, None]:
            return None
        return tuple(None if value is None else unit(d, value) for d, value in enumerate(given))

    def _limit(self, d: int) -> int | None:
        if self._closed:
            return self._settled[d]
        return None if self._bounds is None else self._bounds[d]

    def _held(self, d: int) -> int:
        """What this ledger holds in its parent: what is in flight, or all of a slice's share that is not yet used."""
        share = self._share[d]
        if share is None or self._closed:
            return self._reserved[d]
        return max(share - self._settled[d], self._reserved[d])

    def _left(self, d: int) -> int | None:
        left: int | None = None
        for node in self._chain():
            limit = node._limit(d)
            if limit is not None:
                own = limit - node._settled[d] - node._reserved[d]
                left = own if left is None else min(left, own)
            if node._share[d] is not None:
                break
        return left

    def _check(self, d: int, asked: int) -> None:
        for node in self._chain():
            limit = node._limit(d)
            if limit is not None and (asked or node._closed):
                total = node._settled[d] + node._reserved[d] + asked
                if total > limit:
                    raise node._exceeded(d, limit, total)
            if node._share[d] is not None:
                break

    def _change(
        self, reserved: tuple[int, ...], settled: tuple[int, ...], usage: Usage | None, flights: int = 0
    ) -> None:
        for node in self._path:
            node._flights += flights
            if node._sliced:
                before = [node._held(d) for d in range(3)]
            held, spent = node._reserved, node._settled
            held[0] += reserved[0]
            held[1] += reserved[1]
            held[2] += reserved[2]
            if usage is not None:
                spent[0] += settled[0]
                spent[1] += settled[1]
                spent[2] += settled[2]
                add_usage(node._usage, usage)
            if node._sliced:
                reserved = tuple(node._held(d) - before[d] for d in range(3))

    def _share_of(self, d: int, children: int, cap: float | None) -> int | None:
        left = self._left(d)
        share = None if left is None else max(0, left) // (children + 1)
        if cap is not None:
            share = unit(d, cap) if share is None else min(share, unit(d, cap))
        if share == 0 and left is not None:
            name, have = COUNTED[d], number(shown(d, max(0, left)))
            raise BudgetExceeded(
                name,
                shown(d, max(0, left)),
                shown(d, children + 1),
                message=f"{name} budget exceeded: a child would get nothing of the {have} that remain",
                hint=self._hint(name),
            )
        return share

    def _check_depth(self) -> None:
        for node in self._chain():
            below = self._level + 1 - node._level
            if node._limits.depth is not None and below > node._limits.depth:
                raise BudgetExceeded("depth", node._limits.depth, below, hint=node._hint("depth"))

    def _exceeded(self, d: int, limit: int, total: int) -> BudgetExceeded:
        name = COUNTED[d]
        return BudgetExceeded(name, shown(d, limit), shown(d, total), hint=self._hint(name))

    def _exceeded_wall(self, now: float) -> BudgetExceeded:
        limit, used = self._limits.wall or 0.0, round(now - self._start, 3)
        message = f"wall budget exceeded: {number(used)} s > {number(limit)} s"
        return BudgetExceeded("wall", limit, used, message=message, hint=self._hint("wall"))

    def _hint(self, dimension: str) -> str:
        raised = f"SET budget.{dimension} = n, or start with --budget-{dimension} n"
        if dimension == "depth":
            raised = "SET budget.depth = n"
        if self.name == "statement":
            return f"raise this statement's limit with SET statement.{dimension} = n"
        if self.name == "child":
            return f"a child has a share of its parent's budget; raise that before the child starts: {raised}"
        return f"raise it: {raised}"


def unit(d: int, value: float) -> int:
    """A figure of dimension ``d`` as a whole number: calls and tokens as they are, dollars in trillionths."""
    return round(value * TRILLIONTHS) if d == 2 else int(value)


def shown(d: int, value: int) -> float:
    """The inverse of ``unit``."""
    return value / TRILLIONTHS if d == 2 else value


def exact(calls: int, tokens: int, dollars: float) -> tuple[int, int, int]:
    """Whole, non-negative amounts. Raises ValueError on a negative one: it would make room out of nothing."""
    amounts = (int(calls), int(tokens), round(dollars * TRILLIONTHS) if dollars else 0)
    if calls < 0 or tokens < 0 or dollars < 0:
        raise ValueError(f"a budget amount is negative: calls={calls} tokens={tokens} dollars={dollars}")
    return amounts


def add_usage(total: list[float], usage: Usage) -> None:
    """Adds in place; what a model call seldom has is looked at last."""
    total[0] += usage.requests
    total[3] += usage.input_tokens
    total[4] += usage.output_tokens
    total[7] += usage.dollars
    total[1] += usage.items
    total[2] += usage.memo_hits
    if usage.cache_read_tokens or usage.cache_write_tokens or usage.unpriced or usage.unknown or usage.seconds:
        total[5] += usage.cache_read_tokens
        total[6] += usage.cache_write_tokens
        total[8] += usage.unpriced
        total[9] += usage.unknown
        total[10] += usage.seconds


def counted(usage: Usage) -> tuple[int, int, int]:
    """The three counted dimensions of a usage."""
    return exact(usage.requests, usage.tokens, usage.dollars)
