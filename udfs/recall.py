"""What need not be asked: answers that the statement knows from another site, and those that the memo remembers, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import trio

from kleene.planner.specs import Usage
from kleene.udfs.answers import Answered, Unknown
from kleene.udfs.keycolumns import joined
from kleene.udfs.lookups import ARROW_TYPES
from kleene.udfs.protocols import Reply
from kleene.udfs.work import Group, Lane, route_key

if TYPE_CHECKING:
    from kleene.udfs.keycolumns import KnownColumn
    from kleene.udfs.memo import MemoHits, MemoWriter
    from kleene.udfs.protocols import Route
    from kleene.udfs.statement import StatementContext
    from kleene.udfs.tracing import Tracer

LOOKUP_PROMPTS = 250_000  # at a time: bounds the memory of a look-up, and how long a cancel leaves one behind
LOOKUP_CHARACTERS = 16_000_000
TRACED_ALONE = 1_000  # of one look-up; more hits than that share a row of the trace
READ_ONCE = 10_000  # distinct replies of which the reading is kept


class Recall:
    """Serves prompts from what is known. ``tracer`` is told of answers from the memo."""

    def __init__(self, memo: MemoWriter | None, tracer: Tracer):
        self._memo = memo
        self._tracer = tracer

    async def serve(self, context: StatementContext, group: Group) -> list[int]:
        """Hand out what is known; the indexes of the prompts that must be asked."""
        known = group.known
        if known is not None and group.lane.identity not in context.known and not context.settings.memo_unknown:
            return await self._search_column(context, group, known)
        missing = self._from_known(context, group)
        return await self._search(context, group, missing, self._hand_out)

    async def _search_column(self, context: StatementContext, group: Group, known: KnownColumn) -> list[int]:
        """``_search`` for keys that are a column: what the first model's memo has of them stays one."""
        memo, lane, keys = self._memo, group.lane, known.keys.array
        if memo is None or not context.settings.memo or not lane.remembered:
            return list(range(len(keys)))
        at_a_time = max(1, min(LOOKUP_PROMPTS, LOOKUP_CHARACTERS * len(keys) // max(1, keys.nbytes)))
        left: list[np.ndarray[Any, Any]] = []  # not in the first model's memo
        again: list[np.ndarray[Any, Any]] = []  # to be looked up and traced one by one
        for start in range(0, len(keys), at_a_time):
            part = keys.slice(start, at_a_time)
            found: pa.Table = await trio.to_thread.run_sync(
                memo.texts, route_key(lane.candidates[0]), lane.digest, part, abandon_on_cancel=True
            )
            lacking = np.ones(len(part), bool)
            if found.num_rows:
                at = found["i"].to_numpy()
                values = column_of(lane, found) if found.num_rows > TRACED_ALONE else None
                if values is None:
                    again.append(np.arange(start, start + len(part)))
                    continue
                lacking[at] = False
                known.give(at + start, values)
                context.meter.add(Usage(memo_hits=len(at)))
                self._tracer.remembered(
                    context, lane.on(lane.candidates[0]), group.site(0).name, len(at), "answer", None, ""
                )
            left.append(np.flatnonzero(lacking) + start)
        rest = await self._search(context, group, listed(left), self._hand_out, lane.candidates[1:])
        return rest + await self._search(context, group, listed(again), self._hand_out)

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
        routes: Sequence[Route] | None = None,
    ) -> list[int]:
        """Look up a part at a time, for each model that the alias may stand for (or those of ``routes``)."""
        routes = group.lane.candidates if routes is None else routes
        memo = self._memo
        if memo is None or not context.settings.memo or not group.lane.remembered or not missing or not routes:
            return missing
        left: list[int] = []
        for part in parts(group.prompts, missing):
            for route in routes:
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
            self._tracer.remembered(context, lane, group.site(indexes[0]).name, len(indexes), "answer", None, "")
            return
        told = [
            (group.site(i).name, group.prompts[i], text, kind)
            for i, text, kind in zip(indexes, texts, kinds, strict=True)
        ]
        answered = [(site, prompt, text) for site, prompt, text, kind in told if kind == "answer"]
        if answered:
            self._tracer.remembered_block(context, lane, *map(list, zip(*answered, strict=True)))
        for site, prompt, text, kind in told:
            if kind != "answer":
                self._tracer.remembered(context, lane, site, 1, kind, prompt, text)


def listed(parts: list[np.ndarray[Any, Any]]) -> list[int]:
    return np.concatenate(parts).tolist() if parts else []


def column_of(lane: Lane, found: pa.Table) -> pa.Array | None:
    """The values of remembered replies as a column, read once each; None where some are no plain answers, or most are their own."""
    if found["kind"].unique().to_pylist() != ["answer"]:
        return None
    texts = joined(found["text"].chunks)
    if lane.spec.answer.kind == "text":
        return texts
    replies = texts.dictionary_encode()
    if len(replies.dictionary) > READ_ONCE or found["stop"].unique().to_pylist() != ["end"]:
        return None
    read = [lane.reader.read(Reply(text)) for text in replies.dictionary.to_pylist()]
    if any(isinstance(answer, Unknown) for answer in read):
        return None
    values = [answer.value for answer in read if isinstance(answer, Answered)]
    return pa.array(values, ARROW_TYPES[lane.spec.answer.carrier]).take(replies.indices)


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
