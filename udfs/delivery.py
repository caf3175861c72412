"""From replies to answers that may be used: kept in the memo first, in groups that clock themselves, then handed to all who asked.

While one group is being written the next gathers, so that a lone answer waits for one commit and many share one; between two commits there is a
rest while other calls are out and few answers wait. What was paid for is written even when its statement was cancelled meanwhile: the writer's thread goes on by itself.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import duckdb
import trio

from kleene.planner.errors import KleeneError
from kleene.udfs.answers import Answered, Unknown
from kleene.udfs.blocks import Block
from kleene.udfs.memo import MemoEntry, MemoRows, MemoWriter, remembered
from kleene.udfs.work import Lane, Work, deliver

if TYPE_CHECKING:
    from kleene.planner.specs import Usage
    from kleene.udfs.statement import StatementContext


LONGEST_REST_S = 0.02


@attrs.frozen(eq=False)
class Outcome:
    """What became of one prompt: its answer, the reply's text as the memo keeps it, the lane that answered, and this answer's share.

    ``keep``: the memo may remember it."""

    work: Work
    lane: Lane
    answer: Answered | Unknown
    text: str
    stop: str
    usage: Usage
    keep: bool = True

    def entry(self) -> MemoEntry:
        usage = self.usage
        return MemoEntry(
            self.lane.key,
            self.lane.digest,
            self.work.prompt,
            self.text,
            self.answer.kind if isinstance(self.answer, Unknown) else "answer",
            usage.input_tokens,
            usage.output_tokens,
            usage.dollars,
            self.stop,
            time.time(),
        )


class Delivery:
    """The answers of one round of one statement. ``land`` ends the flight of a prompt, with its outcome or with None."""

    def __init__(
        self,
        context: StatementContext,
        memo: MemoWriter | None,
        land: Callable[[Work, Answered | Unknown | None], None],
        scope: trio.CancelScope,
    ):
        self._context = context
        self._memo = memo if context.settings.memo else None
        self._land = land
        self._scope = scope
        self._gathered: list[Outcome | Block] = []
        self._group: list[Outcome | Block] = []  # being written
        self._unkept = 0  # prompts in both
        self._writing = False
        self._began = 0.0
        self._soon = False  # a commit starts when the loop has heard all that came in
        self._resting = False  # after a commit, for as long as it took, so that the next has more to write
        self._awaited = False
        self._token = trio.lowlevel.current_trio_token()
        self._drained = trio.Event()
        self._moved: trio.Event | None = None
        self.error: BaseException | None = None
        self._done = 0
        self._open = True

    def put(self, outcome: Outcome | Block) -> None:
        """Take an outcome, or many. Nothing waits here: it is handed out when it is on disk."""
        self._gathered.append(outcome)
        self._unkept += prompts_in(outcome)
        if self._writing or self._soon or (self._resting and not self._is_time()):
            return
        self._soon = True
        self._token.run_sync_soon(self._start)  # replies that came in together share a commit

    def handed(self, count: int) -> None:
        """So many prompts have their answer, or will have none."""
        if not self._open:
            return
        self._done += count
        context = self._context
        context.out -= count
        if context.on_idle is not None and context.queued <= 0 < context.out:
            context.on_idle()

    def holds(self, work: Work) -> bool:
        """Whether an outcome of this work was taken and is not handed out yet."""
        return any(isinstance(o, Outcome) and o.work is work for o in (*self._gathered, *self._group))

    async def keep_up(self, bound: int) -> None:
        """Wait while more than ``bound`` answers are not kept yet: so many may be lost in a kill, besides those on the wire."""
        while self._unkept > bound and self.error is None:
            if self._moved is None:
                self._moved = trio.Event()
            await self._moved.wait()

    async def finish(self) -> None:
        """Return when all that was taken is handed out. Raises what kept it from being kept."""
        await self.settle()
        if self.error is not None:
            raise self.error

    async def settle(self) -> None:
        """Return when nothing waits to be written."""
        self._awaited = True
        if self._gathered or self._writing:
            self._drained = trio.Event()
            self._start()
            await self._drained.wait()

    def abandon(self) -> int:
        """The round ends: what was taken and is not being written yet is handed to the writer, and nobody waits for it.

        Gives how many prompts were handed out by now."""
        self._open = False
        self._next()
        return self._done

    def _is_time(self) -> bool:
        """Whether a commit is worth more than its company: much waits for it, or nothing else is on its way."""
        return 2 * self._unkept >= self._context.settings.concurrency or self._context.out <= self._unkept

    def _start(self) -> None:
        self._soon = self._resting = False
        self._next()

    async def _rest(self, seconds: float) -> None:
        await trio.sleep(seconds)
        if self._resting:
            self._start()

    def _next(self) -> None:
        while self._gathered and not self._writing:
            group, self._gathered = self._gathered, []
            entries = self._entries(group)
            if not entries:
                self._hand_out(group)
                continue
            assert self._memo is not None
            self._writing, self._group, self._began = True, group, trio.current_time()
            try:
                self._memo.submit(entries, lambda error, group=group: self._written(group, error))  # type: ignore[misc]
            except RuntimeError as error:  # the writer was closed
                self._writing = False
                self._fail(group, error)
        if not self._writing:
            self._drained.set()

    def _entries(self, group: list[Outcome | Block]) -> list[MemoEntry | MemoRows]:
        if self._memo is None:
            return []
        keep_unknown = self._context.settings.memo_unknown
        return [
            o.rows() if isinstance(o, Block) else o.entry()
            for o in group
            if not o.lane.volatile and (isinstance(o, Block) or is_kept(o, memo_unknown=keep_unknown))
        ]

    def _written(self, group: list[Outcome | Block], error: BaseException | None) -> None:
        """In the writer's thread: go on in the loop, where there still is one."""
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._committed, group, error)

    def _committed(self, group: list[Outcome | Block], error: BaseException | None) -> None:
        self._writing, self._group = False, []
        moved, self._moved = self._moved, None
        if moved is not None:
            moved.set()
        if error is None:
            self._hand_out(group)
        else:
            self._fail(group, error)
        if self._gathered and self._open and not self._awaited and not self._is_time():
            self._resting = True
            trio.lowlevel.spawn_system_task(self._rest, min(LONGEST_REST_S, trio.current_time() - self._began))
            return
        self._next()

    def _hand_out(self, group: list[Outcome | Block]) -> None:
        context = self._context
        count = sum(map(prompts_in, group))
        self._unkept -= count
        for outcome in group:
            if isinstance(outcome, Block):
                outcome.hand_out(context, self._land)
                continue
            work = outcome.work
            shared = context.known.get(work.lane.identity)
            if shared is not None:
                shared[work.prompt] = outcome.answer
            deliver(
                context, work, outcome.answer, None if outcome.lane.route.is_function else outcome.usage.output_tokens
            )
            self._land(work, outcome.answer)
        self.handed(count)

    def _fail(self, group: list[Outcome | Block], error: BaseException) -> None:
        self._unkept -= sum(map(prompts_in, group))
        for outcome in group:
            for work in outcome.works if isinstance(outcome, Block) else (outcome.work,):
                self._land(work, None)
        if self.error is None:
            self.error = _told(error)
            self._scope.cancel()


def prompts_in(outcome: Outcome | Block) -> int:
    return len(outcome) if isinstance(outcome, Block) else 1


def is_kept(outcome: Outcome, *, memo_unknown: bool) -> bool:
    """Whether the memo remembers it."""
    answer = outcome.answer
    kind = answer.kind if isinstance(answer, Unknown) else "answer"
    return outcome.keep and (type(answer) is Answered or remembered(kind, memo_unknown=memo_unknown))


def _told(error: BaseException) -> KleeneError:
    what = str(error).splitlines()[0] if str(error) else type(error).__name__
    return KleeneError(
        f"an answer could not be kept in the memo: {what}",
        hint="make room on the store's disk and run it again before you close the engine: it still has what was paid for"
        if isinstance(error, duckdb.Error)
        else "attach again: k = kleene.attach(con)",
    )
