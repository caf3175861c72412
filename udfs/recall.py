"""What need not be asked: answers that the statement knows from another site, and those that the memo remembers, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import trio

from kleene.planner.specs import Usage
from kleene.udfs.answers import Answered, Unknown
from kleene.udfs.protocols import Reply
from kleene.udfs.work import Group, Lane, route_key

if TYPE_CHECKING:
    from kleene.udfs.memo import MemoHits, MemoWriter
    from kleene.udfs.statement import StatementContext

LOOKUP_PROMPTS = 250_000  # at a time: bounds the memory of a look-up, and how long a cancel leaves one behind
LOOKUP_CHARACTERS = 16_000_000
TRACED_ALONE = 1_000  # of one look-up; more hits than that share a row of the trace
READ_ONCE = 10_000  # distinct replies of which the reading is kept

Trace = Callable[["StatementContext", Lane, str, int, str, "str | None", str], None]


class Recall:
    """Serves prompts from what is known. ``trace`` is told of answers from the memo."""

    def __init__(self, memo: MemoWriter | None, trace: Trace):
        self._memo = memo
        self._trace = trace

    async def serve(self, context: StatementContext, group: Group) -> list[int]:
        """Hand out what is known; the indexes of the prompts that must be asked."""
        missing = self._from_known(context, group)
        return await self._search(context, group, missing, self._hand_out)

    async def missing(self, context: StatementContext, group: Group) -> list[int]:
        """The indexes of the prompts that ``serve`` would leave. Hands out nothing."""
        known = context.known.get(group.lane.identity) or {}
        unknown = [i for i, prompt in enumerate(group.prompts) if prompt not in known]
        return await self._search(context, group, unknown, lambda *_: None)

    def _from_known(self, context: StatementContext, group: Group) -> list[int]:
        known = context.known.get(group.lane.identity)
        if not known:
            return list(range(len(group.prompts)))
        missing = []
        for index, prompt in enumerate(group.prompts):
            outcome = known.get(prompt)
            if outcome is None:
                missing.append(index)
            elif isinstance(outcome, Unknown):
                context.meter.unknown(outcome.kind)
                group.give([index], [None])
            else:
                group.give([index], [outcome.value])
        return missing

    async def _search(
        self,
        context: StatementContext,
        group: Group,
        missing: list[int],
        found: Callable[[StatementContext, Group, Lane, list[int], MemoHits], None],
    ) -> list[int]:
        """Look up a part at a time, for each model that the alias may stand for."""
        memo = self._memo
        if memo is None or not context.settings.memo or not group.lane.remembered or not missing:
            return missing
        left: list[int] = []
        for part in parts(group.prompts, missing):
            for route in group.lane.candidates:
                if not part:
                    break
                prompts = [group.prompts[i] for i in part]
                hits: MemoHits = await trio.to_thread.run_sync(
                    memo.lookup,
                    route_key(route),
                    group.lane.digest,
                    prompts,
                    context.settings.memo_unknown,
                    abandon_on_cancel=True,
                )
                if len(hits) == 0:
                    continue
                at = hits.index
                found(context, group, group.lane.on(route), [part[i] for i in at], hits)
                there = set(at) if len(at) < len(part) else None
                part = [] if there is None else [index for i, index in enumerate(part) if i not in there]
            left += part
        return left

    def _hand_out(
        self, context: StatementContext, group: Group, lane: Lane, indexes: list[int], hits: MemoHits
    ) -> None:
        texts, kinds = hits.texts, hits.kinds
        values = read_all(lane, texts, kinds, hits.columns["stop"].to_pylist())
        group.give(indexes, [None if type(v) is Unknown else v for v in values])
        for value in values:
            if type(value) is Unknown:
                context.meter.unknown(value.kind)
        context.meter.add(Usage(memo_hits=len(indexes)))
        known = context.known.get(group.lane.identity)
        if known is not None:
            for index, value in zip(indexes, values, strict=True):
                known[group.prompts[index]] = value if type(value) is Unknown else Answered(value)
        if len(indexes) > TRACED_ALONE:
            self._trace(context, lane, group.site(indexes[0]).name, len(indexes), "answer", None, "")
            return
        for index, text, kind in zip(indexes, texts, kinds, strict=True):
            self._trace(context, lane, group.site(index).name, 1, kind, group.prompts[index], text)


def parts(prompts: Sequence[str], indexes: list[int]) -> list[list[int]]:
    """Indexes in look-ups of bounded size."""
    if len(indexes) <= LOOKUP_PROMPTS and sum(map(len, prompts)) <= LOOKUP_CHARACTERS:
        return [indexes]
    found: list[list[int]] = [[]]
    characters = 0
    for index in indexes:
        if len(found[-1]) >= LOOKUP_PROMPTS or characters > LOOKUP_CHARACTERS:
            found.append([])
            characters = 0
        found[-1].append(index)
        characters += len(prompts[index])
    return found


def read_all(lane: Lane, texts: list[str], kinds: list[str], stops: list[str]) -> list[Any]:
    """The values of remembered replies, an ``Unknown`` for those that are remembered as such."""
    if lane.spec.answer.kind == "text" and kinds.count("answer") == len(kinds):
        return texts  # only complete, valid texts are remembered, and a text is its own value
    read: dict[tuple[str, str], Any] = {}
    values: list[Any] = []
    for text, kind, stop in zip(texts, kinds, stops, strict=True):
        if kind != "answer":
            values.append(Unknown(kind, text))
            continue
        value = read.get((text, stop))
        if value is None:
            outcome = lane.reader.read(Reply(text, stop=stop))
            value = outcome if isinstance(outcome, Unknown) else outcome.value
            if len(read) < READ_ONCE:
                read[text, stop] = value
        values.append(value)
    return values
